//! Watches that trigger passes over an OpenStackMachine.

use std::sync::Arc;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackMachineReconciler;
use crate::object_refs::concerned;

/// Number of machines that are reconciled at the same time. Each makes one call after another, so this bounds the calls
/// in flight to the clouds.
const CONCURRENCY: u16 = 64;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = ReconcileLoop::new(
        Api::<OpenStackMachine>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackmachine",
    );
    let known = controller.store();
    let of_machine = |machine: Machine| {
        let reference = &machine.spec.infrastructure_ref;
        let namespace = machine.namespace().unwrap_or_default();
        (reference.kind == "OpenStackMachine")
            .then(|| ObjectRef::<OpenStackMachine>::new(&reference.name).within(&namespace))
    };
    // Machines wait for their cluster to become ready.
    let of_cluster = move |cluster: OpenStackCluster| {
        let label = cluster.labels().get(crate::CLUSTER_NAME_LABEL);
        let belongs = |machine: &OpenStackMachine| {
            label.is_some() && machine.labels().get(crate::CLUSTER_NAME_LABEL) == label
        };
        concerned(&known, &cluster, |machine| belongs(machine) && machine.spec.provider_id.is_none())
    };
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<OpenStackCluster>::all(client), of_cluster);
    let reconciler = Arc::new(OpenStackMachineReconciler::new(context));
    let pass = move |object: Arc<OpenStackMachine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}
