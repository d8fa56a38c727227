//! Testbed: a Cluster of a class, an extension server with hooks of its life, and passes over its topology. The test plays the
//! other controllers.

use std::sync::Arc;

use apiserver_types::{Cluster, ExtensionConfig, KubeadmControlPlane, MachineDeployment};
use controllers_extensions::{ExtensionServers, Hook, discover};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, ExtensionCall, ExtensionServer, Reply, World};

/// Class, its templates, and a Cluster of it.
pub(crate) const MANIFEST: &str = include_str!("../topology/class.yaml");

/// Name of the ExtensionConfig.
const CONFIG: &str = "ext";

/// Passes in which an upgrade of these tests ends.
const PASSES: usize = 12;

/// Hooks in the life of a Cluster.
pub(crate) const HOOKS: [Hook; 9] = [
    Hook::BeforeClusterCreate,
    Hook::AfterControlPlaneInitialized,
    Hook::BeforeClusterUpgrade,
    Hook::BeforeControlPlaneUpgrade,
    Hook::AfterControlPlaneUpgrade,
    Hook::BeforeWorkersUpgrade,
    Hook::AfterWorkersUpgrade,
    Hook::AfterClusterUpgrade,
    Hook::BeforeClusterDelete,
];

/// Returns a manifest for a namespace, with a Cluster of this version.
pub(crate) fn manifest(world: &World, text: &str, namespace: &str, version: &str) -> String {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    text.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds).replace("VERSION", version)
}

/// Cluster, its class and an extension server.
pub(crate) struct Testbed {
    pub(crate) world: World,
    pub(crate) server: ExtensionServer,
    controllers: Controllers,
    client: Client,
    namespace: &'static str,
    /// Number of calls that were looked at.
    seen: usize,
}

impl Testbed {
    /// Creates a Cluster of this version. The server has handlers of these hooks, with this policy. It agrees.
    pub(crate) async fn start(namespace: &'static str, version: &str, hooks: &[Hook], policy: &str) -> Self {
        let server = ExtensionServer::start().await.unwrap();
        for hook in hooks {
            server.handle(*hook, &handler(*hook), &json!({"failurePolicy": policy}), |_| Reply::success());
        }
        Self::with(server, MANIFEST, namespace, version).await
    }

    /// Creates the objects of a manifest, with a Cluster of this version. The server has all its handlers.
    pub(crate) async fn with(
        server: ExtensionServer,
        text: &str,
        namespace: &'static str,
        version: &str,
    ) -> Self {
        let world = World::start().await.unwrap();
        register(&world.admin(), &server).await;
        world.create(&manifest(&world, text, namespace, version)).await.unwrap();
        let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
        controllers.round_of_classes().await.unwrap();
        Self { client: world.admin(), controllers, namespace, seen: 0, server, world }
    }

    /// Creates a Cluster of this version, whose control plane is reachable.
    pub(crate) async fn done(namespace: &'static str, version: &str, hooks: &[Hook], policy: &str) -> Self {
        let mut testbed = Self::start(namespace, version, hooks, policy).await;
        testbed.passes(3).await;
        testbed.control_plane_is_done().await;
        let initialized = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        let (params, change) = (PatchParams::default(), Patch::Merge(initialized));
        testbed.api::<Cluster>().patch_status("blue", &params, &change).await.unwrap();
        testbed.passes(3).await;
        assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
        testbed.log();
        testbed
    }

    /// Starts another process, which may crash. What the last one kept in its memory is lost.
    pub(crate) fn restart(&mut self, crash: &Arc<CrashPoint>) {
        self.controllers = Controllers::start(&self.world, crash);
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Returns the objects of a kind that the topology has made.
    pub(crate) async fn owned<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let params = ListParams::default().labels("topology.cluster.x-k8s.io/owned");
        self.api::<K>().list(&params).await.unwrap().items
    }

    /// Changes the Cluster, or returns the refusal.
    pub(crate) async fn change(&self, change: Value) -> Result<(), String> {
        let (params, change) = (PatchParams::default(), Patch::Merge(change));
        let changed = self.api::<Cluster>().patch("blue", &params, &change).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    /// Demands a version.
    pub(crate) async fn demand(&self, version: &str) -> Result<(), String> {
        self.change(json!({"spec": {"topology": {"version": version}}})).await
    }

    /// Makes a pass over the class.
    pub(crate) async fn class_pass(&self) {
        self.controllers.round_of_classes().await.unwrap();
    }

    pub(crate) async fn passes(&self, count: usize) {
        for _ in 0..count {
            self.controllers.round_of_topologies().await.unwrap();
        }
    }

    /// Makes passes, and plays the control plane.
    pub(crate) async fn play(&self) {
        for _ in 0..PASSES {
            self.passes(1).await;
            self.control_plane_is_done().await;
        }
    }

    /// Reports the version of the control plane, as its controller does once all Machines have it.
    pub(crate) async fn control_plane_is_done(&self) {
        let plane = self.owned::<KubeadmControlPlane>().await.remove(0);
        let version = &plane.spec.version;
        let versions = json!([{"version": version, "replicas": 1}]);
        let change = Patch::Merge(json!({"status": {"version": version, "versions": versions}}));
        let api = self.api::<KubeadmControlPlane>();
        api.patch_status(&plane.name_any(), &PatchParams::default(), &change).await.unwrap();
    }

    /// Returns the versions of the control plane and of the workers.
    pub(crate) async fn versions(&self) -> [String; 2] {
        let workers = self.owned::<MachineDeployment>().await.remove(0);
        let plane = self.owned::<KubeadmControlPlane>().await.remove(0);
        [plane.spec.version, workers.spec.template.spec.version.unwrap_or_default()]
    }

    pub(crate) async fn cluster(&self) -> Cluster {
        self.api::<Cluster>().get("blue").await.unwrap()
    }

    /// Returns status, reason and message of the condition.
    pub(crate) async fn condition(&self) -> String {
        let cluster = self.cluster().await;
        let found = cluster.condition("TopologyReconciled");
        found.map(|it| format!("{:?} {} {}", it.status, it.reason, it.message)).unwrap_or_default()
    }

    /// Returns the value of an annotation of the Cluster.
    pub(crate) async fn annotation(&self, key: &str) -> Option<String> {
        self.cluster().await.annotations().get(key).cloned()
    }

    /// Returns the calls since the last look: hook, and the versions in the request.
    pub(crate) fn log(&mut self) -> Vec<String> {
        let calls = self.server.all_calls().split_off(self.seen);
        self.seen += calls.len();
        calls.iter().map(text).collect()
    }

    /// Deletes the ExtensionConfig.
    pub(crate) async fn unregister(&self) {
        let configs: Api<ExtensionConfig> = Api::all(self.client.clone());
        configs.delete(CONFIG, &Default::default()).await.unwrap();
    }
}

/// Creates an ExtensionConfig, and plays its controller.
async fn register(client: &Client, server: &ExtensionServer) {
    let config: ExtensionConfig = serde_json::from_value(server.config(CONFIG)).unwrap();
    let configs: Api<ExtensionConfig> = Api::all(client.clone());
    configs.create(&PostParams::default(), &config).await.unwrap();
    let handlers = discover(&ExtensionServers::default(), &config).await.unwrap();
    let change = Patch::Merge(json!({"status": {"handlers": handlers}}));
    configs.patch_status(CONFIG, &PatchParams::default(), &change).await.unwrap();
}

/// Returns the name of the handler of a hook. The names of a server are unique.
pub(crate) fn handler(hook: Hook) -> String {
    hook.name().to_lowercase()
}

/// Returns hook and versions of a call.
pub(crate) fn text(call: &ExtensionCall) -> String {
    let kind = call.message["kind"].as_str().unwrap_or_default();
    let hook = kind.strip_suffix("Request").unwrap_or(kind);
    let fields = ["fromKubernetesVersion", "toKubernetesVersion", "kubernetesVersion"];
    let versions = fields.iter().filter_map(|field| call.message[*field].as_str());
    [hook].into_iter().chain(versions).collect::<Vec<_>>().join(" ")
}
