//! A cluster that grows and shrinks while calls of its workload API fail.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment};
use controllers_workload::Timing;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_hollow_cluster::{HollowClusters, WorkloadCall};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::failures::Failure;
use super::said::Messages;
use crate::observer::Observer;
use crate::{manifest, scale};

/// Time in which a failure must be told. The longest takes five calls of ten seconds.
const TOLD: Duration = Duration::from_secs(75);

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
        self.hollow.calls().into_keys().collect()
    }

    /// Makes a change during which a kind of call fails, until a message names the failure. Returns the messages.
    pub(crate) async fn fail(
        &mut self,
        phase: Phase,
        call: &WorkloadCall,
        failure: &Failure,
    ) -> Result<BTreeSet<String>, String> {
        self.stop().await;
        self.prepare(phase).await;
        self.messages.forget_events().await;
        let known = if phase == Phase::Creation { BTreeSet::new() } else { self.messages.all().await };
        self.hollow.forget_calls();
        failure.plant(&self.hollow, call);
        self.begin(phase).await;
        self.run();
        let told = self.until_told(call, failure, &known).await;
        self.hollow.clear_faults();
        self.reached(phase).await;
        told
    }

    /// Waits until a new message tells the failure.
    async fn until_told(
        &self,
        call: &WorkloadCall,
        failure: &Failure,
        known: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, String> {
        let begun = Instant::now();
        loop {
            let hit = failure.is_of_endpoint() || self.hollow.failed_calls().contains_key(call);
            let all = self.messages.all().await;
            let new: BTreeSet<String> = all.difference(known).cloned().collect();
            let told: BTreeSet<String> = new.iter().filter(|it| failure.is_told_by(it)).cloned().collect();
            if hit && (failure.has_effect(call) || !told.is_empty()) {
                return Ok(told);
            }
            if begun.elapsed() > TOLD {
                let new: Vec<String> = new.into_iter().collect();
                let calls = self.hollow.failed_calls();
                return Err(format!("failed calls {calls:?}; new messages:\n    {}", new.join("\n    ")));
            }
            tokio::time::sleep(INTERVAL).await;
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
        if phase != Phase::WorkerGoes {
            return;
        }
        let client = self.observer.workload().await;
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        let pods: Api<Pod> = Api::default_namespaced(client);
        for node in nodes.iter().filter(|node| !node.name_any().contains("control-plane")) {
            let name = format!("web-{}", node.name_any());
            let owner = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true
            });
            let pod = json!({
                "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
                "spec": {"nodeName": node.name_any(), "containers": [{"name": "web", "image": "web"}]},
            });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            match pods.create(&PostParams::default(), &pod).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn begin(&self, phase: Phase) {
        let client = self.world.admin();
        let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
        let control_planes: Api<KubeadmControlPlane> = Api::namespaced(client, NAMESPACE);
        match phase {
            Phase::Creation => self.world.create(&manifest(&self.world, NAMESPACE)).await.unwrap(),
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
