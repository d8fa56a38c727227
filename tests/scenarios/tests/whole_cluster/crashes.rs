//! A cluster whose processes crash before and after every important step, while it comes, scales and goes.
//!
//! Nothing is lost, made twice or left over, and a certificate authority is never replaced. `CAPSTAN_FAULTS=all` crashes
//! at every write to the API, to the cloud and to the workload cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use apiserver_types::{KubeadmControlPlane, MachineDeployment};
use controllers_workload::Timing;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::{CrashPoint, EachEffect, Side, World, run_until_crash};
use tokio_util::sync::CancellationToken;

use super::observer::Observer;
use super::{manifest, pods, scale};

const NAMESPACE: &str = "crashes";

/// Additional objects and fields of the cluster: a pool of floating IPs, from which the workers have addresses.
const POOL: &str = r"
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OpenStackFloatingIPPool
metadata: {name: pool, namespace: crashes}
spec:
  identityRef: {name: credentials, cloudName: openstack}
  reclaimPolicy: Delete
  maxIPs: 2
";

/// Steps with crashes, each with a part of the text of its effects. Together they are all steps after which a lost
/// answer could lose or duplicate something.
const STEPS: [(&str, &str); 27] = [
    ("certificate authority", "/secrets blue-ca"),
    ("certificate authority of etcd", "/secrets blue-etcd"),
    ("certificate authority of the front proxy", "/secrets blue-proxy"),
    ("keys of service accounts", "/secrets blue-sa"),
    ("kubeconfig", "/secrets blue-kubeconfig"),
    ("bootstrap Secret of a control plane Machine", "/secrets blue-control-plane-"),
    ("bootstrap Secret of a worker", "/secrets blue-md-0-"),
    ("token", "workload POST /api/v1/namespaces/kube-system/secrets"),
    ("removal of the token", "workload DELETE /api/v1/namespaces/kube-system/secrets/"),
    ("load balancer", "create_load_balancer"),
    ("listener", "create_listener"),
    ("pool of the load balancer", "create_pool"),
    ("monitor", "create_health_monitor"),
    ("member", "create_member"),
    ("floating IP", "create_floating_ip"),
    ("association of the floating IP", "associate_floating_ip"),
    ("claim", "/ipaddressclaims"),
    ("address of the claim", "/ipaddresses"),
    ("use of the address", "take_floating_ip"),
    ("server", "create_server"),
    ("Node", "workload PATCH /api/v1/nodes/"),
    ("eviction", "/eviction"),
    ("deletion of the Node", "workload DELETE /api/v1/nodes/"),
    ("deletion of the member", "delete_member"),
    ("deletion of the server", "delete_server"),
    ("deletion of the load balancer", "delete_load_balancer"),
    ("deletion of the floating IP", "delete_floating_ip"),
];

/// Certificates and keys that are never replaced.
const AUTHORITIES: [&str; 4] = ["blue-ca", "blue-etcd", "blue-proxy", "blue-sa"];

struct Life {
    world: World,
    hollow: HollowClusters,
    observer: Observer,
    effects: Arc<EachEffect>,
    authorities: BTreeMap<String, BTreeMap<String, ByteString>>,
    processes: usize,
}

impl Life {
    async fn start(parts: Vec<String>) -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(Timing::faster(20));
        Self {
            observer: Observer::new(&world, NAMESPACE),
            effects: Arc::new(EachEffect::containing(parts)),
            authorities: BTreeMap::new(),
            processes: 0,
            world,
            hollow,
        }
    }

    /// Runs one process after another until a state is reached.
    async fn crash_until<F: Future<Output = ()>>(&mut self, what: &str, reached: impl Fn(&Observer) -> F) {
        let begun = Instant::now();
        let observer = Observer::new(&self.world, NAMESPACE);
        loop {
            self.processes += 1;
            let crash_point = Arc::new(CrashPoint::at_each(&self.effects));
            let running = run_until_crash(&self.world, &crash_point, &CancellationToken::new());
            let over = tokio::select! {
                () = crash_point.crashed() => false,
                () = reached(&observer) => true,
            };
            drop(running);
            self.authorities_are_kept().await;
            if over {
                eprintln!(
                    "{what}: {:.1} s, {} processes so far",
                    begun.elapsed().as_secs_f64(),
                    self.processes
                );
                return;
            }
        }
    }

    async fn authorities_are_kept(&mut self) {
        let secrets: Api<Secret> = Api::namespaced(self.world.admin(), NAMESPACE);
        for secret in secrets.list(&ListParams::default()).await.unwrap() {
            let name = secret.name_any();
            if !AUTHORITIES.contains(&name.as_str()) {
                continue;
            }
            let data = secret.data.unwrap_or_default();
            let known = self.authorities.entry(name.clone()).or_insert_with(|| data.clone());
            assert_eq!(*known, data, "Secret {name} was replaced");
        }
    }

    async fn until_available(&mut self, what: &str, control_plane: usize, workers: usize) {
        self.crash_until(what, |observer| {
            let observer = observer.clone();
            async move { observer.until_available(control_plane, workers).await }
        })
        .await;
    }
}

/// Returns the manifest with a load balancer, and with workers that have addresses of a pool.
fn documents(world: &World) -> String {
    let balancer = "apiServer: {managedLoadBalancer: {enabled: true}}";
    let reference = "flavor: {filter: {name: m1.small}}\n      floatingIPPoolRef: \
                     {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackFloatingIPPool, name: pool}";
    let documents = manifest(world, NAMESPACE).replace("apiServer: {}", balancer);
    documents.replace("flavor: {filter: {name: m1.small}}", reference) + POOL
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_around_any_important_step_loses_and_duplicates_nothing() {
    let all = std::env::var("CAPSTAN_FAULTS").is_ok_and(|which| which == "all");
    let parts = STEPS.iter().map(|(_, part)| (*part).to_owned());
    let mut life = Life::start(if all { vec![String::new()] } else { parts.collect() }).await;
    let before = serde_json::to_value(life.world.cloud.inventory("demo")).unwrap();
    life.world.create(&documents(&life.world)).await.unwrap();
    life.until_available("creation", 1, 1).await;
    let whole = life.world.counts();

    let deployments: Api<MachineDeployment> = Api::namespaced(life.world.admin(), NAMESPACE);
    scale(&deployments, "blue-md-0", 2).await;
    life.until_available("a second worker", 1, 2).await;
    pods::run_on_workers(&life.observer.workload().await).await;
    scale(&deployments, "blue-md-0", 1).await;
    life.until_available("one worker", 1, 1).await;
    let control_planes: Api<KubeadmControlPlane> = Api::namespaced(life.world.admin(), NAMESPACE);
    scale(&control_planes, "blue-control-plane", 3).await;
    life.until_available("three control plane Machines", 3, 1).await;
    scale(&control_planes, "blue-control-plane", 1).await;
    life.until_available("one control plane Machine", 1, 1).await;
    life.observer.until_nodes_are_ready(2).await;
    assert_eq!(life.world.counts(), whole, "the cluster is as large as at first");

    life.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    life.crash_until("deletion of the cluster", |observer| {
        let observer = observer.clone();
        async move { observer.until_gone().await }
    })
    .await;
    // The pool is no part of the cluster.
    let pools: Api<apiserver_types::OpenStackFloatingIPPool> = Api::namespaced(life.world.admin(), NAMESPACE);
    pools.delete("pool", &DeleteParams::default()).await.unwrap();
    life.crash_until("deletion of the pool", |_| {
        let pools = pools.clone();
        async move {
            while pools.get_opt("pool").await.unwrap().is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    })
    .await;
    let after = serde_json::to_value(life.world.cloud.inventory("demo")).unwrap();
    assert_eq!(after, before, "the project is not as it was");
    assert_eq!(life.authorities.len(), AUTHORITIES.len());
    every_step_crashed(&life.effects);
    drop(life.hollow);
}

fn every_step_crashed(effects: &EachEffect) {
    let crashes = effects.crashes();
    for (effect, sides) in &crashes {
        eprintln!("{effect}: {sides:?}");
    }
    let both = [Side::Before, Side::After];
    let missing: Vec<&str> = STEPS
        .iter()
        .filter(|(_, part)| !crashes.iter().any(|(effect, sides)| effect.contains(part) && *sides == both))
        .map(|(step, _)| *step)
        .collect();
    assert!(missing.is_empty(), "no process crashed around: {missing:?}");
}
