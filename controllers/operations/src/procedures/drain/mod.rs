//! Drain procedure: cordons and drains the Machine's Node, which stays cordoned. The server and the Machine stay.
//!
//! The drain is that of every other action. With `force`, the Pods that are left after the time limit are deleted
//! ([`force`]). As a dry run, the operation only looks ([`preview`]).

mod force;
mod preview;

use std::convert::Infallible;

use apiserver_types::{Machine, MachineOperation, OperationStep, StepState};
use async_trait::async_trait;
use controllers_runtime::{ReconcileError, Requeue};

use super::cordon::NO_NODE;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, DELETE_PODS, DRAIN, UNCORDON};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::restored;
use crate::core::target::{Stop, Target, find};
use preview::{PREVIEW, Preview};

/// Drain of a Node.
#[derive(Debug)]
pub(crate) struct Drain;

#[async_trait]
impl ActionProcedure for Drain {
    fn plan(&self, operation: &MachineOperation, machine: &Machine) -> Vec<&'static str> {
        match is_dry_run(operation) {
            true => vec![PREVIEW],
            false => node_drain::plan(operation, machine, Vec::new()),
        }
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        if is_dry_run(&target.operation) {
            return procedure::pass(&Preview, target).await;
        }
        let deletes = target.step(DELETE_PODS).is_some_and(|step| step.state == StepState::Running);
        if deletes && !target.is_restored {
            return force::pass(target).await;
        }
        procedure::pass(self, target).await
    }

    fn needs_server(&self) -> bool {
        false
    }
}

fn is_dry_run(operation: &MachineOperation) -> bool {
    operation.spec.drain.as_ref().and_then(|it| it.dry_run).unwrap_or_default()
}

/// Everything a decision is made from, after the drain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    steps: Vec<OperationStep>,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Drain {
    type Observed = Observed;
    /// The drain is made before, so nothing is left to do.
    type Effect = Infallible;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        Ok(Observed { steps: target.steps().to_vec(), stop: target.stop() })
    }

    fn decide(&self, observed: &Observed) -> Decision<Infallible> {
        let step = |name| find(&observed.steps, name);
        let is_open = |step: &OperationStep| matches!(step.state, StepState::Pending | StepState::Running);
        let Some(drain) = step(DRAIN) else {
            return Decision::End(Outcome::failed(DRAIN, "Unsupported", NO_NODE));
        };
        // Only an operation from before a restore of the store arrives here with an open step.
        if is_open(drain) {
            return Decision::End(restored::undecided(DRAIN));
        }
        if step(DELETE_PODS).is_some_and(is_open) {
            return Decision::End(restored::undecided(DELETE_PODS));
        }
        if step(UNCORDON).is_some_and(is_open) {
            return match &observed.stop {
                Some(stop) => {
                    Decision::End(Outcome::stopped(stop, "the pods that were evicted do not return"))
                }
                None => Decision::record(Change::of([StepUpdate::skipped(UNCORDON, STAYS)])),
            };
        }
        let forced = step(DELETE_PODS).and_then(|step| step.message.as_deref());
        let message = match forced {
            Some(forced) => format!("the Node is drained by force: {forced}. {STAYS}"),
            None => format!("the Node is drained. {STAYS}"),
        };
        Decision::End(Outcome::complete(message, Change::default()))
    }

    async fn act(&self, _target: &Target, effect: &Infallible) -> Result<Change, ReconcileError> {
        match *effect {}
    }
}

/// Message about the Node after its drain.
const STAYS: &str =
    "It stays unschedulable until the action uncordon, an upgrade, or the end of a pause of the Machine";

#[cfg(test)]
mod tests;
