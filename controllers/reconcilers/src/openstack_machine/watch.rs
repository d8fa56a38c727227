//! What makes an OpenStackMachine be looked at.

use std::sync::Arc;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackMachineReconciler;

/// Machines worked on at the same time: each makes one call after another, so this bounds the calls
/// that are open to the clouds.
const CONCURRENCY: u16 = 64;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; another call goes on where this one was.
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
    // A cluster that becomes ready is what its machines wait for.
    let of_cluster = move |cluster: OpenStackCluster| -> Vec<ObjectRef<OpenStackMachine>> {
        let label = cluster.labels().get(crate::CLUSTER_NAME_LABEL);
        let belongs = |machine: &Arc<OpenStackMachine>| {
            machine.namespace() == cluster.namespace()
                && machine.labels().get(crate::CLUSTER_NAME_LABEL) == label
        };
        let waits = |machine: &Arc<OpenStackMachine>| machine.spec.provider_id.is_none();
        let machines = known.state();
        let waiting = machines.iter().filter(|machine| label.is_some() && belongs(machine) && waits(machine));
        waiting.map(|machine| ObjectRef::from_obj(&**machine)).collect()
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
