//! Reboot: ask Nova once, and believe its log.
//!
//! A soft reboot that does not end in time is followed by a hard one, which has steps of its own.
//! What is awaited is an entry in the server's instance-action log; that the server is `ACTIVE`
//! says nothing, since it is so before the reboot too.

use std::time::Duration;

use apiserver_types::{MachineOperation, OperationStep, RebootType, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, RebootKind, Server};
use controllers_runtime::{ReconcileError, Requeue};

use crate::core::action_log::CallState;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target, find};
use crate::procedures::server_call::{self, ServerCall};

/// Name of the action in Nova's log.
const ACTION: &str = "reboot";

/// Reason of the condition when Nova reports a failure.
const FAILURE: &str = "RebootFailed";

/// How long a soft reboot may take unless said otherwise: Nova's own default.
const SOFT_TIMEOUT: i32 = 120;

/// States in which Nova refuses a soft reboot and accepts a hard one: there is no guest to ask.
const WITHOUT_GUEST: [&str; 5] = ["SHUTOFF", "ERROR", "PAUSED", "SUSPENDED", "CRASHED"];

const SOFT: ServerCall = ServerCall {
    prepare: "PrepareSoftReboot",
    issue: "SoftReboot",
    wait: "AwaitSoftReboot",
    action: ACTION,
    noun: "soft reboot",
    failure: FAILURE,
};

const HARD: ServerCall = ServerCall {
    prepare: "PrepareHardReboot",
    issue: "HardReboot",
    wait: "AwaitHardReboot",
    action: ACTION,
    noun: "hard reboot",
    failure: FAILURE,
};

/// The kind of reboot that a call asks for.
fn effect(call: &ServerCall) -> RebootKind {
    if *call == SOFT { RebootKind::Soft } else { RebootKind::Hard }
}

/// Reboot of a server.
#[derive(Debug)]
pub(crate) struct Reboot;

#[async_trait]
impl ActionProcedure for Reboot {
    fn plan(&self, operation: &MachineOperation) -> Vec<&'static str> {
        let parameters = operation.spec.reboot.clone().unwrap_or_default();
        let call = match parameters.kind.unwrap_or_default() {
            RebootType::Soft => SOFT,
            RebootType::Hard => HARD,
        };
        call.steps().to_vec()
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        procedure::pass(self, target).await
    }
}

/// What a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    log: Vec<ActionRecord>,
    steps: Vec<OperationStep>,
    soft: bool,
    soft_settled: bool,
    hard_settled: bool,
    /// A soft reboot has been under way for longer than it may.
    late: bool,
    stop: Option<Stop>,
}

impl Observed {
    fn step(&self, name: &str) -> Option<&OperationStep> {
        find(&self.steps, name)
    }

    fn is_settled(&self, call: &ServerCall) -> bool {
        if *call == SOFT { self.soft_settled } else { self.hard_settled }
    }

    fn state(&self, call: &ServerCall) -> CallState {
        call.state(&self.log, &self.steps, self.is_settled(call))
    }
}

#[async_trait]
impl Procedure for Reboot {
    type Observed = Observed;
    type Effect = RebootKind;

    async fn observe(&self, subject: &Target) -> Result<Observed, ReconcileError> {
        let (server, log) = server_call::observe(subject).await?;
        let parameters = subject.operation.spec.reboot.clone().unwrap_or_default();
        let seconds = parameters.soft_timeout_seconds.unwrap_or(SOFT_TIMEOUT);
        let timeout = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let waits = subject.step(SOFT.wait).is_some_and(|step| step.state == StepState::Running);
        Ok(Observed {
            server,
            log,
            steps: subject.steps().to_vec(),
            soft: parameters.kind.unwrap_or_default() == RebootType::Soft,
            soft_settled: subject.is_settled(SOFT.issue, ""),
            hard_settled: subject.is_settled(HARD.issue, ""),
            late: waits && subject.memory.under_way(subject.uid(), SOFT.wait, subject.elapsed) >= timeout,
            stop: subject.stop(),
        })
    }

    fn decide(&self, seen: &Observed) -> Decision<RebootKind> {
        let hard = !seen.soft || seen.step(HARD.prepare).is_some_and(|step| step.state == StepState::Done);
        let call = if hard { HARD } else { SOFT };
        let Some(server) = &seen.server else { return call.server_missing() };
        match seen.state(&call) {
            CallState::Unannounced => announce(seen, server, call),
            CallState::Nothing => issue(seen, server, &call),
            CallState::UnderWay(id) => under_way(seen, &call, id),
            CallState::Succeeded(id) => call.succeeded(id),
            CallState::Failed(id, words) => call.failed(&id, &words),
            CallState::Lost(baseline) => call.lost(&baseline),
        }
    }

    async fn act(&self, subject: &Target, effect: &RebootKind) -> Result<Change, ReconcileError> {
        let id = subject.server_id().unwrap_or_default();
        let request = subject.cloud.reboot_server(id, *effect).await?;
        let call = if *effect == RebootKind::Soft { SOFT } else { HARD };
        Ok(call.accepted(request))
    }
}

/// Writes down where Nova's log ends now, before anything is asked of Nova.
fn announce(seen: &Observed, server: &Server, call: ServerCall) -> Decision<RebootKind> {
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebooted"));
    }
    let guestless = call == SOFT && WITHOUT_GUEST.contains(&server.status.as_str());
    let call = if guestless { HARD } else { call };
    let mut marks = Vec::new();
    if guestless {
        let message = format!("the server is {}: only a hard reboot is possible", server.status);
        marks.extend(SOFT.steps().map(|step| StepUpdate::skipped(step, message.clone())));
    }
    marks.extend(call.announcement(&seen.log));
    Decision::record(Change::of(marks))
}

/// Asks Nova, once it is certain that it has not been asked.
fn issue(seen: &Observed, server: &Server, call: &ServerCall) -> Decision<RebootKind> {
    if !seen.is_settled(call) {
        return call.wait_for_trace();
    }
    if *call == HARD
        && let CallState::Succeeded(id) = seen.state(&SOFT)
    {
        return SOFT.succeeded(id);
    }
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, &format!("no {} was asked for", call.noun)));
    }
    match server.task_state.as_deref() {
        // A hard reboot may cut a reboot short; nothing else may be.
        Some(task) if *call == SOFT || !task.starts_with("reboot") => call.wait_for_task(task),
        _ => Decision::act(call.issue, effect(call)),
    }
}

fn under_way(seen: &Observed, call: &ServerCall, id: Option<String>) -> Decision<RebootKind> {
    if seen.step(call.wait).is_none_or(|step| step.state == StepState::Pending) {
        return Decision::record(call.accepted(id));
    }
    if *call == HARD || !seen.late {
        return call.wait_for_end();
    }
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the soft reboot goes on in Nova, no hard one follows"));
    }
    let late = StepUpdate::failed(SOFT.wait, "the soft reboot did not end in time; a hard one follows");
    let [noted, asking] = HARD.announcement(&seen.log);
    Decision::record(Change { plan: HARD.steps().to_vec(), ..Change::of([late, noted, asking]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, result: Option<&str>) -> ActionRecord {
        ActionRecord {
            action: ACTION.to_owned(),
            request_id: id.to_owned(),
            result: result.map(str::to_owned),
            finished_at: result.map(|_| "then".to_owned()),
            ..ActionRecord::default()
        }
    }

    /// A soft reboot as far as these steps; what a step has seen of Nova is its request id.
    fn seen(steps: &[(&str, StepState, Option<&str>)], log: &[ActionRecord]) -> Observed {
        let step = |(name, state, id): &(&str, StepState, Option<&str>)| OperationStep {
            name: (*name).to_owned(),
            state: *state,
            request_id: id.map(str::to_owned),
            ..OperationStep::default()
        };
        Observed {
            server: Some(Server { status: "ACTIVE".to_owned(), ..Server::default() }),
            log: [log, &[record("old", Some("Success"))]].concat(),
            steps: steps.iter().map(step).collect(),
            soft: true,
            soft_settled: true,
            hard_settled: true,
            late: false,
            stop: None,
        }
    }

    fn word(decision: &Decision<RebootKind>) -> String {
        match decision {
            Decision::Record(change) => {
                let marks = change.marks.iter().map(|mark| format!("{}:{:?}", mark.step, mark.state));
                marks.collect::<Vec<_>>().join(" ")
            }
            Decision::Act(call) => format!("{:?}", call.effect),
            Decision::Wait { step, .. } => format!("wait {step}"),
            Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
        }
    }

    fn task(seen: &mut Observed, task: &str) {
        seen.server = Some(Server { task_state: Some(task.to_owned()), ..Server::default() });
    }

    #[test]
    fn nova_is_asked_once_and_its_log_believed() {
        use StepState::{Done, Failed, Running};
        let stop = || Some(Stop { reason: "Requested", why: "enough".to_owned() });
        let begun = [(SOFT.prepare, Done, Some("old")), (SOFT.issue, Running, None)];
        let asked =
            [(SOFT.prepare, Done, Some("old")), (SOFT.issue, Done, Some("s")), (SOFT.wait, Running, None)];
        let fallen = [
            (SOFT.prepare, Done, Some("old")),
            (SOFT.issue, Done, Some("s")),
            (SOFT.wait, Failed, None),
            (HARD.prepare, Done, Some("s")),
            (HARD.issue, Running, None),
        ];
        let (running, over, error) =
            (record("s", None), record("s", Some("Success")), record("s", Some("Error")));
        let with = |mut seen: Observed, change: fn(&mut Observed)| {
            change(&mut seen);
            seen
        };
        let stopped = |seen: Observed| Observed { stop: stop(), ..seen };
        let table = [
            ("first", seen(&[], &[]), "PrepareSoftReboot:Done SoftReboot:Running"),
            ("stopped at first", stopped(seen(&[], &[])), "Cancelled Requested"),
            (
                "hard",
                with(seen(&[], &[]), |seen| seen.soft = false),
                "PrepareHardReboot:Done HardReboot:Running",
            ),
            ("no server", with(seen(&[], &[]), |seen| seen.server = None), "Failed ServerMissing"),
            ("not asked", seen(&begun, &[]), "Soft"),
            ("perhaps asked", with(seen(&begun, &[]), |seen| seen.soft_settled = false), "wait SoftReboot"),
            ("busy", with(seen(&begun, &[]), |seen| task(seen, "image_snapshot")), "wait SoftReboot"),
            ("stopped, not asked", stopped(seen(&begun, &[])), "Cancelled Requested"),
            (
                "stopped, perhaps asked",
                stopped(with(seen(&begun, &[]), |seen| seen.soft_settled = false)),
                "wait SoftReboot",
            ),
            (
                "asked, answer lost",
                seen(&begun, std::slice::from_ref(&running)),
                "SoftReboot:Done AwaitSoftReboot:Running",
            ),
            ("under way", seen(&asked, std::slice::from_ref(&running)), "wait AwaitSoftReboot"),
            (
                "stopped, under way",
                stopped(seen(&asked, std::slice::from_ref(&running))),
                "wait AwaitSoftReboot",
            ),
            (
                "late",
                with(seen(&asked, std::slice::from_ref(&running)), |seen| seen.late = true),
                "AwaitSoftReboot:Failed PrepareHardReboot:Done HardReboot:Running",
            ),
            (
                "stopped, late",
                stopped(with(seen(&asked, std::slice::from_ref(&running)), |seen| seen.late = true)),
                "Cancelled Requested",
            ),
            ("over", seen(&asked, std::slice::from_ref(&over)), "Complete Succeeded"),
            ("over, answer lost", seen(&begun, std::slice::from_ref(&over)), "Complete Succeeded"),
            ("failed", seen(&asked, &[error]), "Failed RebootFailed"),
            ("fallen back", with(seen(&fallen, &[running]), |seen| task(seen, "rebooting")), "Hard"),
            ("fallen back, but it ended", seen(&fallen, std::slice::from_ref(&over)), "Complete Succeeded"),
            (
                "fallen back, hard asked",
                seen(&fallen, &[record("h", None), over]),
                "HardReboot:Done AwaitHardReboot:Running",
            ),
            ("log purged", with(seen(&begun, &[]), |seen| seen.log.clear()), "Failed LogLost"),
        ];
        for (case, seen, expected) in table {
            assert_eq!(word(&Reboot.decide(&seen)), expected, "{case}");
        }
    }
}
