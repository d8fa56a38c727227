//! Call to Nova on one server: made once, and confirmed by the instance-action log.
//!
//! Reboot, power-off and power-on share the shape. The first step notes where the log ends, the
//! second makes the call, the third waits for the call's entry in the log. The server's status
//! confirms nothing: it may be the same before and after.

use apiserver_types::OperationStep;
use controllers_infrastructure::{ActionRecord, Server};
use controllers_runtime::ReconcileError;

use crate::core::action_log::{self, CallState, call_state};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::target::{Target, find};

/// Steps and words of one kind of call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerCall {
    /// Step that notes where the log ends.
    pub prepare: &'static str,
    /// Step that makes the call.
    pub issue: &'static str,
    /// Step that waits for the call's end.
    pub wait: &'static str,
    /// Name of the action in Nova's log.
    pub action: &'static str,
    /// Noun for messages.
    pub noun: &'static str,
    /// Reason of the condition when Nova reports a failure.
    pub failure: &'static str,
}

impl ServerCall {
    /// Returns the steps, in order.
    pub(crate) const fn steps(&self) -> [&'static str; 3] {
        [self.prepare, self.issue, self.wait]
    }

    /// Returns what the log says of the call. `settled`: an accepted call must be in the log by now.
    pub(crate) fn state(&self, log: &[ActionRecord], steps: &[OperationStep], settled: bool) -> CallState {
        call_state(log, self.action, find(steps, self.prepare), find(steps, self.issue), settled)
    }

    /// Records where the log ends now, before the call.
    pub(crate) fn announcement(&self, log: &[ActionRecord]) -> [StepUpdate; 2] {
        let message = format!("noted the newest of {} entries in Nova's action log", log.len());
        [
            StepUpdate::done(self.prepare, message).by(action_log::baseline(log)),
            StepUpdate::running(self.issue, format!("requesting a {} from Nova", self.noun)),
        ]
    }

    /// Records that Nova accepted the call.
    pub(crate) fn accepted(&self, request: Option<String>) -> Change {
        Change::of([
            StepUpdate::done(self.issue, format!("Nova accepted the {}", self.noun)).by(request),
            StepUpdate::running(self.wait, "waiting for Nova to finish it"),
        ])
    }

    /// Waits for a call that may still be on its way.
    pub(crate) fn wait_for_trace<E>(&self) -> Decision<E> {
        Decision::wait(self.issue, "looking for a call that may still be on its way to Nova")
    }

    /// Waits for another task of the server.
    pub(crate) fn wait_for_task<E>(&self, task: &str) -> Decision<E> {
        Decision::wait(self.issue, format!("waiting for Nova to end the server's present task, {task}"))
    }

    /// Waits for the end of the call.
    pub(crate) fn wait_for_end<E>(&self) -> Decision<E> {
        Decision::wait(self.wait, "waiting for Nova to finish it")
    }

    /// Ends the operation: the log says that the call succeeded.
    pub(crate) fn succeeded<E>(&self, id: String) -> Decision<E> {
        let message = format!("Nova's action log says that the {} succeeded", self.noun);
        let updates = [
            StepUpdate::done(self.issue, format!("Nova accepted the {}", self.noun)).by(Some(id)),
            StepUpdate::done(self.wait, message.clone()),
        ];
        Decision::End(Outcome::complete(message, Change::of(updates)))
    }

    /// Ends the operation: the log says that the call failed.
    pub(crate) fn failed<E>(&self, id: &str, nova: &str) -> Decision<E> {
        let message = format!("the {} failed: {nova} (request id {id})", self.noun);
        Decision::End(Outcome::failed(self.wait, self.failure, message))
    }

    /// Ends the operation: the log does not reach back to the announcement.
    pub(crate) fn lost<E>(&self, baseline: &str) -> Decision<E> {
        Decision::End(Outcome::failed(self.wait, "LogLost", action_log::lost(self.action, baseline)))
    }

    /// Ends the operation: the server does not exist.
    pub(crate) fn server_missing<E>(&self) -> Decision<E> {
        let message = "Nova does not know the Machine's server (any more)";
        Decision::End(Outcome::failed(self.issue, "ServerMissing", message))
    }
}

/// Returns a server and its log; the log of a server that does not exist is empty.
pub(crate) async fn observe(target: &Target) -> Result<(Option<Server>, Vec<ActionRecord>), ReconcileError> {
    let id = target.server_id().unwrap_or_default();
    let server = target.server(id).await?;
    let log = if server.is_some() { target.cloud.actions(id).await? } else { Vec::new() };
    Ok((server, log))
}
