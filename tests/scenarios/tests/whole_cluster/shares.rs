//! Test of shares that the Manila CSI driver of a workload cluster made.

use std::time::Duration;

use apiserver_types::OpenStackCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::storage::v1::CSIDriver;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tests_openstack_simulator::SeededShare;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::observer::Observer;

const NAMESPACE: &str = "shares";

/// Creates the Manila CSI driver with this id, in the shape of its Helm chart.
async fn install_driver(workload: Client, id: &str) {
    let driver =
        json!({"metadata": {"name": "nfs.manila.csi.openstack.org"}, "spec": {"attachRequired": false}});
    let driver: CSIDriver = serde_json::from_value(driver).unwrap();
    Api::all(workload.clone()).create(&PostParams::default(), &driver).await.unwrap();
    let command = format!("/bin/manila-csi-plugin --v=5 --nodeid=$(NODE_ID) --cluster-id=\"{id}\"");
    let labels = json!({"app": "openstack-manila-csi", "component": "controllerplugin"});
    let set = json!({"metadata": {"name": "manila-csi-controllerplugin"}, "spec": {
        "serviceName": "manila-csi-controllerplugin", "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
            "name": "nfs-nodeplugin", "image": "registry.k8s.io/provider-os/manila-csi-plugin:v1.34.0",
            "command": ["/bin/sh", "-c", command],
        }]}},
    }});
    let set: StatefulSet = serde_json::from_value(set).unwrap();
    Api::namespaced(workload, "kube-system").create(&PostParams::default(), &set).await.unwrap();
}

/// Creates a share as the driver with this id does, for this claim.
fn share(world: &World, id: &str, claim: &str) -> String {
    let metadata = [
        ("manila.csi.openstack.org/cluster", id),
        ("csi.storage.k8s.io/pvc/namespace", "default"),
        ("csi.storage.k8s.io/pvc/name", claim),
    ];
    let new = SeededShare {
        project: "demo".to_owned(),
        name: format!("pvc-{claim}"),
        size: 7,
        metadata: metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
    };
    world.cloud.create_share(&new).unwrap()
}

/// Waits until the id of the driver is noted.
async fn until_noted(world: &World, id: &str) {
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let mut looks = Looks::begin();
    for round in 0.. {
        // A change of the object makes its pass due.
        let touch = json!({"metadata": {"annotations": {"round": format!("{round}")}}});
        let cluster = clusters.patch("blue", &PatchParams::default(), &Patch::Merge(touch)).await.unwrap();
        let notes = cluster.annotations().get("capstan.dev/workload").cloned().unwrap_or_default();
        if notes.contains(&format!(r#""manila":"{id}""#)) {
            return;
        }
        looks.again(&format!("the id of the driver in the notes {notes}")).await;
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
}

/// Returns the messages of the Events with a reason.
async fn messages(world: &World, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
    let found = events.filter(|event| event.reason.as_deref() == Some(reason));
    found.filter_map(|event| event.message).collect::<Vec<_>>().join("\n")
}

/// The shares of a deleted cluster stayed in the cloud, and no Event named them.
#[tokio::test(flavor = "multi_thread")]
async fn r17_3_shares_of_a_cluster_stay_and_are_named_and_those_of_others_are_not() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&super::manifest(&world, NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    install_driver(observer.workload().await, "prod").await;
    until_noted(&world, "prod").await;
    let own = share(&world, "prod", "own");
    share(&world, "prod2", "other");

    observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    observer.until_gone().await;
    let left = world.cloud.inventory("demo");
    let mut names: Vec<&str> = left.shares.iter().map(|share| share.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["pvc-other", "pvc-own"]);
    assert!(left.servers.is_empty() && left.networks.is_empty(), "{left:#?}");
    let calls = world.cloud.log();
    let changes: Vec<_> =
        calls.iter().filter(|call| call.path.starts_with("/share/") && call.method != "GET").collect();
    assert!(changes.is_empty(), "{changes:?}");

    let named = format!("with cluster id prod: pvc-own ({own}, 7 GiB, claim default/own). They hold data");
    for (reason, verb) in [("DeletionPlanned", "Will keep"), ("LeftoversFound", "kept")] {
        let text = messages(&world, reason).await;
        let expected = format!("{verb} shares of the Manila CSI driver {named}");
        assert!(text.contains(&expected) && text.contains("Delete them in the cloud"), "{reason}: {text}");
        assert!(!text.contains("pvc-other"), "{reason}: {text}");
    }
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
