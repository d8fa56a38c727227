//! Watches that trigger passes over a Cluster.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::ClusterReconciler;
use crate::object_refs::concerned;

/// Number of Clusters that are reconciled at the same time; a pass is a few calls inside the process.
const CONCURRENCY: u16 = 16;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller =
        ReconcileLoop::new(Api::<Cluster>::all(client.clone()), CONCURRENCY, &context.queues, "cluster");
    let known = controller.store();
    let of_infrastructure = move |infrastructure: OpenStackCluster| {
        let name = infrastructure.name_any();
        concerned(&known, &infrastructure, |cluster: &Cluster| {
            cluster.spec.infrastructure_ref.as_ref().is_some_and(|it| it.name == name)
        })
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
