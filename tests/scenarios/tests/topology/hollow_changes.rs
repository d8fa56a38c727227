//! Changes of a topology with nodes: two minor versions in one request, another class, and taints.

use std::collections::BTreeSet;
use std::time::Instant;

use apiserver_types::{Cluster, ClusterClass, ClusterClassSpec, Machine, OpenStackMachine};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::hollow::{INTERVAL, LIMIT, left, until};
use crate::manifest;
use crate::plans;

const NAMESPACE: &str = "changed";

/// Label of control plane Machines.
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Key of the taint.
const TAINT: &str = "test.capstan.dev/kept";

/// Patches that give each Machine the image of its version.
const IMAGES: &str = include_str!("images.yaml");

/// A Cluster of a class, with nodes.
pub(crate) struct Scene {
    client: Client,
    pub(crate) namespace: String,
}

/// Machine of a look.
struct Seen {
    name: String,
    is_control_plane: bool,
    version: String,
}

impl Scene {
    /// Creates a class and a Cluster of it with this version. Each Machine has the image of its version.
    pub(crate) async fn create(world: &World, namespace: &str, version: &str) -> Self {
        let versions = "  kubernetesVersions: ";
        let with_images = format!("{IMAGES}{versions}");
        let manifest = manifest(world, namespace, version).replace(versions, &with_images);
        world.create(&manifest).await.unwrap();
        Self { client: world.admin(), namespace: namespace.to_owned() }
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn change(&self, topology: Value) {
        let change = Patch::Merge(json!({"spec": {"topology": topology}}));
        self.api::<Cluster>().patch("blue", &PatchParams::default(), &change).await.unwrap();
    }

    /// Returns the plan of a change.
    async fn plan(&self, topology: Value) -> Value {
        let change = json!({"spec": {"topology": topology}});
        plans::call(&self.client, &self.namespace, &change).await.unwrap()
    }

    async fn machines(&self) -> Vec<Seen> {
        let machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap();
        let seen = |it: Machine| Seen {
            name: it.name_any(),
            is_control_plane: it.labels().contains_key(CONTROL_PLANE),
            version: it.spec.version.unwrap_or_default(),
        };
        machines.into_iter().map(seen).collect()
    }

    pub(crate) async fn names(&self) -> BTreeSet<String> {
        self.machines().await.into_iter().map(|it| it.name).collect()
    }

    /// Describes what keeps the Cluster from being available with this version.
    pub(crate) async fn missing(&self, version: &str) -> String {
        let machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap().items;
        let is_done = |it: &Machine| {
            let info = it.status.as_ref().and_then(|status| status.node_info.as_ref());
            it.condition("Available").is_some_and(|it| it.holds())
                && it.spec.version.as_deref() == Some(version)
                && info.is_some_and(|info| info.kubelet_version == version)
        };
        let done = machines.iter().filter(|it| is_done(it)).count();
        let cluster = self.api::<Cluster>().get("blue").await.unwrap();
        let holds = |kind: &str| cluster.condition(kind).is_some_and(|it| it.holds());
        if (done, machines.len()) == (2, 2) && holds("Available") && holds("TopologyReconciled") {
            return String::new();
        }
        let conditions = cluster.status.and_then(|status| status.conditions).unwrap_or_default();
        let shown = conditions.iter().map(|it| format!("\n{} {:?} {}", it.kind, it.status, it.message));
        format!("{done} of {} Machines with {version}{}", machines.len(), shown.collect::<String>())
    }

    /// Upgrades, and returns the versions that Machines had, of the control plane and of the workers. No worker may be
    /// newer than a control plane Machine that stays.
    async fn upgrade(&self, version: &str) -> [BTreeSet<String>; 2] {
        self.change(json!({"version": version})).await;
        let mut seen = [BTreeSet::new(), BTreeSet::new()];
        let begun = Instant::now();
        loop {
            let machines = self.machines().await;
            let newest = |plane: bool| {
                let of_role = machines.iter().filter(|it| it.is_control_plane == plane);
                of_role.map(|it| it.version.clone()).max().unwrap_or_default()
            };
            assert!(newest(false) <= newest(true), "workers {}, before the control plane", newest(false));
            for machine in machines {
                seen[usize::from(!machine.is_control_plane)].insert(machine.version);
            }
            let missing = self.missing(version).await;
            if missing.is_empty() {
                return seen;
            }
            assert!(begun.elapsed() < 2 * LIMIT, "timed out: {missing}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Creates a class with larger flavors, and waits until a Cluster can have it.
    async fn larger_class(&self) {
        let first = self.api::<ClusterClass>().get("small").await.unwrap();
        let mut spec = serde_json::to_value(first.spec).unwrap();
        for parent in ["/controlPlane/machineInfrastructure", "/workers/machineDeployments/0/infrastructure"]
        {
            spec.pointer_mut(parent).unwrap()["templateRef"]["name"] = json!("larger");
        }
        let spec: ClusterClassSpec = serde_json::from_value(spec).unwrap();
        self.api().create(&Default::default(), &ClusterClass::new("large", spec)).await.unwrap();
        // The class is not reconciled at once, and the change is refused until then.
        let change = Patch::Merge(json!({"spec": {"topology": {"classRef": {"name": "large"}}}}));
        let clusters = self.api::<Cluster>();
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let refused = || async {
            let changed = clusters.patch("blue", &dry, &change).await;
            changed.err().map(|error| error.to_string()).unwrap_or_default()
        };
        until(refused).await;
    }

    async fn flavors(&self) -> BTreeSet<String> {
        let machines = self.api::<OpenStackMachine>().list(&ListParams::default()).await.unwrap();
        let flavor = |it: OpenStackMachine| {
            serde_json::to_value(it.spec.flavor).unwrap()["filter"]["name"].to_string()
        };
        machines.into_iter().map(flavor).collect()
    }

    /// Returns the Nodes that have the taint.
    async fn tainted(&self) -> Vec<String> {
        let secret = self.api::<Secret>().get("blue-kubeconfig").await.unwrap();
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let nodes = Api::<Node>::all(Client::try_from(config.unwrap()).unwrap());
        let has = |node: &Node| {
            let taints = node.spec.iter().filter_map(|spec| spec.taints.as_ref()).flatten();
            taints.into_iter().any(|taint| taint.key == TAINT)
        };
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        nodes.iter().filter(|node| has(node)).map(ResourceExt::name_any).collect()
    }

    /// Sets the taint of the worker group, and waits until this many Nodes have the one of the test.
    async fn taint(&self, taint: Option<Value>, count: usize) {
        self.change(tainted_workers(taint.as_ref())).await;
        let missing = || async {
            let found = self.tainted().await;
            if found.len() == count {
                String::new()
            } else {
                format!("{found:?} have the taint, not {count}")
            }
        };
        until(missing).await;
    }
}

/// Returns the workers of the topology with a taint.
fn tainted_workers(taint: Option<&Value>) -> Value {
    let mut group = json!({"class": "worker", "name": "md-0", "replicas": 1, "failureDomain": "az1"});
    if let Some(taint) = taint {
        group["taints"] = json!([taint]);
    }
    json!({"workers": {"machineDeployments": [group]}})
}

/// Returns the Machines that a plan replaces.
fn replaced(plan: &Value) -> BTreeSet<String> {
    let rollouts = plan["rollouts"].as_array().unwrap().iter();
    let machines = rollouts.flat_map(|it| it["machines"].as_array().unwrap());
    let replaced = machines.filter(|it| it["effect"] == "Replace");
    replaced.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_with_nodes_is_upgraded_by_two_minors_changes_its_class_and_taints_its_workers() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let scene = Scene::create(&world, NAMESPACE, "v1.32.0").await;
    until(|| scene.missing("v1.32.0")).await;

    let before = scene.names().await;
    let plan = scene.plan(json!({"version": "v1.34.0"})).await;
    assert_eq!(plans::texts(&plan["steps"], "version"), ["v1.33.0", "v1.34.0", "v1.34.0"], "{plan:#}");
    assert_eq!(plans::texts(&plan["objects"], "effect"), ["Rotate", "Change", "Rotate", "Change"]);
    assert_eq!(replaced(&plan), before, "{plan:#}");
    let [planes, workers] = scene.upgrade("v1.34.0").await;
    assert!(scene.names().await.is_disjoint(&before), "all are replaced");
    let list = |versions: &BTreeSet<String>| versions.iter().cloned().collect::<Vec<_>>();
    assert_eq!(list(&planes), ["v1.32.0", "v1.33.0", "v1.34.0"], "one minor at a time");
    assert_eq!(workers.first().map(String::as_str), Some("v1.32.0"));
    assert_eq!(workers.last().map(String::as_str), Some("v1.34.0"));

    let before = scene.names().await;
    scene.larger_class().await;
    let rebased = json!({"classRef": {"name": "large"}});
    let obstacles = || async { plans::list(&scene.plan(rebased.clone()).await["obstacles"]).join(", ") };
    until(obstacles).await;
    let plan = scene.plan(rebased.clone()).await;
    assert_eq!(replaced(&plan), before, "{plan:#}");
    scene.change(rebased).await;
    let replaced = || async {
        let left: Vec<String> = scene.names().await.intersection(&before).cloned().collect();
        if left.is_empty() { scene.missing("v1.34.0").await } else { format!("{left:?} are not replaced") }
    };
    until(replaced).await;
    assert_eq!(scene.flavors().await, BTreeSet::from([json!("m1.large").to_string()]));

    let before = scene.names().await;
    let taint = json!({"key": TAINT, "value": "a", "effect": "PreferNoSchedule", "propagation": "Always"});
    let plan = scene.plan(tainted_workers(Some(&taint))).await;
    assert_eq!((&plan["summary"]["inPlace"], &plan["summary"]["keep"]), (&json!(1), &json!(1)), "{plan:#}");
    scene.taint(Some(taint), 1).await;
    assert!(!scene.tainted().await[0].contains("control-plane"), "only the worker has it");
    scene.taint(None, 0).await;
    assert_eq!(scene.names().await, before, "taints replace no Machine");

    scene.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    until(|| left(&scene.client, NAMESPACE)).await;
    assert_eq!(world.counts(), empty, "the deleted cluster left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
