//! Effects of a remediation: marks on Machines, the record on the control plane, and the deletion.

use apiserver_types::{
    Condition, ConditionStatus, KubeadmControlPlane, Machine, Time, remove_condition, set_condition,
};
use controllers_runtime::{ReconcileError, now};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::act::Actor;
use super::conditions_of_machines;
use super::observe::Observed;
use super::remediation::{Mark, OWNER_REMEDIATED, REFUSED};
use super::remediation_record::{IN_PROGRESS, Record};
use crate::deprecated_conditions::{self, Old};

/// Reason of a Machine that is being replaced.
const DELETING: &str = "MachineDeleting";

/// Reason of a Machine whose deletion failed.
const FAILED: &str = "InternalError";

impl Actor<'_> {
    /// Writes what the decision says about Machines that are not replaced now.
    pub(super) async fn mark(
        &self,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let plan = observed.remediation.clone();
        if plan.is_over {
            self.forget_remediation(control_plane).await?;
        }
        for name in &plan.recovered {
            self.change(control_plane, observed, name, forget).await?;
        }
        for mark in &plan.marks {
            if !is_new(observed, mark) {
                continue;
            }
            self.set_mark(control_plane, observed, mark).await?;
            if mark.reason == REFUSED {
                self.warn(control_plane, REFUSED, &mark.message).await?;
            }
        }
        Ok(())
    }

    /// Replaces a Machine: records it, marks it, and deletes it. Each part can be repeated.
    pub(super) async fn remediate(
        &self,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
        record: &Record,
    ) -> Result<(), ReconcileError> {
        self.annotate(control_plane, Some(record.text())).await?;
        let mark = |reason, message: &str| Mark {
            name: record.machine.clone(),
            reason,
            message: message.to_owned(),
        };
        let member = observed.replicas.iter().find(|it| it.name() == record.machine);
        let member = member.and_then(|it| it.node()).map(str::to_owned);
        // Before the first API server responds, there is no etcd.
        let member = member.filter(|_| observed.etcd.is_some());
        if let Err(error) = self.forward_leadership(control_plane, observed, member.as_deref()).await {
            let text = format!("Machine {} is not replaced: {error}", record.machine);
            self.set_mark(control_plane, observed, &mark(REFUSED, &text)).await?;
            return Err(error);
        }
        self.set_mark(control_plane, observed, &mark(DELETING, "Machine is deleting")).await?;
        let result = self.delete_named(control_plane, observed, &record.machine).await;
        if let Err(error) = result {
            let text = format!("The deletion failed: {error}");
            self.set_mark(control_plane, observed, &mark(FAILED, &text)).await?;
            return Err(error);
        }
        let message = format!("Deleted Machine {}, which its health check found unhealthy", record.machine);
        self.tell(control_plane, "SuccessfulRemediation", &message).await
    }

    /// Removes the record of a remediation from the control plane.
    pub(super) async fn forget_remediation(
        &self,
        control_plane: &mut KubeadmControlPlane,
    ) -> Result<(), ReconcileError> {
        self.annotate(control_plane, None).await
    }

    /// Sets or removes the record, unless that is done already.
    async fn annotate(
        &self,
        control_plane: &mut KubeadmControlPlane,
        text: Option<String>,
    ) -> Result<(), ReconcileError> {
        if control_plane.annotations().get(IN_PROGRESS) == text.as_ref() {
            return Ok(());
        }
        let change = json!({"metadata": {"uid": control_plane.uid(), "annotations": {IN_PROGRESS: text}}});
        let patch = Patch::Merge(&change);
        *control_plane = self.api.patch(&control_plane.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn set_mark(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &mut Observed,
        mark: &Mark,
    ) -> Result<(), ReconcileError> {
        let now = now();
        self.change(control_plane, observed, &mark.name, |machine| set(machine, mark, &now)).await
    }

    async fn change(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &mut Observed,
        name: &str,
        change: impl Fn(&mut Machine),
    ) -> Result<(), ReconcileError> {
        let Some(replica) = observed.replicas.iter_mut().find(|it| it.machine.name_any() == name) else {
            return Ok(());
        };
        let api = self.machines(control_plane);
        if let Some(machine) = conditions_of_machines::change(&api, replica.machine.clone(), change).await? {
            replica.machine = machine;
        }
        Ok(())
    }
}

/// Reports whether a Machine does not have a mark yet.
fn is_new(observed: &Observed, mark: &Mark) -> bool {
    let replica = observed.replicas.iter().find(|it| it.name() == mark.name);
    let known = replica.and_then(|it| it.machine.condition(OWNER_REMEDIATED));
    known.is_none_or(|it| it.reason != mark.reason || it.message != mark.message)
}

/// Removes the condition in both forms.
fn forget(machine: &mut Machine) {
    let Some(status) = &mut machine.status else { return };
    remove_condition(status.conditions.get_or_insert_default(), OWNER_REMEDIATED);
    let old = status.deprecated.as_mut().and_then(|it| it.v1beta1.as_mut()?.conditions.as_mut());
    if let Some(old) = old {
        old.retain(|condition| condition.kind != OWNER_REMEDIATED);
    }
}

/// Sets the condition in both forms.
fn set(machine: &mut Machine, mark: &Mark, now: &Time) {
    let generation = machine.metadata.generation;
    let no = ConditionStatus::False;
    let condition = Condition::new(OWNER_REMEDIATED, no, mark.reason, &mark.message, now.clone());
    let status = machine.status.get_or_insert_default();
    set_condition(status.conditions.get_or_insert_default(), condition.at_generation(generation));
    let (severity, reason) = match mark.reason {
        DELETING => ("Warning", "RemediationInProgress"),
        REFUSED | FAILED => ("Error", "RemediationFailed"),
        _ => ("Warning", "WaitingForRemediation"),
    };
    let state = Old::no(severity, reason, mark.message.as_str());
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(old.conditions.get_or_insert_default(), OWNER_REMEDIATED, state, now);
}

#[cfg(test)]
mod tests {
    use super::super::remediation::DEFERRED;
    use super::*;

    #[test]
    fn d6_each_reason_has_its_twin_and_both_go_when_the_machine_is_healthy_again() {
        let mut machine = Machine::default();
        for (reason, expected) in [
            (DEFERRED, ("Warning", "WaitingForRemediation")),
            (REFUSED, ("Error", "RemediationFailed")),
            (FAILED, ("Error", "RemediationFailed")),
            (DELETING, ("Warning", "RemediationInProgress")),
        ] {
            let mark = Mark { name: "a".to_owned(), reason, message: "because".to_owned() };
            set(&mut machine, &mark, &Time::default());
            assert_eq!(machine.condition(OWNER_REMEDIATED).unwrap().reason, reason);
            let old =
                machine.status.clone().unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
            let found = (old[0].severity.as_deref().unwrap(), old[0].reason.as_deref().unwrap());
            assert_eq!((found, old.len()), (expected, 1));
        }
        forget(&mut machine);
        let status = machine.status.unwrap();
        assert_eq!(status.conditions.unwrap(), []);
        assert_eq!(status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap().len(), 0);
    }
}
