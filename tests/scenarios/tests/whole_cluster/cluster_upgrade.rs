//! Upgrade of a Cluster without a topology by the verb: the nodes come to the version, also across a restart.

use apiserver_types::{Cluster, KubeadmControlPlane, Machine, MachineDeployment, OpenStackMachineTemplate};
use controllers_workload::Timing;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::observer::Observer;

const NAMESPACE: &str = "verb";

/// Returns the path of a verb of the Cluster.
fn path(verb: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/clusters/blue/{verb}")
}

fn api<K>(world: &World) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(world.admin(), NAMESPACE)
}

async fn upgrade(world: &World, body: &Value) -> Value {
    world.post(&path("upgrade"), body).await.unwrap()
}

/// Waits until the verb `why` names the upgrade as the first cause.
async fn until_it_is_the_cause(world: &World) {
    let mut looks = Looks::begin();
    loop {
        let request = http::Request::get(path("why")).body(Vec::new()).unwrap();
        let answer: Value = world.admin().request(request).await.unwrap();
        if answer["cause"]["condition"] == "Upgrading" {
            return;
        }
        looks.again(&format!("the cause is {}", answer["message"])).await;
    }
}

/// Returns the versions of the control plane and the workers.
async fn versions(world: &World) -> [String; 2] {
    let plane = api::<KubeadmControlPlane>(world).get("blue-control-plane").await.unwrap();
    let workers = api::<MachineDeployment>(world).get("blue-md-0").await.unwrap();
    [plane.spec.version, workers.spec.template.spec.version.unwrap()]
}

/// Waits until the control plane is to have a version.
async fn until_it_takes(world: &World, version: &str) {
    let mut looks = Looks::begin();
    loop {
        let [plane, _] = versions(world).await;
        if plane == version {
            return;
        }
        looks.again(&format!("the control plane has {plane}, not {version}")).await;
    }
}

/// Waits until the upgrade has ended, and all nodes have the version.
async fn until_upgraded(world: &World, observer: &Observer, version: &str) {
    let mut looks = Looks::begin();
    loop {
        let cluster = api::<Cluster>(world).get("blue").await.unwrap();
        let condition = cluster.condition("Upgrading").unwrap();
        if condition.reason == "NotUpgrading" && !cluster.annotations().contains_key("capstan.dev/upgrade") {
            break;
        }
        looks.again(&condition.message).await;
    }
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    assert_eq!(versions(world).await, [version, version]);
    for machine in api::<Machine>(world).list(&ListParams::default()).await.unwrap() {
        let kubelet = machine.status.unwrap().node_info.unwrap().kubelet_version;
        assert_eq!((machine.spec.version.as_deref(), kubelet.as_str()), (Some(version), version));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_a_class_is_upgraded_by_the_verb_across_a_cancellation_and_a_restart() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let world = world.with_workload_timing(Timing::faster(20));
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let manifest = super::manifest(&world, NAMESPACE).replace("v1.33.0", "v1.32.0");
    world.create(&manifest).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;

    // Cancelled while the control plane comes to v1.33.0: all nodes come to that version.
    let chain = json!({"version": "v1.34.0", "through": ["v1.33.0"]});
    let plan = upgrade(&world, &chain).await;
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3, "{plan:#}");
    until_it_takes(&world, "v1.33.0").await;
    until_it_is_the_cause(&world).await;
    let answer = upgrade(&world, &json!({"cancel": true})).await;
    assert_eq!(answer["version"], "v1.33.0");
    until_upgraded(&world, &observer, "v1.33.0").await;

    // The process ends in the middle of the next one.
    upgrade(&world, &json!({"version": "v1.34.0"})).await;
    until_it_takes(&world, "v1.34.0").await;
    term.cancel();
    running.join_all().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    until_upgraded(&world, &observer, "v1.34.0").await;

    let templates = api::<OpenStackMachineTemplate>(&world).list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = templates.iter().map(ResourceExt::name_any).collect();
    let expected = ["", "-v1.33.0", "-v1.34.0"];
    let of = |name: &str| expected.map(|end| format!("{name}{end}"));
    assert_eq!(names, [of("blue-control-plane"), of("blue-md-0")].concat());
    let events = api::<Event>(&world).list(&ListParams::default()).await.unwrap();
    let count = |reason: &str| events.iter().filter(|it| it.reason.as_deref() == Some(reason)).count();
    // The process may have ended before it recorded its last step.
    assert!((3..=4).contains(&count("UpgradeStep")), "{} steps", count("UpgradeStep"));
    assert_eq!(count("UpgradeCompleted"), 2);
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
