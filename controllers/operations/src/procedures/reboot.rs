//! Reboot procedure: one call to Nova, confirmed by its action log.
//!
//! A soft reboot that does not end in time is followed by a hard one, which has steps of its own.
//! The pass waits for an entry in the server's instance-action log. The status `ACTIVE` confirms
//! nothing, because the server has it before the reboot, too.

use std::time::Duration;

use apiserver_types::{Machine, MachineOperation, OperationStep, RebootType, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, RebootKind, Server};
use controllers_runtime::{ReconcileError, Requeue};

use crate::core::action_log::CallState;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain;
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target, find};
use crate::procedures::server_call::{self, ServerCall};

/// Name of the action in Nova's log.
const ACTION: &str = "reboot";

/// Reason of the condition when Nova reports a failure.
const FAILURE: &str = "RebootFailed";

/// Timeout of a soft reboot: Nova's own default. Unit: seconds.
const SOFT_TIMEOUT: i32 = 120;

/// Statuses in which Nova refuses a soft reboot and accepts a hard one, because no guest runs.
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

/// Returns the kind of reboot that a call requests.
fn effect(call: &ServerCall) -> RebootKind {
    if *call == SOFT { RebootKind::Soft } else { RebootKind::Hard }
}

/// Reboot of a server.
#[derive(Debug)]
pub(crate) struct Reboot;

#[async_trait]
impl ActionProcedure for Reboot {
    fn plan(&self, operation: &MachineOperation, machine: &Machine) -> Vec<&'static str> {
        let parameters = operation.spec.reboot.clone().unwrap_or_default();
        let call = match parameters.kind.unwrap_or_default() {
            RebootType::Soft => SOFT,
            RebootType::Hard => HARD,
        };
        node_drain::plan(operation, machine, call.steps().to_vec())
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        procedure::pass(self, target).await
    }
}

/// Everything a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    log: Vec<ActionRecord>,
    steps: Vec<OperationStep>,
    soft: bool,
    soft_settled: bool,
    hard_settled: bool,
    /// A soft reboot has exceeded its timeout.
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

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let (server, log) = server_call::observe(target).await?;
        let parameters = target.operation.spec.reboot.clone().unwrap_or_default();
        let seconds = parameters.soft_timeout_seconds.unwrap_or(SOFT_TIMEOUT);
        let timeout = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let waits = target.step(SOFT.wait).is_some_and(|step| step.state == StepState::Running);
        Ok(Observed {
            server,
            log,
            steps: target.steps().to_vec(),
            soft: parameters.kind.unwrap_or_default() == RebootType::Soft,
            soft_settled: target.is_settled(SOFT.issue, ""),
            hard_settled: target.is_settled(HARD.issue, ""),
            late: waits && target.memory.in_progress(target.uid(), SOFT.wait, target.elapsed) >= timeout,
            stop: target.stop(),
        })
    }

    fn decide(&self, observed: &Observed) -> Decision<RebootKind> {
        let hard =
            !observed.soft || observed.step(HARD.prepare).is_some_and(|step| step.state == StepState::Done);
        let call = if hard { HARD } else { SOFT };
        let Some(server) = &observed.server else { return call.server_missing() };
        match observed.state(&call) {
            CallState::Unannounced => announce(observed, server, call),
            CallState::Nothing => issue(observed, server, &call),
            CallState::InFlight(id) => in_flight(observed, &call, id),
            CallState::Succeeded(id) => call.succeeded(id),
            CallState::Failed(id, message) => call.failed(&id, &message),
            CallState::Lost(baseline) => call.lost(&baseline),
        }
    }

    async fn act(&self, target: &Target, effect: &RebootKind) -> Result<Change, ReconcileError> {
        let id = target.server_id().unwrap_or_default();
        let request = target.cloud.reboot_server(id, *effect).await?;
        let call = if *effect == RebootKind::Soft { SOFT } else { HARD };
        Ok(call.accepted(request))
    }
}

/// Records where Nova's log ends, before the call.
fn announce(observed: &Observed, server: &Server, call: ServerCall) -> Decision<RebootKind> {
    if let Some(stop) = &observed.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebooted"));
    }
    let guestless = call == SOFT && WITHOUT_GUEST.contains(&server.status.as_str());
    let call = if guestless { HARD } else { call };
    let mut updates = Vec::new();
    if guestless {
        let message = format!("the server is {}: only a hard reboot is possible", server.status);
        updates.extend(SOFT.steps().map(|step| StepUpdate::skipped(step, message.clone())));
    }
    updates.extend(call.announcement(&observed.log));
    Decision::record(Change::of(updates))
}

/// Makes the call, as soon as it is certain that it has not been made.
fn issue(observed: &Observed, server: &Server, call: &ServerCall) -> Decision<RebootKind> {
    if !observed.is_settled(call) {
        return call.wait_for_trace();
    }
    if *call == HARD
        && let CallState::Succeeded(id) = observed.state(&SOFT)
    {
        return SOFT.succeeded(id);
    }
    if let Some(stop) = &observed.stop {
        return Decision::End(Outcome::stopped(stop, &format!("no {} was requested", call.noun)));
    }
    match server.task_state.as_deref() {
        // A hard reboot may cut a reboot short; nothing else may be.
        Some(task) if *call == SOFT || !task.starts_with("reboot") => call.wait_for_task(task),
        _ => Decision::act(call.issue, effect(call)),
    }
}

fn in_flight(observed: &Observed, call: &ServerCall, id: Option<String>) -> Decision<RebootKind> {
    if observed.step(call.wait).is_none_or(|step| step.state == StepState::Pending) {
        return Decision::record(call.accepted(id));
    }
    if *call == HARD || !observed.late {
        return call.wait_for_end();
    }
    if let Some(stop) = &observed.stop {
        return Decision::End(Outcome::stopped(stop, "the soft reboot goes on in Nova, no hard one follows"));
    }
    let late = StepUpdate::failed(SOFT.wait, "the soft reboot did not end in time; a hard one follows");
    let [noted, calling] = HARD.announcement(&observed.log);
    Decision::record(Change { plan: HARD.steps().to_vec(), ..Change::of([late, noted, calling]) })
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

    /// Returns a soft reboot with these steps and their request ids.
    fn observed(steps: &[(&str, StepState, Option<&str>)], log: &[ActionRecord]) -> Observed {
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
                let updates =
                    change.updates.iter().map(|update| format!("{}:{:?}", update.step, update.state));
                updates.collect::<Vec<_>>().join(" ")
            }
            Decision::Act(call) => format!("{:?}", call.effect),
            Decision::Wait { step, .. } => format!("wait {step}"),
            Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
        }
    }

    fn task(observed: &mut Observed, task: &str) {
        observed.server = Some(Server { task_state: Some(task.to_owned()), ..Server::default() });
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "one table, a line for each answer of Nova")]
    fn a_reboot_is_one_call_and_the_action_log_decides_its_result() {
        use StepState::{Done, Failed, Running};
        let stop = || Some(Stop { reason: "Requested", why: "enough".to_owned() });
        let begun = [(SOFT.prepare, Done, Some("old")), (SOFT.issue, Running, None)];
        let accepted =
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
        let with = |mut observed: Observed, change: fn(&mut Observed)| {
            change(&mut observed);
            observed
        };
        let stopped = |observed: Observed| Observed { stop: stop(), ..observed };
        let table = [
            ("first", observed(&[], &[]), "PrepareSoftReboot:Done SoftReboot:Running"),
            ("stopped at first", stopped(observed(&[], &[])), "Cancelled Requested"),
            (
                "hard",
                with(observed(&[], &[]), |observed| observed.soft = false),
                "PrepareHardReboot:Done HardReboot:Running",
            ),
            (
                "no server",
                with(observed(&[], &[]), |observed| observed.server = None),
                "Failed ServerMissing",
            ),
            ("not called", observed(&begun, &[]), "Soft"),
            (
                "perhaps called",
                with(observed(&begun, &[]), |observed| observed.soft_settled = false),
                "wait SoftReboot",
            ),
            (
                "busy",
                with(observed(&begun, &[]), |observed| task(observed, "image_snapshot")),
                "wait SoftReboot",
            ),
            ("stopped, not called", stopped(observed(&begun, &[])), "Cancelled Requested"),
            (
                "stopped, perhaps called",
                stopped(with(observed(&begun, &[]), |observed| observed.soft_settled = false)),
                "wait SoftReboot",
            ),
            (
                "called, answer lost",
                observed(&begun, std::slice::from_ref(&running)),
                "SoftReboot:Done AwaitSoftReboot:Running",
            ),
            ("in flight", observed(&accepted, std::slice::from_ref(&running)), "wait AwaitSoftReboot"),
            (
                "stopped, in flight",
                stopped(observed(&accepted, std::slice::from_ref(&running))),
                "wait AwaitSoftReboot",
            ),
            (
                "late",
                with(observed(&accepted, std::slice::from_ref(&running)), |observed| observed.late = true),
                "AwaitSoftReboot:Failed PrepareHardReboot:Done HardReboot:Running",
            ),
            (
                "stopped, late",
                stopped(with(observed(&accepted, std::slice::from_ref(&running)), |observed| {
                    observed.late = true
                })),
                "Cancelled Requested",
            ),
            ("over", observed(&accepted, std::slice::from_ref(&over)), "Complete Succeeded"),
            ("over, answer lost", observed(&begun, std::slice::from_ref(&over)), "Complete Succeeded"),
            ("failed", observed(&accepted, &[error]), "Failed RebootFailed"),
            (
                "fallen back",
                with(observed(&fallen, &[running]), |observed| task(observed, "rebooting")),
                "Hard",
            ),
            (
                "fallen back, but it ended",
                observed(&fallen, std::slice::from_ref(&over)),
                "Complete Succeeded",
            ),
            (
                "fallen back, hard called",
                observed(&fallen, &[record("h", None), over]),
                "HardReboot:Done AwaitHardReboot:Running",
            ),
            ("log purged", with(observed(&begun, &[]), |observed| observed.log.clear()), "Failed LogLost"),
        ];
        for (case, observed, expected) in table {
            assert_eq!(word(&Reboot.decide(&observed)), expected, "{case}");
        }
    }
}
