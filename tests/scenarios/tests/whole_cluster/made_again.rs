//! Cluster that lives in the cloud while its objects are made again, as in upstream's `kcp_infra_adoption`. They are as
//! upstream's managers leave them, as in `clusterctl_upgrade`: nothing in them or on the servers is Capstan's.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::{
    KubeadmControlPlane, Machine, MachineDeployment, OpenStackCluster, OpenStackMachine, OpenStackServer,
};
use controllers_infrastructure::{Cloud, PortQuery, TaggedKind};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

const NAMESPACE: &str = "made-again";

/// Prefix of the annotations that only Capstan writes.
const OWN: &str = "capstan.dev/";

/// Secret of the user, which stays.
const CREDENTIALS: &str = "credentials";

/// Returns the lists of the kinds that a backup of a cluster has: their paths, with version and kind of their objects.
fn kinds() -> Vec<(String, String, String)> {
    let registry = apiserver_registry::registry();
    let exported = registry.stored().iter().filter(|kind| {
        let is_of_clusters = kind.group.ends_with("cluster.x-k8s.io") || kind.kind == "Secret";
        kind.namespaced && is_of_clusters && !kind.strategy.is_read_only()
    });
    let list = exported.map(|kind| {
        let root = if kind.group.is_empty() { "api" } else { "apis" };
        let version = kind.api_version();
        let path = format!("/{root}/{version}/namespaces/{NAMESPACE}/{}", kind.plural);
        (path, version, kind.kind.clone())
    });
    list.collect()
}

/// Returns the objects of the cluster, each with the path of its list: without owners and status, and without what Capstan
/// noted in them.
async fn backup(client: &Client) -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    for (path, version, kind) in kinds() {
        let request = http::Request::get(&path).body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        for mut object in list["items"].as_array().cloned().unwrap_or_default() {
            let metadata = object["metadata"].take();
            let map = |field: &str| metadata[field].as_object().cloned().unwrap_or_default();
            let (labels, mut annotations) = (map("labels"), map("annotations"));
            annotations.retain(|key, _| !key.starts_with(OWN));
            object["metadata"] = json!({"name": metadata["name"], "namespace": NAMESPACE, "labels": labels,
                "annotations": annotations});
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            object.as_object_mut().unwrap().remove("status");
            if metadata["name"] != CREDENTIALS {
                objects.push((path.clone(), object));
            }
        }
    }
    objects
}

/// Removes objects from the store, and nothing from the cloud.
async fn forget(client: &Client, objects: &[(String, Value)]) {
    let free = serde_json::to_vec(&json!({"metadata": {"finalizers": null}})).unwrap();
    for (path, object) in objects {
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        let patch = http::Request::patch(&path).header("content-type", "application/merge-patch+json");
        let _: Value = client.request(patch.body(free.clone()).unwrap()).await.unwrap();
        let _: Value = client.request(http::Request::delete(&path).body(Vec::new()).unwrap()).await.unwrap();
    }
}

/// Returns the resources that the user has the cluster take over, as the annotation names them.
async fn adopted(world: &World) -> String {
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let status = serde_json::to_value(clusters.get("blue").await.unwrap().status).unwrap();
    let resources = [
        ("network", "/network/id"),
        ("subnet", "/network/subnets/0/id"),
        ("router", "/router/id"),
        ("security-group", "/controlPlaneSecurityGroup/id"),
        ("security-group", "/workerSecurityGroup/id"),
    ];
    let id = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
    resources.map(|(kind, pointer)| format!("{kind}/{}", id(pointer))).join(",")
}

/// Removes Capstan's tags from all servers and ports.
async fn remove_tags(world: &World, cloud: &dyn Cloud) {
    let left = |tags: Vec<String>| -> Vec<String> {
        tags.into_iter().filter(|tag| !tag.starts_with("capstan-")).collect()
    };
    for server in world.cloud.inventory("demo").servers {
        let tags = left(cloud.server(&server.id).await.unwrap().tags);
        cloud.set_tags(TaggedKind::Server, &server.id, &tags).await.unwrap();
    }
    for port in cloud.ports(&PortQuery::default()).await.unwrap() {
        if port.tags.iter().any(|tag| tag.starts_with("capstan-")) {
            cloud.set_tags(TaggedKind::Port, &port.id, &left(port.tags)).await.unwrap();
        }
    }
}

/// Creates the record that upstream's provider keeps of the server of each machine.
async fn record_servers(world: &World, cloud: &dyn Cloud) {
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let records: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    for machine in machines.list(&ListParams::default()).await.unwrap() {
        let name = machine.name_any();
        let id = machine.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next()).unwrap().to_owned();
        let query = PortQuery { device_id: Some(id.clone()), ..PortQuery::default() };
        let ports = cloud.ports(&query).await.unwrap();
        let ports: Vec<Value> = ports.iter().map(|port| json!({"id": port.id})).collect();
        let owner = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
            "name": name, "uid": machine.uid(), "controller": true});
        let spec = json!({
            "identityRef": {"name": CREDENTIALS, "cloudName": "openstack"}, "flavor": "m1.small",
            "image": {"filter": {"name": "ubuntu-2204-kube-v1.33.0"}}, "ports": [{}], "sshKeyName": "default",
        });
        let record = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OpenStackServer",
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}, "spec": spec,
        });
        world.create(&record.to_string()).await.unwrap();
        let status = json!({"ready": true, "instanceID": id, "resources": {"ports": ports}});
        let status = Patch::Merge(json!({ "status": status }));
        records.patch_status(&name, &PatchParams::default(), &status).await.unwrap();
    }
}

/// Waits until no record is left, since each machine has its server.
async fn until_taken_over(world: &World) {
    let records: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    let mut looks = Looks::begin();
    loop {
        let left = records.list(&ListParams::default()).await.unwrap();
        if left.items.is_empty() {
            return;
        }
        let names: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
        looks.again(&format!("the takeover of the servers of {}", names.join(", "))).await;
    }
}

async fn machines(world: &World) -> BTreeSet<String> {
    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    let machines = machines.list(&ListParams::default()).await.unwrap();
    machines.iter().map(ResourceExt::name_any).collect()
}

/// Replaces all Machines, and waits until the cluster is available again.
async fn roll_out(world: &World, observer: &Observer) {
    // A Machine of the same second would not be older than the date.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let old = machines(world).await;
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string();
    let change = Patch::Merge(json!({"spec": {"rollout": {"after": now}}}));
    let control_planes: Api<KubeadmControlPlane> = Api::namespaced(world.admin(), NAMESPACE);
    control_planes.patch("blue-control-plane", &PatchParams::default(), &change).await.unwrap();
    let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), NAMESPACE);
    deployments.patch("blue-md-0", &PatchParams::default(), &change).await.unwrap();
    let mut looks = Looks::begin();
    loop {
        let left: Vec<String> = machines(world).await.intersection(&old).cloned().collect();
        if left.is_empty() {
            break;
        }
        looks.again(&format!("the end of {}", left.join(", "))).await;
    }
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kcp_infra_adoption_and_clusterctl_upgrade_replace_nothing_and_a_rollout_works_afterwards() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let cloud = world.project().await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, NAMESPACE)).await.unwrap();
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    let (names, counts) = (machines(&world).await, world.counts());
    let servers = world.cloud.inventory("demo").servers;
    term.cancel();
    running.join_all().await;

    let (objects, resources) = (backup(&world.admin()).await, adopted(&world).await);
    forget(&world.admin(), &objects).await;
    assert!(observer.is_gone().await, "no object is left");
    remove_tags(&world, cloud.as_ref()).await;
    for (path, mut object) in objects {
        if object["kind"] == "OpenStackCluster" {
            object["metadata"]["annotations"]["capstan.dev/adopt"] = json!(resources);
        }
        let _: Value = world.post(&path, &object).await.unwrap();
    }
    record_servers(&world, cloud.as_ref()).await;

    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    until_taken_over(&world).await;
    assert_eq!(machines(&world).await, names, "no Machine is replaced");
    assert_eq!((world.cloud.inventory("demo").servers, world.counts()), (servers, counts));
    roll_out(&world, &observer).await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
