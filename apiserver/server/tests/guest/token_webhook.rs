//! Users whom a webhook identifies by their tokens, and a webhook that fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Capstan;
use crate::token_client::TokenClient;
use crate::webhook_server::{Reply, WebhookServer};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";

/// Longest time of a refused connection, of a debug build on a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// Time limit of a review.
const TIMEOUT: Duration = Duration::from_secs(3);

fn review(status: &Value) -> Reply {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status});
    Reply::Raw(200, "", body.to_string().into_bytes())
}

/// Webhook that knows one token, never answers about another one, and fails while `is_failing`.
async fn webhook(is_failing: &Arc<AtomicBool>) -> WebhookServer {
    let is_failing = Arc::clone(is_failing);
    WebhookServer::start(move |path, asked| {
        assert_eq!(path, "/authenticate");
        match asked["spec"]["token"].as_str().unwrap() {
            _ if is_failing.load(Ordering::SeqCst) => Reply::Raw(503, "", b"{}".to_vec()),
            "of-alice" => review(&json!({"authenticated": true,
                "user": {"username": "alice", "groups": ["dev", "system:masters"]}})),
            "slow" => Reply::Silence,
            _ => review(&json!({"authenticated": false})),
        }
    })
    .await
}

/// Writes a kubeconfig of the webhook and the configuration of the server. Returns the path of the latter.
fn configure(data: &Path, webhook: &WebhookServer) -> String {
    let [certificate, key] = ["webhook.crt", "webhook.key"].map(|name| data.join(name));
    std::fs::write(&certificate, &webhook.client.0).unwrap();
    std::fs::write(&key, &webhook.client.1).unwrap();
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("{}/authenticate", webhook.url),
            "certificate-authority-data": webhook.bundle}}],
        "users": [{"name": "u", "user": {"client-certificate": certificate, "client-key": key}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    let [file, config] = ["webhook.kubeconfig", "config.yaml"].map(|name| data.join(name));
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let configuration = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "ServerConfiguration",
        "authentication": {"webhook": {"kubeConfigFile": file, "timeout": "3s"}}});
    std::fs::write(&config, configuration.to_string()).unwrap();
    config.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_names_users_and_its_failure_is_503() {
    let (data, is_failing) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
    let webhook = webhook(&is_failing).await;
    let config = configure(data.path(), &webhook);
    let capstan = Capstan::start(data.path(), &["--config", &config]);
    capstan.ready().await;
    let client = TokenClient::new(&capstan, data.path());
    let (code, user) = client.review("authorization", "Bearer of-alice").await;
    let groups = json!(["webhook:dev", "webhook:system:masters", "system:authenticated"]);
    assert_eq!((code, &user["username"], &user["groups"]), (201, &json!("webhook:alice"), &groups), "{user}");
    assert_eq!(user["extra"]["capstan.dev/realm"], json!(["webhook"]));
    let call = webhook.calls("/authenticate").remove(0);
    assert!(call.has_certificate, "the client certificate of the kubeconfig");
    assert_eq!(call.body["spec"]["audiences"], json!(["capstan"]));
    assert_eq!(client.get(MACHINES, "of-alice").await.0, 403, "no binding names the user");
    bind(&capstan).await;
    let end = Instant::now() + crate::process::PATIENCE;
    while client.get(MACHINES, "of-alice").await.0 != 200 {
        assert!(Instant::now() < end, "the binding gives nothing");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(webhook.calls("/authenticate").len(), 1, "the answer is cached");
    let started = Instant::now();
    assert_eq!(client.get(MACHINES, "forged").await.0, 401);
    let (code, status) = client.get(MACHINES, "slow").await;
    assert_eq!((code, &status["reason"]), (503, &json!("ServiceUnavailable")), "{status}");
    assert!(started.elapsed() >= TIMEOUT && started.elapsed() < TIMEOUT + SOON, "{:?}", started.elapsed());
    is_failing.store(true, Ordering::SeqCst);
    let (code, status) = client.get(MACHINES, "other").await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(code == 503 && message.contains("token webhook"), "a token that may be good: {status}");
    assert_eq!(client.get(MACHINES, "of-alice").await.0, 200, "for the time of the cache");
    assert_eq!(capstan.client().get(MACHINES).await.unwrap().code, 200, "certificates need no webhook");
}

/// Binds the user to a role.
async fn bind(capstan: &Capstan) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "alice"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "webhook:alice"}]});
    let path = format!("/apis/{group}/v1/clusterrolebindings");
    let answer = capstan.client().once("POST", &path, &binding.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{}", answer.text());
}
