//! Life of a Cluster with nodes whose server blocks each hook once: its creation, an upgrade by two minor versions, and its
//! deletion. The class is in another namespace.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use apiserver_types::{
    Cluster, ExtensionConfig, KubeadmControlPlane, Machine, MachineDeployment, MachineSet, OpenStackCluster,
};
use controllers_extensions::Hook;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{ExtensionServer, Reply, World};
use tokio_util::sync::CancellationToken;

use crate::life_testbed::{HOOKS, MANIFEST, handler, manifest, text};

/// Patches that give each Machine the image of its version.
const IMAGES: &str = include_str!("../topology/images.yaml");

const NAMESPACE: &str = "runtimesdk";

const CLASSES: &str = "runtimesdk-classes";

/// Versions of the upgrade.
const FROM: &str = "v1.32.0";
const STEP: &str = "v1.33.0";
const TO: &str = "v1.34.0";

/// Time limit of each part. A slow machine needs a fifth of it.
const LIMIT: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(100);

/// Time for which a hook must go on blocking: its server is called several times.
const HOLD: Duration = Duration::from_secs(3);

/// Waits until `missing` finds nothing.
pub(crate) async fn until<F: Future<Output = String>>(missing: impl Fn() -> F) {
    let begun = Instant::now();
    loop {
        let found = missing().await;
        if found.is_empty() {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "timed out: {found}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Cluster, and its server.
struct Scene {
    client: Client,
    server: ExtensionServer,
}

/// Versions of the control plane and of the workers that objects and Machines have.
type Versions = [BTreeSet<String>; 2];

fn versions(plane: &str, workers: &str) -> Versions {
    [plane, workers].map(|version| BTreeSet::from([version.to_owned()]))
}

impl Scene {
    /// Registers the server, whose handlers all block.
    async fn start(world: &World) -> Self {
        let scene = Self { client: world.admin(), server: ExtensionServer::start().await.unwrap() };
        for hook in HOOKS {
            let settings = json!({"timeoutSeconds": 5});
            scene.server.handle(hook, &handler(hook), &settings, move |_| blocking(hook));
        }
        scene.server.answer(
            Hook::AfterControlPlaneInitialized,
            &handler(Hook::AfterControlPlaneInitialized),
            |_| Reply::success(),
        );
        let mut config = scene.server.config("ext");
        let names = json!([NAMESPACE, CLASSES]);
        let selected = json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": names});
        config["spec"]["namespaceSelector"] = json!({"matchExpressions": [selected]});
        let config: ExtensionConfig = serde_json::from_value(config).unwrap();
        let configs: Api<ExtensionConfig> = Api::all(scene.client.clone());
        configs.create(&PostParams::default(), &config).await.unwrap();
        let undiscovered = || async {
            let status = configs.get("ext").await.unwrap().status.unwrap_or_default();
            let count = status.handlers.unwrap_or_default().len();
            if count == HOOKS.len() { String::new() } else { format!("{count} handlers") }
        };
        until(undiscovered).await;
        scene
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn cluster(&self) -> Cluster {
        self.api::<Cluster>().get("blue").await.unwrap()
    }

    async fn change(&self, change: Value) {
        let params = PatchParams::default();
        self.api::<Cluster>().patch("blue", &params, &Patch::Merge(change)).await.unwrap();
    }

    async fn message(&self, condition: &str) -> String {
        let cluster = self.cluster().await;
        cluster.condition(condition).map(|it| it.message.clone()).unwrap_or_default()
    }

    fn allow(&self, hook: Hook) {
        self.server.answer(hook, &handler(hook), |_| Reply::success());
    }

    fn block(&self, hook: Hook) {
        self.server.answer(hook, &handler(hook), move |_| blocking(hook));
    }

    /// Waits until a hook blocks with these versions in its request. Then it goes on blocking, and nothing of the Cluster
    /// changes.
    async fn blocked(&self, call: &str, expected: &Versions) {
        let hook = call.split(' ').next().unwrap();
        let text_of_hook = format!("{hook}: {hook} blocks");
        let missing = || async {
            let (message, found) = (self.message("TopologyReconciled").await, self.versions().await);
            let is_blocked = message.contains(&text_of_hook) && self.calls(call) > 0;
            match is_blocked && found == *expected {
                true => String::new(),
                false => format!("{call}: {found:?} {message}"),
            }
        };
        until(missing).await;
        let (calls, begun) = (self.calls(call), Instant::now());
        while begun.elapsed() < HOLD {
            assert_eq!(missing().await, "");
            tokio::time::sleep(INTERVAL).await;
        }
        assert!(self.calls(call) > calls, "{call} is called again");
        let last = self.server.all_calls().last().map(text);
        assert_eq!(last.as_deref(), Some(call), "no other hook is called");
    }

    fn calls(&self, call: &str) -> usize {
        self.server.all_calls().iter().filter(|it| text(it) == call).count()
    }

    /// Returns the versions of all objects of the control plane and of the workers.
    async fn versions(&self) -> Versions {
        let all = ListParams::default();
        let planes = self.api::<KubeadmControlPlane>().list(&all).await.unwrap();
        let workers = self.api::<MachineDeployment>().list(&all).await.unwrap();
        let mut found: Versions = [
            planes.into_iter().map(|it| it.spec.version).collect(),
            workers.into_iter().filter_map(|it| it.spec.template.spec.version).collect(),
        ];
        for machine in self.api::<Machine>().list(&all).await.unwrap() {
            let is_plane = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
            found[usize::from(!is_plane)].extend(machine.spec.version);
        }
        found
    }

    /// Describes what keeps the Cluster from being available with this version.
    async fn missing(&self, version: &str) -> String {
        let machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap().items;
        let is_done = |it: &Machine| {
            it.condition("Available").is_some_and(|it| it.holds())
                && it.spec.version.as_deref() == Some(version)
        };
        let done = machines.iter().filter(|it| is_done(it)).count();
        let cluster = self.cluster().await;
        let holds = |kind: &str| cluster.condition(kind).is_some_and(|it| it.holds());
        if (done, machines.len()) == (2, 2) && holds("Available") && holds("TopologyReconciled") {
            return String::new();
        }
        let conditions = cluster.status.and_then(|status| status.conditions).unwrap_or_default();
        let shown = conditions.iter().map(|it| format!("\n{} {:?} {}", it.kind, it.status, it.message));
        format!("{done} of {} Machines with {version}{}", machines.len(), shown.collect::<String>())
    }

    async fn scale(&self, replicas: i32) {
        let name = self.names::<MachineDeployment>().await.remove(0);
        let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.api::<MachineDeployment>().patch(&name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Scales the workers while their upgrade is pending. Their MachineSet makes no Machine of the old version, and the
    /// topology does not write them.
    async fn preflight_checks_hold_back_machines(&self) {
        let before = self.names::<Machine>().await;
        self.scale(2).await;
        let missing = || async {
            let sets = self.api::<MachineSet>().list(&ListParams::default()).await.unwrap().items;
            let set = &sets[0];
            let message = set.condition("ScalingUp").map(|it| it.message.clone()).unwrap_or_default();
            let is_held = message.contains("(\"KubeadmVersionSkew\" preflight check failed)");
            match is_held && set.spec.replicas == Some(2) {
                true => String::new(),
                false => format!("{:?} replicas, ScalingUp: {message}", set.spec.replicas),
            }
        };
        until(missing).await;
        tokio::time::sleep(HOLD).await;
        assert_eq!(missing().await, "", "the topology has not written the workers");
        assert_eq!(self.names::<Machine>().await, before, "no Machine is made");
        self.scale(1).await;
    }

    async fn names<K>(&self) -> Vec<String>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let objects = self.api::<K>().list(&ListParams::default()).await.unwrap();
        objects.iter().map(ResourceExt::name_any).collect()
    }

    /// Describes the objects that are left.
    async fn left(&self) -> String {
        let mut names = self.names::<Cluster>().await;
        names.extend(self.names::<Machine>().await);
        names.extend(self.names::<MachineDeployment>().await);
        names.extend(self.names::<KubeadmControlPlane>().await);
        names.extend(self.names::<OpenStackCluster>().await);
        names.join(", ")
    }

    async fn create(&self, world: &World) {
        let documents: Vec<&str> = MANIFEST.split("---\n").collect();
        let (cluster, class) = documents.split_last().unwrap();
        let class = class.join("---\n");
        let keys = "  kubernetesVersions: ";
        let class = class.replace(keys, &format!("{IMAGES}{keys}"));
        world.create(&manifest(world, &class, CLASSES, FROM)).await.unwrap();
        let reference = "classRef: {name: small}";
        assert!(cluster.contains(reference));
        let cluster = cluster.replace(reference, &format!("classRef: {{name: small, namespace: {CLASSES}}}"));
        let cluster = [documents[0], documents[1], cluster.as_str()].join("---\n");
        world.create(&manifest(world, &cluster, NAMESPACE, FROM)).await.unwrap();
    }

    async fn step(&self, from: &str, to: &str) {
        self.blocked(&format!("BeforeControlPlaneUpgrade {from} {to}"), &versions(from, FROM)).await;
        self.allow(Hook::BeforeControlPlaneUpgrade);
        let call = format!("AfterControlPlaneUpgrade {to}");
        self.blocked(&call, &versions(to, FROM)).await;
        self.block(Hook::BeforeControlPlaneUpgrade);
    }
}

/// Returns the answer of a hook that blocks, for a second at a time.
fn blocking(hook: Hook) -> Reply {
    Reply::retry(1, &format!("{hook} blocks"))
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_upgrade_runtimesdk_each_hook_blocks_by_its_answer_and_checks_hold_back_new_machines() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let scene = Scene::start(&world).await;
    scene.create(&world).await;
    scene.blocked("BeforeClusterCreate", &Versions::default()).await;
    assert!(scene.cluster().await.spec.infrastructure_ref.is_none());
    scene.allow(Hook::BeforeClusterCreate);
    until(|| scene.missing(FROM)).await;
    assert!(scene.calls("AfterControlPlaneInitialized") > 0);

    // An annotation blocks before the servers of the same hook.
    let annotation = "before-upgrade.hook.cluster.cluster.x-k8s.io/upgrade-test";
    scene.change(json!({"metadata": {"annotations": {annotation: ""}}})).await;
    scene.change(json!({"spec": {"topology": {"version": TO}}})).await;
    let set = format!("BeforeClusterUpgrade: annotation {annotation} is set");
    let unset = || async {
        let message = scene.message("TopologyReconciled").await;
        if message.contains(&set) { String::new() } else { message }
    };
    until(unset).await;
    let begin = format!("BeforeClusterUpgrade {FROM} {TO}");
    assert_eq!((scene.calls(&begin), scene.versions().await), (0, versions(FROM, FROM)));
    scene.change(json!({"metadata": {"annotations": {annotation: null}}})).await;
    scene.blocked(&begin, &versions(FROM, FROM)).await;
    scene.allow(Hook::BeforeClusterUpgrade);

    scene.step(FROM, STEP).await;
    scene.preflight_checks_hold_back_machines().await;
    scene.allow(Hook::AfterControlPlaneUpgrade);
    // The workers skip this version.
    let next = format!("BeforeControlPlaneUpgrade {STEP} {TO}");
    scene.blocked(&next, &versions(STEP, FROM)).await;
    scene.block(Hook::AfterControlPlaneUpgrade);
    scene.step(STEP, TO).await;
    scene.allow(Hook::AfterControlPlaneUpgrade);
    scene.blocked(&format!("BeforeWorkersUpgrade {FROM} {TO}"), &versions(TO, FROM)).await;
    scene.allow(Hook::BeforeWorkersUpgrade);
    scene.blocked(&format!("AfterWorkersUpgrade {TO}"), &versions(TO, TO)).await;
    scene.allow(Hook::AfterWorkersUpgrade);
    scene.blocked(&format!("AfterClusterUpgrade {TO}"), &versions(TO, TO)).await;
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let change = Patch::Merge(json!({"spec": {"topology": {"version": "v1.35.0"}}}));
    let refused = scene.api::<Cluster>().patch("blue", &dry, &change).await.unwrap_err().to_string();
    assert!(refused.contains("\"AfterClusterUpgrade\" hook is still blocking"), "{refused}");
    scene.allow(Hook::AfterClusterUpgrade);
    until(|| scene.missing(TO)).await;
    let annotations = scene.cluster().await.annotations().clone();
    assert_eq!(annotations.get("runtime.cluster.x-k8s.io/pending-hooks"), None);

    scene.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    scene.blocked("BeforeClusterDelete", &versions(TO, TO)).await;
    assert_eq!(scene.message("Deleting").await, "Waiting for BeforeClusterDelete hook");
    scene.allow(Hook::BeforeClusterDelete);
    until(|| scene.left()).await;
    assert_eq!(world.counts(), empty, "the deleted cluster left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
