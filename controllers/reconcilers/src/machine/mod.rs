//! Machine reconciler: owner references, provider ID, order of deletion, and one status for all parts.
//!
//! A pass observes once, then decides and acts until a step ends it, and reports once.

mod act;
mod conditions;
mod decide;
mod deletion;
mod deprecated;
mod detachment;
mod ended_pauses;
mod fence;
mod in_place;
mod node;
mod node_conditions;
mod node_metadata;
mod node_writes;
mod observe;
mod operations;
mod ready;
mod report;
mod service;
#[cfg(test)]
mod tests;
mod time_limits;
mod turns;
mod up_to_date;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::last_known::LAST_KNOWN_NODE;
use apiserver_types::{Condition, Machine};
use controllers_extensions::{READ_HANDLERS, READ_NAMESPACES};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, Severity, now, write_status,
};
use kube::{Api, ResourceExt};

use act::Actor;
use decide::Step;
pub(crate) use deletion::NO_DRAIN;
use ended_pauses::EndedPauses;
use in_place::Updaters;
use observe::Observed;
use operations::Updates;
use turns::Turns;

use crate::first_attempts::FirstAttempts;
use crate::last_known;
use crate::retries::Retries;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "machine-controller",
    rules: &[
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["clusters", "machines", "machines/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackmachines"],
            verbs: PolicyRule::DELETE,
        },
        PolicyRule {
            groups: &["bootstrap.cluster.x-k8s.io"],
            resources: &["kubeadmconfigs"],
            verbs: PolicyRule::DELETE,
        },
        PolicyRule {
            groups: &["cluster.x-k8s.io"],
            resources: &["machinesets", "machinedeployments", "machinedrainrules"],
            verbs: PolicyRule::READ,
        },
        PolicyRule {
            groups: &["controlplane.cluster.x-k8s.io"],
            resources: &["kubeadmcontrolplanes"],
            verbs: PolicyRule::READ,
        },
        // The log of a server proves that it is off.
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters"],
            verbs: PolicyRule::READ,
        },
        PolicyRule::CREDENTIALS,
        PolicyRule { groups: &["capstan.dev"], resources: &["machineoperations"], verbs: PolicyRule::READ },
        // Those of extension servers that update Machines in place, by the labels of Namespaces.
        READ_HANDLERS,
        READ_NAMESPACES,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Finalizer that keeps a Machine until its server is deleted. Upstream's name.
pub(crate) const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Interval of a Machine that waits for another object; watches report most changes sooner.
const WAITING: Duration = Duration::from_secs(10);

/// Reason of a pass that ends because too many Machines call the same workload cluster.
const BUSY: &str = "WorkloadClusterBusy";

/// Interval of a Machine that waits for its turn. A quick workload cluster has free turns after milliseconds.
const NEXT_TURN: Duration = Duration::from_secs(1);

/// Reconciler of Machines.
#[derive(Debug)]
pub struct MachineReconciler {
    context: ControllerContext,
    attempts: FirstAttempts,
    turns: Turns,
    updates: Arc<Updates>,
    retries: Retries,
    pauses: EndedPauses,
    updaters: Updaters,
}

impl MachineReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self::with(context, Arc::default())
    }

    /// Creates a reconciler that knows of updates by MachineOperations.
    fn with(context: ControllerContext, updates: Arc<Updates>) -> Self {
        let (attempts, turns, retries, pauses, updaters) = Default::default();
        Self { context, attempts, turns, updates, retries, pauses, updaters }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn reconcile(&self, object: &Machine) -> Result<Requeue, kube::Error> {
        let result = Box::pin(self.pass(object)).await;
        let busy = result.as_ref().is_err_and(|error| error.reason() == BUSY);
        Requeue::after(result, if busy { NEXT_TURN } else { WAITING })
    }

    async fn pass(&self, object: &Machine) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut machine) = api.get_opt(&object.name_any()).await? else {
            let uid = object.uid().unwrap_or_default();
            self.retries.forget(&uid);
            self.pauses.forget(&uid);
            self.updaters.forget(object);
            return Ok(None);
        };
        let mut observed = observe::observe(&self.context, &machine).await?;
        observed.update = self.updates.of(&machine);
        observed.in_place = self.updaters.known(&machine);
        observed.ends_cordon = self.pauses.ended_cordon(&self.context, &machine, &observed).await?;
        let (attempts, turns, updaters) = (&self.attempts, &self.turns, &self.updaters);
        let actor = Actor { context: &self.context, api: &api, attempts, turns, updaters };
        let result = actor.work(&mut machine, &mut observed).await;
        if matches!(&result, Ok(Step::Ignore)) || result.as_ref().is_err_and(ReconcileError::is_conflict) {
            return result.map(|_| None);
        }
        // An error is reported with the step that it ended.
        observed.error = result.as_ref().err().map(ToString::to_string);
        let last = result.as_ref().ok().cloned();
        let last = last.unwrap_or_else(|| decide::next_step(&machine, &observed));
        let machine = self.report(&api, machine, &observed, &last).await?;
        let step = result?;
        if step == Step::Release {
            crate::finalizers::remove(&api, &machine, FINALIZER).await?;
            self.attempts.forget(&machine.uid().unwrap_or_default());
        }
        let wait = report::remaining(&machine, observed.now).and_then(|wait| Duration::try_from(wait).ok());
        let uid = machine.uid().unwrap_or_default();
        let interval = decide::interval(&step, &observed);
        let interval = self.retries.after(&uid, decide::has_failed(&step, &observed), interval);
        Ok(interval.map(|interval| wait.map_or(interval, |wait| wait.min(interval))))
    }

    /// Writes the status, and an Event if the phase is another one.
    async fn report(
        &self,
        api: &Api<Machine>,
        machine: Machine,
        observed: &Observed,
        step: &Step,
    ) -> Result<Machine, ReconcileError> {
        let machine = match step {
            Step::Pause => machine,
            _ => keep_last_known(api, machine, observed).await?,
        };
        let mut new = machine.clone();
        match step {
            Step::Pause => report::report_pause(&mut new, observed, &now()),
            _ => report::report(&mut new, observed, step, &now()),
        }
        let before = machine.status.as_ref().and_then(|status| status.phase);
        let after = new.status.as_ref().and_then(|status| status.phase);
        let written = write_status(api, &machine, &new).await?;
        if let Some((reason, message)) = time_limits::given_up(&machine, observed, step) {
            self.context.events.record(&written, Severity::Warning, reason, &message).await;
        }
        if let Some(phase) = after.filter(|phase| Some(*phase) != before) {
            let message = format!("Machine is {phase:?}");
            self.context.events.record(&written, Severity::Normal, &format!("{phase:?}"), &message).await;
        }
        if let Some(message) = report::invalid_expiry(&written, observed).filter(|_| *step != Step::Pause) {
            let reason = "InvalidCertificatesExpiry";
            self.context.events.record(&written, Severity::Warning, reason, &message).await;
        }
        let node = |of: &Machine| of.status.as_ref()?.node_ref.as_ref().map(|node| node.name.clone());
        if let Some(name) = node(&written).filter(|_| node(&machine).is_none()) {
            let message = format!("Set Machine's node reference to {name:?}");
            self.context.events.record(&written, Severity::Normal, "SuccessfulSetNodeRef", &message).await;
        }
        Ok(written)
    }
}

/// Keeps the state of the Node that the status is about to lose with the connection to the workload cluster.
async fn keep_last_known(
    api: &Api<Machine>,
    machine: Machine,
    observed: &Observed,
) -> Result<Machine, ReconcileError> {
    let next = node_conditions::conditions(&machine, observed, &now());
    let next: Vec<&Condition> = next.iter().collect();
    last_known::keep(api, machine, LAST_KNOWN_NODE, &next).await
}
