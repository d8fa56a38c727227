//! Uncordon procedure: ends the cordon of an earlier action. The cordon of another client ends only with `force`.

use apiserver_types::{Machine, MachineOperation};
use async_trait::async_trait;
use controllers_runtime::{ReconcileError, Requeue};

use super::cordon::{self, NO_NODE};
use crate::core::cordon::{CordonState, lift, node};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, UNCORDON, node_name};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target, missing};

/// End of the cordon of a Node.
#[derive(Debug)]
pub(crate) struct Uncordon;

#[async_trait]
impl ActionProcedure for Uncordon {
    fn plan(&self, _operation: &MachineOperation, _machine: &Machine) -> Vec<&'static str> {
        vec![UNCORDON]
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        procedure::pass(self, target).await
    }

    fn needs_server(&self) -> bool {
        false
    }
}

/// The effect of this procedure: the Node becomes schedulable, and loses the annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UncordonNode;

/// Everything a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    state: CordonState,
    /// The cordon of another client ends, too.
    force: bool,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Uncordon {
    type Observed = Observed;
    type Effect = UncordonNode;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let cordon::Observed { state, stop } = cordon::observe(target).await?;
        Ok(Observed { state, force: is_forced(&target.operation), stop })
    }

    fn decide(&self, observed: &Observed) -> Decision<UncordonNode> {
        let failed =
            |message: &str| Decision::End(Outcome::failed(UNCORDON, "Unsupported", message.to_owned()));
        match (observed.state, &observed.stop) {
            (CordonState::Schedulable { marked: false }, _) => {
                let message = "the Node is schedulable";
                let done = StepUpdate::done(UNCORDON, message);
                Decision::End(Outcome::complete(message, Change::of([done])))
            }
            (_, Some(stop)) => Decision::End(Outcome::stopped(stop, "the cordon of the Node was not ended")),
            (CordonState::NoNode, None) => failed(NO_NODE),
            (CordonState::ByAnother, None) if !observed.force => failed(
                "another client has cordoned the Node, and no action of Capstan. Set force to end that cordon, too",
            ),
            _ => Decision::act(UNCORDON, UncordonNode),
        }
    }

    async fn act(&self, target: &Target, _effect: &UncordonNode) -> Result<Change, ReconcileError> {
        let client = node_drain::workload(target).map_err(|error| missing(error.to_string()))?;
        let name = node_name(&target.machine).unwrap_or_default();
        let found = node(&client, name).await.map_err(missing)?;
        // Another client may have cordoned the Node since the decision.
        let state = CordonState::of(found.as_ref(), target.uid());
        let is_allowed = state != CordonState::ByAnother || is_forced(&target.operation);
        if let Some(found) = found.filter(|_| is_allowed) {
            lift(&client, &found).await.map_err(missing)?;
        }
        // The next pass reads the Node.
        Ok(Change::default())
    }
}

fn is_forced(operation: &MachineOperation) -> bool {
    operation.spec.uncordon.as_ref().and_then(|it| it.force).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cordon_of_an_action_ends_unless_the_operation_has_force() {
        let stop = Stop { reason: "Requested", why: "enough".to_owned() };
        let table = [
            (CordonState::Schedulable { marked: false }, false, "Complete Succeeded", "Complete Succeeded"),
            (CordonState::Schedulable { marked: true }, false, "act", "Cancelled Requested"),
            (CordonState::ByThis, false, "act", "Cancelled Requested"),
            (CordonState::ByEarlier, false, "act", "Cancelled Requested"),
            (CordonState::ByAnother, false, "Failed Unsupported", "Cancelled Requested"),
            (CordonState::ByAnother, true, "act", "Cancelled Requested"),
            (CordonState::NoNode, true, "Failed Unsupported", "Cancelled Requested"),
        ];
        for (state, force, expected, stopped) in table {
            let word = |stop| match Uncordon.decide(&Observed { state, force, stop }) {
                Decision::Act(_) => "act".to_owned(),
                Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
                other => format!("{other:?}"),
            };
            assert_eq!(word(None), expected, "{state:?} {force}");
            assert_eq!(word(Some(stop.clone())), stopped, "{state:?} {force}, stopped");
        }
    }
}
