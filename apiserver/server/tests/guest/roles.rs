//! Roles and bindings of the direct endpoint, with a real server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::process::{Capstan, PATIENCE};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Longest time from the write of a role or a binding to its effect.
const EFFECT: Duration = Duration::from_secs(1);

fn rbac(kind: &str, name: &str, fields: &Value) -> String {
    let mut object =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
    object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    object.to_string()
}

fn binding(kind: &str, name: &str, role: &str, subject: (&str, &str)) -> String {
    // Without API groups, as a person writes it.
    let role = json!({"kind": "ClusterRole", "name": role});
    rbac(kind, name, &json!({"roleRef": role, "subjects": [{"kind": subject.0, "name": subject.1}]}))
}

async fn send(client: &Client, method: &str, path: &str, body: &str, expected: u16) -> Value {
    let answer = client.once(method, path, body).await.unwrap();
    assert_eq!(answer.code, expected, "{method} {path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

/// Waits until a GET has this code, which must take less than a second.
async fn becomes(client: &Client, path: &str, code: u16) {
    let begun = Instant::now();
    loop {
        let answer = client.get(path).await.unwrap();
        if answer.code == code {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{path}: {} {}", answer.code, answer.text());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(begun.elapsed() < EFFECT, "{path}: {:?}", begun.elapsed());
}

/// Waits until the leader has joined the rules of the aggregated default roles.
async fn aggregated(admin: &Client) {
    let begun = Instant::now();
    for name in ["admin", "edit", "view"] {
        let path = format!("{RBAC}/clusterroles/{name}");
        while send(admin, "GET", &path, "", 200).await["rules"].as_array().is_none_or(Vec::is_empty) {
            assert!(begun.elapsed() < PATIENCE, "{name} has no rules");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_roles_and_aggregated_roles_take_effect_within_a_second() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let admin = capstan.client();
    aggregated(&admin).await;
    let alice = capstan.client_of(Identity::of_member(data.path(), "alice", &["dev", "ops"]));
    let refused = send(&alice, "GET", MACHINES, "", 403).await;
    let message = "machines.cluster.x-k8s.io is forbidden: User \"alice\" cannot list resource \"machines\" in API group \
                   \"cluster.x-k8s.io\" at the cluster scope";
    assert_eq!(refused["message"], message);

    let bindings = format!("{RBAC}/clusterrolebindings");
    let body = binding("ClusterRoleBinding", "ops:view", "view", ("Group", "ops"));
    let created = send(&admin, "POST", &bindings, &body, 201).await;
    assert_eq!(created["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    becomes(&alice, MACHINES, 200).await;
    send(&alice, "GET", SECRETS, "", 403).await;

    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}]);
    let role =
        rbac("ClusterRole", "more", &json!({"metadata": {"name": "more", "labels": label}, "rules": rules}));
    send(&admin, "POST", &format!("{RBAC}/clusterroles"), &role, 201).await;
    becomes(&alice, SECRETS, 200).await;
    send(&admin, "DELETE", &format!("{RBAC}/clusterroles/more"), "", 200).await;
    becomes(&alice, SECRETS, 403).await;

    let body = binding("ClusterRoleBinding", "ops:view", "edit", ("Group", "ops"));
    let refused = send(&admin, "PUT", &format!("{bindings}/ops:view"), &body, 422).await;
    assert!(refused["message"].as_str().unwrap().contains("cannot change roleRef"), "{refused}");
    send(&admin, "DELETE", &format!("{bindings}/ops:view"), "", 200).await;
    becomes(&alice, MACHINES, 403).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn default_roles_exist_are_repaired_at_the_start_and_name_what_a_user_may_do() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let root = capstan.client_of(Identity::of_member(data.path(), "root", &["capstan:admins"]));
    becomes(&root, SECRETS, 200).await;
    let roles = send(&root, "GET", &format!("{RBAC}/clusterroles"), "", 200).await;
    let names: Vec<&str> = roles["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| role["metadata"]["name"].as_str().unwrap())
        .collect();
    for name in
        ["admin", "capstan:operator", "cluster-admin", "system:discovery", "system:monitoring", "view"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    let review = r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}"#;
    let listed =
        send(&root, "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review, 201).await;
    assert_eq!(listed["status"]["incomplete"], false);
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(listed["status"]["resourceRules"].as_array().unwrap().contains(&all), "{listed}");

    // An administrator removes a rule of one role, and all rules of a protected one.
    let view = format!("{RBAC}/clusterroles/capstan:secret-reader");
    let kept = format!("{RBAC}/clusterroles/capstan:operator");
    let mine = json!([{"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}]);
    for (path, name, autoupdate) in
        [(&view, "capstan:secret-reader", "true"), (&kept, "capstan:operator", "false")]
    {
        let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": autoupdate});
        let metadata = json!({"name": name, "annotations": annotations});
        send(
            &root,
            "PUT",
            path,
            &rbac("ClusterRole", name, &json!({"metadata": metadata, "rules": mine})),
            200,
        )
        .await;
    }
    capstan.signal("TERM");
    capstan.ended().await;
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let root = capstan.client_of(Identity::of_member(data.path(), "root", &["capstan:admins"]));
    let secrets = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"]});
    assert_eq!(send(&root, "GET", &view, "", 200).await["rules"], json!([mine[0], secrets]));
    assert_eq!(send(&root, "GET", &kept, "", 200).await["rules"], mine);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_grants_only_permissions_that_the_user_has() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let admin = capstan.client();
    aggregated(&admin).await;
    let bob = capstan.client_of(Identity::of_member(data.path(), "bob", &[""]));
    let local = format!("{RBAC}/namespaces/default");
    let (roles, bindings) = (format!("{local}/roles"), format!("{local}/rolebindings"));
    let body = binding("RoleBinding", "bob", "admin", ("User", "bob"));
    send(&admin, "POST", &bindings, &body, 201).await;
    becomes(&bob, &roles, 200).await;

    let role = |name: &str, verbs: &[&str], resource: &str| {
        rbac("Role", name, &json!({"rules": [{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]}))
    };
    send(&bob, "POST", &roles, &role("reader", &["get"], "secrets"), 201).await;
    let refused = send(&bob, "POST", &roles, &role("nodes", &["get", "list"], "nodes"), 403).await;
    let message = "roles.rbac.authorization.k8s.io \"nodes\" is forbidden: user \"bob\" \
        (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
        {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}";
    assert_eq!(refused["message"], message);
    let path = format!("{roles}/reader");
    send(&bob, "PUT", &path, &role("reader", &["*"], "*"), 403).await;
    send(&bob, "PUT", &format!("{roles}/new"), &role("new", &["*"], "*"), 403).await;
    send(&admin, "PUT", &path, &role("reader", &["*"], "*"), 200).await;
    let answer = bob.once("DELETE", &path, "").await.unwrap();
    assert_eq!(answer.code, 200, "a deletion grants nothing: {}", answer.text());

    send(&bob, "POST", &bindings, &binding("RoleBinding", "a", "edit", ("User", "carol")), 201).await;
    send(&bob, "POST", &bindings, &binding("RoleBinding", "b", "cluster-admin", ("User", "carol")), 403)
        .await;
    let missing =
        send(&bob, "POST", &bindings, &binding("RoleBinding", "c", "gone", ("User", "carol")), 404).await;
    assert_eq!(missing["message"], "rolebindings.rbac.authorization.k8s.io \"gone\" not found");

    // The verbs `escalate` and `bind` lift the limits.
    let rules = json!([{"verbs": ["escalate", "create", "bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "clusterroles"]}]);
    send(
        &admin,
        "POST",
        &format!("{RBAC}/clusterroles"),
        &rbac("ClusterRole", "lift", &json!({"rules": rules})),
        201,
    )
    .await;
    send(&admin, "POST", &bindings, &binding("RoleBinding", "lift", "lift", ("User", "bob")), 201).await;
    let begun = Instant::now();
    while bob.once("POST", &roles, &role("nodes", &["get", "list"], "nodes")).await.unwrap().code != 201 {
        assert!(begun.elapsed() < EFFECT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    send(&bob, "POST", &bindings, &binding("RoleBinding", "b", "cluster-admin", ("User", "carol")), 201)
        .await;
}
