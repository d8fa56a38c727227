//! A cluster that grows and shrinks while calls of its workload API fail.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment};
use controllers_workload::Timing;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tests_hollow_cluster::{HollowClusters, WorkloadCall};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::failures::Failure;
use super::said::Messages;
use crate::observer::Observer;
use crate::{manifest, pods, scale};

/// Time in which a message must name a failure. The longest takes five calls of ten seconds, and longer on a busy machine.
const TOLD: Duration = Duration::from_secs(120);

/// Time in which all calls of a change are made. A quiet machine needs a tenth of it.
const CALLED: Duration = Duration::from_secs(300);

/// Time for which a failed call must have failed before its message is looked for.
const INTERVAL: Duration = Duration::from_millis(100);

const NAMESPACE: &str = "life";

/// Change of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Creation,
    WorkerComes,
    WorkerGoes,
    ControlPlaneGrows,
    ControlPlaneShrinks,
    Deletion,
}

impl Phase {
    pub(crate) const ALL: [Self; 6] = [
        Self::Creation,
        Self::WorkerComes,
        Self::WorkerGoes,
        Self::ControlPlaneGrows,
        Self::ControlPlaneShrinks,
        Self::Deletion,
    ];
}

/// Kind of call, and the way in which it fails.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) call: WorkloadCall,
    pub(crate) failure: Failure,
}

/// Outcome of a failure during a change.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// These messages tell it, or there is nothing to tell.
    Named(Vec<String>),
    /// The call failed, and none of these messages tells it.
    Unnamed(Vec<String>),
    /// The change took no such call.
    NotCalled,
}

pub(crate) struct Life {
    world: World,
    hollow: HollowClusters,
    observer: Observer,
    messages: Messages,
    before: serde_json::Value,
    running: Option<JoinSet<()>>,
}

impl Life {
    pub(crate) async fn start() -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let world = world.with_workload_timing(Timing::faster(20));
        let observer = Observer::new(&world, NAMESPACE);
        let messages = Messages { client: world.admin(), namespace: NAMESPACE.to_owned() };
        let before = serde_json::to_value(world.cloud.inventory("demo")).unwrap();
        Self { world, hollow, observer, messages, before, running: None }
    }

    /// Makes a change without failures, and returns the kinds of calls that it takes.
    pub(crate) async fn calls_of(&mut self, phase: Phase) -> Vec<WorkloadCall> {
        self.stop().await;
        self.prepare(phase).await;
        self.hollow.forget_calls();
        self.begin(phase).await;
        self.run();
        self.reached(phase).await;
        self.calls()
    }

    /// Returns the kinds of calls of the last change.
    pub(crate) fn calls(&self) -> Vec<WorkloadCall> {
        self.hollow.calls().into_keys().collect()
    }

    /// Makes a change during which kinds of calls fail, each until a message names its failure. Returns an outcome for
    /// each.
    pub(crate) async fn fail(&mut self, phase: Phase, cases: &[Case]) -> Vec<(Case, Outcome)> {
        self.stop().await;
        self.prepare(phase).await;
        self.messages.forget_events().await;
        let known = if phase == Phase::Creation { BTreeSet::new() } else { self.messages.all().await };
        self.hollow.forget_calls();
        cases.iter().for_each(|case| case.failure.plant(&self.hollow, &case.call));
        self.begin(phase).await;
        self.run();
        let named = self.until_named(phase, cases, &known).await;
        self.hollow.clear_faults();
        self.reached(phase).await;
        named
    }

    /// Waits until new messages name all failures that occur. A call works again after a message names its failure.
    async fn until_named(
        &self,
        phase: Phase,
        cases: &[Case],
        known: &BTreeSet<String>,
    ) -> Vec<(Case, Outcome)> {
        let mut open: Vec<Case> = cases.to_vec();
        let mut outcomes = Vec::new();
        let begun = Instant::now();
        let mut since = begun;
        loop {
            let failed = self.hollow.failed_calls();
            let hit = |case: &Case| case.failure.is_of_endpoint() || failed.contains_key(&case.call);
            let all = self.messages.all().await;
            let new: BTreeSet<String> = all.difference(known).cloned().collect();
            let mut left = Vec::new();
            for case in open {
                let named: Vec<String> =
                    new.iter().filter(|it| case.failure.is_named_by(it)).cloned().collect();
                if hit(&case) && (case.failure.has_effect(&case.call) || !named.is_empty()) {
                    case.failure.end(&self.hollow, &case.call);
                    outcomes.push((case, Outcome::Named(named)));
                    since = Instant::now();
                } else {
                    left.push(case);
                }
            }
            open = left;
            if !open.iter().any(hit) {
                since = Instant::now();
            }
            // The end of the cluster ends what there is to tell.
            if phase == Phase::Deletion && self.is_reached(phase).await {
                outcomes.extend(open.into_iter().map(|case| (case, Outcome::NotCalled)));
                return outcomes;
            }
            let is_over = open.is_empty() || !open.iter().any(hit) && self.is_reached(phase).await;
            if is_over || since.elapsed() > TOLD || begun.elapsed() > CALLED {
                let new: Vec<String> = new.into_iter().collect();
                outcomes.extend(open.into_iter().map(|case| match hit(&case) {
                    true => (case, Outcome::Unnamed(new.clone())),
                    false => (case, Outcome::NotCalled),
                }));
                return outcomes;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn is_reached(&self, phase: Phase) -> bool {
        match phase {
            Phase::Creation | Phase::WorkerGoes | Phase::ControlPlaneShrinks => {
                self.observer.is_available(1, 1).await
            }
            Phase::WorkerComes => self.observer.is_available(1, 2).await,
            Phase::ControlPlaneGrows => self.observer.is_available(3, 1).await,
            Phase::Deletion => self.observer.is_gone().await,
        }
    }

    fn run(&mut self) {
        self.running = Some(tests_scenarios::run(&self.world, &CancellationToken::new()));
    }

    /// Ends the process, so that the next one connects anew.
    async fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.shutdown().await;
        }
    }

    /// Runs a pod on each worker, so that the one that goes has something to evict.
    async fn prepare(&self, phase: Phase) {
        if phase == Phase::WorkerGoes {
            pods::run_on_workers(&self.observer.workload().await).await;
        }
    }

    async fn begin(&self, phase: Phase) {
        let client = self.world.admin();
        let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
        let control_planes: Api<KubeadmControlPlane> = Api::namespaced(client, NAMESPACE);
        match phase {
            Phase::Creation => self.world.create(&patient(&self.world)).await.unwrap(),
            Phase::WorkerComes => scale(&deployments, "blue-md-0", 2).await,
            Phase::WorkerGoes => scale(&deployments, "blue-md-0", 1).await,
            Phase::ControlPlaneGrows => scale(&control_planes, "blue-control-plane", 3).await,
            Phase::ControlPlaneShrinks => scale(&control_planes, "blue-control-plane", 1).await,
            Phase::Deletion => {
                self.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
            }
        }
    }

    async fn reached(&self, phase: Phase) {
        match phase {
            Phase::Creation | Phase::WorkerGoes | Phase::ControlPlaneShrinks => {
                self.observer.until_available(1, 1).await;
            }
            Phase::WorkerComes => self.observer.until_available(1, 2).await,
            Phase::ControlPlaneGrows => self.observer.until_available(3, 1).await,
            Phase::Deletion => {
                self.observer.until_gone().await;
                let after = serde_json::to_value(self.world.cloud.inventory("demo")).unwrap();
                assert_eq!(after, self.before, "the project is not as it was");
            }
        }
        if phase != Phase::Deletion {
            self.no_surplus_nodes().await;
        }
    }

    /// Waits until each Node has its Machine.
    async fn no_surplus_nodes(&self) {
        let machines: Api<Machine> = Api::namespaced(self.world.admin(), NAMESPACE);
        let machines = machines.list(&ListParams::default()).await.unwrap().items.len();
        self.observer.until_nodes_are_ready(machines).await;
    }
}

/// Returns a manifest whose Machines wait for the end of their Nodes for ever. By default a Machine goes without its Node
/// after ten seconds, which some failures last on a busy machine.
fn patient(world: &World) -> String {
    let deletion = "deletion: {nodeDeletionTimeoutSeconds: 0}";
    let of_worker = "failureDomain: az1\n";
    let of_control_plane = "machineTemplate:\n    spec:\n";
    manifest(world, NAMESPACE)
        .replace(of_worker, &format!("{of_worker}      {deletion}\n"))
        .replace(of_control_plane, &format!("{of_control_plane}      {deletion}\n"))
}
