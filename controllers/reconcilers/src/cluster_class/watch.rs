//! Watch that triggers passes over a ClusterClass.

use std::sync::Arc;

use apiserver_types::ClusterClass;
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::Api;
use tokio_util::sync::CancellationToken;

use super::ClusterClassReconciler;

/// Number of classes that are reconciled at the same time. Upstream's.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let classes = Api::<ClusterClass>::all(context.client.clone());
    let controller = ReconcileLoop::new(classes, CONCURRENCY, &context.queues, "clusterclass");
    let reconciler = Arc::new(ClusterClassReconciler::new(context));
    let pass = move |object: Arc<ClusterClass>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
