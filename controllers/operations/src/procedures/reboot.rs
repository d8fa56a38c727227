//! Reboot: ask Nova once, and believe its log.
//!
//! A soft reboot that does not end in time is followed by a hard one, which has steps of its own.
//! What is awaited is an entry in the server's instance-action log; that the server is `ACTIVE`
//! says nothing, since it is so before the reboot too.

use std::time::Duration;

use apiserver_types::{OperationStep, RebootParameters, RebootType, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, RebootKind, Server};
use controllers_runtime::ReconcileError;

use crate::core::action_log::{self, CallState, heard};
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::Procedure;

use crate::core::target::{Stop, Target, find};

/// Nova's word for it.
const ACTION: &str = "reboot";

/// How long a soft reboot may take unless said otherwise: Nova's own default.
const SOFT_TIMEOUT: i32 = 120;

/// States in which Nova refuses a soft reboot and accepts a hard one: there is no guest to ask.
const WITHOUT_GUEST: [&str; 5] = ["SHUTOFF", "ERROR", "PAUSED", "SUSPENDED", "CRASHED"];

/// The steps of one kind of reboot.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    prepare: &'static str,
    issue: &'static str,
    wait: &'static str,
    word: &'static str,
    effect: RebootKind,
}

const SOFT: Kind = Kind {
    prepare: "PrepareSoftReboot",
    issue: "SoftReboot",
    wait: "AwaitSoftReboot",
    word: "soft reboot",
    effect: RebootKind::Soft,
};

const HARD: Kind = Kind {
    prepare: "PrepareHardReboot",
    issue: "HardReboot",
    wait: "AwaitHardReboot",
    word: "hard reboot",
    effect: RebootKind::Hard,
};

/// The steps, as far as they are known beforehand.
pub(crate) fn plan(parameters: &RebootParameters) -> Vec<&'static str> {
    let kind = match parameters.kind.unwrap_or_default() {
        RebootType::Soft => SOFT,
        RebootType::Hard => HARD,
    };
    vec![kind.prepare, kind.issue, kind.wait]
}

/// A reboot.
#[derive(Debug)]
pub(crate) struct Reboot;

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

    fn is_settled(&self, kind: &Kind) -> bool {
        if *kind == SOFT { self.soft_settled } else { self.hard_settled }
    }

    fn heard(&self, kind: &Kind) -> CallState {
        heard(&self.log, ACTION, self.step(kind.prepare), self.step(kind.issue), self.is_settled(kind))
    }
}

#[async_trait]
impl Procedure for Reboot {
    type Observed = Observed;
    type Effect = RebootKind;

    async fn observe(subject: &Target) -> Result<Observed, ReconcileError> {
        let id = subject.server_id().unwrap_or_default();
        let server = subject.server(id).await?;
        let log = if server.is_some() { subject.cloud.actions(id).await? } else { Vec::new() };
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

    fn decide(seen: &Observed) -> Decision<RebootKind> {
        let hard = !seen.soft || seen.step(HARD.prepare).is_some_and(|step| step.state == StepState::Done);
        let kind = if hard { HARD } else { SOFT };
        let Some(server) = &seen.server else {
            let message = "Nova does not know the Machine's server (any more)";
            return Decision::End(Outcome::failed(kind.issue, "ServerMissing", message));
        };
        match seen.heard(&kind) {
            CallState::Unannounced => announce(seen, server, kind),
            CallState::Nothing => issue(seen, server, &kind),
            CallState::UnderWay(id) => under_way(seen, &kind, id),
            CallState::Succeeded(id) => complete(&kind, id),
            CallState::Failed(id, words) => {
                let message = format!("the {} failed: {words} (request id {id})", kind.word);
                Decision::End(Outcome::failed(kind.wait, "RebootFailed", message))
            }
            CallState::Lost(baseline) => {
                Decision::End(Outcome::failed(kind.wait, "LogLost", action_log::lost(ACTION, &baseline)))
            }
        }
    }

    async fn act(subject: &Target, effect: &RebootKind) -> Result<Change, ReconcileError> {
        let id = subject.server_id().unwrap_or_default();
        let request = subject.cloud.reboot_server(id, *effect).await?;
        Ok(accepted(if *effect == RebootKind::Soft { &SOFT } else { &HARD }, request))
    }
}

fn accepted(kind: &Kind, request: Option<String>) -> Change {
    Change::of([
        StepUpdate::done(kind.issue, format!("Nova accepted the {}", kind.word)).by(request),
        StepUpdate::running(kind.wait, "waiting for Nova to finish it"),
    ])
}

/// Writes down where Nova's log ends now, before anything is asked of Nova.
fn announce(seen: &Observed, server: &Server, kind: Kind) -> Decision<RebootKind> {
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebooted"));
    }
    let guestless = kind == SOFT && WITHOUT_GUEST.contains(&server.status.as_str());
    let kind = if guestless { HARD } else { kind };
    let mut marks = Vec::new();
    if guestless {
        let message = format!("the server is {}: only a hard reboot is possible", server.status);
        marks.extend(
            [SOFT.prepare, SOFT.issue, SOFT.wait].map(|step| StepUpdate::skipped(step, message.clone())),
        );
    }
    marks.extend(announcement(&seen.log, &kind));
    Decision::record(Change::of(marks))
}

fn announcement(log: &[ActionRecord], kind: &Kind) -> [StepUpdate; 2] {
    let message = format!("noted the newest of {} entries in Nova's action log", log.len());
    [
        StepUpdate::done(kind.prepare, message).by(action_log::baseline(log)),
        StepUpdate::running(kind.issue, format!("asking Nova for a {}", kind.word)),
    ]
}

/// Asks Nova, once it is certain that it has not been asked.
fn issue(seen: &Observed, server: &Server, kind: &Kind) -> Decision<RebootKind> {
    if !seen.is_settled(kind) {
        return Decision::wait(kind.issue, "looking for a call that may still be on its way to Nova");
    }
    if *kind == HARD
        && let CallState::Succeeded(id) = seen.heard(&SOFT)
    {
        return complete(&SOFT, id);
    }
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, &format!("no {} was asked for", kind.word)));
    }
    match server.task_state.as_deref() {
        // A hard reboot may cut a reboot short; nothing else may be.
        Some(task) if *kind == SOFT || !task.starts_with("reboot") => {
            Decision::wait(kind.issue, format!("waiting for Nova to end the server's present task, {task}"))
        }
        _ => Decision::act(kind.issue, kind.effect),
    }
}

fn under_way(seen: &Observed, kind: &Kind, id: Option<String>) -> Decision<RebootKind> {
    if seen.step(kind.wait).is_none_or(|step| step.state == StepState::Pending) {
        return Decision::record(accepted(kind, id));
    }
    if *kind == HARD || !seen.late {
        return Decision::wait(kind.wait, "waiting for Nova to finish it");
    }
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the soft reboot goes on in Nova, no hard one follows"));
    }
    let late = StepUpdate::failed(SOFT.wait, "the soft reboot did not end in time; a hard one follows");
    let [noted, asking] = announcement(&seen.log, &HARD);
    Decision::record(Change {
        plan: vec![HARD.prepare, HARD.issue, HARD.wait],
        ..Change::of([late, noted, asking])
    })
}

fn complete(kind: &Kind, id: String) -> Decision<RebootKind> {
    let message = format!("Nova's action log says that the {} succeeded", kind.word);
    let marks = [
        StepUpdate::done(kind.issue, format!("Nova accepted the {}", kind.word)).by(Some(id)),
        StepUpdate::done(kind.wait, message.clone()),
    ];
    Decision::End(Outcome::complete(message, Change::of(marks)))
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
            assert_eq!(word(&Reboot::decide(&seen)), expected, "{case}");
        }
    }
}
