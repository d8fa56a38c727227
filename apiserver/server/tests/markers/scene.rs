//! Server whose configuration has secrets in every place that takes some, and whose neighbours all fail.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::caller::Caller;
use crate::collector::Collector;
use crate::process::{Capstan, PATIENCE};
use crate::scan::Markers;
use crate::webhook_server::{Reply, WebhookServer};

/// Address at which nothing listens.
pub(crate) const NOTHING: &str = "https://127.0.0.1:1";

/// Audit policy: bodies of everything, and all stages.
const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: RequestResponse}\n";

/// Running server, and those that it sends to.
pub(crate) struct Scene {
    pub(crate) capstan: Capstan,
    pub(crate) caller: Caller,
    pub(crate) simulator: Simulator,
    pub(crate) collector: Collector,
    pub(crate) audit: WebhookServer,
    pub(crate) data: tempfile::TempDir,
    _tokens: WebhookServer,
}

impl Scene {
    /// Starts a server with these flags.
    pub(crate) async fn start(flags: &[&str], markers: &mut Markers) -> Self {
        let options = SimulatorOptions {
            build_time: std::time::Duration::from_millis(1),
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.unwrap();
        let (collector, data) = (Collector::start().await, tempfile::tempdir().unwrap());
        let audit = WebhookServer::start(|_, _| Reply::Raw(200, "", Vec::new())).await;
        // It quotes the token in its error, and in a body that is no review.
        let tokens = WebhookServer::start(|_, review| {
            let token = review["spec"]["token"].as_str().unwrap_or_default();
            if token.as_bytes().last().is_some_and(|last| last % 2 == 0) {
                return Reply::Raw(500, "", format!("cannot look up {token}").into_bytes());
            }
            let status = json!({"authenticated": false, "error": format!("{token} is not known")});
            let body =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status});
            Reply::Raw(200, "", body.to_string().into_bytes())
        })
        .await;
        let config = configure(data.path(), &simulator, &collector, &audit, &tokens, markers);
        let capstan = Capstan::start(data.path(), &[&["--config", config.to_str().unwrap()], flags].concat());
        capstan.ready().await;
        let token = administrator(&capstan, markers).await;
        let caller = Caller::new(&capstan, data.path(), &token);
        // The binding is in force a moment later.
        let end = std::time::Instant::now() + PATIENCE;
        while caller.send("GET", "/api/v1/namespaces", "", "").await.0 != 200 {
            assert!(std::time::Instant::now() < end, "the account has no rights");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        keys(data.path(), markers);
        Self { capstan, caller, simulator, collector, audit, data, _tokens: tokens }
    }
}

/// Creates an account that may do everything. Returns its token.
async fn administrator(capstan: &Capstan, markers: &mut Markers) -> String {
    let client = capstan.client();
    let rbac = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let mut token = Value::Null;
    for (path, body) in [
        (format!("/apis/{rbac}/v1/clusterrolebindings"), binding),
        (accounts.to_owned(), json!({"metadata": {"name": "robot"}})),
        (format!("{accounts}/robot/token"), json!({"spec": {}})),
    ] {
        let answer = client.once("POST", &path, &body.to_string()).await.unwrap();
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
        token = serde_json::from_slice(&answer.body).unwrap();
    }
    let token = token.pointer("/status/token").and_then(Value::as_str).unwrap().to_owned();
    markers.add("signature of the administrator's token", token.rsplit('.').next().unwrap().as_bytes());
    token
}

/// Adds the keys that the server has created.
fn keys(data: &Path, markers: &mut Markers) {
    let text = std::fs::read_to_string(data.join("encryption.yaml")).unwrap();
    let secret = text.split("secret:").nth(1).unwrap().split_whitespace().next().unwrap();
    markers.add("encryption key", &STANDARD.decode(secret.trim_matches(['"', '\''])).unwrap());
    for name in ["ca.key", "server.key"] {
        let pem = std::fs::read_to_string(data.join("pki").join(name)).unwrap();
        let key: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
        // The private number of a key of P-256 in PKCS #8 is behind 36 bytes that all keys have.
        markers.add(&format!("pki/{name}"), &STANDARD.decode(key).unwrap()[36..68]);
    }
}

fn kubeconfig(server: &str, bundle: &str, user: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": bundle}}],
        "users": [{"name": "u", "user": user}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]})
    .to_string()
}

fn configure(
    data: &Path,
    simulator: &Simulator,
    collector: &Collector,
    audit: &WebhookServer,
    tokens: &WebhookServer,
    markers: &mut Markers,
) -> PathBuf {
    let write = |name: &str, text: &str| {
        std::fs::write(data.join(name), text).unwrap();
        data.join(name)
    };
    let mut secret = |place: &str| markers.plant(place);
    let user = json!({"token": secret("token for the token webhook")});
    let token_webhook =
        write("tokens.kubeconfig", &kubeconfig(&format!("{}/t", tokens.url), &tokens.bundle, &user));
    let user = json!({"username": "u", "password": secret("password for the authorization webhook")});
    let unreachable =
        write("authorizer.kubeconfig", &kubeconfig(&format!("{NOTHING}/a"), &tokens.bundle, &user));
    let authorizers = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [{"type": "System", "name": "system"}, {"type": "RBAC", "name": "rbac"},
            {"type": "Webhook", "name": "other", "webhook": {"timeout": "1s", "failurePolicy": "NoOpinion",
                "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
                "authorizedTTL": "1s", "unauthorizedTTL": "1s",
                "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": unreachable}}}]});
    let login = simulator.clouds_yaml("demo");
    let login = login.replace("password: demo", &format!("password: \"{}\"", secret("password for Swift")));
    let s3 = format!(
        "[default]\naws_access_key_id = test\naws_secret_access_key = {}\naws_session_token = {}\n",
        secret("secret key for S3"),
        secret("session token for S3")
    );
    let key = data.join("backup.key");
    let made =
        std::process::Command::new(env!("CARGO_BIN_EXE_capstan")).args(["backup", "key"]).arg(&key).output();
    assert!(made.unwrap().status.success());
    let ca = STANDARD.decode(&audit.bundle).unwrap();
    let config = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "ServerConfiguration",
        "logging": {"level": "debug"},
        "authentication": {"webhook": {"kubeConfigFile": token_webhook, "timeout": "1s"}},
        "authorizationConfigFile": write("authorizers.yaml", &authorizers.to_string()),
        "keystone": {"authURL": simulator.auth_url(), "allowInsecureHTTP": true},
        "tracing": {"endpoint": format!("127.0.0.1:{}", collector.port), "samplingRatePerMillion": 1_000_000},
        "audit": {"policyFile": write("policy.yaml", POLICY), "maxSizeMegabytes": 1000,
            "webhook": {"url": format!("{}/audit", audit.url), "batchMaxWait": "1s",
                "caFile": write("audit.pem", std::str::from_utf8(&ca).unwrap()),
                "tokenFile": write("audit.token", &secret("token for the audit webhook"))}},
        "backup": {"keyFile": key,
            "s3": {"credentialsFile": write("s3.credentials", &s3)},
            "swift": {"cloudsFile": write("swift.yaml", &login)},
            "schedule": {"every": "1m", "to": [format!("file:{}", data.join("backups").display()),
                format!("s3://bucket/prefix?endpoint={NOTHING}"), "swift://container/prefix"]}}});
    let text = std::fs::read_to_string(&key).unwrap();
    let text = text.split_whitespace().max_by_key(|word| word.len()).unwrap();
    markers.add("key of backups", text.as_bytes());
    write("config.yaml", &config.to_string())
}
