//! Node of an operation in flight.

use apiserver_types::{MachineOperation, OperationPhase};

use super::node::{Cause, Node, time};
use super::severity::Severity;

/// Returns the node of an operation, or `None` if it has finished.
pub(super) fn operation(operation: &MachineOperation) -> Option<Node> {
    let status = operation.status.clone().unwrap_or_default();
    let severity = match status.phase.unwrap_or_default() {
        OperationPhase::Pending => Severity::Waiting,
        OperationPhase::Running => Severity::Running,
        OperationPhase::Complete | OperationPhase::Failed | OperationPhase::Cancelled => return None,
    };
    let mut node = Node::new(operation, &status.conditions.unwrap_or_default());
    let action = format!("{:?}", operation.spec.action).to_lowercase();
    node.title = format!("{action} {}", operation.spec.machine_name);
    node.severity = severity;
    node.state = format!("{:?}", status.phase.unwrap_or_default());
    node.since = status.start_time.as_ref().and_then(time).or(node.since);
    let user = operation.spec.requested_by.as_ref().and_then(|it| it.username.as_ref());
    let user = user.map(|user| format!("requested by {user}"));
    let text: Vec<String> = status.current_step.into_iter().chain(user).collect();
    node.cause = Some(Cause { reason: String::new(), message: text.join(", ") });
    Some(node)
}
