//! Test of a control plane from its first Machine to its deletion, over a workload cluster that the test answers for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver_types::{Cluster, DESCRIPTORS, KubeadmConfig, KubeadmControlPlane, Machine, OpenStackMachine};
use async_trait::async_trait;
use controllers_infrastructure_openstack::OpenStackConnector;
use controllers_reconcilers::kubeadm_control_plane::{
    CONTROLLER, EtcdConnector, KubeadmControlPlaneReconciler,
};
use controllers_runtime::{ApiSecrets, ControllerContext, Queues, Recorder, ServedKind, ServerLists};
use controllers_workload::etcd::{Alarm, Etcd, EtcdCredentials, Member};
use controllers_workload::{WorkloadClusters, WorkloadConnector, WorkloadError};
use http::{Request, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "control-plane";

const MANIFEST: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: control-plane}
---
apiVersion: v1
kind: Secret
metadata: {name: c-etcd, namespace: control-plane}
stringData: {tls.crt: of the user}
---
apiVersion: v1
kind: Secret
metadata: {name: c-apiserver-etcd-client, namespace: control-plane}
stringData: {tls.crt: of the user, tls.key: of the user}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackMachineTemplate
metadata: {name: t, namespace: control-plane}
spec:
  template:
    spec:
      flavor: {filter: {name: m1.small}}
      image: {filter: {name: ubuntu-2204-kube-v1.33.0}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: kcp, namespace: control-plane}
spec:
  version: v1.33.0
  replicas: 1
  kubeadmConfigSpec:
    clusterConfiguration:
      etcd:
        external: {endpoints: ['https://192.0.2.1:2379'], caFile: /ca, certFile: /cert, keyFile: /key}
    initConfiguration: {nodeRegistration: {taints: []}}
    joinConfiguration: {nodeRegistration: {taints: []}}
  machineTemplate:
    metadata: {labels: {team: a}}
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachineTemplate, name: t}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: control-plane}
spec:
  controlPlaneEndpoint: {host: 192.0.2.9, port: 6443}
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: kcp}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackCluster, name: c}
";

/// Workload cluster with Nodes `node-0` to `node-2`, whose static pods run.
#[derive(Debug)]
struct Workload;

#[async_trait]
impl WorkloadConnector for Workload {
    async fn client(&self, _kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        Ok(Client::new(tower::service_fn(respond), "default"))
    }
}

async fn respond(request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
    let path = request.uri().path();
    if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        return std::future::pending().await;
    }
    let node = |index: usize| {
        json!({"metadata": {
            "name": format!("node-{index}"), "labels": {"node-role.kubernetes.io/control-plane": ""},
        }, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let nodes: Vec<Value> = (0..3).map(node).collect();
    let name = path.rsplit('/').next().unwrap_or_default();
    let body = match path {
        "/" => json!({"paths": []}),
        "/api/v1/nodes" => {
            json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": nodes})
        }
        _ if path.contains("/configmaps/") => {
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
        }
        _ if path.contains("/pods/") => json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
        _ => return Ok(Response::builder().status(404).body(Body::empty()).unwrap()),
    };
    Ok(Response::new(Body::from(serde_json::to_vec(&body).unwrap())))
}

/// Etcd with the members that the test gives it. The first is the leader.
#[derive(Debug, Clone, Default)]
struct Members(Arc<Mutex<Vec<Member>>>);

impl Members {
    fn add(&self, name: &str) {
        let mut members = self.0.lock().unwrap();
        if !members.iter().any(|member| member.name == name) {
            let id = u64::try_from(members.len()).unwrap() + 1;
            members.push(Member { id, name: name.to_owned(), ..Member::default() });
        }
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|member| member.name.clone()).collect()
    }
}

impl EtcdConnector for Members {
    fn connect(
        &self,
        _: Client,
        _: Vec<String>,
        _: &EtcdCredentials,
    ) -> Result<Arc<dyn Etcd>, WorkloadError> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Etcd for Members {
    async fn members(&self) -> Result<Vec<Member>, WorkloadError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn alarms(&self) -> Result<Vec<Alarm>, WorkloadError> {
        Ok(Vec::new())
    }

    async fn leader(&self) -> Result<u64, WorkloadError> {
        Ok(self.0.lock().unwrap()[0].id)
    }

    async fn move_leader(&self, to: u64) -> Result<(), WorkloadError> {
        let mut members = self.0.lock().unwrap();
        let at = members.iter().position(|member| member.id == to).unwrap();
        members.swap(0, at);
        Ok(())
    }

    async fn remove_member(&self, id: u64) -> Result<(), WorkloadError> {
        let mut members = self.0.lock().unwrap();
        assert_ne!(members[0].id, id, "the leader must not leave");
        members.retain(|member| member.id != id);
        Ok(())
    }
}

/// One process with this controller, and its workload connections.
struct Process {
    client: Client,
    reconciler: KubeadmControlPlaneReconciler,
    members: Members,
    _running: JoinSet<()>,
}

impl Process {
    fn start(world: &World) -> Self {
        let client = world.admin();
        let workloads = Arc::new(WorkloadClusters::new(Arc::new(Workload)));
        let kinds: Vec<ServedKind> = DESCRIPTORS
            .iter()
            .map(|it| ServedKind {
                resource: ApiResource {
                    group: it.group.to_owned(),
                    version: it.version.to_owned(),
                    api_version: format!("{}/{}", it.group, it.version),
                    kind: it.kind.to_owned(),
                    plural: it.plural.to_owned(),
                },
                namespaced: it.namespaced,
                versions: Vec::new(),
            })
            .collect();
        let context = ControllerContext {
            connector: Arc::new(OpenStackConnector::new()),
            secrets: Arc::new(ApiSecrets(client.clone())),
            servers: Arc::new(ServerLists::default()),
            workloads: Arc::clone(&workloads),
            events: Recorder::new(client.clone(), CONTROLLER.identity),
            queues: Queues::default(),
            kinds: kinds.into(),
            client: client.clone(),
        };
        let mut running = JoinSet::new();
        running.spawn(async move { workloads.run(CancellationToken::new()).await });
        let members = Members::default();
        let reconciler = KubeadmControlPlaneReconciler::with_etcd(context, Arc::new(members.clone()));
        Self { client, reconciler, members, _running: running }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Makes passes until there is nothing left to do at once.
    async fn settle(&self) -> KubeadmControlPlane {
        for _ in 0..12 {
            let Some(object) = self.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap() else { break };
            self.reconciler.reconcile(&object).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap().unwrap_or_default()
    }

    async fn machines(&self) -> Vec<Machine> {
        let mut machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap().items;
        machines.sort_by_key(|machine| machine.metadata.creation_timestamp.clone());
        machines
    }

    async fn merge<K>(&self, name: &str, change: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    async fn merge_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let change = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Gives Nodes to all Machines that have none, as the Machines' controller does.
    async fn give_nodes(&self) {
        for (index, machine) in self.machines().await.iter().enumerate() {
            let status = json!({"nodeRef": {"name": format!("node-{index}")}});
            self.merge_status::<Machine>(&machine.name_any(), status).await;
        }
    }
}

fn reason(control_plane: &KubeadmControlPlane, kind: &str) -> String {
    control_plane.condition(kind).map(|it| it.reason.clone()).unwrap_or_default()
}

fn message(control_plane: &KubeadmControlPlane, kind: &str) -> String {
    control_plane.condition(kind).map(|it| it.message.clone()).unwrap_or_default()
}

/// Makes the Cluster an owner of the control plane, as the Cluster's controller does.
async fn own(process: &Process) {
    let cluster = process.api::<Cluster>().get("c").await.unwrap();
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": cluster.uid()});
    let metadata = json!({"ownerReferences": [owner], "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
    process.merge::<KubeadmControlPlane>("kcp", json!({"metadata": metadata})).await;
}

async fn provisioned(world: &World, manifest: &str) -> Process {
    world.create(manifest).await.unwrap();
    let process = Process::start(world);
    own(&process).await;
    let domains = json!([{"name": "az1", "controlPlane": true}, {"name": "az2", "controlPlane": true}]);
    let status = json!({"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains});
    process.merge_status::<Cluster>("c", status).await;
    process
}

#[tokio::test]
async fn a_control_plane_waits_for_its_cluster_and_then_makes_certificates_and_the_first_machine() {
    let world = World::start().await.unwrap();
    world.create(MANIFEST).await.unwrap();
    let process = Process::start(&world);
    assert!(process.settle().await.finalizers().is_empty(), "no Cluster has claimed it");
    own(&process).await;
    let control_plane = process.settle().await;
    assert_eq!(control_plane.finalizers(), ["kubeadm.controlplane.cluster.x-k8s.io"]);
    assert_eq!(reason(&control_plane, "ScalingUp"), "ScalingUp");
    let waits = "Waiting for Cluster status.infrastructureReady to be true";
    assert_eq!(message(&control_plane, "ControlPlaneComponentsHealthy"), waits);
    assert!(process.machines().await.is_empty());

    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    process.merge_status::<Cluster>("c", status).await;
    let control_plane = process.settle().await;
    let secrets = process.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let owned = secrets.iter().filter(|it| !it.owner_references().is_empty()).map(ResourceExt::name_any);
    assert_eq!(owned.collect::<Vec<_>>(), ["c-ca", "c-kubeconfig", "c-proxy", "c-sa"]);
    assert_eq!(reason(&control_plane, "CertificatesAvailable"), "Available");
    let machines = process.machines().await;
    let [machine] = machines.as_slice() else { panic!("{machines:?}") };
    let name = machine.name_any();
    assert!(name.starts_with("kcp-") && machine.labels().get("team").is_some_and(|team| team == "a"));
    let config = process.api::<KubeadmConfig>().get(&name).await.unwrap();
    assert!(config.spec.init_configuration.is_some() && config.spec.join_configuration.is_none());
    assert_eq!(config.labels().get("team").map(String::as_str), Some("a"));
    let infrastructure = process.api::<OpenStackMachine>().get(&name).await.unwrap();
    let from = infrastructure.annotations().get("cluster.x-k8s.io/cloned-from-name");
    assert_eq!(from.map(String::as_str), Some("t"));
    assert_eq!(infrastructure.owner_references()[0].kind, "KubeadmControlPlane");
    let status = control_plane.status.unwrap();
    assert_eq!((status.replicas, status.version.as_deref()), (Some(1), Some("v1.33.0")));
    assert_eq!(
        status.selector.as_deref(),
        Some("cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/control-plane")
    );
}

/// Makes passes until the control plane is available, for five seconds at most.
async fn available(process: &Process) -> KubeadmControlPlane {
    let mut control_plane = process.settle().await;
    for _ in 0..100 {
        if reason(&control_plane, "Available") == "Available" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        control_plane = process.settle().await;
    }
    control_plane
}

#[tokio::test]
async fn a_control_plane_scales_changes_in_place_and_is_deleted() {
    let world = World::start().await.unwrap();
    let process = provisioned(&world, MANIFEST).await;
    process.settle().await;
    process.give_nodes().await;
    let control_plane = available(&process).await;
    assert_eq!(reason(&control_plane, "Initialized"), "Initialized", "{control_plane:#?}");
    assert_eq!(reason(&control_plane, "Available"), "Available", "{control_plane:#?}");

    // Two more join, one after the other, in the other failure domain first. The time of creation, by which Machines are
    // sorted, has a precision of a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"replicas": 3}})).await;
    let control_plane = process.settle().await;
    let machines = process.machines().await;
    assert_eq!(machines.len(), 2, "the third waits until the second is healthy");
    assert!(
        message(&control_plane, "ScalingUp").contains("nodeRef"),
        "{}",
        message(&control_plane, "ScalingUp")
    );
    let domains: Vec<_> = machines.iter().map(|it| it.spec.failure_domain.clone().unwrap()).collect();
    assert_eq!(domains, ["az1", "az2"]);
    let config = process.api::<KubeadmConfig>().get(&machines[1].name_any()).await.unwrap();
    assert!(config.spec.init_configuration.is_none());
    assert!(config.spec.join_configuration.is_some_and(|join| join.control_plane.is_some()));
    process.give_nodes().await;
    process.settle().await;
    process.give_nodes().await;
    let control_plane = process.settle().await;
    assert_eq!(process.machines().await.len(), 3);
    assert_eq!(reason(&control_plane, "ScalingUp"), "NotScalingUp");
    assert_eq!(reason(&control_plane, "MachinesUpToDate"), "UpToDate");
    assert_eq!(reason(&control_plane, "ControlPlaneComponentsHealthy"), "Healthy");

    in_place(&process).await;
    outdated(&process).await;
    deletion(&process).await;
}

/// Labels and timeouts reach the existing Machines, and leave them again.
async fn in_place(process: &Process) {
    let template = json!({"metadata": {"labels": {"team": null, "room": "b"}},
        "spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}}});
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"machineTemplate": template}})).await;
    process.settle().await;
    for machine in process.machines().await {
        let drain = machine.spec.deletion.as_ref().and_then(|it| it.node_drain_timeout_seconds);
        assert_eq!(drain, Some(60));
        let config = process.api::<KubeadmConfig>().get(&machine.name_any()).await.unwrap();
        let infrastructure = process.api::<OpenStackMachine>().get(&machine.name_any()).await.unwrap();
        for labels in [machine.labels(), config.labels(), infrastructure.labels()] {
            let labels: BTreeMap<&str, &str> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!((labels.get("team"), labels.get("room")), (None, Some(&"b")), "{labels:?}");
            assert!(labels.contains_key("cluster.x-k8s.io/control-plane-name"), "{labels:?}");
        }
    }
}

/// Another version is shown, and changes no Machine.
async fn outdated(process: &Process) {
    let before: Vec<String> = process.machines().await.iter().map(ResourceExt::name_any).collect();
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"version": "v1.34.0"}})).await;
    let control_plane = process.settle().await;
    let text = message(&control_plane, "RollingOut");
    assert!(text.contains("* Version v1.33.0, v1.34.0 required\n"), "{text}");
    assert!(text.contains("does not replace Machines"), "{text}");
    assert_eq!(reason(&control_plane, "MachinesUpToDate"), "NotUpToDate");
    let after: Vec<String> = process.machines().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(before, after);
}

async fn deletion(process: &Process) {
    let api = process.api::<KubeadmControlPlane>();
    api.delete("kcp", &DeleteParams::default()).await.unwrap();
    process.settle().await;
    // Nothing else holds the Machines here: no controller of Machines runs.
    assert!(process.machines().await.is_empty());
    assert!(api.get_opt("kcp").await.unwrap().is_none());
}

/// Holds the Machines at their deletion, as the Machines' controller does with its finalizer.
async fn hold(process: &Process) {
    for machine in process.machines().await {
        let change = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        process.merge::<Machine>(&machine.name_any(), change).await;
    }
}

/// Returns the Machine that is being deleted.
async fn leaving(process: &Process) -> Machine {
    let mut machines = process.machines().await.into_iter();
    machines.find(|machine| machine.metadata.deletion_timestamp.is_some()).unwrap()
}

#[tokio::test]
async fn a_member_of_etcd_leaves_after_the_drain_and_never_as_the_leader() {
    let world = World::start().await.unwrap();
    let external =
        MANIFEST.find("    clusterConfiguration:").unwrap()..MANIFEST.find("    initConf").unwrap();
    let secrets = MANIFEST.find("apiVersion: v1\nkind: Secret").unwrap()
        ..MANIFEST.find("apiVersion: infrastructure").unwrap();
    let manifest = MANIFEST.replace(&MANIFEST[external], "").replace(&MANIFEST[secrets], "");
    let process = provisioned(&world, &manifest.replace("replicas: 1", "replicas: 3")).await;
    for index in 0..3 {
        process.settle().await;
        process.give_nodes().await;
        process.members.add(&format!("node-{index}"));
        // The time of creation has a precision of a second, and the order of the Machines matters here.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let control_plane = available(&process).await;
        assert_eq!(reason(&control_plane, "EtcdClusterHealthy"), "Healthy", "{control_plane:#?}");
    }
    assert_eq!(process.machines().await.len(), 3);
    hold(&process).await;
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"replicas": 1}})).await;
    let control_plane = process.settle().await;
    let machine = leaving(&process).await;
    let node = machine.status.as_ref().unwrap().node_ref.as_ref().unwrap().name.clone();
    assert_eq!(node, "node-0", "the oldest of the fullest failure domain");
    assert_ne!(process.members.names()[0], node, "the leadership was handed over before the deletion");
    let text = message(&control_plane, "ScalingDown");
    assert!(text.contains("to be drained"), "{text}");
    assert_eq!(process.members.names().len(), 3, "the member stays until the drain is over");

    let drained = json!([{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
        "message": "", "lastTransitionTime": "2026-11-26T00:00:00Z"}]);
    process.merge_status::<Machine>(&machine.name_any(), json!({"conditions": drained})).await;
    process.settle().await;
    assert!(!process.members.names().contains(&node));
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
    assert!(!leaving(&process).await.annotations().contains_key(hook));
    assert_eq!(process.machines().await.len(), 3, "one Machine leaves at a time");
    process.merge::<Machine>(&machine.name_any(), json!({"metadata": {"finalizers": []}})).await;
    process.settle().await;
    assert_eq!(process.machines().await.len(), 2);
    assert_ne!(leaving(&process).await.name_any(), machine.name_any(), "the next one leaves");
}

#[tokio::test]
async fn the_controllers_permissions_suffice_for_a_life_of_a_control_plane() {
    let world = World::start().await.unwrap();
    world.create(MANIFEST).await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let process = Process::start(&world);
    own(&process).await;
    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    process.merge_status::<Cluster>("c", status).await;
    let mut control_plane = KubeadmControlPlane::default();
    for _ in 0..200 {
        control_plane = process.api::<KubeadmControlPlane>().get("kcp").await.unwrap();
        let labelled =
            process.api::<KubeadmConfig>().list(&ListParams::default().labels("team=a")).await.unwrap();
        if !labelled.items.is_empty()
            && control_plane.status.as_ref().is_some_and(|it| it.replicas == Some(1))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let machines = process.machines().await;
    let [machine] = machines.as_slice() else { panic!("{machines:?}\n{control_plane:#?}") };
    let kinds = ["APIServerPodHealthy", "UpToDate"].map(|kind| machine.condition(kind).is_some());
    assert_eq!(kinds, [true, true], "{machine:#?}");
    process.api::<KubeadmControlPlane>().delete("kcp", &DeleteParams::default()).await.unwrap();
    for _ in 0..200 {
        if process.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap().is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = process.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap();
    assert!(left.is_none() && process.machines().await.is_empty(), "{left:#?}");
    term.cancel();
    drop(running);
}
