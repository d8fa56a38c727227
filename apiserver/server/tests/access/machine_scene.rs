//! Scene of two machines: a server without a host, two Machines with all that belongs to them, and their certificates.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::caller::Caller;
use crate::certificates::{self, of_machine};
use crate::host::TEAM;
use crate::scene::ready;
use crate::server::{PATIENCE, PAUSE, Server, authority};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub(crate) const CORE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team";
pub(crate) const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
pub(crate) const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Group, plural and name of an object.
pub(crate) type Id = (&'static str, &'static str, String);

/// Machine with its certificate.
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    pub(crate) caller: Caller,
    /// Name of its MachineOperation.
    pub(crate) operation: String,
}

impl Machine {
    /// Returns the objects that the machine may read: the graph of its Machine.
    pub(crate) fn own(&self) -> BTreeSet<Id> {
        let name = self.name;
        BTreeSet::from([
            ("cluster.x-k8s.io", "machines", name.to_owned()),
            ("cluster.x-k8s.io", "clusters", "c".to_owned()),
            (BOOTSTRAP, "kubeadmconfigs", format!("{name}-config")),
            (INFRASTRUCTURE, "openstackmachines", format!("{name}-server")),
            ("", "secrets", format!("{name}-data")),
            ("capstan.dev", "machineoperations", self.operation.clone()),
            ("certificates.k8s.io", "certificatesigningrequests", format!("{name}-own")),
        ])
    }
}

/// Running server with the two machines `a` and `b`.
pub(crate) struct MachineScene {
    pub(crate) server: Server,
    pub(crate) admin: Caller,
    pub(crate) machines: [Machine; 2],
    _data: tempfile::TempDir,
}

impl MachineScene {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(data.path(), &configure(data.path()), authority("front proxies"));
        let admin = server.user("root", &["system:masters"]);
        ready(&admin).await;
        for namespace in [TEAM, "elsewhere"] {
            create(&admin, "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        }
        bind_everything(&server, &admin).await;
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "OpenStackCluster", "name": "c"});
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c"}, "spec": {"infrastructureRef": reference}});
        create(&admin, &format!("{CORE}/clusters"), &cluster).await;
        let machines = [machine(&server, &admin, "a").await, machine(&server, &admin, "b").await];
        Self { server, admin, machines, _data: data }
    }
}

/// Writes the configuration. No controller changes what the test creates, and the order of the authorizers is that of a
/// file.
fn configure(data: &Path) -> std::path::PathBuf {
    let [authorizers, config] = ["authorizers.yaml", "config.yaml"].map(|name| data.join(name));
    let text = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [{"type": "System", "name": "system"}, {"type": "Machine", "name": "machine"},
            {"type": "RBAC", "name": "rbac"}]});
    std::fs::write(&authorizers, text.to_string()).unwrap();
    let text = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "ServerConfiguration",
        "audit": {"enabled": false}, "controllers": {"enabled": false}, "authorizationConfigFile": authorizers});
    std::fs::write(&config, text.to_string()).unwrap();
    config
}

pub(crate) async fn create(admin: &Caller, path: &str, object: &Value) -> Value {
    let (code, answer) = admin.json("POST", path, object).await;
    assert_eq!(code, 201, "{path}: {answer}");
    answer
}

/// Binds a role with all permissions in the namespace to the groups of machines. It must give them nothing.
async fn bind_everything(server: &Server, admin: &Caller) {
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "everything"}, "rules": rules});
    create(admin, &format!("{RBAC}/clusterroles"), &role).await;
    let group = |name: &str| json!({"kind": "Group", "name": name});
    let binding = json!({"metadata": {"name": "everything"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"},
        "subjects": [group("system:machines"), group("system:authenticated")]});
    create(admin, &format!("{RBAC}/namespaces/{TEAM}/rolebindings"), &binding).await;
    let (alice, begun) = (server.user("alice", &[]), Instant::now());
    while alice.json("GET", &format!("{CORE}/machines"), &json!({})).await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE, "the binding gives nothing");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns a Machine.
pub(crate) fn object(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name}, "spec": {"clusterName": "c",
        "bootstrap": {"dataSecretName": format!("{name}-data"),
            "configRef": {"apiGroup": BOOTSTRAP, "kind": "KubeadmConfig", "name": format!("{name}-config")}},
        "infrastructureRef":
            {"apiGroup": INFRASTRUCTURE, "kind": "OpenStackMachine", "name": format!("{name}-server")}}})
}

/// Creates a Machine and all that belongs to it, and requests its certificate.
async fn machine(server: &Server, admin: &Caller, name: &'static str) -> Machine {
    let config = json!({"apiVersion": format!("{BOOTSTRAP}/v1beta2"), "kind": "KubeadmConfig",
        "metadata": {"name": format!("{name}-config")}, "spec": {"format": "cloud-config"}});
    let of_server = json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "OpenStackMachine",
        "metadata": {"name": format!("{name}-server")},
        "spec": {"flavor": {"id": "f-1"}, "image": {"imageRef": {"name": "ubuntu"}}}});
    let secret = json!({"metadata": {"name": format!("{name}-data")}, "stringData": {"value": "x"}});
    for (path, object) in [
        (format!("{CORE}/machines"), object(name)),
        (format!("/apis/{BOOTSTRAP}/v1beta2/namespaces/{TEAM}/kubeadmconfigs"), config),
        (format!("/apis/{INFRASTRUCTURE}/v1beta2/namespaces/{TEAM}/openstackmachines"), of_server),
        (format!("/api/v1/namespaces/{TEAM}/secrets"), secret.clone()),
        ("/api/v1/namespaces/elsewhere/secrets".to_owned(), secret),
    ] {
        create(admin, &path, &object).await;
    }
    let reboot = json!({"type": "Hard"});
    let operation = create(admin, &format!("{CORE}/machines/{name}/reboot"), &reboot).await;
    let operation = operation["metadata"]["name"].as_str().unwrap().to_owned();
    let caller = of_machine(server, admin, name, &format!("{name}-first")).await;
    let (request, _) = certificates::request(&format!("{name}-own"), name);
    create(&caller, REQUESTS, &request).await;
    Machine { name, caller, operation }
}
