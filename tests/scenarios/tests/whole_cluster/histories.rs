//! Random lives of a cluster: it is made, changed and deleted while processes crash, and the cloud and the workload API
//! fail.
//!
//! Nothing of the cluster is left afterwards, and nothing of others is touched. `CAPSTAN_HISTORIES` is the number of
//! lives, `CAPSTAN_SEED` the first seed, `CAPSTAN_CONCURRENT` the number of lives at the same time. A failure prints its
//! seed and its plan.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment};
use controllers_infrastructure::{NetworkQuery, NewFloatingIp, NewNetwork, NewPort, NewVolume};
use controllers_workload::Timing;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tests_hollow_cluster::HollowClusters;
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::{CrashPoint, Side, World, run_until_crash};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::observer::Observer;
use super::outages::{Outages, outages};
use super::{manifest, number, scale};

/// Lives in a run of all tests. A life takes 5 to 40 s: calls that hang take ten seconds each.
const LIVES: u64 = 4;

/// Number of concurrent lives: a life mostly waits for intervals and boots.
const CONCURRENT: u64 = 4;

/// Change of a cluster.
#[derive(Debug, Clone)]
enum Change {
    Workers(usize),
    ControlPlane(usize),
    /// Deletes the worker at this place in the list, which is replaced.
    DeleteWorker(usize),
}

/// Change, and what goes wrong during it.
#[derive(Debug, Clone)]
struct Stage {
    change: Change,
    disruption: Disruption,
}

#[derive(Debug, Clone)]
struct Disruption {
    /// Processes that crash, each at its n-th effect.
    crashes: Vec<(usize, Side)>,
    faults: Vec<InjectedFault>,
    outages: Outages,
}

#[derive(Debug, Clone)]
struct Plan {
    creation: Disruption,
    stages: Vec<Stage>,
    deletion: Disruption,
}

fn disruption() -> impl Strategy<Value = Disruption> {
    let side = prop_oneof![Just(Side::Before), Just(Side::After)];
    let crashes = prop::collection::vec((0..60usize, side), 0..3);
    (crashes, prop::collection::vec(fault(), 0..3), outages())
        .prop_map(|(crashes, faults, outages)| Disruption { crashes, faults, outages })
}

/// Returns a failure that passes.
fn fault() -> impl Strategy<Value = InjectedFault> {
    let status =
        |code| FaultEffect::Status { code, body: String::new(), content_type: None, retry_after: None };
    let effects = [status(500), status(503), FaultEffect::DropBeforeEffect, FaultEffect::DropAfterEffect];
    let paths = ["/servers", "/ports", "/security-groups", "/networks", "/floatingips", ""];
    let methods = ["GET", "POST", "DELETE"];
    let parts = (prop::sample::select(effects.to_vec()), prop::sample::select(paths.to_vec()));
    (parts, prop::sample::select(methods.to_vec()), 1..4u64).prop_map(|((effect, path), method, count)| {
        let fault = InjectedFault::new(effect);
        InjectedFault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            count: Some(count),
            ..fault
        }
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let change = prop_oneof![
        3 => (0..4usize).prop_map(Change::Workers),
        1 => prop::sample::select(vec![1, 3]).prop_map(Change::ControlPlane),
        2 => (0..3usize).prop_map(Change::DeleteWorker),
    ];
    let stage = (change, disruption()).prop_map(|(change, disruption)| Stage { change, disruption });
    (disruption(), prop::collection::vec(stage, 1..4), disruption())
        .prop_map(|(creation, stages, deletion)| Plan { creation, stages, deletion })
}

/// Returns the plan of a seed.
fn planned(seed: u64) -> Plan {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    plan().new_tree(&mut TestRunner::new_with_rng(Config::default(), rng)).unwrap().current()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_with_crashes_and_failures_come_change_and_go_without_a_trace() {
    let first = number("CAPSTAN_SEED", 1);
    let lives = number("CAPSTAN_HISTORIES", LIVES);
    let begun = Instant::now();
    let seeds = Arc::new(Mutex::new(first..first + lives));
    let mut workers = JoinSet::new();
    for _ in 0..number("CAPSTAN_CONCURRENT", CONCURRENT) {
        workers.spawn(work(Arc::clone(&seeds)));
    }
    let failed: BTreeMap<u64, String> = workers.join_all().await.into_iter().flatten().collect();
    let seconds = begun.elapsed().as_secs();
    eprintln!("{lives} lives from seed {first} on in {seconds} s, {} failed", failed.len());
    let lines = failed.iter().map(|(seed, error)| {
        format!("CAPSTAN_SEED={seed} CAPSTAN_HISTORIES=1: {error}\n{:?}", planned(*seed))
    });
    assert!(failed.is_empty(), "{}", lines.collect::<Vec<_>>().join("\n"));
}

/// Lives one life after another. Returns the seeds that failed, with the reason.
async fn work(seeds: Arc<Mutex<Range<u64>>>) -> Vec<(u64, String)> {
    let next = || seeds.lock().unwrap().next();
    let mut failed = Vec::new();
    while let Some(seed) = next() {
        let begun = Instant::now();
        // A task of its own, so that the lives after one that ends in a panic are lived, too.
        let mut life = JoinSet::new();
        life.spawn(async move { Box::pin(live(&planned(seed))).await });
        let outcome = match life.join_next().await {
            Some(Ok(stages)) => format!("lived ({})", stages.join(", ")),
            Some(Err(error)) => {
                failed.push((seed, reason(error)));
                "failed".to_owned()
            }
            None => "ended".to_owned(),
        };
        eprintln!("seed {seed} {outcome}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    failed
}

/// Returns the text of a panic.
fn reason(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

/// Lives a life. Returns its stages with the times of their ends.
async fn live(plan: &Plan) -> Vec<String> {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    foreign(&world).await;
    let before = serde_json::to_value(world.cloud.inventory("demo")).unwrap();
    let world = world.with_workload_timing(Timing::faster(10));
    let life = Life { observer: Observer::new(&world, "life"), world: &world, hollow: &hollow };
    world.create(&manifest(&world, "life")).await.unwrap();
    let (mut control_plane, mut workers) = (1, 1);
    let mut stages = Vec::new();
    let begun = Instant::now();
    let mut reached = |stage: &str| stages.push(format!("{stage} {:.1} s", begun.elapsed().as_secs_f64()));
    life.pass(&plan.creation, || life.observer.until_available(1, 1)).await;
    reached("creation");
    for stage in &plan.stages {
        match stage.change {
            Change::Workers(count) => workers = count,
            Change::ControlPlane(count) => control_plane = count,
            Change::DeleteWorker(_) => {}
        }
        let deleted = life.change(&stage.change).await;
        life.pass(&stage.disruption, || async {
            life.observer.until_deleted(deleted.as_deref()).await;
            life.observer.until_available(control_plane, workers).await;
        })
        .await;
        reached(&format!("{:?}", stage.change));
    }
    life.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    life.pass(&plan.deletion, || async {
        life.observer.until_gone().await;
        life.observer.until_only(&["Secret credentials"]).await;
    })
    .await;
    reached("deletion");
    let after = serde_json::to_value(world.cloud.inventory("demo")).unwrap();
    assert_eq!(after, before, "the project is not as it was");
    drop(hollow);
    stages
}

/// Makes resources of another user in the same project, with names like ours.
async fn foreign(world: &World) {
    let cloud = world.project().await.unwrap();
    cloud.create_security_group("k8s-cluster-life-blue2-secgroup-worker", "of another user").await.unwrap();
    cloud.create_server_group("life-blue-blue-md-0-00000000", "anti-affinity").await.unwrap();
    let name = "k8s-clusterapi-cluster-life-blue2".to_owned();
    let network =
        cloud.create_network(&NewNetwork { name: name.clone(), ..NewNetwork::default() }).await.unwrap();
    let port = NewPort { name: "blue-md-0-x-0".to_owned(), network_id: network.id, ..NewPort::default() };
    cloud.create_port(&port).await.unwrap();
    let public = NetworkQuery { name: Some("public".to_owned()), ..NetworkQuery::default() };
    let public = cloud.networks(&public).await.unwrap().remove(0);
    let floating_ip = NewFloatingIp { network_id: public.id, description: name, ..NewFloatingIp::default() };
    cloud.create_floating_ip(&floating_ip).await.unwrap();
    let volume = NewVolume { name: "blue-md-0-x-root".to_owned(), size_gib: 1, ..NewVolume::default() };
    cloud.create_volume(&volume).await.unwrap();
}

struct Life<'a> {
    world: &'a World,
    hollow: &'a HollowClusters,
    observer: Observer,
}

impl Life<'_> {
    /// Makes a change. Returns the name of a Machine that it deletes.
    async fn change(&self, change: &Change) -> Option<String> {
        let client = self.world.admin();
        let count = |count: usize| i32::try_from(count).unwrap();
        match change {
            Change::Workers(replicas) => {
                let api: Api<MachineDeployment> = Api::namespaced(client, "life");
                scale(&api, "blue-md-0", count(*replicas)).await;
                None
            }
            Change::ControlPlane(replicas) => {
                let api: Api<KubeadmControlPlane> = Api::namespaced(client, "life");
                scale(&api, "blue-control-plane", count(*replicas)).await;
                None
            }
            Change::DeleteWorker(place) => {
                let api: Api<Machine> = Api::namespaced(client, "life");
                let workers = ListParams::default().labels("!cluster.x-k8s.io/control-plane");
                let workers = api.list(&workers).await.unwrap().items;
                let worker = workers.get(*place)?.name_any();
                api.delete(&worker, &DeleteParams::default()).await.unwrap();
                Some(worker)
            }
        }
    }

    /// Lets processes run and crash, then one that does not crash, until the state is reached.
    async fn pass<F: Future<Output = ()>>(&self, disruption: &Disruption, reached: impl Fn() -> F) {
        disruption.faults.iter().for_each(|fault| self.world.cloud.inject(fault.clone()));
        disruption.outages.begin(self.hollow);
        let crashes = disruption.crashes.iter().map(|(n, side)| CrashPoint::at(*n, *side));
        for crash_point in crashes.chain([CrashPoint::never()]) {
            let crash_point = Arc::new(crash_point);
            let running = run_until_crash(self.world, &crash_point, &CancellationToken::new());
            tokio::select! {
                () = crash_point.crashed() => {}
                () = reached() => {}
                () = disruption.outages.endpoint_returns(self.hollow) => {}
            }
            drop(running);
        }
        self.world.cloud.clear_faults();
        self.hollow.clear_faults();
    }
}
