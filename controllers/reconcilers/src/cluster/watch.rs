//! What makes a Cluster be looked at.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::ClusterReconciler;

/// Clusters worked on at the same time; a pass is a few calls inside the process.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; another call goes on where this one was.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller =
        ReconcileLoop::new(Api::<Cluster>::all(client.clone()), CONCURRENCY, &context.queues, "cluster");
    let known = controller.store();
    let of_infrastructure = move |infrastructure: OpenStackCluster| -> Vec<ObjectRef<Cluster>> {
        let refers = |cluster: &Arc<Cluster>| {
            let reference = cluster.spec.infrastructure_ref.as_ref();
            cluster.namespace() == infrastructure.namespace()
                && reference.is_some_and(|it| it.name == infrastructure.name_any())
        };
        let clusters = known.state();
        clusters
            .iter()
            .filter(|cluster| refers(cluster))
            .map(|cluster| ObjectRef::from_obj(&**cluster))
            .collect()
    };
    let of_machine = |machine: Machine| {
        let namespace = machine.namespace().unwrap_or_default();
        Some(ObjectRef::<Cluster>::new(&machine.spec.cluster_name).within(&namespace))
    };
    let controller = controller
        .watches(Api::<OpenStackCluster>::all(client.clone()), of_infrastructure)
        .watches(Api::<Machine>::all(client), of_machine);
    let reconciler = Arc::new(ClusterReconciler::new(context));
    let pass = move |object: Arc<Cluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
