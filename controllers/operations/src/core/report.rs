//! Status report of an operation: computes and writes the whole status.

use std::time::Duration;

use apiserver_types::{
    Condition, ConditionStatus, MachineOperation, MachineOperationStatus, OperationPhase, OperationResult,
    OperationStep, StepState, Time,
};
use controllers_runtime::TermStart;
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::core::context::OperationContext;
use crate::core::decision::{Change, Outcome, StepUpdate};
use crate::core::target::Target;
use crate::core::{events, node_drain, rejoin, step_pause};

/// Longest message of a condition, as its schema has it. Unit: characters.
const LONGEST_MESSAGE: usize = 32_768;

/// Formats a time as on the wire.
pub(crate) fn stamp(at: Timestamp) -> Time {
    Time(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Parses a time from the wire.
pub(crate) fn moment(time: &Time) -> Option<Timestamp> {
    time.0.parse().ok()
}

/// Returns the start of a step.
pub(crate) fn started(step: &OperationStep) -> Option<Timestamp> {
    step.start_time.as_ref().and_then(moment)
}

/// Returns the time since `since`; zero if the clock has jumped back.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(since.duration_until(now)).unwrap_or_default()
}

/// Returns true if the operation is over.
pub(crate) fn is_finished(operation: &MachineOperation) -> bool {
    let phase = operation.status.as_ref().and_then(|status| status.phase);
    matches!(phase, Some(OperationPhase::Complete | OperationPhase::Failed | OperationPhase::Cancelled))
}

/// Returns true if the operation has begun and is not over.
pub(crate) fn is_running(operation: &MachineOperation) -> bool {
    operation.status.as_ref().and_then(|status| status.phase) == Some(OperationPhase::Running)
}

/// Writes a change of steps and result.
pub(crate) async fn write(target: &Target, change: &Change) -> Result<(), kube::Error> {
    let mut status = target.operation.status.clone().unwrap_or_default();
    apply(&mut status, change, target.now);
    let message = describe(&status);
    conclude(&mut status, &target.operation, OperationPhase::Running, "Running", &message, target.now);
    put(&target.context, &target.operation, status, target.now).await
}

/// Writes a message into a step, or into the running one, unless it is there already.
pub(crate) async fn note(
    target: &Target,
    step: Option<&'static str>,
    message: &str,
) -> Result<(), kube::Error> {
    note_on(&target.context, &target.operation, step, message, target.now).await
}

/// Does the same before the operation's target is known.
pub(crate) async fn note_on(
    context: &OperationContext,
    operation: &MachineOperation,
    step: Option<&'static str>,
    message: &str,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let mut status = operation.status.clone().unwrap_or_default();
    let steps = status.steps.get_or_insert_default();
    let current = steps.iter().position(|known| match step {
        Some(name) => known.name == name,
        None => known.state == StepState::Running,
    });
    let at = current.or_else(|| steps.iter().position(|known| known.state == StepState::Pending));
    let Some(found) = at.and_then(|index| steps.get_mut(index)) else { return Ok(()) };
    if found.message.as_deref() == Some(message) {
        return Ok(());
    }
    found.message = Some(message.to_owned());
    conclude(&mut status, operation, OperationPhase::Running, "Running", message, now);
    put(context, operation, status, now).await
}

/// Changes a step of a running operation, unless it is so already. The condition has the message of the step.
pub(crate) async fn change_step(
    target: &Target,
    name: &'static str,
    change: impl FnOnce(&mut OperationStep) + Send,
) -> Result<(), kube::Error> {
    let mut status = target.operation.status.clone().unwrap_or_default();
    let found = status.steps.iter_mut().flatten().find(|step| step.name == name);
    let Some(step) = found else { return Ok(()) };
    change(step);
    let message = step.message.clone().unwrap_or_default();
    conclude(&mut status, &target.operation, OperationPhase::Running, "Running", &message, target.now);
    put(&target.context, &target.operation, status, target.now).await
}

/// Writes that the operation is pending, and the reason.
pub(crate) async fn pend(
    context: &OperationContext,
    operation: &MachineOperation,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let mut status = operation.status.clone().unwrap_or_default();
    conclude(&mut status, operation, OperationPhase::Pending, reason, message, now);
    put(context, operation, status, now).await
}

/// Writes that the operation begins, and its steps.
pub(crate) async fn begin(
    context: &OperationContext,
    operation: &MachineOperation,
    plan: Vec<&'static str>,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let mut status = operation.status.clone().unwrap_or_default();
    status.start_time = Some(stamp(now));
    apply(&mut status, &Change { plan, ..Change::default() }, now);
    conclude(&mut status, operation, OperationPhase::Running, "Running", "the operation has begun", now);
    put(context, operation, status, now).await
}

/// Writes the end of the operation. Steps that were not reached are skipped.
pub(crate) async fn finish(
    context: &OperationContext,
    operation: &MachineOperation,
    outcome: &Outcome,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let mut status = operation.status.clone().unwrap_or_default();
    apply(&mut status, &outcome.change, now);
    for step in status.steps.iter_mut().flatten() {
        match step.state {
            StepState::Pending => step.state = StepState::Skipped,
            StepState::Running => {
                let complete = outcome.phase == OperationPhase::Complete;
                step.state = if complete { StepState::Done } else { StepState::Failed };
                step.finish_time.get_or_insert_with(|| stamp(now));
                step_pause::close(step, now);
            }
            StepState::Done | StepState::Skipped | StepState::Failed => {}
        }
    }
    status.current_step = None;
    status.completion_time = Some(stamp(now));
    status.result.get_or_insert_default().message = Some(outcome.message.clone());
    conclude(&mut status, operation, outcome.phase, outcome.reason, &outcome.message, now);
    put(context, operation, status, now).await
}

/// Applies a change to steps and result.
pub(crate) fn apply(status: &mut MachineOperationStatus, change: &Change, now: Timestamp) {
    let steps = status.steps.get_or_insert_default();
    for name in &change.plan {
        if !steps.iter().any(|step| step.name == *name) {
            let new = OperationStep { name: (*name).to_owned(), ..OperationStep::default() };
            // The last steps of the Node stay the last ones.
            let last =
                |step: &OperationStep| [rejoin::AWAIT, node_drain::UNCORDON].contains(&step.name.as_str());
            let end = steps.iter().position(last).unwrap_or(steps.len());
            steps.insert(end, new);
        }
    }
    for update in &change.updates {
        set(steps, update, now);
    }
    status.current_step =
        steps.iter().find(|step| step.state == StepState::Running).map(|step| step.name.clone());
    if change.result != OperationResult::default() {
        let result = status.result.get_or_insert_default();
        let new = change.result.clone();
        let fields = [
            (&mut result.image_id, new.image_id),
            (&mut result.message, new.message),
            (&mut result.previous_server_id, new.previous_server_id),
            (&mut result.server_id, new.server_id),
            (&mut result.strategy, new.strategy),
        ];
        for (field, value) in fields {
            if value.is_some() {
                *field = value;
            }
        }
        if new.pods.is_some() {
            result.pods = new.pods;
        }
    }
}

fn set(steps: &mut Vec<OperationStep>, update: &StepUpdate, now: Timestamp) {
    let index = steps.iter().position(|step| step.name == update.step).unwrap_or_else(|| {
        steps.push(OperationStep { name: update.step.to_owned(), ..OperationStep::default() });
        steps.len() - 1
    });
    let Some(step) = steps.get_mut(index) else { return };
    step.state = update.state;
    if update.message.is_some() {
        step.message.clone_from(&update.message);
    }
    if update.request_id.is_some() {
        step.request_id.clone_from(&update.request_id);
    }
    let begun = matches!(update.state, StepState::Running | StepState::Done | StepState::Failed);
    if begun && step.start_time.is_none() {
        step.start_time = Some(stamp(now));
    }
    if matches!(update.state, StepState::Done | StepState::Failed) {
        step.finish_time.get_or_insert_with(|| stamp(now));
        step_pause::close(step, now);
    }
}

/// Describes the present step, for the condition.
fn describe(status: &MachineOperationStatus) -> String {
    let steps = status.steps.as_deref().unwrap_or_default();
    let step = steps.iter().find(|step| step.state == StepState::Running).or_else(|| {
        steps.iter().rev().find(|step| matches!(step.state, StepState::Done | StepState::Failed))
    });
    step.map_or_else(
        || "the operation has begun".to_owned(),
        |step| format!("{}: {}", step.name, step.message.as_deref().unwrap_or_default()),
    )
}

/// Sets phase and conditions.
fn conclude(
    status: &mut MachineOperationStatus,
    operation: &MachineOperation,
    phase: OperationPhase,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    status.phase = Some(phase);
    status.observed_generation = operation.metadata.generation;
    // A drain names pods with the reasons of another API server: a longer text would be refused again and again.
    let message: String = message.chars().take(LONGEST_MESSAGE).collect();
    let all = [
        ("Progressing", OperationPhase::Running),
        ("Complete", OperationPhase::Complete),
        ("Failed", OperationPhase::Failed),
        ("Cancelled", OperationPhase::Cancelled),
    ];
    let conditions = status.conditions.get_or_insert_default();
    for (kind, holds_in) in all {
        let holds = if phase == holds_in { ConditionStatus::True } else { ConditionStatus::False };
        let old = conditions.iter().find(|condition| condition.kind == kind);
        let since = old.filter(|old| old.status == holds).map(|old| old.last_transition_time.clone());
        let explains = phase == holds_in || kind == "Progressing";
        let new = Condition {
            kind: kind.to_owned(),
            status: holds,
            reason: if explains { reason.to_owned() } else { format!("{phase:?}") },
            message: if explains { message.clone() } else { String::new() },
            last_transition_time: since.unwrap_or_else(|| stamp(now)),
            observed_generation: operation.metadata.generation,
        };
        match conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(condition) => *condition = new,
            None => conditions.push(new),
        }
    }
}

/// Writes a status that differs, guarded by the revision that it was computed from, then records its
/// Events.
async fn put(
    context: &OperationContext,
    operation: &MachineOperation,
    status: MachineOperationStatus,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let Some(status) = in_term(operation.status.as_ref(), status, &context.term) else { return Ok(()) };
    let namespace = operation.namespace().unwrap_or_default();
    let api: Api<MachineOperation> = Api::namespaced(context.client.clone(), &namespace);
    let mut new = operation.clone();
    new.status = Some(status);
    api.replace_status(&operation.name_any(), &PostParams::default(), &new).await?;
    events::publish(context, operation, &new, now).await;
    Ok(())
}

/// Returns a status that differs from the stored one, with the term of the leader that writes it. Another term alone is no
/// difference, so that a new leader does not write every operation.
fn in_term(
    stored: Option<&MachineOperationStatus>,
    new: MachineOperationStatus,
    term: &TermStart,
) -> Option<MachineOperationStatus> {
    if stored == Some(&new) {
        return None;
    }
    let epoch = term.number().and_then(|number| i64::try_from(number).ok());
    Some(MachineOperationStatus { epoch, ..new })
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineOperationSpec;

    use super::*;

    /// The API refuses a longer message, and the operation would never end.
    #[test]
    fn no_condition_has_a_longer_message_than_its_schema_allows() {
        let operation = MachineOperation::new("op", MachineOperationSpec::default());
        let mut status = MachineOperationStatus::default();
        let text = "ä".repeat(LONGEST_MESSAGE + 1);
        let (phase, now) = (OperationPhase::Failed, Timestamp::UNIX_EPOCH);
        conclude(&mut status, &operation, phase, "DrainBlocked", &text, now);
        let lengths = status.conditions.iter().flatten().map(|it| it.message.chars().count());
        assert_eq!(lengths.max(), Some(LONGEST_MESSAGE));
    }

    #[test]
    fn hv_02_a_status_names_the_term_of_the_leader_that_wrote_it() {
        let pending = |epoch| MachineOperationStatus {
            phase: Some(OperationPhase::Pending),
            epoch,
            ..MachineOperationStatus::default()
        };
        let stored = pending(Some(7));
        let running = MachineOperationStatus { phase: Some(OperationPhase::Running), ..stored.clone() };
        let epoch = |new: &MachineOperationStatus, term: &TermStart| {
            in_term(Some(&stored), new.clone(), term).map(|status| status.epoch)
        };
        let next = TermStart::in_order(9);
        assert_eq!(epoch(&running, &next), Some(Some(9)));
        assert_eq!(epoch(&stored, &next), None, "a new leader alone changes nothing");
        assert_eq!(epoch(&running, &TermStart::default()), Some(None), "a term without a number");
        let first = in_term(None, pending(None), &next).map(|status| status.epoch);
        assert_eq!(first, Some(Some(9)));
    }
}
