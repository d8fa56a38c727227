//! Watches that trigger passes over a Machine.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::MachineReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;

/// Number of Machines that are reconciled at the same time; a pass is a few calls inside the process.
const CONCURRENCY: u16 = 32;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller =
        ReconcileLoop::new(Api::<Machine>::all(client.clone()), CONCURRENCY, &context.queues, "machine");
    let (known, known_too) = (controller.store(), controller.store());
    let of_infrastructure = move |infrastructure: OpenStackMachine| {
        let name = infrastructure.name_any();
        concerned(&known, &infrastructure, |machine| machine.spec.infrastructure_ref.name == name)
    };
    let predicate = ChangePredicate::default();
    let of_cluster = move |cluster: Cluster| {
        // A Cluster's status is computed from its Machines'; they need only its spec.
        if !predicate.is_new(&cluster) {
            return Vec::new();
        }
        let name = cluster.name_any();
        concerned(&known_too, &cluster, |machine| machine.spec.cluster_name == name)
    };
    let controller = controller
        .watches(Api::<OpenStackMachine>::all(client.clone()), of_infrastructure)
        .watches(Api::<Cluster>::all(client), of_cluster);
    let reconciler = Arc::new(MachineReconciler::new(context));
    let pass = move |object: Arc<Machine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
