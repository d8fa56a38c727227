//! One life: a plan is carried out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_types::Machine;
use controllers_workload::Timing;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use tests_hollow_cluster::{HollowClusters, HollowOptions};
use tests_scenarios::{CrashPoint, Side, World, run_until_crash};
use tokio_util::sync::CancellationToken;

use super::judge::{Foreign, check_quorum};
use super::plan::{Disruption, Plan};
use crate::looks::Looks;
use crate::observer::Observer;
use crate::{leftovers, manifest};

/// Namespace of the cluster. Each life has a world of its own.
pub(super) const NAMESPACE: &str = "life";

/// Label of the Machines of a control plane.
pub(super) const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";

/// Annotation with the name of the template of a Machine's infrastructure.
const CLONED_FROM: &str = "cluster.x-k8s.io/cloned-from-name";

/// Releases of the workers and of the control plane: the first, and the next one.
pub(super) const RELEASES: [&str; 2] = ["v1.33.0", "v1.33.1"];

/// Health checks of the workers and of the control plane.
const CHECKS: &str = include_str!("checks.yaml");

/// First line of kubeadm's settings of the cluster, and the indentation of the next ones.
const SETTINGS: (&str, &str) = ("clusterConfiguration:\n", "      ");

/// Time for which a node looks for the API: that of a real kubeadm. The minute of other tests may be too short on a machine
/// where many lives are made at the same time, and a node that has given up does not begin again.
const JOIN: Duration = Duration::from_mins(5);

/// Longest time for which an interrupted stage goes on if the number of effects is never reached.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// State that the user wants.
pub(super) struct Wanted {
    pub(super) control_plane: usize,
    pub(super) workers: usize,
    /// Number of templates that the workers have had besides the first.
    pub(super) templates: usize,
    /// Index of the workers' release.
    pub(super) release: usize,
    /// Index of the control plane's release.
    pub(super) control_plane_release: usize,
    /// Name of a Machine that must be gone.
    pub(super) gone: Option<String>,
}

impl Wanted {
    pub(super) fn template(&self) -> String {
        format!("blue-md-{}", self.templates)
    }

    /// Returns the release that a Machine is to have.
    fn release_of(&self, machine: &Machine) -> &'static str {
        match machine.labels().contains_key(CONTROL_PLANE) {
            true => RELEASES[self.control_plane_release],
            false => RELEASES[self.release],
        }
    }
}

pub(super) struct Life<'a> {
    pub(super) world: &'a World,
    pub(super) hollow: &'a HollowClusters,
    observer: Observer,
    pub(super) wanted: Wanted,
}

/// Lives a life. Returns its stages with the times of their ends.
pub(super) async fn live(plan: &Plan) -> Vec<String> {
    let options = HollowOptions { join_timeout: JOIN, ..HollowOptions::default() };
    let (world, hollow) = World::start_with_hollow_clusters_of(options).await.unwrap();
    let foreign = Foreign::make(&world).await;
    let world = world.with_workload_timing(Timing::faster(10));
    let wanted = Wanted {
        control_plane: 1,
        workers: 1,
        templates: 0,
        release: 0,
        control_plane_release: 0,
        gone: None,
    };
    let observer = Observer::new(&world, NAMESPACE);
    let mut life = Life { observer, world: &world, hollow: &hollow, wanted };
    let checks = CHECKS.replace("NAMESPACE", NAMESPACE);
    world.create(&format!("{}{checks}", with_keys(&manifest(&world, NAMESPACE), plan.keys))).await.unwrap();
    let mut stages = Vec::new();
    let begun = Instant::now();
    let mut reached = |stage: &str| stages.push(format!("{stage} {:.1} s", begun.elapsed().as_secs_f64()));
    let interruption = |is_last: bool| plan.interrupted.filter(|_| is_last);
    life.pass(&plan.creation, interruption(plan.stages.is_empty())).await;
    reached("creation");
    for (number, stage) in plan.stages.iter().enumerate() {
        life.change(&stage.change).await;
        life.pass(&stage.disruption, interruption(number + 1 == plan.stages.len())).await;
        reached(&format!("{:?}", stage.change));
    }
    check_quorum(&hollow);
    life.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    life.run(&plan.deletion, None, || life.until_nothing_is_left(plan.interrupted.is_some())).await;
    reached("deletion");
    foreign.check(&world);
    stages
}

/// Returns the manifest of a cluster whose keys have this algorithm.
fn with_keys(manifest: &str, algorithm: &str) -> String {
    let (first, indentation) = SETTINGS;
    assert_eq!(manifest.matches(first).count(), 1, "the manifest has not one {first:?}");
    manifest.replace(first, &format!("{first}{indentation}encryptionAlgorithm: {algorithm}\n"))
}

impl Life<'_> {
    /// Lets processes run until the wanted state is reached, or until the stage is interrupted.
    async fn pass(&self, disruption: &Disruption, interrupted: Option<usize>) {
        let Wanted { control_plane, workers, gone, .. } = &self.wanted;
        self.run(disruption, interrupted, || async {
            self.observer.until_deleted(gone.as_deref()).await;
            self.until_rolled_out().await;
            self.observer.until_available(*control_plane, *workers).await;
        })
        .await;
    }

    /// Waits until each worker has the newest template, and each Machine its release.
    async fn until_rolled_out(&self) {
        let api: Api<Machine> = Api::namespaced(self.world.admin(), NAMESPACE);
        let template = self.wanted.template();
        let mut looks = Looks::begin();
        loop {
            let machines = api.list(&ListParams::default()).await.unwrap().items;
            let is_old =
                |machine: &&Machine| machine.spec.version.as_deref() != Some(self.wanted.release_of(machine));
            let mut old: Vec<String> = machines.iter().filter(is_old).map(ResourceExt::name_any).collect();
            old.extend(self.with_other_template(&template).await);
            if old.is_empty() {
                return;
            }
            looks
                .again(&format!("Machines of {template} and their release instead of {}", old.join(", ")))
                .await;
        }
    }

    async fn with_other_template(&self, template: &str) -> Vec<String> {
        let api: Api<apiserver_types::OpenStackMachine> = Api::namespaced(self.world.admin(), NAMESPACE);
        let machines = api.list(&ListParams::default()).await.unwrap().items;
        let others = machines.iter().filter(|machine| {
            let origin = machine.annotations().get(CLONED_FROM).map(String::as_str).unwrap_or_default();
            origin != template && !origin.starts_with("blue-control-plane")
        });
        others.map(ResourceExt::name_any).collect()
    }

    /// Waits until nothing of the cluster is left. A template that no controller has seen before the deletion is the
    /// user's own.
    async fn until_nothing_is_left(&self, was_interrupted: bool) {
        self.observer.until_gone().await;
        let mut looks = Looks::begin();
        loop {
            let left = leftovers::objects(&self.world.admin(), NAMESPACE).await;
            let is_of_user = |object: &&String| {
                *object == "Secret credentials" || (was_interrupted && object.contains("Template "))
            };
            if left.iter().all(|object| is_of_user(&object)) {
                return;
            }
            looks.again(&format!("the end of some of these objects: {}", left.join(", "))).await;
        }
    }

    /// Lets processes run and crash, then one that does not crash, until the state is reached.
    async fn run<F: Future<Output = ()>>(
        &self,
        disruption: &Disruption,
        interrupted: Option<usize>,
        reached: impl Fn() -> F,
    ) {
        disruption.faults.iter().for_each(|fault| self.world.cloud.inject(fault.clone()));
        disruption.outages.begin(self.hollow);
        let last = interrupted.map_or_else(CrashPoint::never, |effects| CrashPoint::at(effects, Side::After));
        let crashes = disruption.crashes.iter().map(|(n, side)| CrashPoint::at(*n, *side));
        for crash_point in crashes.chain([last]) {
            let crash_point = Arc::new(crash_point);
            let running = run_until_crash(self.world, &crash_point, &CancellationToken::new());
            tokio::select! {
                () = crash_point.crashed() => {}
                () = reached() => {}
                () = tokio::time::sleep(INTERRUPTED), if interrupted.is_some() => {}
                () = disruption.outages.endpoint_returns(self.hollow) => {}
            }
            drop(running);
        }
        self.world.cloud.clear_faults();
        self.hollow.clear_faults();
    }
}
