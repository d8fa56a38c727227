//! Effects of a remediation: marks on Machines, and their deletion.

use apiserver_types::rollout_settings::REMEDIATION_CHAINS as KEY;
use apiserver_types::{Condition, ConditionStatus, Machine, MachineSet, remove_condition, set_condition};
use controllers_runtime::{ReconcileError, Severity, now, write_status};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::act::Actor;
use super::decide;
use super::observe::{self, Observed};
use super::remediation::{self, Remediation};
use crate::deprecated_conditions::{self, Old};

/// Type of the condition by which the owner of a Machine answers a health check.
const OWNER_REMEDIATED: &str = "OwnerRemediated";

impl Actor<'_> {
    /// Marks Machines, then deletes those that are to be replaced. If the sets of the Cluster share a limit, one set after
    /// the other decides.
    pub(super) async fn remediate(
        &self,
        set: &mut MachineSet,
        observed: &mut Observed,
        plan: &Remediation,
    ) -> Result<(), ReconcileError> {
        if observed.limit_of_cluster.is_none() {
            self.follow(set, observed, plan).await?;
            return observe::machines(self.context, set, observed).await;
        }
        let _turn = self.turn.lock().await;
        observe::limit_of_cluster(self.context, set, observed).await?;
        observe::machines(self.context, set, observed).await?;
        let plan = decide::remediation(set, observed, (self.clock)());
        self.follow(set, observed, &plan).await?;
        observe::machines(self.context, set, observed).await
    }

    /// Follows a plan. The chains come first: a Machine whose deletion is not recorded would not count.
    async fn follow(
        &self,
        set: &mut MachineSet,
        observed: &mut Observed,
        plan: &Remediation,
    ) -> Result<(), ReconcileError> {
        if let Some(chains) = plan.chains.as_ref().filter(|it| set.annotations().get(KEY) != Some(*it)) {
            let change = json!({"metadata": {
                "resourceVersion": set.resource_version(), "uid": set.uid(), "annotations": {KEY: chains},
            }});
            let (name, params) = (set.name_any(), PatchParams::default());
            *set = self.api.patch(&name, &params, &Patch::Merge(&change)).await?;
        }
        for name in &plan.recovered {
            self.change(observed, name, forget).await?;
        }
        for mark in &plan.marks {
            let change = |machine: &mut Machine| set_mark(machine, mark);
            self.change(observed, &mark.name, change).await?;
            if mark.reason == remediation::EXHAUSTED {
                let message = format!("Machine {} is not replaced: {}", mark.name, mark.message);
                self.event(set, Severity::Warning, mark.reason, &message).await;
            }
        }
        if plan.deletions.is_empty() {
            return Ok(());
        }
        self.delete(set, observed, &plan.deletions).await
    }

    async fn change(
        &self,
        observed: &Observed,
        name: &str,
        change: impl Fn(&mut Machine),
    ) -> Result<(), ReconcileError> {
        let Some(machine) = observed.machines.iter().find(|machine| machine.name_any() == name) else {
            return Ok(());
        };
        let mut new = machine.clone();
        change(&mut new);
        write_status(&self.machines, machine, &new).await?;
        Ok(())
    }
}

fn forget(machine: &mut Machine) {
    let Some(status) = &mut machine.status else { return };
    remove_condition(status.conditions.get_or_insert_default(), OWNER_REMEDIATED);
    let old = status.deprecated.as_mut().and_then(|it| it.v1beta1.as_mut()?.conditions.as_mut());
    if let Some(old) = old {
        old.retain(|condition| condition.kind != OWNER_REMEDIATED);
    }
}

fn set_mark(machine: &mut Machine, mark: &remediation::Mark) {
    let (now, generation) = (now(), machine.metadata.generation);
    let (kind, no) = (OWNER_REMEDIATED, ConditionStatus::False);
    let condition = Condition::new(kind, no, mark.reason, &mark.message, now.clone());
    let status = machine.status.get_or_insert_default();
    set_condition(status.conditions.get_or_insert_default(), condition.at_generation(generation));
    let state = match mark.reason {
        remediation::DELETING => Old::True,
        remediation::EXHAUSTED => Old::no("Error", "RemediationFailed", mark.message.as_str()),
        _ => Old::no("Warning", "WaitingForRemediation", mark.message.as_str()),
    };
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(old.conditions.get_or_insert_default(), kind, state, &now);
}
