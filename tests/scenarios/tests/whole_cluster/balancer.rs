//! Order of a deletion behind a load balancer: its member goes, connections end, and then the member of etcd goes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use apiserver_types::KubeadmControlPlane;
use controllers_infrastructure::{Cloud, LoadBalancerQuery};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::observer::Observer;
use super::{manifest, scale};

const NAMESPACE: &str = "balanced";

/// Least time between the two departures: the connections of the load balancer end. A little less than that of the
/// controller, because the test looks at intervals.
const LEAST: Duration = Duration::from_secs(3);

/// Interval of the looks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Times at which the test first saw each event.
#[derive(Default)]
struct Seen {
    /// By name of the member of the load balancer.
    members: Vec<String>,
    /// Members that the load balancer had, and has no more.
    gone: Vec<(String, Instant)>,
    /// Messages on members of etcd that were removed.
    removed: BTreeMap<String, Instant>,
}

impl Seen {
    async fn look(&mut self, world: &World, cloud: &dyn Cloud) {
        let events: Api<Event> = Api::namespaced(world.admin(), NAMESPACE);
        for event in events.list(&ListParams::default()).await.unwrap() {
            if event.reason.as_deref() == Some("EtcdMemberRemoved") {
                self.removed.entry(event.message.unwrap_or_default()).or_insert_with(Instant::now);
            }
        }
        let members = members(cloud).await;
        let gone = self.members.iter().filter(|name| !members.contains(name));
        self.gone.extend(gone.map(|name| (name.clone(), Instant::now())));
        self.members = members;
    }
}

async fn members(cloud: &dyn Cloud) -> Vec<String> {
    let mut names = Vec::new();
    for balancer in cloud.load_balancers(&LoadBalancerQuery::default()).await.unwrap() {
        for pool in cloud.pools(&balancer.id).await.unwrap() {
            names.extend(cloud.members(&pool.id).await.unwrap().into_iter().map(|member| member.name));
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_leaves_the_load_balancer_before_its_member_of_etcd_is_removed() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let balancer = "apiServer: {managedLoadBalancer: {enabled: true}}";
    let documents = manifest(&world, NAMESPACE).replace("apiServer: {}", balancer);
    world.create(&documents).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    let control_planes: Api<KubeadmControlPlane> = Api::namespaced(world.admin(), NAMESPACE);
    scale(&control_planes, "blue-control-plane", 3).await;
    observer.until_available(3, 1).await;

    let cloud = world.project().await.unwrap();
    let mut seen = Seen::default();
    seen.look(&world, cloud.as_ref()).await;
    assert_eq!(seen.members.len(), 3);
    scale(&control_planes, "blue-control-plane", 1).await;
    let change = observer.until_available(1, 1);
    tokio::pin!(change);
    loop {
        tokio::select! {
            () = &mut change => break,
            () = tokio::time::sleep(INTERVAL) => seen.look(&world, cloud.as_ref()).await,
        }
    }

    assert_eq!((seen.gone.len(), seen.removed.len()), (2, 2), "two Machines leave: {:?}", seen.removed);
    for (message, removed) in &seen.removed {
        let machine = message.rsplit(' ').next().unwrap();
        let (_, gone) = seen.gone.iter().find(|(name, _)| name.ends_with(machine)).unwrap();
        let between = removed.checked_duration_since(*gone);
        assert!(between.is_some_and(|it| it >= LEAST), "{message}: {between:?} after the load balancer");
    }
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
