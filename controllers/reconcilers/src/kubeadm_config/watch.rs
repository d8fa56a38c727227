//! Watches that trigger passes over a KubeadmConfig.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver_types::{Cluster, KubeadmConfig, Machine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::{ClusterKey, WorkloadChange, WorkloadClusters};
use futures::Stream;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::KubeadmConfigReconciler;
use super::decide::initialized;
use super::tokens;
use crate::CLUSTER_NAME_LABEL;
use crate::object_refs::concerned;

/// Number of KubeadmConfigs that are reconciled at the same time. A pass makes a few calls, one to a workload cluster.
const CONCURRENCY: u16 = 32;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let objects = Api::<KubeadmConfig>::all(client.clone());
    let controller = ReconcileLoop::new(objects, CONCURRENCY, &context.queues, "kubeadmconfig");
    let (of_cluster, of_workload) = (controller.store(), controller.store());
    let (machines, clusters) = (Seen::default(), Seen::default());
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), move |machine| {
            let changed = machines.is_new(&machine, tokens::is_over(&machine));
            changed.then(|| config_of(&machine)).flatten()
        })
        .watches(Api::<Cluster>::all(client), move |cluster| {
            let name = cluster.name_any();
            match clusters.is_new(&cluster, milestones(&cluster)) {
                true => concerned(&of_cluster, &cluster, |config| is_of(config, &name)),
                false => Vec::new(),
            }
        })
        .triggered_by(changes(&context.workloads), move |change| connected(&of_workload, change));
    let reconciler = Arc::new(KubeadmConfigReconciler::new(context));
    let pass = move |object: Arc<KubeadmConfig>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Last known states of objects, so that only the changes that matter trigger passes.
#[derive(Debug)]
struct Seen<S>(Mutex<HashMap<String, State<S>>>);

/// Generation, deletion, and what matters beside them.
type State<S> = (Option<i64>, bool, S);

impl<S> Default for Seen<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: PartialEq + Copy> Seen<S> {
    /// Returns true if the state of an object differs from that of the last call.
    fn is_new<K: Resource>(&self, object: &K, state: S) -> bool {
        let state = (object.meta().generation, object.meta().deletion_timestamp.is_some(), state);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(object.uid().unwrap_or_default(), state) != Some(state)
    }
}

/// Returns the milestones of a Cluster that bootstrap waits for, and its pause.
fn milestones(cluster: &Cluster) -> (bool, bool, bool) {
    let status = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    let provisioned = status.and_then(|it| it.infrastructure_provisioned) == Some(true);
    (provisioned, initialized(cluster), controllers_runtime::paused(cluster, None))
}

/// Returns the KubeadmConfig that a Machine refers to.
fn config_of(machine: &Machine) -> Option<ObjectRef<KubeadmConfig>> {
    let reference = machine.spec.bootstrap.config_ref.as_ref()?;
    let is_ours = reference.kind == KubeadmConfig::kind(&());
    is_ours.then(|| ObjectRef::new(&reference.name).within(&machine.namespace().unwrap_or_default()))
}

fn is_of(config: &KubeadmConfig, cluster: &str) -> bool {
    config.labels().get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
}

/// Returns the changes of all workload clusters. `None` stands for changes that were missed.
fn changes(workloads: &WorkloadClusters) -> impl Stream<Item = Option<WorkloadChange>> + use<> {
    futures::stream::unfold(workloads.changes(), async |mut changes| match changes.recv().await {
        Ok(change) => Some((Some(change), changes)),
        Err(RecvError::Lagged(_)) => Some((None, changes)),
        Err(RecvError::Closed) => None,
    })
}

/// Returns the objects that a change of a workload cluster concerns: a connection ends their wait.
fn connected(store: &Store<KubeadmConfig>, change: Option<WorkloadChange>) -> Vec<ObjectRef<KubeadmConfig>> {
    let of = |key: Option<ClusterKey>| -> Vec<ObjectRef<KubeadmConfig>> {
        let is_concerned = |config: &KubeadmConfig| {
            key.as_ref().is_none_or(|key| {
                config.metadata.namespace.as_ref() == Some(&key.namespace) && is_of(config, &key.name)
            })
        };
        let objects = store.state();
        objects.iter().filter(|it| is_concerned(it)).map(|it| ObjectRef::from_obj(&**it)).collect()
    };
    match change {
        None => of(None),
        Some(WorkloadChange::Connected(key)) => of(Some(key)),
        Some(_) => Vec::new(),
    }
}
