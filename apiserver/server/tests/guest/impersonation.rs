//! Constrained impersonation, with a real server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::{Capstan, PATIENCE};
use crate::token_client::TokenClient;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";
const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/clusters";
const ROBOT: &str = "/api/v1/namespaces/default/serviceaccounts";

async fn create(admin: &Client, path: &str, object: &Value) -> Value {
    let answer = admin.once("POST", path, &object.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Creates a ClusterRole with these rules, and binds it to a subject.
async fn grant(admin: &Client, name: &str, rules: &Value, subject: &Value) {
    let object = |kind: &str, fields: &Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object
    };
    create(admin, &format!("{RBAC}/clusterroles"), &object("ClusterRole", &json!({"rules": rules}))).await;
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": name}, "subjects": [subject]});
    create(admin, &format!("{RBAC}/clusterrolebindings"), &object("ClusterRoleBinding", &binding)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_constrained_permissions_acts_as_one_other_for_one_action() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let admin = capstan.client();
    create(
        &admin,
        ROBOT,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
    )
    .await;
    let issued = create(&admin, &format!("{ROBOT}/robot/token"), &json!({"spec": {}})).await;
    let token = issued["status"]["token"].as_str().unwrap();
    let core = json!(["cluster.x-k8s.io"]);
    let read = json!([{"verbs": ["list"], "apiGroups": core, "resources": ["machines", "clusters"]}]);
    for user in ["bob", "eve"] {
        grant(&admin, user, &read, &json!({"kind": "User", "name": user})).await;
    }
    let robot = json!({"kind": "ServiceAccount", "namespace": "default", "name": "robot"});
    let constrained = json!([
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"],
            "resourceNames": ["bob"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": core, "resources": ["machines"]},
    ]);
    grant(&admin, "robot", &constrained, &robot).await;

    let client = TokenClient::new(&capstan, data.path());
    let begun = Instant::now();
    while client.get_as(MACHINES, token, "bob").await != 200 {
        assert!(begun.elapsed() < PATIENCE, "the permissions have no effect");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.get_as(CLUSTERS, token, "bob").await, 403, "another action");
    assert_eq!(client.get_as(MACHINES, token, "eve").await, 403, "another user");
    assert_eq!(client.get(MACHINES, token).await.0, 403, "the robot itself may not list");

    capstan.signal("TERM");
    assert_eq!(capstan.ended().await.code(), Some(0));
    let text = std::fs::read_to_string(data.path().join("audit/audit.log")).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let acted =
        |line: &Value| line["impersonatedUser"]["username"] == "bob" && line["requestURI"] == MACHINES;
    let found = lines.rfind(acted).unwrap();
    assert_eq!(found["authenticationMetadata"]["impersonationConstraint"], "impersonate:user-info");
}
