//! Drain of a worker as upstream's `node_drain` sees it: rules give the order, budgets and volumes hold it up, and the
//! condition says for what it waits. Before it, the changes in place of upstream's `kcp_md_rollout`.

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment, MachineDrainRule};
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

    async fn worker(&self) -> Machine {
        let worker = ListParams::default().labels("!cluster.x-k8s.io/control-plane");
        self.api::<Machine>().list(&worker).await.unwrap().items.remove(0)
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

    async fn rule(&self, app: &str, drain: &Value) {
        let pods = json!([{"selector": {"matchLabels": {"app": app}}}]);
        let machines =
            json!([{"selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "blue-md-0"}}}]);
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

    /// Waits until the condition `Deleting` of a Machine has this reason and these texts, and exactly these pods are
    /// evicted. A drain looks at the pods every 20 s, and at once after a change of its Machine: the test makes one.
    async fn until(&self, machine: &str, reason: &str, texts: &[&str], evicted: &[&str]) {
        let mut looks = Looks::begin();
        for count in 0.. {
            let change = Patch::Merge(
                json!({"metadata": {"annotations": {"test.capstan.dev/look": count.to_string()}}}),
            );
            let machine =
                self.api::<Machine>().patch(machine, &PatchParams::default(), &change).await.unwrap();
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
                let own = taints.into_iter().filter(|taint| taint.key.starts_with("test.capstan.dev/"));
                own.map(|taint| taint.key.trim_start_matches("test.capstan.dev/").to_owned()).collect()
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

/// Taints that are kept, and those for new Nodes only, come and go on the Nodes of both owners without new Machines.
async fn taints_change_in_place(scene: &Scene) {
    let before = scene.machines().await;
    let taint = |name: &str, propagation: &str| {
        let key = format!("test.capstan.dev/{name}");
        json!({"key": key, "value": "a", "effect": "PreferNoSchedule", "propagation": propagation})
    };
    scene.taint(&json!([taint("kept", "Always"), taint("new", "OnInitialization")])).await;
    scene.until_tainted(&["kept"]).await;
    scene.taint(&json!([taint("other", "Always")])).await;
    scene.until_tainted(&["other"]).await;
    scene.taint(&Value::Null).await;
    scene.until_tainted(&[]).await;
    assert_eq!(scene.machines().await, before, "no Machine is replaced");
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

    let worker = scene.worker().await;
    let (machine, node) = (worker.name_any(), worker.status.unwrap().node_ref.unwrap().name);
    scene.rule("early", &json!({"behavior": "Drain", "order": 1})).await;
    scene.rule("late", &json!({"behavior": "Drain", "order": 2})).await;
    scene.rule("stays", &json!({"behavior": "Skip"})).await;
    scene.rule("job", &json!({"behavior": "WaitCompleted"})).await;
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

    deployments.delete("blue-md-0", &DeleteParams::foreground()).await.unwrap();
    let mut looks = Looks::begin();
    while deployments.get_opt("blue-md-0").await.unwrap().is_some() {
        looks.again("the end of the MachineDeployment after its Machine").await;
    }
    observer.until_available(1, 0).await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
