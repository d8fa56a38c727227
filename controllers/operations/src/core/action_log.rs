//! State of a call to a server, derived from Nova's instance-action log alone.
//!
//! Our clock and Nova's are never compared. Before a call, the newest entry of the log is written into
//! the announcing step; entries above it came later. A call that was sent may not be in the log yet: see
//! [`crate::core::volatile_state`].

use apiserver_types::{OperationStep, StepState};
use controllers_infrastructure::ActionRecord;

/// State of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallState {
    /// Not announced, so not made.
    Unannounced,
    /// Announced, without a trace in the log.
    Nothing,
    /// Accepted and not ended. The request id, if the log has it.
    InFlight(Option<String>),
    /// Succeeded: request id.
    Succeeded(String),
    /// Failed: request id, and Nova's message.
    Failed(String, String),
    /// Not known: the log no longer has the entry that the announcement names.
    Lost(String),
}

/// Returns the state of the call of `action` that the step `announce` announced and `issue` makes.
///
/// `settled`: enough time has passed that an accepted call must be in the log.
pub(crate) fn call_state(
    log: &[ActionRecord],
    action: &str,
    announce: Option<&OperationStep>,
    issue: Option<&OperationStep>,
    settled: bool,
) -> CallState {
    let Some(announce) = announce.filter(|step| step.state == StepState::Done) else {
        return CallState::Unannounced;
    };
    let accepted = issue.and_then(|step| step.request_id.as_deref());
    if let Some(record) = accepted.and_then(|id| log.iter().find(|record| record.request_id == id)) {
        return state(record);
    }
    if accepted.is_some() && !settled {
        return CallState::InFlight(None);
    }
    let newer = match announce.request_id.as_deref() {
        None => log,
        Some(baseline) => match log.iter().position(|record| record.request_id == baseline) {
            Some(position) => log.get(..position).unwrap_or_default(),
            None => return CallState::Lost(baseline.to_owned()),
        },
    };
    // The first since the announcement: a later one is another client's.
    match newer.iter().rev().find(|record| record.action == action) {
        Some(record) => state(record),
        None if accepted.is_some() => CallState::InFlight(None),
        None => CallState::Nothing,
    }
}

/// Returns the newest entry of the log: the entry of a call that is announced now will come after it.
pub(crate) fn baseline(log: &[ActionRecord]) -> Option<String> {
    log.first().map(|record| record.request_id.clone())
}

fn state(record: &ActionRecord) -> CallState {
    let id = record.request_id.clone();
    match (record.result.as_deref(), &record.finished_at) {
        (Some("Success"), Some(_)) => CallState::Succeeded(id),
        (Some("Error"), _) => {
            let message = record.message.clone().filter(|message| !message.is_empty());
            CallState::Failed(id, message.unwrap_or_else(|| "Nova gave no reason".to_owned()))
        }
        _ => CallState::InFlight(Some(id)),
    }
}

/// Returns the message for a log that does not reach back to the announcement.
pub(crate) fn lost(action: &str, baseline: &str) -> String {
    format!(
        "Nova's action log no longer has request {baseline}, the newest before the {action} was announced, so the outcome of the {action} is unknown. Check the server, and request the {action} again if it did not happen"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, action: &str, result: Option<&str>) -> ActionRecord {
        ActionRecord {
            action: action.to_owned(),
            request_id: id.to_owned(),
            result: result.map(str::to_owned),
            finished_at: result.map(|_| "2026-01-01T00:00:00Z".to_owned()),
            ..ActionRecord::default()
        }
    }

    fn step(state: StepState, id: Option<&str>) -> OperationStep {
        OperationStep { state, request_id: id.map(str::to_owned), ..OperationStep::default() }
    }

    #[test]
    fn only_entries_newer_than_the_baseline_count() {
        let old = record("req-0", "reboot", Some("Success"));
        let announced = step(StepState::Done, Some("req-0"));
        let running = step(StepState::Running, None);
        let accepted = step(StepState::Running, Some("req-1"));
        let with = |records: &[ActionRecord]| [records, std::slice::from_ref(&old)].concat();
        let succeeded = || CallState::Succeeded("req-1".to_owned());
        let table = [
            ("only an old reboot", with(&[]), &running, false, CallState::Nothing),
            (
                "another action since",
                with(&[record("req-1", "stop", None)]),
                &running,
                true,
                CallState::Nothing,
            ),
            (
                "called, answer lost, in flight",
                with(&[record("req-1", "reboot", None)]),
                &running,
                false,
                CallState::InFlight(Some("req-1".to_owned())),
            ),
            (
                "called, answer lost, over",
                with(&[record("req-1", "reboot", Some("Success"))]),
                &running,
                false,
                succeeded(),
            ),
            (
                "another client's came later",
                with(&[record("req-2", "reboot", None), record("req-1", "reboot", Some("Success"))]),
                &running,
                false,
                succeeded(),
            ),
            (
                "another client's came earlier, and we know ours",
                with(&[record("req-1", "reboot", Some("Success")), record("req-9", "reboot", None)]),
                &accepted,
                false,
                succeeded(),
            ),
            ("accepted, not listed yet", with(&[]), &accepted, false, CallState::InFlight(None)),
            ("accepted, never listed", with(&[]), &accepted, true, CallState::InFlight(None)),
            (
                "listed by another id than the call's",
                with(&[record("req-x", "reboot", Some("Success"))]),
                &accepted,
                true,
                CallState::Succeeded("req-x".to_owned()),
            ),
            (
                "failed",
                with(&[record("req-1", "reboot", Some("Error"))]),
                &accepted,
                false,
                CallState::Failed("req-1".to_owned(), "Nova gave no reason".to_owned()),
            ),
            ("the log was purged", vec![], &running, true, CallState::Lost("req-0".to_owned())),
        ];
        for (case, log, issue, settled, expected) in table {
            assert_eq!(
                call_state(&log, "reboot", Some(&announced), Some(issue), settled),
                expected,
                "{case}"
            );
        }
        let pending = step(StepState::Pending, None);
        assert_eq!(call_state(&[], "reboot", Some(&pending), None, true), CallState::Unannounced);
        assert_eq!(call_state(&[], "reboot", None, None, true), CallState::Unannounced);
    }
}
