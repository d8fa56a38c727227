//! Watches that trigger passes over a control plane.

use std::sync::Arc;

use apiserver_types::{Cluster, KubeadmControlPlane, Machine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::{ClusterKey, WorkloadChange};
use futures::stream::{self, Stream};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::KubeadmControlPlaneReconciler;
use crate::CLUSTER_NAME_LABEL;
use crate::object_refs::concerned;

/// Number of control planes that are reconciled at the same time. A pass waits for calls to a workload cluster.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let api = Api::<KubeadmControlPlane>::all(client.clone());
    let controller = ReconcileLoop::new(api, CONCURRENCY, &context.queues, "kubeadmcontrolplane");
    let (known, known_too) = (controller.store(), controller.store());
    let of_machine = |machine: Machine| {
        let namespace = machine.namespace().unwrap_or_default();
        let owners = machine.owner_references().iter().filter(|owner| owner.kind == "KubeadmControlPlane");
        let owners =
            owners.map(|owner| ObjectRef::<KubeadmControlPlane>::new(&owner.name).within(&namespace));
        owners.collect::<Vec<_>>()
    };
    let of_cluster = move |cluster: Cluster| {
        let reference = cluster.spec.control_plane_ref.as_ref();
        let name = reference.filter(|it| it.kind == "KubeadmControlPlane").map(|it| it.name.clone());
        concerned(&known, &cluster, |it: &KubeadmControlPlane| Some(it.name_any()) == name)
    };
    let changes = changes(context.workloads.changes());
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<Cluster>::all(client), of_cluster)
        .triggered_by(changes, move |key| of_key(&known_too, key.as_ref()));
    let reconciler = Arc::new(KubeadmControlPlaneReconciler::new(context));
    let pass = move |object: Arc<KubeadmControlPlane>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the control planes of a cluster, or all.
fn of_key(
    store: &Store<KubeadmControlPlane>,
    key: Option<&ClusterKey>,
) -> Vec<ObjectRef<KubeadmControlPlane>> {
    let concerns = |it: &KubeadmControlPlane| {
        key.is_none_or(|key| {
            let label = it.labels().get(CLUSTER_NAME_LABEL);
            it.namespace().as_ref() == Some(&key.namespace) && label == Some(&key.name)
        })
    };
    store.state().iter().filter(|it| concerns(it)).map(|it| ObjectRef::from_obj(&**it)).collect()
}

/// Returns the clusters whose connection changes. `None` stands for all, after changes were missed.
fn changes(receiver: Receiver<WorkloadChange>) -> impl Stream<Item = Option<ClusterKey>> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(
                    WorkloadChange::Connected(key)
                    | WorkloadChange::Disconnected(key)
                    | WorkloadChange::ProbeIsOld(key),
                ) => return Some((Some(key), receiver)),
                // The Machine of the Node changes, too, and is watched.
                Ok(WorkloadChange::Node { .. }) => {}
                Err(RecvError::Lagged(_)) => return Some((None, receiver)),
                Err(RecvError::Closed) => return None,
            }
        }
    })
}
