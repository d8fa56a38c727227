//! Users of a host cluster that is down or slow.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tests_oidc_issuer::SigningKey;

use crate::client::{Client, Identity};
use crate::host_down::{COPIED, FrontProxy, host_with, kubeconfig, until_in_state};
use crate::process::Capstan;
use crate::token_client::TokenClient;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
const ISSUER: &str = "https://host.example";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Time that a slow host takes for a review.
const SLOW: Duration = Duration::from_secs(8);

/// Returns a token of the account `ci` in `team`.
fn token(key: &SigningKey, uid: &str, namespace: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"iss": ISSUER, "aud": ["capstan"], "sub": format!("system:serviceaccount:{namespace}:ci"),
        "iat": now, "exp": now + 3600, "kubernetes.io": {"namespace": namespace,
            "serviceaccount": {"name": "ci", "uid": uid}}});
    key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims)
}

/// Returns the responses of a host with RBAC: the account may read machines and Secrets.
pub(crate) fn rbac(key: &SigningKey) -> impl Fn(&str) -> Option<(u16, Value)> + use<> {
    let keys = json!({"keys": [key.public("k1")]});
    move |path| {
        let list = |items: Value| {
            Some((
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items}),
            ))
        };
        let read = json!(["get", "list"]);
        let rules = json!([{"apiGroups": ["cluster.x-k8s.io"], "resources": ["machines"], "verbs": read},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": read}]);
        let meta = |name: &str| json!({"name": name, "namespace": "team", "uid": "u1"});
        match path {
            "GET /.well-known/openid-configuration" => Some((200, json!({"issuer": ISSUER}))),
            "GET /openid/v1/jwks" => Some((200, keys.clone())),
            "GET /apis/rbac.authorization.k8s.io/v1/clusterroles"
            | "GET /apis/rbac.authorization.k8s.io/v1/clusterrolebindings" => list(json!([])),
            "GET /apis/rbac.authorization.k8s.io/v1/roles" => {
                list(json!([{"metadata": meta("r"), "rules": rules}]))
            }
            "GET /apis/rbac.authorization.k8s.io/v1/rolebindings" => list(json!([{"metadata": meta("b"),
                "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
                "subjects": [{"kind": "ServiceAccount", "namespace": "team", "name": "ci"}]}])),
            "GET /api/v1/serviceaccounts" => list(json!([{"metadata": meta("ci")}])),
            _ => None,
        }
    }
}

pub(crate) fn configure(data: &Path, port: u16) -> String {
    let [host, config] = ["host.kubeconfig", "config.yaml"].map(|name| data.join(name));
    std::fs::write(&host, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nhost: {{kubeconfig: {}, permissions: mirror}}\n",
        host.display()
    );
    std::fs::write(&config, text).unwrap();
    config.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_the_host_knows_the_rights_of_its_service_accounts() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, front_proxy, key) =
        (Arc::new(AtomicBool::new(false)), FrontProxy::new(), SigningKey::new("ES256"));
    let config = configure(data.path(), host_with(&front_proxy.ca, &is_down, rbac(&key)));
    let arguments = ["--config", config.as_str()];
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    tokio::time::sleep(COPIED).await;
    capstan.signal("KILL");
    drop(capstan);
    is_down.store(true, Ordering::SeqCst);
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "down").await;
    let client = TokenClient::new(&capstan, data.path());
    let [good, other, strange] =
        [("u1", "team"), ("u2", "team"), ("u1", "other")].map(|(uid, namespace)| token(&key, uid, namespace));
    let started = Instant::now();
    for (case, path, token, expected) in [
        ("a right", MACHINES, &good, 200),
        ("no right", "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/clusters", &good, 403),
        ("no right elsewhere", "/apis/cluster.x-k8s.io/v1beta2/machines", &good, 403),
        ("credentials", "/api/v1/namespaces/team/secrets", &good, 503),
        ("another account of the name", MACHINES, &other, 503),
        ("an unknown account", MACHINES, &strange, 503),
        ("a forged token", MACHINES, &token(&SigningKey::new("ES256"), "u1", "team"), 401),
    ] {
        let (code, body) = client.get(path, token).await;
        assert_eq!(code, expected, "{case}: {body}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "no request waits for a host that is down");
    let metrics = capstan.client().get("/metrics").await.unwrap().text();
    assert!(metrics.contains("capstan_authorization_stale_total{class=\"read\"} 1\n"), "{metrics}");
    assert!(metrics.contains("capstan_host_mirror_age_seconds{what=\"permissions\"}"), "{metrics}");
}

/// Returns the 99th percentile of the times of reads by a user of our own, over some seconds.
async fn p99(client: &Client, seconds: u64) -> Duration {
    let (mut times, end) = (Vec::new(), Instant::now() + Duration::from_secs(seconds));
    while Instant::now() < end {
        let answer = client.get(MACHINES).await.unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text());
        times.push(answer.took);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_answers_in_eight_seconds_does_not_delay_our_own_users() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, front_proxy) = (Arc::new(AtomicBool::new(false)), FrontProxy::new());
    let port = host_with(&front_proxy.ca, &is_down, |line| {
        if line.ends_with("/subjectaccessreviews") {
            std::thread::sleep(SLOW);
        }
        None
    });
    let file = data.path().join("host.kubeconfig");
    std::fs::write(&file, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let capstan = Capstan::start(data.path(), &["--host-kubeconfig", file.to_str().unwrap()]);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    // An administrator by a binding: the group `system:masters` needs no seat.
    let own = capstan.client_of(Identity::of_member(data.path(), "bob", &["capstan:admins"]));
    let before = p99(&own, 2).await;
    let proxied = capstan.client_of(front_proxy.identity(data.path()));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..600 {
        let proxied = proxied.clone();
        waiting.spawn(async move { proxied.get(MACHINES).await.map(|answer| (answer.code, answer.took)) });
    }
    let during = p99(&own, 4).await;
    // A debug build on a busy machine needs some milliseconds.
    let allowed = (before * 2).max(Duration::from_millis(100));
    assert!(during <= allowed, "{during:?}, and {before:?} without load");
    while let Some(answer) = waiting.join_next().await {
        let (code, took) = answer.unwrap().unwrap();
        assert!(matches!(code, 503 | 429), "{code}");
        assert!(took < SLOW, "a permission has a time limit: {took:?}");
    }
}
