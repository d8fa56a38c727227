//! Rollouts of a control plane: each Machine is replaced, one at a time, and etcd never loses its quorum.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{KubeadmControlPlane, KubeadmControlPlaneStatus, Machine, OpenStackMachineTemplate};
use controllers_workload::Timing;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::{CrashPoint, EachEffect, Side, World, run_until_crash};
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

/// Interval of the looks at what must hold at each moment.
const INTERVAL: Duration = Duration::from_millis(50);

/// Name of the control plane and of its first template.
const NAME: &str = "blue-control-plane";

/// A cluster with a control plane that changes.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) hollow: HollowClusters,
    pub(crate) observer: Observer,
    namespace: String,
}

impl Scene {
    /// Creates a cluster with this number of control plane Machines and one worker.
    pub(crate) async fn create(namespace: &str, replicas: usize, edit: impl Fn(String) -> String) -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(Timing::faster(20));
        let documents = manifest(&world, namespace).replace(
            "replicas: 1\n  version: v1.33.0\n  kubeadm",
            &format!("replicas: {replicas}\n  version: v1.33.0\n  kubeadm"),
        );
        world.create(&edit(documents)).await.unwrap();
        let observer = Observer::new(&world, namespace);
        Self { world, hollow, observer, namespace: namespace.to_owned() }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin(), &self.namespace)
    }

    pub(crate) fn machine_api(&self) -> Api<Machine> {
        self.api()
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        let selector = ListParams::default().labels("cluster.x-k8s.io/control-plane");
        self.api::<Machine>().list(&selector).await.unwrap().items
    }

    pub(crate) async fn names(&self) -> BTreeSet<String> {
        self.machines().await.iter().map(ResourceExt::name_any).collect()
    }

    pub(crate) async fn control_plane(&self) -> KubeadmControlPlane {
        self.api().get(NAME).await.unwrap()
    }

    pub(crate) async fn change(&self, spec: Value) {
        let change = Patch::Merge(json!({"spec": spec}));
        let api = self.api::<KubeadmControlPlane>();
        api.patch(NAME, &PatchParams::default(), &change).await.unwrap();
    }

    /// Creates another template with this image.
    async fn template(&self, name: &str, image: &str) {
        let spec = json!({"template": {"spec": {
            "flavor": {"filter": {"name": "m1.medium"}}, "image": {"filter": {"name": image}}}}});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object: OpenStackMachineTemplate = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap();
    }

    /// Edits a template: another flavor.
    async fn edit(&self, name: &str, flavor: &str) {
        let spec = json!({"template": {"spec": {"flavor": {"filter": {"name": flavor}}}}});
        let api = self.api::<OpenStackMachineTemplate>();
        let change = Patch::Merge(json!({"spec": spec}));
        api.patch(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Returns what must never be, if it is so now: too many or too few Machines, two that go at the same time, or etcd
    /// without a quorum.
    async fn violation(&self, numbers: &RangeInclusive<usize>) -> Option<String> {
        let machines = self.machines().await;
        if !numbers.contains(&machines.len()) {
            return Some(format!("{} Machines", machines.len()));
        }
        let going: Vec<String> = machines
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_some())
            .map(ResourceExt::name_any)
            .collect();
        if going.len() > 1 {
            return Some(format!("{} go at the same time", going.join(", ")));
        }
        let members = self.hollow.etcd_members(*self.hollow.endpoints().first()?);
        let voters: Vec<_> = members.iter().filter(|member| !member.learner).collect();
        let alive = voters.iter().filter(|member| member.alive).count();
        (alive <= voters.len() / 2).then(|| format!("etcd has no quorum: {members:?}"))
    }

    /// Waits for a state. Panics at once if anything is as it must never be.
    pub(crate) async fn guarded(&self, numbers: RangeInclusive<usize>, reached: impl Future<Output = ()>) {
        let broken = async {
            loop {
                if let Some(broken) = self.violation(&numbers).await {
                    return broken;
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::select! {
            () = reached => {}
            broken = broken => panic!("{broken}"),
        }
    }

    /// Waits until none of these Machines is left, and the rollout is over.
    async fn until_replaced(&self, old: &BTreeSet<String>, replicas: usize) {
        let mut looks = Looks::begin();
        loop {
            let left: Vec<String> = self.names().await.intersection(old).cloned().collect();
            let control_plane = self.control_plane().await;
            let rolling = control_plane.condition("RollingOut").cloned();
            if left.is_empty() && rolling.as_ref().is_some_and(|it| it.reason == "NotRollingOut") {
                break;
            }
            let message = rolling.map(|it| it.message).unwrap_or_default();
            looks.again(&format!("the end of {}: {message}", left.join(", "))).await;
        }
        self.observer.until_available(replicas, 1).await;
        self.observer.until_nodes_are_ready(replicas + 1).await;
    }

    /// Checks that etcd has one voting member for each Machine.
    pub(crate) async fn assert_members(&self) {
        let members = self.hollow.etcd_members(self.hollow.endpoints()[0]);
        let nodes = self.machines().await.into_iter().map(|it| it.status.unwrap().node_ref.unwrap().name);
        let names: BTreeSet<String> = members.iter().map(|member| member.name.clone()).collect();
        assert_eq!(names, nodes.collect());
        assert!(members.iter().all(|member| member.alive && !member.learner), "{members:?}");
    }

    /// Waits until the control plane reports that all its Machines have a version. It may see the last deletion late.
    async fn until_reported(&self, version: &str, replicas: i32) -> KubeadmControlPlaneStatus {
        let mut looks = Looks::begin();
        loop {
            let status = self.control_plane().await.status.unwrap();
            let reported = (status.up_to_date_replicas, status.version.as_deref());
            if reported == (Some(replicas), Some(version)) {
                return status;
            }
            looks.again(&format!("the control plane reports {reported:?}")).await;
        }
    }

    pub(crate) async fn reasons(&self) -> BTreeSet<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        events.into_iter().filter_map(|event| event.reason).collect()
    }
}

/// Checks what a rollout to v1.34.0 leaves in the workload cluster.
async fn assert_upgraded(scene: &Scene) {
    let workload = scene.observer.workload().await;
    for machine in scene.machines().await {
        let kubelet = machine.status.unwrap().node_info.unwrap().kubelet_version;
        assert_eq!((machine.spec.version.as_deref(), kubelet.as_str()), (Some("v1.34.0"), "v1.34.0"));
    }
    let record: ConfigMap =
        Api::namespaced(workload.clone(), "kube-system").get("kubeadm-config").await.unwrap();
    let text = record.data.unwrap()["ClusterConfiguration"].clone();
    assert!(text.contains("kubernetesVersion: v1.34.0"), "{text}");
    assert!(text.contains("ControlPlaneKubeletLocalMode"), "{text}");
    assert!(text.contains("podSubnet: 192.168.0.0/16"), "others' settings stay: {text}");
    let bindings: Api<ClusterRoleBinding> = Api::all(workload.clone());
    bindings.get("kubeadm:apiserver-kubelet-client").await.unwrap();
    let mut looks = Looks::begin();
    loop {
        let proxy: DaemonSet =
            Api::namespaced(workload.clone(), "kube-system").get("kube-proxy").await.unwrap();
        let image = proxy.spec.unwrap().template.spec.unwrap().containers[0].image.clone().unwrap();
        if image.ends_with("/kube-proxy:v1.34.0") {
            break;
        }
        looks.again(&format!("kube-proxy has the image {image}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_an_upgrade_of_three_control_plane_machines_adds_one_before_each_goes() {
    let scene = Scene::create("surging", 3, |it| it).await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(3, 1).await;
    let (old, counts) = (scene.names().await, scene.world.counts());
    scene.template("new", "ubuntu-2204-kube-v1.34.0").await;
    let template = json!({"spec": {"infrastructureRef": {"name": "new"}}});
    scene.change(json!({"version": "v1.34.0", "machineTemplate": template})).await;
    scene.guarded(3..=4, scene.until_replaced(&old, 3)).await;
    assert_upgraded(&scene).await;
    scene.assert_members().await;
    assert_eq!(scene.world.counts(), counts, "the cloud has as much as before");
    let status = scene.until_reported("v1.34.0", 3).await;
    let old = status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
    assert!(old.iter().any(|it| it.kind == "MachinesSpecUpToDate" && it.status == "True"), "{old:?}");
    let reasons = scene.reasons().await;
    for reason in [
        "SuccessfulCreate",
        "SuccessfulDelete",
        "EtcdMemberRemoved",
        "EtcdLeadershipMoved",
        "WorkloadClusterPrepared",
    ] {
        assert!(reasons.contains(reason), "no Event {reason}: {reasons:?}");
    }
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_without_a_surge_each_machine_goes_before_its_replacement_comes() {
    let balanced = |documents: String| {
        documents.replace("apiServer: {}", "apiServer: {managedLoadBalancer: {enabled: true}}").replace(
            "replicas: 3\n  version: v1.33.0\n  kubeadm",
            "replicas: 3\n  rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}\n  version: \
             v1.33.0\n  kubeadm",
        )
    };
    let scene = Scene::create("without-surge", 3, balanced).await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(3, 1).await;
    let old = scene.names().await;
    scene.template("new", "ubuntu-2204-kube-v1.34.0").await;
    let template = json!({"spec": {"infrastructureRef": {"name": "new"}}});
    scene.change(json!({"version": "v1.34.0", "machineTemplate": template})).await;
    scene.guarded(2..=3, scene.until_replaced(&old, 3)).await;
    assert_upgraded(&scene).await;
    scene.assert_members().await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_another_template_a_setting_and_a_date_each_replace_the_only_machine() {
    let scene = Scene::create("causes", 1, |it| it).await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(1, 1).await;
    scene.template("new", "ubuntu-2204-kube-v1.33.0").await;
    let audit = json!({"apiServer": {"extraArgs": [{"name": "audit-log-maxage", "value": "7"}]}});
    let now = || Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string();
    for cause in ["template", "edit", "setting", "date"] {
        let old = scene.names().await;
        // A Machine of the same second would not be older than the date.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let change = match cause {
            "template" => json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": "new"}}}}),
            "edit" => {
                scene.edit("new", "m1.large").await;
                json!({})
            }
            "setting" => json!({"kubeadmConfigSpec": {"clusterConfiguration": audit}}),
            _ => json!({"rollout": {"after": now()}}),
        };
        scene.change(change).await;
        scene.guarded(1..=2, scene.until_replaced(&old, 1)).await;
        scene.assert_members().await;
    }
    let record: ConfigMap =
        Api::namespaced(scene.observer.workload().await, "kube-system").get("kubeadm-config").await.unwrap();
    assert!(record.data.unwrap()["ClusterConfiguration"].contains("audit-log-maxage"));
    // Labels and the number of Machines roll nothing.
    let last = scene.names().await;
    scene.change(json!({"machineTemplate": {"metadata": {"labels": {"room": "b"}}}})).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.names().await, last);
    term.cancel();
    running.join_all().await;
}

/// The Machine without a server blocked the control plane for good, until a person deleted it.
#[tokio::test(flavor = "multi_thread")]
async fn d5_a_corrected_template_replaces_a_machine_whose_server_could_not_be_made() {
    let scene = Scene::create("corrected", 1, |it| it).await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(1, 1).await;
    scene.edit(NAME, "m1.none").await;
    let mut looks = Looks::begin();
    let both = loop {
        let names = scene.names().await;
        if names.len() == 2 {
            break names;
        }
        looks.again(&format!("a second Machine beside {names:?}")).await;
    };
    scene.edit(NAME, "m1.large").await;
    scene.guarded(1..=2, scene.until_replaced(&both, 1)).await;
    scene.assert_members().await;
    term.cancel();
    running.join_all().await;
}

/// Effects of a rollout around which processes crash.
const EFFECTS: [&str; 4] = [
    "PATCH /api/v1/namespaces/kube-system/configmaps/kubeadm-config",
    "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/machines/blue-control-plane-",
    "/portforward",
];

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_rollout_survives_a_crash_of_the_controllers_around_each_of_its_effects() {
    let scene = Scene::create("interrupted", 1, |it| it).await;
    let effects = Arc::new(EachEffect::of_kinds(EFFECTS));
    {
        let term = CancellationToken::new();
        let running = tests_scenarios::run(&scene.world, &term);
        scene.observer.until_available(1, 1).await;
        term.cancel();
        running.join_all().await;
    }
    let old = scene.names().await;
    scene.template("new", "ubuntu-2204-kube-v1.34.0").await;
    let template = json!({"spec": {"infrastructureRef": {"name": "new"}}});
    scene.change(json!({"version": "v1.34.0", "machineTemplate": template})).await;
    let mut crashes = 0;
    loop {
        let crash_point = Arc::new(CrashPoint::at_each(&effects));
        let running = run_until_crash(&scene.world, &crash_point, &CancellationToken::new());
        let over = tokio::select! {
            () = crash_point.crashed() => false,
            () = scene.guarded(1..=2, scene.until_replaced(&old, 1)) => true,
        };
        drop(running);
        if over {
            break;
        }
        crashes += 1;
    }
    scene.assert_members().await;
    let both = [Side::Before, Side::After];
    let crashed = effects.crashes();
    for part in EFFECTS {
        let around = crashed.iter().any(|(effect, sides)| effect.contains(part) && *sides == both);
        assert!(around, "no process crashed around {part}: {:?}", crashed.keys());
    }
    assert!(crashes >= 2 * EFFECTS.len(), "{crashes} crashes");
}
