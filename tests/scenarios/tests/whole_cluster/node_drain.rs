//! Drain of a worker and of a control plane Machine as upstream's `node_drain` sees it: rules give the order, budgets and
//! volumes hold it up, and the condition says for what it waits. Before it, the changes in place of upstream's
//! `kcp_md_rollout`.

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment, MachineDrainRule};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

const NAMESPACE: &str = "drained";

/// Prefix of the keys of the taints.
const TAINT: &str = "test.capstan.dev/";

/// Label of control plane Machines.
const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Finalizer that keeps an evicted pod until the test removes it, as a pod does that ends slowly.
const SLOW: &str = "test.capstan.dev/slow";

struct Scene {
    client: Client,
    workload: Client,
}

impl Scene {
    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.workload.clone())
    }

    /// Returns the names of a Machine with these labels and of its Node.
    async fn machine(&self, labels: &str) -> (String, String) {
        let machines = self.api::<Machine>().list(&ListParams::default().labels(labels)).await.unwrap();
        let machine = machines.items.first().unwrap();
        let node = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
        (machine.name_any(), node.unwrap().name.clone())
    }

    async fn worker(&self) -> (String, String) {
        self.machine(&format!("!{CONTROL_PLANE}")).await
    }

    /// Creates a pod on a node that runs and is Ready.
    async fn run(&self, node: &str, name: &str) {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}, "finalizers": [SLOW]},
            "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "a"}]},
        });
        create(&self.pods(), pod).await;
        self.say(name, "Running").await;
    }

    /// Sets the status of a pod, as its kubelet does.
    async fn say(&self, name: &str, phase: &str) {
        let ready = if phase == "Running" { "True" } else { "False" };
        let status = json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]});
        let change = Patch::Merge(json!({ "status": status }));
        self.pods().patch_status(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Creates a rule for the pods of an application on Machines with this label.
    async fn rule(&self, app: &str, label: (&str, &str), drain: &Value) {
        let pods = json!([{"selector": {"matchLabels": {"app": app}}}]);
        let machines = json!([{"selector": {"matchLabels": {label.0: label.1}}}]);
        let spec = json!({"drain": drain, "machines": machines, "pods": pods});
        create(&self.api::<MachineDrainRule>(), json!({"metadata": {"name": app}, "spec": spec})).await;
    }

    /// Returns the pods that are evicted and have not ended.
    async fn evicted(&self) -> Vec<String> {
        let mut pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_some());
        pods.iter().map(ResourceExt::name_any).collect()
    }

    /// Lets an evicted pod end.
    async fn end(&self, name: &str) {
        let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        self.pods().patch(name, &PatchParams::default(), &change).await.unwrap();
        let _ = self.pods().delete(name, &DeleteParams::default().grace_period(0)).await;
    }

    /// Changes a Machine, so that its drain looks at the pods at once. Otherwise it does so every 20 s.
    async fn look(&self, machine: &str, value: &str) -> Machine {
        let change = Patch::Merge(json!({"metadata": {"annotations": {"test.capstan.dev/look": value}}}));
        self.api().patch(machine, &PatchParams::default(), &change).await.unwrap()
    }

    /// Waits until the condition `Deleting` of a Machine has this reason and these texts, and exactly these pods are
    /// evicted.
    async fn until(&self, machine: &str, reason: &str, texts: &[&str], evicted: &[&str]) {
        let mut looks = Looks::begin();
        for count in 0.. {
            let machine = self.look(machine, &count.to_string()).await;
            let found = machine.condition("Deleting").cloned();
            let pods = self.evicted().await;
            let told = found
                .as_ref()
                .is_some_and(|it| it.reason == reason && texts.iter().all(|text| it.message.contains(text)));
            if told && pods == evicted {
                return;
            }
            let message = found.map(|it| format!("{} {}", it.reason, it.message)).unwrap_or_default();
            looks
                .again(&format!("{reason} with {texts:?} and {evicted:?}, not {message} and {pods:?}"))
                .await;
        }
    }

    /// Waits until each Node has exactly these taints of the test.
    async fn until_tainted(&self, expected: &[&str]) {
        let mut looks = Looks::begin();
        loop {
            let nodes = Api::<Node>::all(self.workload.clone()).list(&ListParams::default()).await.unwrap();
            let of = |node: &Node| -> Vec<String> {
                let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
                taints.iter().filter_map(|taint| taint.key.strip_prefix(TAINT)).map(str::to_owned).collect()
            };
            let taints: Vec<Vec<String>> = nodes.iter().map(of).collect();
            if taints.iter().all(|it| it == expected) {
                return;
            }
            looks.again(&format!("taints {expected:?} on each Node: {taints:?}")).await;
        }
    }

    /// Sets the taints of the control plane and of the workers.
    async fn taint(&self, taints: &Value) {
        let spec = Patch::Merge(json!({"spec": {"machineTemplate": {"spec": {"taints": taints}}}}));
        let api = self.api::<KubeadmControlPlane>();
        api.patch("blue-control-plane", &PatchParams::default(), &spec).await.unwrap();
        let spec = Patch::Merge(json!({"spec": {"template": {"spec": {"taints": taints}}}}));
        let api = self.api::<MachineDeployment>();
        api.patch("blue-md-0", &PatchParams::default(), &spec).await.unwrap();
    }

    /// Removes the taints of the test from a Node, as an add-on does that has begun to work there.
    async fn untaint(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.workload.clone());
        let mut taints = nodes.get(name).await.unwrap().spec.unwrap_or_default().taints.unwrap_or_default();
        taints.retain(|taint| !taint.key.starts_with(TAINT));
        let change = Patch::Merge(json!({"spec": {"taints": taints}}));
        nodes.patch(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Returns the uids of all Machines.
    async fn machines(&self) -> Vec<Option<String>> {
        let machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap();
        machines.iter().map(ResourceExt::uid).collect()
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn taint(name: &str, propagation: &str) -> Value {
    let key = format!("{TAINT}{name}");
    json!({"key": key, "value": "a", "effect": "PreferNoSchedule", "propagation": propagation})
}

/// Taints that are kept, and those for new Nodes only, come and go on the Nodes of both owners without new Machines.
async fn taints_change_in_place(scene: &Scene) {
    let before = scene.machines().await;
    scene.taint(&json!([taint("kept", "Always"), taint("new", "OnInitialization")])).await;
    scene.until_tainted(&["kept"]).await;
    scene.taint(&json!([taint("other", "Always")])).await;
    scene.until_tainted(&["other"]).await;
    scene.taint(&Value::Null).await;
    scene.until_tainted(&[]).await;
    assert_eq!(scene.machines().await, before, "no Machine is replaced");
}

/// A taint for new Nodes is on the Node of a new Machine, and does not come back there once it is removed.
async fn new_nodes_get_their_taints_once(scene: &Scene) {
    let (_, node) = scene.worker().await;
    let has = |node: Node| {
        let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
        taints.iter().any(|taint| taint.key == format!("{TAINT}first"))
    };
    let nodes: Api<Node> = Api::all(scene.workload.clone());
    let mut looks = Looks::begin();
    while !has(nodes.get(&node).await.unwrap()) {
        looks.again(&format!("the taint for new Nodes on {node}")).await;
    }
    scene.untaint(&node).await;
    scene.taint(&json!([taint("first", "OnInitialization"), taint("kept", "Always")])).await;
    scene.until_tainted(&["kept"]).await;
}

/// Rules hold for the control plane, too: a rollout waits for a pod that has to complete.
async fn the_control_plane_is_drained_by_rules(scene: &Scene, observer: &Observer) {
    let (machine, node) = scene.machine(CONTROL_PLANE).await;
    scene.rule("plane", (CONTROL_PLANE, ""), &json!({"behavior": "WaitCompleted"})).await;
    scene.run(&node, "plane").await;
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string();
    let change = Patch::Merge(json!({"spec": {"rollout": {"after": now}}}));
    let api = scene.api::<KubeadmControlPlane>();
    api.patch("blue-control-plane", &PatchParams::default(), &change).await.unwrap();
    scene.until(&machine, "DrainingNode", &["Pod default/plane: waiting for completion"], &[]).await;
    scene.say("plane", "Succeeded").await;
    scene.look(&machine, "completed").await;
    observer.until_deleted(Some(&machine)).await;
    observer.until_available(1, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_drain_follows_rules_budgets_and_volumes_kcp_md_rollout_sets_taints_md_scale_deletes() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    let scene = Scene { client: world.admin(), workload: observer.workload().await };
    taints_change_in_place(&scene).await;
    scene.taint(&json!([taint("first", "OnInitialization")])).await;

    let (machine, node) = scene.worker().await;
    let workers = ("cluster.x-k8s.io/deployment-name", "blue-md-0");
    scene.rule("early", workers, &json!({"behavior": "Drain", "order": 1})).await;
    scene.rule("late", workers, &json!({"behavior": "Drain", "order": 2})).await;
    scene.rule("stays", workers, &json!({"behavior": "Skip"})).await;
    scene.rule("job", workers, &json!({"behavior": "WaitCompleted"})).await;
    for name in ["early", "late", "stays", "job"] {
        scene.run(&node, name).await;
    }
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(scene.workload.clone());
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "late"}}});
    create(&budgets, json!({"metadata": {"name": "late"}, "spec": spec})).await;
    let attachments: Api<VolumeAttachment> = Api::all(scene.workload.clone());
    let spec = json!({"attacher": "cinder", "nodeName": node, "source": {"persistentVolumeName": "disk"}});
    create(&attachments, json!({"metadata": {"name": "disk"}, "spec": spec, "status": {"attached": true}}))
        .await;

    scene.api::<Machine>().delete(&machine, &DeleteParams::default()).await.unwrap();
    let drained = "DrainingNode";
    let first = ["Pod default/job: waiting for completion", "will be evicted: default/early, default/late"];
    scene.until(&machine, drained, &first, &[]).await;
    scene.say("job", "Succeeded").await;
    let second = ["Pod default/early: deletionTimestamp set", "will be evicted: default/late"];
    scene.until(&machine, drained, &second, &["early"]).await;
    scene.end("early").await;
    scene.until(&machine, drained, &["Pod default/late: cannot evict pod as it would violate"], &[]).await;
    budgets.delete("late", &DeleteParams::default()).await.unwrap();
    scene.until(&machine, drained, &["Pod default/late: deletionTimestamp set"], &["late"]).await;
    scene.end("late").await;
    let reason = "WaitingForVolumeDetach";
    scene.until(&machine, reason, &["persistentVolumeName not matching a PersistentVolume: disk"], &[]).await;
    assert!(scene.pods().get("stays").await.unwrap().metadata.deletion_timestamp.is_none());

    // The volume stays attached. A limit of the MachineDeployment reaches the Machine that is being deleted.
    let limit = json!({"spec": {"template": {"spec": {"deletion": {"nodeVolumeDetachTimeoutSeconds": 1}}}}});
    let deployments = scene.api::<MachineDeployment>();
    deployments.patch("blue-md-0", &PatchParams::default(), &Patch::Merge(&limit)).await.unwrap();
    observer.until_deleted(Some(&machine)).await;
    observer.until_available(1, 1).await;
    new_nodes_get_their_taints_once(&scene).await;

    deployments.delete("blue-md-0", &DeleteParams::foreground()).await.unwrap();
    let mut looks = Looks::begin();
    while deployments.get_opt("blue-md-0").await.unwrap().is_some() {
        looks.again("the end of the MachineDeployment after its Machine").await;
    }
    observer.until_available(1, 0).await;
    the_control_plane_is_drained_by_rules(&scene, &observer).await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
