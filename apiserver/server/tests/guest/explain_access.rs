//! Command `capstan explain-access`: a user that a role allows, one that is denied, and decisions by a stale copy.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests_oidc_issuer::SigningKey;

use crate::host_down::{COPIED, FrontProxy, host_with, until_in_state};
use crate::host_mirror::{configure, rbac};
use crate::process::{Capstan, PATIENCE, command};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Service account of the host. Its role there lists machines and Secrets in the namespace `team`.
const ROBOT: &str = "system:serviceaccount:team:ci";

/// Explains access. The arguments are separated by spaces.
async fn explain(kubeconfig: &str, arguments: &str) -> Output {
    let fixed = ["explain-access", "--kubeconfig", kubeconfig];
    command(&fixed.into_iter().chain(arguments.split(' ')).collect::<Vec<_>>()).await
}

async fn view(kubeconfig: &str, arguments: &str) -> Value {
    let output = explain(kubeconfig, &format!("{arguments} -o json")).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns names and answers of the authorizers.
fn answers(view: &Value) -> Vec<(&str, &str)> {
    let all = view["authorizers"].as_array().unwrap().iter();
    all.map(|it| (it["name"].as_str().unwrap(), it["answer"].as_str().unwrap())).collect()
}

/// Returns the answer of one authorizer.
fn of<'a>(view: &'a Value, name: &str) -> &'a Value {
    view["authorizers"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

/// Starts a server with the mirror of a host, which is up.
async fn start(data: &Path, is_down: &Arc<AtomicBool>) -> Capstan {
    let roles = rbac(&SigningKey::new("ES256"));
    let port = host_with(&FrontProxy::new().ca, is_down, move |path| match path {
        "POST /apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let status = json!({"allowed": true, "reason": "the host says so"});
            Some((
                201,
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "metadata": {}, "spec": {}, "status": status}),
            ))
        }
        _ => roles(path),
    });
    let config = configure(data, port);
    let capstan = Capstan::start(data, &["--config", &config]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    capstan
}

async fn bind(capstan: &Capstan, user: &str) {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "readers"}, "roleRef": {"kind": "ClusterRole", "name": "capstan:view"},
        "subjects": [{"kind": "User", "name": user}]});
    let answer = capstan.client().once("POST", BINDINGS, &binding.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn iz_42_each_authorizer_answers_with_the_age_of_its_data_and_its_reason() {
    let data = tempfile::tempdir().unwrap();
    let is_down = Arc::new(AtomicBool::new(false));
    let capstan = start(data.path(), &is_down).await;
    bind(&capstan, "alice").await;
    let admin = capstan.kubeconfig(data.path(), "capstan:admins");
    let list = "--user alice --verb list --resource machines --namespace team";
    let end = Instant::now() + PATIENCE;
    let mut allowed = view(&admin, list).await;
    while allowed["verdict"]["decidedBy"] != "RBAC" {
        assert!(Instant::now() < end, "{allowed}");
        allowed = view(&admin, list).await;
    }
    let expected = [
        ("ServiceAccounts", "NoOpinion"),
        ("System", "NoOpinion"),
        ("Machine", "NoOpinion"),
        ("RBAC", "Allowed"),
        ("Host", "NoOpinion"),
    ];
    assert_eq!(answers(&allowed), expected, "{allowed}");
    let reason = of(&allowed, "RBAC")["reason"].as_str().unwrap();
    assert!(
        reason.contains("ClusterRoleBinding \"readers\" of ClusterRole \"capstan:view\" to User \"alice\""),
        "{reason}"
    );
    assert!(reason.contains("by the rule {APIGroups:[") && reason.contains("\"machines\""), "{reason}");
    assert_eq!(allowed["request"]["group"], "cluster.x-k8s.io", "the server knows the kind");
    assert!(of(&allowed, "Host")["reason"].as_str().unwrap().contains("realm host"), "{allowed}");

    let denied = view(&admin, "--user alice --verb create --resource serviceaccounts -n team").await;
    assert_eq!(
        (&denied["verdict"]["answer"], &denied["verdict"]["httpStatus"]),
        (&json!("Denied"), &json!(403))
    );
    assert_eq!(denied["verdict"]["decidedBy"], "ServiceAccounts");
    let table = explain(
        &admin,
        "--user alice --verb create --resource machines --subresource reboot -n team --name m",
    )
    .await;
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("create machines.cluster.x-k8s.io/reboot m, in namespace team"), "{table}");
    assert!(table.contains("\nRBAC             no opinion  -    no rule of the user's bindings allows it: ClusterRoleBinding \"readers\""), "{table}");
    assert!(table.contains("\nVERDICT  403: no authorizer allows it\n"), "{table}");
    by_the_host(&capstan, &admin, &is_down).await;
    refusals(data.path(), &capstan, &admin).await;
}

/// Explains access of a user of the host, which is up and then goes down.
async fn by_the_host(capstan: &Capstan, admin: &str, is_down: &AtomicBool) {
    let robot = format!("--user {ROBOT} --as-realm host --verb list -n team");
    let live = view(admin, &format!("{robot} --resource machines")).await;
    assert_eq!(of(&live, "Host")["reason"], "the host says so");
    assert_eq!(live["verdict"]["decidedBy"], "Host", "{live}");
    let hosted = view(admin, "--user bob --endpoint host --verb list --resource machines").await;
    assert_eq!(answers(&hosted), [("System", "NoOpinion"), ("Host", "Allowed")], "{hosted}");
    // The copy of the roles is complete after this time.
    tokio::time::sleep(COPIED).await;
    is_down.store(true, Ordering::SeqCst);
    until_in_state(capstan, "down").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stale = view(admin, &format!("{robot} --resource machines")).await;
    assert_eq!(stale["verdict"]["decidedBy"], "HostMirror", "{stale}");
    assert_eq!(of(&stale, "Host")["answer"], "Unavailable");
    assert!(of(&stale, "HostMirror")["ageSeconds"].as_u64().unwrap() >= 1, "{stale}");
    assert!(
        of(&stale, "HostMirror")["reason"].as_str().unwrap().contains("RoleBinding \"b/team\""),
        "{stale}"
    );
    let secrets = view(admin, &format!("{robot} --resource secrets")).await;
    assert_eq!(secrets["verdict"]["httpStatus"], 503, "{secrets}");
    assert!(of(&secrets, "HostMirror")["ageSeconds"].is_u64(), "{secrets}");
}

/// Arguments that are wrong, and a user without the permission. Each error names the field or the role.
async fn refusals(data: &Path, capstan: &Capstan, admin: &str) {
    let other = capstan.kubeconfig(data, "dev");
    for (kubeconfig, arguments, text) in [
        (&other[..], "--user a --verb get --path /x", "ClusterRole system:auth-delegator"),
        (
            admin,
            "--user a --verb get --resource nothings",
            "--resource nothings: the server has no such kind",
        ),
        (
            admin,
            "--user a --verb get --resource namespaces -n x",
            "--namespace: objects of namespaces have no namespace",
        ),
        (
            admin,
            "--user a --verb get --path /x --as-realm mars",
            "spec.extra[capstan.dev/realm]: Unsupported value",
        ),
    ] {
        let output = explain(kubeconfig, arguments).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(text), "{arguments}: {error}");
    }
}
