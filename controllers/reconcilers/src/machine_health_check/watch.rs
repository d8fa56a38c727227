//! Watches that trigger passes over a MachineHealthCheck.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_types::{Cluster, Machine, MachineHealthCheck};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::{ClusterKey, WorkloadChange, WorkloadClusters};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::MachineHealthCheckReconciler;
use super::observe::is_target;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::workload_changes;

/// Number of health checks that are reconciled at the same time; a pass lists the Machines of a Cluster.
const CONCURRENCY: u16 = 16;

/// Attempts to end the marks of a health check that was deleted.
const ATTEMPTS: usize = 5;

/// Interval between these attempts.
const AGAIN: Duration = Duration::from_secs(2);

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let checks = Api::<MachineHealthCheck>::all(client.clone());
    let controller = ReconcileLoop::new(checks, CONCURRENCY, &context.queues, "machinehealthcheck");
    let stores = [(); 3].map(|()| controller.store());
    let [of_machines, of_clusters, of_workloads] = stores;
    let predicate = ChangePredicate::default();
    let of_machine = move |machine: Machine| {
        let status = machine.status.as_ref();
        let seen = status.map(|it| (it.node_ref.clone(), it.conditions.clone()));
        if !predicate.is_new_with(&machine, &(machine.labels(), machine.annotations(), seen)) {
            return Vec::new();
        }
        let name = machine.name_any();
        // A Machine that is no target any more is still counted.
        let was_target = |check: &MachineHealthCheck| {
            check.status.as_ref().and_then(|it| it.targets.as_ref()).is_some_and(|it| it.contains(&name))
        };
        concerned(&of_machines, &machine, |check| is_target(check, &machine) || was_target(check))
    };
    let predicate = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| {
        let milestones = ["InfrastructureReady", "ControlPlaneInitialized"];
        if !predicate.is_new_with(&cluster, &milestones.map(|kind| cluster.condition(kind).cloned())) {
            return Vec::new();
        }
        let name = cluster.name_any();
        concerned(&of_clusters, &cluster, |check| check.spec.cluster_name == name)
    };
    let (touched, changes) = mpsc::unbounded_channel();
    // The loop makes no pass over an object that is gone.
    let of_check = move |check: MachineHealthCheck| {
        drop(touched.send(check));
        Vec::<ObjectRef<MachineHealthCheck>>::new()
    };
    let (workloads, seen) = (Arc::clone(&context.workloads), SeenNodes::default());
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<Cluster>::all(client.clone()), of_cluster)
        .watches(Api::<MachineHealthCheck>::all(client), of_check)
        .triggered_by(workload_changes::stream(&context.workloads), move |change| match change {
            Some(change) if !seen.is_news(&workloads, &change) => Vec::new(),
            change => of_workload(&of_workloads, change.as_ref()),
        });
    let reconciler = Arc::new(MachineHealthCheckReconciler::new(context));
    let deletions = follow_deletions(Arc::clone(&reconciler), changes, shutdown.clone());
    let pass = move |object: Arc<MachineHealthCheck>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    // The end of the loop ends the changes.
    tokio::join!(controller.run(pass, shutdown), deletions);
}

/// Ends the marks of health checks that are deleted. `changes` has all changes of health checks.
async fn follow_deletions(
    reconciler: Arc<MachineHealthCheckReconciler>,
    mut changes: mpsc::UnboundedReceiver<MachineHealthCheck>,
    shutdown: CancellationToken,
) {
    while let Some(check) = changes.recv().await {
        for _ in 0..ATTEMPTS {
            let Err(error) = reconciler.forget_deleted(&check).await else { break };
            tracing::warn!(%error, namespace = check.namespace(), name = check.name_any(),
                "the marks of a deleted health check cannot be ended; retrying");
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    }
}

/// Returns the health checks of the Cluster of a change; without a change, all.
fn of_workload(
    store: &Store<MachineHealthCheck>,
    change: Option<&WorkloadChange>,
) -> Vec<ObjectRef<MachineHealthCheck>> {
    let key = change.map(cluster_of);
    let concerns = |check: &MachineHealthCheck| {
        key.is_none_or(|key| {
            check.namespace().as_ref() == Some(&key.namespace) && check.spec.cluster_name == key.name
        })
    };
    let checks = store.state();
    checks.iter().filter(|check| concerns(check)).map(|check| ObjectRef::from_obj(&**check)).collect()
}

fn cluster_of(change: &WorkloadChange) -> &ClusterKey {
    match change {
        WorkloadChange::Connected(key)
        | WorkloadChange::Disconnected(key)
        | WorkloadChange::ProbeIsOld(key)
        | WorkloadChange::Node { cluster: key, .. } => key,
    }
}

/// Type and status of the conditions of a Node.
type Seen = Vec<(String, String)>;

/// Conditions of the Nodes when they were last seen. A Node changes every few minutes, its conditions hardly ever.
#[derive(Debug, Default)]
struct SeenNodes(Mutex<HashMap<(ClusterKey, String), Seen>>);

impl SeenNodes {
    /// Returns true if a change concerns more than the time of a heartbeat.
    fn is_news(&self, workloads: &WorkloadClusters, change: &WorkloadChange) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let WorkloadChange::Node { cluster, name, .. } = change else {
            if let WorkloadChange::Disconnected(cluster) = change {
                known.retain(|(of, _), _| of != cluster);
            }
            return true;
        };
        let key = (cluster.clone(), name.clone());
        let Ok(Some(node)) = workloads.node(cluster, name) else {
            known.remove(&key);
            return true;
        };
        let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
        let now: Seen = conditions.map(|it| (it.type_.clone(), it.status.clone())).collect();
        known.insert(key, now.clone()) != Some(now)
    }
}
