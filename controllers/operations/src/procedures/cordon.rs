//! Cordon procedure: makes the Machine's Node unschedulable. Its pods stay.

use apiserver_types::{Machine, MachineOperation};
use async_trait::async_trait;
use controllers_runtime::{ReconcileError, Requeue};

use crate::core::cordon::{self, CordonState};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, node_name};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target, missing};

/// Step that makes the Node unschedulable.
const CORDON: &str = "CordonNode";

/// Message about a Machine whose Node an action needs.
pub(super) const NO_NODE: &str = "the Machine has no Node, or the workload cluster does not have it. Wait until \
    status.nodeRef names one that exists";

/// Cordon of a Node.
#[derive(Debug)]
pub(crate) struct Cordon;

#[async_trait]
impl ActionProcedure for Cordon {
    fn plan(&self, _operation: &MachineOperation, _machine: &Machine) -> Vec<&'static str> {
        vec![CORDON]
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        procedure::pass(self, target).await
    }

    fn needs_server(&self) -> bool {
        false
    }
}

/// The effect of this procedure: the Node becomes unschedulable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CordonNode;

/// Everything a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub state: CordonState,
    pub stop: Option<Stop>,
}

/// Observes the Node.
///
/// # Errors
/// The workload cluster cannot be read.
pub(super) async fn observe(target: &Target) -> Result<Observed, ReconcileError> {
    let node = match node_name(&target.machine) {
        Some(name) => {
            let client = node_drain::workload(target).map_err(|error| missing(error.to_string()))?;
            cordon::node(&client, name).await.map_err(missing)?
        }
        None => None,
    };
    Ok(Observed { state: CordonState::of(node.as_ref(), target.uid()), stop: target.stop() })
}

#[async_trait]
impl Procedure for Cordon {
    type Observed = Observed;
    type Effect = CordonNode;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        observe(target).await
    }

    fn decide(&self, observed: &Observed) -> Decision<CordonNode> {
        let done = |message: &str| {
            Decision::End(Outcome::complete(message, Change::of([StepUpdate::done(CORDON, message)])))
        };
        match (observed.state, &observed.stop) {
            // The Node shows the effect, whether or not its response has arrived.
            (CordonState::ByThis, _) => done("the Node is unschedulable. The action uncordon ends that"),
            (_, Some(stop)) => Decision::End(Outcome::stopped(stop, "the Node was not cordoned")),
            (CordonState::NoNode, None) => Decision::End(Outcome::failed(CORDON, "Unsupported", NO_NODE)),
            (CordonState::ByEarlier, None) => done("an earlier action has cordoned the Node already"),
            (CordonState::ByAnother, None) => done(
                "another client has cordoned the Node already. The action uncordon ends that only with force",
            ),
            (CordonState::Schedulable { .. }, None) => Decision::act(CORDON, CordonNode),
        }
    }

    async fn act(&self, target: &Target, _effect: &CordonNode) -> Result<Change, ReconcileError> {
        let client = node_drain::workload(target).map_err(|error| missing(error.to_string()))?;
        let name = node_name(&target.machine).unwrap_or_default();
        cordon::begin(&client, name, target.uid()).await.map_err(missing)?;
        // The next pass reads the Node.
        Ok(Change::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_cordoned_once_and_that_of_another_client_is_left() {
        let stop = Stop { reason: "Requested", why: "enough".to_owned() };
        let table = [
            (CordonState::Schedulable { marked: false }, "act", "Cancelled Requested"),
            (CordonState::Schedulable { marked: true }, "act", "Cancelled Requested"),
            (CordonState::ByThis, "Complete Succeeded", "Complete Succeeded"),
            (CordonState::ByEarlier, "Complete Succeeded", "Cancelled Requested"),
            (CordonState::ByAnother, "Complete Succeeded", "Cancelled Requested"),
            (CordonState::NoNode, "Failed Unsupported", "Cancelled Requested"),
        ];
        for (state, expected, stopped) in table {
            let word = |stop| match Cordon.decide(&Observed { state, stop }) {
                Decision::Act(_) => "act".to_owned(),
                Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
                other => format!("{other:?}"),
            };
            assert_eq!(word(None), expected, "{state:?}");
            assert_eq!(word(Some(stop.clone())), stopped, "{state:?}, stopped");
        }
    }
}
