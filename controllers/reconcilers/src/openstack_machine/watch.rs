//! Watches that trigger passes over an OpenStackMachine.

use std::sync::Arc;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackMachineReconciler;
use super::desired::CONTROL_PLANE_LABEL;
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
    // The port of a deleted machine releases the floating IP of the API, and clients wait until another one takes it.
    let known = controller.store();
    let of_sibling = move |gone: OpenStackMachine| {
        let label = gone.labels().get(crate::CLUSTER_NAME_LABEL);
        let is_heir = |machine: &OpenStackMachine| {
            is_control_plane(machine)
                && machine.metadata.deletion_timestamp.is_none()
                && label.is_some()
                && machine.labels().get(crate::CLUSTER_NAME_LABEL) == label
        };
        let releases = is_control_plane(&gone) && gone.metadata.deletion_timestamp.is_some();
        if releases { concerned(&known, &gone, is_heir) } else { Vec::new() }
    };
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<OpenStackMachine>::all(client.clone()), of_sibling)
        .watches(Api::<OpenStackCluster>::all(client), of_cluster);
    let reconciler = Arc::new(OpenStackMachineReconciler::new(context));
    let pass = move |object: Arc<OpenStackMachine>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns true if a machine has the label of control planes, which it gets from its Machine.
fn is_control_plane(machine: &OpenStackMachine) -> bool {
    machine.labels().contains_key(CONTROL_PLANE_LABEL)
}
