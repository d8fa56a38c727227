//! Scene: a server with a host, a Keystone and an issuer, and the bindings of the identities.

use std::path::Path;
use std::time::Instant;

use rcgen::{CertifiedIssuer, KeyPair};
use serde_json::{Value, json};
use tests_oidc_issuer::{Issuer, SigningKey};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::caller::Caller;
use crate::certificates::of_machine;
use crate::host::{self, TEAM};
use crate::machine_scene;
use crate::server::{PATIENCE, PAUSE, Server, authority};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Only namespace in which a server with a host cluster has service accounts of its own.
const ACCOUNTS: &str = "capstan-system";

/// Running server, and what identifies its users.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) issuer: Issuer,
    /// Issuer that the host has, too, with the same names.
    pub(crate) shared_issuer: Issuer,
    /// Tokens of a member of the project that the team's namespace belongs to, of an administrator of another project, and
    /// of a reader of the first one.
    pub(crate) keystone: [String; 3],
    /// Token of the service account `robot` of the server.
    pub(crate) account: String,
    /// Machine whose objects no request is about.
    pub(crate) machine: Caller,
    _simulator: Simulator,
    _data: tempfile::TempDir,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
        assert!(simulator.add_reader("auditor", "demo"));
        let (member, project) = log_in(&simulator, "demo", "demo").await;
        let (other, _) = log_in(&simulator, "admin", "admin").await;
        let (reader, _) = log_in(&simulator, "auditor", "demo").await;
        let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
        let shared_issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
        let front_proxies = authority("front proxies");
        let config = configure(data.path(), &simulator, [&issuer, &shared_issuer], &front_proxies, &project);
        let server = Server::start(data.path(), &config, front_proxies);
        let admin = server.user("root", &["system:masters"]);
        ready(&admin).await;
        let account = grant(&admin).await;
        create(&admin, &format!("{}/machines", machine_scene::CORE), &paused_machine("m2")).await;
        let machine = of_machine(&server, &admin, "m2", "m2").await;
        let keystone = [member, other, reader];
        let scene = Self {
            server,
            issuer,
            shared_issuer,
            keystone,
            account,
            machine,
            _simulator: simulator,
            _data: data,
        };
        scene.permissions_are_in_force().await;
        scene
    }

    /// Waits until the leader has joined the rules of the aggregated roles, and the host has proved itself.
    async fn permissions_are_in_force(&self) {
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{TEAM}/machines");
        let bearer = |token: &str| self.server.anonymous().with("authorization", format!("Bearer {token}"));
        let callers = [
            self.server.user("viewer", &[]),
            self.server.user("editor", &[]),
            self.server.user("administrator", &[]),
            self.server.front_proxy("front").with("x-remote-user", host::VIEWER),
            bearer(&format!("{}{}", host::TOKEN, host::VIEWER)),
            bearer(&self.keystone[0]),
            bearer(&self.keystone[2]),
        ];
        let begun = Instant::now();
        for caller in callers {
            while caller.json("GET", &path, &json!({})).await.0 != 200 {
                let last = caller.json("GET", &path, &json!({})).await;
                assert!(begun.elapsed() < PATIENCE, "{last:?}");
                tokio::time::sleep(PAUSE).await;
            }
        }
        let secrets = format!("/api/v1/namespaces/{TEAM}/secrets");
        let editor = self.server.user("editor", &[]);
        while editor.json("GET", &secrets, &json!({})).await.0 != 200 {
            assert!(begun.elapsed() < PATIENCE, "the role edit has no rules");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Returns a token of a user in the simulator for a project, and the id of the project.
async fn log_in(simulator: &Simulator, user: &str, project: &str) -> (String, String) {
    let domain = json!({"name": "Default"});
    let password = json!({"user": {"name": user, "password": user, "domain": domain}});
    let body = json!({"auth": {"identity": {"methods": ["password"], "password": password},
        "scope": {"project": {"name": project, "domain": domain}}}});
    let url = format!("{}/auth/tokens", simulator.auth_url().trim_end_matches('/'));
    let request = reqwest::Client::new().post(url).header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    let token = response.headers().get("x-subject-token").unwrap().to_str().unwrap().to_owned();
    let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    (token, body.pointer("/token/project/id").and_then(Value::as_str).unwrap().to_owned())
}

fn configure(
    data: &Path,
    simulator: &Simulator,
    [issuer, shared_issuer]: [&Issuer; 2],
    front_proxies: &CertifiedIssuer<'static, KeyPair>,
    project: &str,
) -> std::path::PathBuf {
    let [kubeconfig, authentication, config] =
        ["host.kubeconfig", "authentication.yaml", "config.yaml"].map(|name| data.join(name));
    let server = format!("http://127.0.0.1:{}", host::start(&front_proxies.pem(), project));
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let jwt = |issuer: &Issuer, prefix: &str| {
        json!({"issuer": {"url": issuer.url(), "audiences": ["capstan"], "certificateAuthority": issuer.ca()},
            "claimMappings": {"username": {"claim": "sub", "prefix": prefix},
                "groups": {"claim": "groups", "prefix": ""}}})
    };
    let text = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": [jwt(issuer, "oidc:"), jwt(shared_issuer, "")]});
    std::fs::write(&authentication, text.to_string()).unwrap();
    let text = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "ServerConfiguration",
        // Tens of thousands of lines, of which this suite reads none.
        "audit": {"enabled": false},
        "host": {"kubeconfig": kubeconfig, "reviewUnknownTokens": true},
        "keystone": {"authURL": simulator.auth_url(), "allowInsecureHTTP": true},
        "authentication": {"issuers": [{"url": shared_issuer.url(), "sharedWithHost": true}]},
        "authenticationConfigFile": authentication});
    std::fs::write(&config, text.to_string()).unwrap();
    config
}

pub(crate) async fn ready(admin: &Caller) {
    let begun = Instant::now();
    while tokio::net::TcpStream::connect(("127.0.0.1", admin.port())).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "nothing listens");
        tokio::time::sleep(PAUSE).await;
    }
    while admin.json("GET", "/readyz", &json!({})).await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "the server is not ready");
        tokio::time::sleep(PAUSE).await;
    }
}

async fn create(admin: &Caller, path: &str, object: &Value) -> Value {
    let begun = Instant::now();
    loop {
        let (code, answer) = admin.json("POST", path, object).await;
        if code == 201 {
            return answer;
        }
        // Until the host has proved itself, it is not known whether the namespace exists.
        assert!(code >= 500 && begun.elapsed() < PATIENCE, "{path}: {code} {answer}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Creates the bindings and a service account. Returns a token of the latter.
async fn grant(admin: &Caller) -> String {
    let user = |name: &str| json!({"kind": "User", "name": name});
    let robot = json!({"kind": "ServiceAccount", "name": "robot", "namespace": ACCOUNTS});
    let local = [
        ("viewer", "view", user("viewer")),
        ("editor", "edit", user("editor")),
        ("administrator", "admin", user("administrator")),
        ("carol", "view", user("carol")),
        ("robot", "view", robot),
        ("oidc", "view", user("oidc:alice")),
        // The user of the host with this name is another one. So are those of other realms.
        ("host-viewer", "admin", user(host::VIEWER)),
    ];
    for (name, role, subject) in local {
        let path = format!("{RBAC}/namespaces/{TEAM}/rolebindings");
        create(admin, &path, &binding("RoleBinding", name, role, &subject)).await;
    }
    let rule = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["carol"]}]);
    let role = json!({"metadata": {"name": "impersonate-carol"}, "rules": rule});
    create(admin, &format!("{RBAC}/clusterroles"), &role).await;
    for (name, role, subject) in [
        ("operator", "capstan:operator", user("operator")),
        ("impersonator", "impersonate-carol", user("impersonator")),
    ] {
        let path = format!("{RBAC}/clusterrolebindings");
        create(admin, &path, &binding("ClusterRoleBinding", name, role, &subject)).await;
    }
    let revocation = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "CertificateRevocation",
        "metadata": {"name": "mallory"}, "spec": {"user": "mallory", "issuedBefore": "2100-01-01T00:00:00Z"}});
    create(admin, "/apis/capstan.dev/v1alpha1/certificaterevocations", &revocation).await;
    let accounts = format!("/api/v1/namespaces/{ACCOUNTS}/serviceaccounts");
    create(admin, &accounts, &json!({"metadata": {"name": "robot"}})).await;
    let issued = create(admin, &format!("{accounts}/robot/token"), &json!({"spec": {}})).await;
    issued.pointer("/status/token").and_then(Value::as_str).unwrap().to_owned()
}

/// Returns a Machine that the controllers leave alone.
fn paused_machine(name: &str) -> Value {
    let mut machine = machine_scene::object(name);
    machine["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    machine
}

fn binding(kind: &str, name: &str, role: &str, subject: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject]})
}
