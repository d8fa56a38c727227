//! Events on a Machine, one for every transition of an operation.

use apiserver_types::{MachineOperation, OperationPhase, StepState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::core::context::OperationContext;

/// Component that the Events come from.
const COMPONENT: &str = "capstan-operations";

/// Longest message of an Event. Unit: bytes.
const MESSAGE_LIMIT: usize = 1024;

/// Transition of an operation, as its Event reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Transition {
    warning: bool,
    reason: String,
    message: String,
}

/// Records the transitions between two states of an operation. Best effort: the operation's status has
/// all of them, so a failure is only logged.
pub(crate) async fn publish(
    context: &OperationContext,
    old: &MachineOperation,
    new: &MachineOperation,
    now: Timestamp,
) {
    let namespace = new.namespace().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(context.client.clone(), &namespace);
    for transition in transitions(old, new) {
        let (operation, machine) = (new.name_any(), &new.spec.machine_name);
        if transition.warning {
            tracing::warn!(
                namespace,
                operation,
                machine,
                reason = transition.reason,
                "{}",
                transition.message
            );
        } else {
            tracing::info!(
                namespace,
                operation,
                machine,
                reason = transition.reason,
                "{}",
                transition.message
            );
        }
        match api.create(&PostParams::default(), &event(new, &transition, now)).await {
            Ok(_) => {}
            // The name identifies the transition: this one has been recorded.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            // A namespace that is being deleted accepts no new objects.
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => {
                tracing::warn!(%error, operation = new.name_any(), reason = transition.reason, "event not recorded");
            }
        }
    }
}

fn transitions(old: &MachineOperation, new: &MachineOperation) -> Vec<Transition> {
    let name = new.name_any();
    let (before, after) = (old.status.as_ref(), new.status.as_ref());
    let steps_before = before.and_then(|status| status.steps.as_deref()).unwrap_or_default();
    let steps = after.and_then(|status| status.steps.as_deref()).unwrap_or_default();
    let mut transitions = Vec::new();
    for step in steps {
        let known = steps_before.iter().find(|known| known.name == step.name).map(|known| known.state);
        let silent = matches!(step.state, StepState::Pending | StepState::Skipped);
        if silent || known == Some(step.state) {
            continue;
        }
        let message = step.message.as_deref().unwrap_or_default();
        transitions.push(Transition {
            warning: step.state == StepState::Failed,
            reason: format!("{}{:?}", step.name, step.state),
            message: format!("machine operation {name:?}: {message}"),
        });
    }
    let phase = after.and_then(|status| status.phase);
    if let Some(phase) = phase.filter(|phase| before.and_then(|status| status.phase) != Some(*phase)) {
        let conditions = after.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let kind = match phase {
            OperationPhase::Pending | OperationPhase::Running => "Progressing".to_owned(),
            over => format!("{over:?}"),
        };
        let message = conditions.iter().find(|condition| condition.kind == kind);
        let message = message.map(|condition| condition.message.as_str()).unwrap_or_default();
        transitions.push(Transition {
            warning: phase == OperationPhase::Failed,
            reason: format!("{:?}{phase:?}", new.spec.action),
            message: format!("machine operation {name:?}: {message}"),
        });
    }
    transitions
}

fn event(operation: &MachineOperation, transition: &Transition, now: Timestamp) -> Event {
    let machine = operation.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Machine");
    let mut message = transition.message.clone();
    while message.len() > MESSAGE_LIMIT {
        message.pop();
    }
    let uid = operation.uid().unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            // Recorded once, however often a pass is repeated.
            name: Some(format!(
                "{}.{}.{}",
                operation.name_any(),
                short(&uid),
                transition.reason.to_lowercase()
            )),
            namespace: operation.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("cluster.x-k8s.io/v1beta2".to_owned()),
            kind: Some("Machine".to_owned()),
            name: Some(operation.spec.machine_name.clone()),
            namespace: operation.namespace(),
            uid: machine.map(|owner| owner.uid.clone()),
            ..ObjectReference::default()
        },
        related: Some(ObjectReference {
            api_version: Some("capstan.dev/v1alpha1".to_owned()),
            kind: Some("MachineOperation".to_owned()),
            name: operation.metadata.name.clone(),
            namespace: operation.namespace(),
            uid: operation.uid(),
            ..ObjectReference::default()
        }),
        action: Some(format!("{:?}", operation.spec.action)),
        reason: Some(transition.reason.clone()),
        message: Some(message),
        type_: Some(if transition.warning { "Warning" } else { "Normal" }.to_owned()),
        count: Some(1),
        event_time: Some(MicroTime(now)),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(COMPONENT.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        ..Event::default()
    }
}

/// Returns the first part of a uid, which distinguishes two objects of one name.
pub(crate) fn short(uid: &str) -> &str {
    uid.split('-').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineOperationSpec, MachineOperationStatus, OperationStep};

    use super::*;

    fn operation(phase: Option<OperationPhase>, steps: &[(&str, StepState)]) -> MachineOperation {
        let mut operation = MachineOperation::new("m1-reboot-x", MachineOperationSpec::default());
        let step = |(name, state): &(&str, StepState)| OperationStep {
            name: (*name).to_owned(),
            state: *state,
            ..OperationStep::default()
        };
        operation.status = Some(MachineOperationStatus {
            phase,
            steps: Some(steps.iter().map(step).collect()),
            ..MachineOperationStatus::default()
        });
        operation
    }

    #[test]
    fn only_transitions_have_events() {
        use StepState::{Done, Failed, Pending, Running, Skipped};
        let running = Some(OperationPhase::Running);
        let reasons = |old: &[(&str, StepState)], new: &[(&str, StepState)], phase| {
            let found = transitions(&operation(running, old), &operation(phase, new));
            found.into_iter().map(|transition| (transition.reason, transition.warning)).collect::<Vec<_>>()
        };
        let none: Vec<(String, bool)> = Vec::new();
        assert_eq!(reasons(&[("A", Running)], &[("A", Running), ("B", Pending)], running), none);
        assert_eq!(
            reasons(&[("A", Running)], &[("A", Done), ("B", Running), ("C", Skipped)], running),
            [("ADone".to_owned(), false), ("BRunning".to_owned(), false)]
        );
        assert_eq!(
            reasons(&[("A", Running)], &[("A", Failed)], Some(OperationPhase::Failed)),
            [("AFailed".to_owned(), true), ("RebootFailed".to_owned(), true)]
        );
    }
}
