//! Main loop of the operations controller.

use std::sync::Arc;

use apiserver_types::MachineOperation;
use controllers_runtime::{ControllerContext, ControllerSpec, PolicyRule, ReconcileLoop, Requeue};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::core::context::OperationContext;
use crate::core::controller::Controller;
use crate::core::{report, restored};

/// Number of operations carried out at the same time. Each makes one call after another, so this bounds the calls that
/// are open to the clouds.
const CONCURRENCY: u16 = 32;

/// Number of passes in a row for one operation before others proceed.
const PASSES: usize = 64;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "machineoperation-controller",
    rules: &[
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["machineoperations", "machineoperations/status"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::CHANGE },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["machines"], verbs: PolicyRule::DELETE },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters", "openstackmachines", "openstackmachines/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io"],
            resources: &["kubeadmconfigs"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinedrainrules"],
            verbs: PolicyRule::READ,
        },
        PolicyRule { groups: &[""], resources: &["configmaps"], verbs: &["get"] },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(run(context, shutdown)),
};

/// Carries out operations until `shutdown`.
async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let restores = context.settings.restores.clone();
    let context = OperationContext::from(context);
    let Some(restore) = shutdown.run_until_cancelled(restored::last(restores)).await else { return };
    let operations: Api<MachineOperation> = Api::all(context.client.clone());
    let operating = ReconcileLoop::new(operations.clone(), CONCURRENCY, &context.queues, "machineoperation");
    let known = operating.store();
    // When one operation ends, the next of the same Machine may begin.
    let waiting = move |changed: MachineOperation| -> Vec<ObjectRef<MachineOperation>> {
        if !report::is_finished(&changed) {
            return Vec::new();
        }
        let waits = |other: &Arc<MachineOperation>| {
            other.spec.machine_name == changed.spec.machine_name
                && other.namespace() == changed.namespace()
                && !report::is_finished(other)
        };
        known.state().iter().filter(|other| waits(other)).map(|other| ObjectRef::from_obj(&**other)).collect()
    };
    let controller = Arc::new(Controller::new(context).with_restore(restore));
    let pass = move |operation: Arc<MachineOperation>| {
        let controller = Arc::clone(&controller);
        async move { reconcile(&controller, &operation).await }
    };
    operating.watches(operations, waiting).run(pass, shutdown).await;
}

/// Makes passes until the operation waits for something.
async fn reconcile(controller: &Controller, operation: &MachineOperation) -> Result<Requeue, kube::Error> {
    let namespace = operation.namespace().unwrap_or_default();
    if let Some(remaining) = controller.remaining(operation) {
        return Ok(Requeue::After(remaining));
    }
    for _ in 0..PASSES {
        match controller.pass(&namespace, &operation.name_any()).await? {
            Requeue::Now => {}
            other => return Ok(other),
        }
    }
    Ok(Requeue::Now)
}
