//! Watches that trigger passes over the credentials of a workload cluster.

use std::sync::Arc;

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::WorkloadChange;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::ApplicationCredentialReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::{CLUSTER_NAME_LABEL, credential_watch, workload_changes};

/// Number of clusters that are reconciled at the same time: each makes one call after another.
const CONCURRENCY: u16 = 8;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let objects = Api::<OpenStackCluster>::all(client.clone());
    let controller = ReconcileLoop::new(objects, CONCURRENCY, &context.queues, "applicationcredential");
    let (of_clusters, of_workloads) = (controller.store(), controller.store());
    let changed = ChangePredicate::default();
    let controller = controller
        .watches(Api::<Cluster>::all(client), move |cluster: Cluster| {
            let name = cluster.name_any();
            let is_new = changed.is_new_with(&cluster, cluster.annotations());
            concerned(&of_clusters, &cluster, |it: &OpenStackCluster| {
                is_new && it.labels().get(CLUSTER_NAME_LABEL) == Some(&name)
            })
        })
        .triggered_by(workload_changes::stream(&context.workloads), move |change| match change {
            None => workload_changes::labelled(&of_workloads, None),
            Some(WorkloadChange::Connected(key)) => workload_changes::labelled(&of_workloads, Some(&key)),
            Some(_) => Vec::new(),
        });
    let shared = context.clone();
    let reconciler = Arc::new(ApplicationCredentialReconciler::new(context));
    let waking = Arc::clone(&reconciler);
    let wake = move |object: &OpenStackCluster| waking.requeue.forget(&object.uid().unwrap_or_default());
    let identity = |object: &OpenStackCluster| Some(object.spec.identity_ref.clone());
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackCluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
