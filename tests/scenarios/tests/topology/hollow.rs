//! A Cluster of a class on a hollow cluster, with all controllers: it comes to Ready, and leaves nothing behind.

use std::time::{Duration, Instant};

use apiserver_types::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, Machine, MachineDeployment, OpenStackCluster,
    OpenStackMachineTemplate,
};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::manifest;
use crate::testbed::OWNED;

/// Time limit of each part. A slow machine needs a fifth of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Interval between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

const NAMESPACE: &str = "hollow";

/// Waits until `missing` finds nothing.
pub(crate) async fn until<F: Future<Output = String>>(missing: impl Fn() -> F) {
    until_within(LIMIT, missing).await;
}

/// Waits until `missing` finds nothing, for at most this time.
pub(crate) async fn until_within<F: Future<Output = String>>(limit: Duration, missing: impl Fn() -> F) {
    let begun = Instant::now();
    loop {
        let found = missing().await;
        if found.is_empty() {
            return;
        }
        assert!(begun.elapsed() < limit, "timed out: {found}");
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Describes what keeps the Cluster from being available.
async fn unavailable(client: &Client) -> String {
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let machines = machines.list(&ListParams::default()).await.unwrap().items;
    let cluster = Api::<Cluster>::namespaced(client.clone(), NAMESPACE).get("blue").await.unwrap();
    let holds = |kind: &str| cluster.condition(kind).is_some_and(|it| it.holds());
    let available =
        machines.iter().filter(|it| it.condition("Available").is_some_and(|it| it.holds())).count();
    match (available, holds("Available") && holds("TopologyReconciled")) {
        (2, true) => String::new(),
        _ => {
            let conditions = cluster.status.and_then(|status| status.conditions).unwrap_or_default();
            let shown = conditions.iter().map(|it| format!("\n{} {:?} {}", it.kind, it.status, it.message));
            format!("{available} of {} Machines{}", machines.len(), shown.collect::<String>())
        }
    }
}

/// Describes the objects that are left.
pub(crate) async fn left(client: &Client, namespace: &str) -> String {
    let all = ListParams::default();
    let owned = ListParams::default().labels(OWNED);
    let mut names = Vec::new();
    macro_rules! list {
        ($kind:ty, $params:expr) => {
            let api: Api<$kind> = Api::namespaced(client.clone(), namespace);
            names.extend(api.list($params).await.unwrap().iter().map(ResourceExt::name_any));
        };
    }
    list!(Cluster, &all);
    list!(Machine, &all);
    list!(MachineDeployment, &all);
    list!(KubeadmControlPlane, &all);
    list!(OpenStackCluster, &all);
    list!(OpenStackMachineTemplate, &owned);
    list!(KubeadmConfigTemplate, &owned);
    names.join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_a_class_comes_to_ready_and_its_deletion_leaves_nothing() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, NAMESPACE, "v1.33.0")).await.unwrap();
    let client = world.admin();
    until(|| unavailable(&client)).await;
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), NAMESPACE);
    clusters.delete("blue", &DeleteParams::background()).await.unwrap();
    until(|| left(&client, NAMESPACE)).await;
    assert_eq!(world.counts(), empty, "the deleted cluster left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
