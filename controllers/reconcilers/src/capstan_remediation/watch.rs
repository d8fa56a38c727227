//! Watches that trigger passes over a CapstanRemediation.

use std::sync::Arc;

use apiserver_types::{CapstanRemediation, Machine, MachineOperation};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::CapstanRemediationReconciler;
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::replica_status::{is_false, is_unhealthy};

/// Number of remediations that are reconciled at the same time. Two of one control plane must not begin at once, and a
/// pass makes only a few calls inside the process.
const CONCURRENCY: u16 = 1;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let remediations = Api::<CapstanRemediation>::all(client.clone());
    let controller = ReconcileLoop::new(remediations, CONCURRENCY, &context.queues, "capstanremediation");
    let (of_machines, of_operations) = (controller.store(), controller.store());
    let machines = ChangePredicate::default();
    let of_machine = move |machine: Machine| {
        let part = (is_unhealthy(&machine), is_false(&machine, "OwnerRemediated"));
        let is_new = machines.is_new_with(&machine, &part);
        let name = machine.name_any();
        concerned(&of_machines, &machine, |it| is_new && is_of(it, &name))
    };
    let of_operation = move |operation: MachineOperation| {
        let name = &operation.spec.machine_name;
        concerned(&of_operations, &operation, |it| is_of(it, name))
    };
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), of_machine)
        .watches(Api::<MachineOperation>::all(client), of_operation);
    let reconciler = Arc::new(CapstanRemediationReconciler { context });
    let pass = move |object: Arc<CapstanRemediation>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Reports whether a remediation is that of the Machine of this name.
fn is_of(remediation: &CapstanRemediation, machine: &str) -> bool {
    remediation.owner_references().iter().any(|owner| owner.kind == "Machine" && owner.name == machine)
}
