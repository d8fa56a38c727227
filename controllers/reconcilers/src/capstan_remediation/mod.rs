//! CapstanRemediation reconciler: remediates an unhealthy Machine step by step, before its owner replaces it.
//!
//! A MachineHealthCheck makes the object and deletes it once the Machine is healthy. Each attempt is one MachineOperation
//! with a name of its own, so that a pass that is repeated makes no second one.

mod decide;
mod observe;
mod watch;

use std::time::Duration;

use apiserver_types::{
    CapstanRemediation, CapstanRemediationStatus, Machine, MachineAction, MachineOperation,
    MachineOperationSpec, RebootParameters, RebootType, RemediationPhase,
};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, write_status,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::machine_health_check::order_replacement;
use crate::{finalizers, ownership};
use decide::{Attempt, Next, Place, decide};

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "capstanremediation-controller",
    rules: &[
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["capstanremediations", "capstanremediations/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["capstan.dev"],
            resources: &["machineoperations"],
            verbs: &["get", "list", "watch", "create", "patch"],
        },
        // A declared operation needs the permission for its action.
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["machines/reboot"], verbs: &["create"] },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines"],
            verbs: PolicyRule::READ,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["machines/status"], verbs: &["update"] },
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a remediation until its unfinished MachineOperation is cancelled.
const FINALIZER: &str = "capstan.dev/remediation";

/// Interval of a remediation that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(30);

/// Reconciler of CapstanRemediations.
#[derive(Debug)]
struct CapstanRemediationReconciler {
    context: ControllerContext,
}

impl CapstanRemediationReconciler {
    /// Makes one pass. Returns when the next one is due.
    async fn reconcile(&self, object: &CapstanRemediation) -> Result<Requeue, kube::Error> {
        Requeue::after(self.pass(object).await, WAITING)
    }

    async fn pass(&self, object: &CapstanRemediation) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<CapstanRemediation> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut remediation) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let place = Place::of(remediation.status.as_ref());
        if remediation.metadata.deletion_timestamp.is_some() {
            if !crate::moved(&remediation) {
                self.cancel(&remediation, place).await?;
            }
            finalizers::remove(&api, &remediation, FINALIZER).await?;
            return Ok(None);
        }
        let Some(machine) = observe::machine(&self.context, &remediation).await? else {
            let message = "no Machine that exists and stays owns this object".to_owned();
            let mut status = remediation.status.clone().unwrap_or_default();
            status.message = Some(message);
            return report(&api, &remediation, status).await.map(|()| None);
        };
        if observe::is_paused(&self.context, &remediation, &machine).await? {
            return Ok(Some(WAITING));
        }
        finalizers::add(&api, &mut remediation, FINALIZER).await?;
        let observed = observe::observe(&self.context, &remediation, &machine, place).await?;
        let next = decide(&remediation.spec.steps, place, &observed);
        let is_made = observed.attempt != Attempt::None;
        self.follow(&api, &remediation, &machine, (place, is_made), next).await
    }

    /// Makes the effect of a decision, and reports. The report names the operation of the place if it was made, because
    /// an earlier report of it may be lost.
    async fn follow(
        &self,
        api: &Api<CapstanRemediation>,
        remediation: &CapstanRemediation,
        machine: &Machine,
        (place, is_made): (Place, bool),
        next: Next,
    ) -> Result<Option<Duration>, ReconcileError> {
        let operation = observe::operation_name(remediation, place);
        let recorded = remediation.status.as_ref().and_then(|status| status.operation_name.clone());
        let known = if is_made { Some(operation.clone()) } else { recorded };
        let (place, operation_name, phase, message, rest) = match next {
            Next::Begin(kind) => {
                self.begin(remediation, machine, &operation, kind).await?;
                let message = "waiting for the end of the MachineOperation".to_owned();
                (place, Some(operation), RemediationPhase::Running, message, None)
            }
            Next::Advance(next) => {
                let message = "the next attempt or step follows".to_owned();
                (next, None, RemediationPhase::Waiting, message, Some(Duration::ZERO))
            }
            Next::Mark => {
                self.mark(machine).await?;
                let message = "the Machine is marked for its owner".to_owned();
                (place, known, RemediationPhase::Replacing, message, None)
            }
            Next::Wait(phase, message, rest) => {
                (place, known, phase, message, rest.and_then(|rest| Duration::try_from(rest).ok()))
            }
        };
        let status = CapstanRemediationStatus {
            attempt: Some(place.attempt),
            message: Some(message),
            operation_name,
            phase: Some(phase),
            step: Some(place.step),
        };
        report(api, remediation, status).await?;
        Ok(Some(rest.map_or(WAITING, |rest| rest.min(WAITING))))
    }

    /// Makes the MachineOperation of an attempt, unless an earlier pass has made it.
    async fn begin(
        &self,
        remediation: &CapstanRemediation,
        machine: &Machine,
        name: &str,
        kind: RebootType,
    ) -> Result<(), ReconcileError> {
        // The kubelet of an unhealthy Node may not end its Pods, so that a drain would only delay the reboot.
        let reboot = RebootParameters { drain: Some(false), kind: Some(kind), ..RebootParameters::default() };
        let spec = MachineOperationSpec {
            action: MachineAction::Reboot,
            machine_name: machine.name_any(),
            reboot: Some(reboot),
            ..MachineOperationSpec::default()
        };
        let mut operation = MachineOperation::new(name, spec);
        operation.metadata.namespace = remediation.namespace();
        operation.metadata.owner_references = Some(vec![ownership::reference(machine, false)]);
        match self.operations(remediation).create(&PostParams::default(), &operation).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Cancels the unfinished MachineOperation of a remediation that is not needed any more.
    async fn cancel(&self, remediation: &CapstanRemediation, place: Place) -> Result<(), ReconcileError> {
        let operations = self.operations(remediation);
        let name = observe::operation_name(remediation, place);
        let Some(operation) = operations.get_opt(&name).await? else { return Ok(()) };
        if observe::is_finished(&operation) || operation.spec.cancel_requested == Some(true) {
            return Ok(());
        }
        let change = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
        match operations.patch(&name, &PatchParams::default(), &change).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => Ok(result.map(drop)?),
        }
    }

    /// Marks the Machine for its owner, as a MachineHealthCheck without a template does.
    async fn mark(&self, machine: &Machine) -> Result<(), ReconcileError> {
        let namespace = machine.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut new = machine.clone();
        order_replacement(&mut new);
        write_status(&api, machine, &new).await.map(drop)
    }

    fn operations(&self, remediation: &CapstanRemediation) -> Api<MachineOperation> {
        Api::namespaced(self.context.client.clone(), &remediation.namespace().unwrap_or_default())
    }
}

/// Writes the status of a remediation, if it differs.
async fn report(
    api: &Api<CapstanRemediation>,
    remediation: &CapstanRemediation,
    status: CapstanRemediationStatus,
) -> Result<(), ReconcileError> {
    let mut new = remediation.clone();
    new.status = Some(status);
    write_status(api, remediation, &new).await.map(drop)
}

#[cfg(test)]
mod tests;
