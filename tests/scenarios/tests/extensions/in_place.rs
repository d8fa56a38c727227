//! Updates in place by an extension server, of workers and of control plane Machines with nodes.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Mutex;

use apiserver_types::{
    Cluster, ExtensionConfig, KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane, Machine,
    MachineDeployment, MachineSet, OpenStackMachine, OpenStackMachineTemplate,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_extensions::Hook;
use controllers_workload::Timing;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::{ExtensionCall, ExtensionServer, Reply, World};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::life_testbed::manifest;
use crate::runtimesdk::until;

/// Cluster with one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../whole_cluster/cluster.yaml");

const NAMESPACE: &str = "in-place";

/// Names of the handlers.
const SETS: &str = "sets";
const MACHINES: &str = "machines";
const UPDATE: &str = "update";

/// Marks of a Machine that is being updated.
const UPDATING: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
const PENDING_ACKNOWLEDGE: &str = "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Flavor and file after the change.
const FLAVOR: &str = "m1.large";
const FILE: &str = "/etc/changed";

/// Machines that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    ControlPlane,
    Workers,
}

/// Cluster with nodes, and an extension server that makes all changes in place.
struct Scene {
    world: World,
    hollow: HollowClusters,
    server: ExtensionServer,
    term: CancellationToken,
    running: JoinSet<()>,
}

impl Scene {
    /// Creates the cluster, and waits until it has these Machines. `edit` changes its manifest.
    async fn start(control_plane: usize, workers: usize, edit: impl Fn(&str) -> String) -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(Timing::faster(20));
        let server = ExtensionServer::start().await.unwrap();
        let templates = ["infrastructureMachineTemplate", "bootstrapConfigTemplate"];
        server.handle(Hook::CanUpdateMachineSet, SETS, &json!({}), move |it| all_changes(it, templates));
        let objects = ["infrastructureMachine", "bootstrapConfig"];
        server.handle(Hook::CanUpdateMachine, MACHINES, &json!({}), move |it| all_changes(it, objects));
        server.handle(Hook::UpdateMachine, UPDATE, &json!({}), in_two_steps());
        let term = CancellationToken::new();
        let running = tests_scenarios::run(&world, &term);
        let config: ExtensionConfig = serde_json::from_value(server.config("ext")).unwrap();
        let configs: Api<ExtensionConfig> = Api::all(world.admin());
        configs.create(&PostParams::default(), &config).await.unwrap();
        let undiscovered = || async {
            let status = configs.get("ext").await.unwrap().status.unwrap_or_default();
            let count = status.handlers.unwrap_or_default().len();
            if count == 3 { String::new() } else { format!("{count} handlers") }
        };
        until(undiscovered).await;
        world.create(&edit(&manifest(&world, MANIFEST, NAMESPACE, ""))).await.unwrap();
        let scene = Self { world, hollow, server, term, running };
        until(|| scene.unavailable(control_plane, workers)).await;
        scene
    }

    async fn end(self) {
        self.term.cancel();
        self.running.join_all().await;
        drop(self.hollow);
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    async fn machines(&self, role: Role) -> Vec<Machine> {
        let all = self.api::<Machine>().list(&ListParams::default()).await.unwrap().items;
        let of = |it: &Machine| match it.labels().contains_key("cluster.x-k8s.io/control-plane") {
            true => Role::ControlPlane,
            false => Role::Workers,
        };
        all.into_iter().filter(|it| of(it) == role).collect()
    }

    /// Returns name, uid and server of each Machine.
    async fn identities(&self, role: Role) -> BTreeSet<[String; 3]> {
        let of = |it: Machine| [it.name_any(), it.uid().unwrap(), it.spec.provider_id.unwrap_or_default()];
        self.machines(role).await.into_iter().map(of).collect()
    }

    /// Describes what keeps the cluster from having these Machines, all available.
    async fn unavailable(&self, control_plane: usize, workers: usize) -> String {
        let is_available = |it: &&Machine| holds(it, "Available");
        let mut counts = Vec::new();
        for role in [Role::ControlPlane, Role::Workers] {
            let machines = self.machines(role).await;
            counts.push((machines.len(), machines.iter().filter(is_available).count()));
        }
        let cluster = self.api::<Cluster>().get("blue").await.unwrap();
        let is_whole = cluster.condition("Available").is_some_and(|it| it.holds());
        let expected = [(control_plane, control_plane), (workers, workers)];
        if is_whole && counts == expected { String::new() } else { format!("{counts:?}") }
    }

    /// Copies a template, with these other fields of the objects that are made from it.
    async fn copy<K>(&self, from: &str, to: &str, fields: &Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api = self.api::<K>();
        let mut object = serde_json::to_value(api.get(from).await.unwrap()).unwrap();
        object["metadata"] = json!({"name": to});
        for (field, value) in fields.as_object().unwrap() {
            object["spec"]["template"]["spec"][field] = value.clone();
        }
        let object: K = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Gives the MachineDeployment templates with another flavor and another file.
    async fn change_workers(&self) {
        let (from, to) = ("blue-md-0", "blue-md-1");
        self.copy::<OpenStackMachineTemplate>(from, to, &flavor()).await;
        self.copy::<KubeadmConfigTemplate>(from, to, &file()).await;
        let references = json!({"bootstrap": {"configRef": {"name": to}}, "infrastructureRef": {"name": to}});
        let change = Patch::Merge(json!({"spec": {"template": {"spec": references}}}));
        let api = self.api::<MachineDeployment>();
        api.patch(from, &PatchParams::default(), &change).await.unwrap();
    }

    /// Gives the control plane another flavor and another file.
    async fn change_control_plane(&self) {
        let (from, to) = ("blue-control-plane", "blue-control-plane-1");
        self.copy::<OpenStackMachineTemplate>(from, to, &flavor()).await;
        let template = json!({"spec": {"infrastructureRef": {"name": to}}});
        let change =
            Patch::Merge(json!({"spec": {"machineTemplate": template, "kubeadmConfigSpec": file()}}));
        let api = self.api::<KubeadmControlPlane>();
        api.patch(from, &PatchParams::default(), &change).await.unwrap();
    }

    /// Describes what keeps all Machines from having the change. At most one may be in an update.
    async fn unchanged(&self, role: Role) -> String {
        let machines = self.machines(role).await;
        let updating: Vec<String> =
            machines.iter().filter(|it| it.annotations().contains_key(UPDATING)).map(shown).collect();
        assert!(updating.len() <= 1, "several Machines are updated: {updating:#?}");
        let mut missing = Vec::new();
        for machine in &machines {
            let marks = [UPDATING, PENDING_ACKNOWLEDGE, PENDING_HOOKS];
            let is_marked = marks.iter().any(|mark| machine.annotations().contains_key(*mark));
            let is_good = ["UpToDate", "Available"].iter().all(|kind| holds(machine, kind));
            if is_marked || !is_good || !self.has_change(machine).await {
                missing.push(shown(machine));
            }
        }
        missing.join("\n")
    }

    /// Reports whether the objects of a Machine have the change.
    async fn has_change(&self, machine: &Machine) -> bool {
        let server = &machine.spec.infrastructure_ref.name;
        let server = json!(self.api::<OpenStackMachine>().get_opt(server).await.unwrap());
        let config = &machine.spec.bootstrap.config_ref.as_ref().unwrap().name;
        let config = json!(self.api::<KubeadmConfig>().get_opt(config).await.unwrap());
        let files = config.pointer("/spec/files").map(Value::to_string).unwrap_or_default();
        server.pointer("/spec/flavor/filter/name") == Some(&json!(FLAVOR)) && files.contains(FILE)
    }

    /// Returns the message of the condition `RollingOut` of the workers.
    async fn rollout_of_workers(&self) -> String {
        let deployment = self.api::<MachineDeployment>().get("blue-md-0").await.unwrap();
        deployment.condition("RollingOut").map(|it| it.message.clone()).unwrap_or_default()
    }

    async fn reasons(&self) -> BTreeSet<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        events.into_iter().filter_map(|event| event.reason).collect()
    }

    fn updates(&self) -> usize {
        self.server.calls(Hook::UpdateMachine, UPDATE).len()
    }
}

/// Changes a manifest: two workers, which are replaced or updated one after the other.
fn two_workers(manifest: &str) -> String {
    let limits = "{maxSurge: 0, maxUnavailable: 1}";
    let rollout = format!("rollout: {{strategy: {{type: RollingUpdate, rollingUpdate: {limits}}}}}");
    let two = format!("replicas: 2\n  {rollout}\n  selector:");
    manifest.replace("replicas: 1\n  selector:", &two)
}

fn holds(machine: &Machine, kind: &str) -> bool {
    machine.condition(kind).is_some_and(|it| it.holds())
}

/// Returns name, annotations and conditions of a Machine.
fn shown(machine: &Machine) -> String {
    let conditions = machine.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    let lines = conditions.iter().map(|it| format!("\n  {} {:?} {}", it.kind, it.status, it.message));
    format!("{} {:?}{}", machine.name_any(), machine.annotations(), lines.collect::<String>())
}

fn flavor() -> Value {
    json!({"flavor": {"filter": {"name": FLAVOR}}})
}

fn file() -> Value {
    json!({"files": [{"path": FILE, "content": "new"}]})
}

/// Returns the answer of a server that makes all changes of these objects.
fn all_changes(request: &Value, objects: [&str; 2]) -> Reply {
    let mut answer = json!({"status": "Success"});
    for object in objects {
        let patch = json!({"spec": request["desired"][object]["spec"]});
        let patch = STANDARD.encode(patch.to_string());
        answer[format!("{object}Patch")] = json!({"patchType": "JSONMergePatch", "patch": patch});
    }
    Reply::Answer(answer)
}

/// Returns the answers of a server that has to be called twice for each Machine.
fn in_two_steps() -> impl Fn(&Value) -> Reply + Send + Sync + 'static {
    let begun: Mutex<BTreeSet<String>> = Mutex::default();
    move |request| {
        let name = request["desired"]["machine"]["metadata"]["name"].as_str().unwrap().to_owned();
        if begun.lock().unwrap().insert(name) { Reply::retry(1, "half done") } else { Reply::success() }
    }
}

/// Returns what keeps the failure of the server from being shown by a Machine.
fn unreported(machines: &[Machine]) -> String {
    let is_reported = |machine: &Machine, kind: &str, reason: &str| {
        let condition = machine.condition(kind);
        condition.is_some_and(|it| it.reason == reason && it.message.contains("no disk"))
    };
    let shows = |it: &Machine| {
        is_reported(it, "Updating", "InPlaceUpdateFailed") && is_reported(it, "UpToDate", "Updating")
    };
    if machines.iter().any(shows) {
        return String::new();
    }
    machines.iter().map(shown).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_in_place_update_keeps_workers_and_servers_and_a_failure_deletes_nothing() {
    let scene = Scene::start(1, 2, two_workers).await;
    let before = scene.identities(Role::Workers).await;
    scene.server.answer(Hook::UpdateMachine, UPDATE, |_| Reply::failure("no disk"));
    scene.change_workers().await;
    until(|| async { unreported(&scene.machines(Role::Workers).await) }).await;
    // The server is called again, and nothing else happens in between.
    let calls = scene.updates();
    let not_again = || async {
        let count = scene.updates();
        if count > calls + 1 { String::new() } else { format!("{count} calls") }
    };
    until(not_again).await;
    assert_ne!(scene.unchanged(Role::Workers).await, "");
    assert_eq!(scene.identities(Role::Workers).await, before);
    scene.server.answer(Hook::UpdateMachine, UPDATE, in_two_steps());
    until(|| scene.unchanged(Role::Workers)).await;
    let sets = || async {
        let count = scene.api::<MachineSet>().list(&ListParams::default()).await.unwrap().items.len();
        if count == 1 { String::new() } else { format!("{count} MachineSets") }
    };
    until(sets).await;
    until(|| scene.rollout_of_workers()).await;
    assert_eq!(scene.identities(Role::Workers).await, before, "the same Machines and servers");
    let reasons = scene.reasons().await;
    for reason in ["SuccessfulMove", "FailedInPlaceUpdate", "SuccessfulInPlaceUpdate"] {
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_in_place_update_that_the_server_cannot_make_replaces_the_workers() {
    let scene = Scene::start(1, 2, two_workers).await;
    let before = scene.identities(Role::Workers).await;
    scene.server.answer(Hook::CanUpdateMachineSet, SETS, |_| Reply::success());
    scene.change_workers().await;
    let expected = "Not made in place: OpenStackMachineTemplate blue-md-1 spec.template.spec.flavor";
    let unexplained = || async {
        let message = scene.rollout_of_workers().await;
        if message.contains(expected) { String::new() } else { format!("RollingOut: {message}") }
    };
    until(unexplained).await;
    until(|| scene.unchanged(Role::Workers)).await;
    until(|| scene.unavailable(1, 2)).await;
    assert!(scene.identities(Role::Workers).await.is_disjoint(&before), "all Machines are others");
    assert_eq!(scene.updates(), 0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_in_place_update_of_a_control_plane_goes_from_machine_to_machine_and_keeps_them() {
    let rollout = "rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}";
    let three = format!("replicas: 3\n  {rollout}\n  version: v1.33.0\n  kubeadm");
    let one = "replicas: 1\n  version: v1.33.0\n  kubeadm";
    let scene = Scene::start(3, 1, |text| text.replace(one, &three)).await;
    let before = scene.identities(Role::ControlPlane).await;
    scene.change_control_plane().await;
    until(|| scene.unchanged(Role::ControlPlane)).await;
    until(|| scene.unavailable(3, 1)).await;
    assert_eq!(scene.identities(Role::ControlPlane).await, before, "the same Machines and servers");
    let questions = scene.server.calls(Hook::CanUpdateMachine, MACHINES);
    let name = |call: &ExtensionCall| call.message["current"]["machine"]["metadata"]["name"].to_string();
    let names: BTreeSet<String> = questions.iter().map(name).collect();
    assert_eq!(names.len(), 3, "each Machine is judged for itself: {names:?}");
    assert!(scene.updates() >= 6, "each update has two calls");
    let members = scene.hollow.etcd_members(scene.hollow.endpoints()[0]);
    assert_eq!(members.iter().filter(|it| it.alive && !it.learner).count(), 3, "{members:?}");
    scene.end().await;
}
