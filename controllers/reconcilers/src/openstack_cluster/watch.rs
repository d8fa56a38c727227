//! Watches that trigger passes over an OpenStackCluster.

use std::sync::Arc;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackClusterReconciler;

/// Number of clusters that are reconciled at the same time: each makes one call after another.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let clusters: Api<Cluster> = Api::all(client.clone());
    let controller = ReconcileLoop::new(
        Api::<OpenStackCluster>::all(client),
        CONCURRENCY,
        &context.queues,
        "openstackcluster",
    )
    .watches(clusters, |cluster: Cluster| {
        let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "OpenStackCluster");
        let namespace = cluster.namespace().unwrap_or_default();
        reference.map(|it| ObjectRef::<OpenStackCluster>::new(&it.name).within(&namespace))
    });
    let reconciler = Arc::new(OpenStackClusterReconciler::new(context));
    let pass = move |object: Arc<OpenStackCluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
