//! Steps that power-off and power-on share: the change of a server's power state.
//!
//! A server that is in the state already needs no call: the operation is complete at once.

use apiserver_types::{Machine, MachineOperation, OperationStep, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, PowerState, Server};
use controllers_runtime::{ReconcileError, Requeue};

use crate::core::action_log::CallState;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::target::{Stop, Target, find};
use crate::procedures::server_call::{self, ServerCall};

/// Procedure that brings a server into a power state.
#[derive(Debug)]
pub(crate) struct Power {
    /// Call to Nova.
    pub call: ServerCall,
    /// State that the call requests.
    pub state: PowerState,
    /// Nova's status of a server in this state.
    pub status: &'static str,
}

/// Everything a decision is made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    pub server: Option<Server>,
    pub log: Vec<ActionRecord>,
    pub steps: Vec<OperationStep>,
    pub settled: bool,
    pub stop: Option<Stop>,
}

#[async_trait]
impl ActionProcedure for Power {
    fn plan(&self, _operation: &MachineOperation, _machine: &Machine) -> Vec<&'static str> {
        self.call.steps().to_vec()
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        procedure::pass(self, target).await
    }
}

#[async_trait]
impl Procedure for Power {
    type Observed = Observed;
    type Effect = PowerState;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let (server, log) = server_call::observe(target).await?;
        Ok(Observed {
            server,
            log,
            steps: target.steps().to_vec(),
            settled: target.is_settled(self.call.issue, ""),
            stop: target.stop(),
        })
    }

    fn decide(&self, observed: &Observed) -> Decision<PowerState> {
        let call = &self.call;
        let Some(server) = &observed.server else { return call.server_missing() };
        let waits = find(&observed.steps, call.wait).is_some_and(|step| step.state == StepState::Running);
        match call.state(&observed.log, &observed.steps, observed.settled) {
            CallState::Unannounced => self.announce(observed, server),
            CallState::Nothing => self.issue(observed, server),
            CallState::InFlight(id) if !waits => Decision::record(call.accepted(id)),
            CallState::InFlight(_) => call.wait_for_end(),
            CallState::Succeeded(id) => call.succeeded(id),
            CallState::Failed(id, message) => call.failed(&id, &message),
            CallState::Lost(baseline) => call.lost(&baseline),
        }
    }

    async fn act(&self, target: &Target, state: &PowerState) -> Result<Change, ReconcileError> {
        let id = target.server_id().unwrap_or_default();
        Ok(self.call.accepted(target.cloud.set_power_state(id, *state).await?))
    }
}

impl Power {
    /// Records where Nova's log ends, unless there is nothing to do.
    fn announce(&self, observed: &Observed, server: &Server) -> Decision<PowerState> {
        match (&observed.stop, self.is_reached(server)) {
            (Some(stop), _) => self.stopped(stop),
            (None, true) => self.nothing_to_do(server),
            (None, false) => Decision::record(Change::of(self.call.announcement(&observed.log))),
        }
    }

    /// Makes the call, once it is certain that it has not been made.
    fn issue(&self, observed: &Observed, server: &Server) -> Decision<PowerState> {
        if !observed.settled {
            return self.call.wait_for_trace();
        }
        if let Some(stop) = &observed.stop {
            return self.stopped(stop);
        }
        // Another client may have been faster.
        if self.is_reached(server) {
            return self.nothing_to_do(server);
        }
        match server.task_state.as_deref() {
            Some(task) => self.call.wait_for_task(task),
            None => Decision::act(self.call.issue, self.state),
        }
    }

    fn is_reached(&self, server: &Server) -> bool {
        server.status == self.status && server.task_state.is_none()
    }

    fn stopped(&self, stop: &Stop) -> Decision<PowerState> {
        Decision::End(Outcome::stopped(stop, &format!("no {} was requested", self.call.noun)))
    }

    fn nothing_to_do(&self, server: &Server) -> Decision<PowerState> {
        let message =
            format!("the server is {} already; Nova gets no call for a {}", server.status, self.call.noun);
        let skipped = self.call.steps().map(|step| StepUpdate::skipped(step, message.clone()));
        Decision::End(Outcome::complete(message, Change::of(skipped)))
    }
}

/// Table of situations in which every [`Power`] makes the same decision.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn record(action: &str, id: &str, result: Option<&str>) -> ActionRecord {
        ActionRecord {
            action: action.to_owned(),
            request_id: id.to_owned(),
            result: result.map(str::to_owned),
            finished_at: result.map(|_| "then".to_owned()),
            ..ActionRecord::default()
        }
    }

    fn step(name: &str, state: StepState, id: Option<&str>) -> OperationStep {
        let request_id = id.map(str::to_owned);
        OperationStep { name: name.to_owned(), state, request_id, ..OperationStep::default() }
    }

    fn word(decision: &Decision<PowerState>) -> String {
        match decision {
            Decision::Record(change) => {
                let updates =
                    change.updates.iter().map(|update| format!("{} {:?}", update.step, update.state));
                updates.collect::<Vec<_>>().join(", ")
            }
            Decision::Act(call) => format!("act {:?}", call.effect),
            Decision::Wait { step, .. } => format!("wait {step}"),
            Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
        }
    }

    /// Checks a procedure against every situation. `from` is the status that it changes.
    pub(crate) fn check_one_call_and_its_log(power: &Power, from: &str) {
        use StepState::{Done, Running};
        let call = &power.call;
        let server = |status: &str, task: Option<&str>| {
            let task_state = task.map(str::to_owned);
            Some(Server { status: status.to_owned(), task_state, ..Server::default() })
        };
        let with = |steps: Vec<OperationStep>, newest: Option<ActionRecord>| Observed {
            server: server(from, None),
            log: newest.into_iter().chain([record("create", "old", Some("Success"))]).collect(),
            steps,
            settled: true,
            stop: None,
        };
        let fresh = || with(Vec::new(), None);
        let announced = || vec![step(call.prepare, Done, Some("old")), step(call.issue, Running, None)];
        let accepted = || {
            vec![
                step(call.prepare, Done, Some("old")),
                step(call.issue, Done, Some("r")),
                step(call.wait, Running, None),
            ]
        };
        let entry = |result| Some(record(call.action, "r", result));
        let stop = || Some(Stop { reason: "Requested", why: "enough".to_owned() });
        let reached = || server(power.status, None);
        let wait_issue = format!("wait {}", call.issue);
        let wait_end = format!("wait {}", call.wait);
        let announcement = format!("{} Done, {} Running", call.prepare, call.issue);
        let acceptance = format!("{} Done, {} Running", call.issue, call.wait);
        let act = format!("act {:?}", power.state);
        let failure = format!("Failed {}", call.failure);
        let table = [
            ("first", fresh(), announcement.as_str()),
            ("stopped at first", Observed { stop: stop(), ..fresh() }, "Cancelled Requested"),
            ("no server", Observed { server: None, ..fresh() }, "Failed ServerMissing"),
            ("reached already", Observed { server: reached(), ..fresh() }, "Complete Succeeded"),
            (
                "reached, and on the way to another state",
                Observed { server: server(power.status, Some("rebuilding")), ..fresh() },
                announcement.as_str(),
            ),
            ("not called", with(announced(), None), act.as_str()),
            ("perhaps called", Observed { settled: false, ..with(announced(), None) }, &wait_issue),
            (
                "reached meanwhile",
                Observed { server: reached(), ..with(announced(), None) },
                "Complete Succeeded",
            ),
            (
                "reached, and perhaps by us",
                Observed { server: reached(), settled: false, ..with(announced(), None) },
                &wait_issue,
            ),
            (
                "stopped, not called",
                Observed { stop: stop(), ..with(announced(), None) },
                "Cancelled Requested",
            ),
            (
                "stopped, perhaps called",
                Observed { stop: stop(), settled: false, ..with(announced(), None) },
                &wait_issue,
            ),
            (
                "busy",
                Observed { server: server(from, Some("image_snapshot")), ..with(announced(), None) },
                &wait_issue,
            ),
            ("called, answer lost", with(announced(), entry(None)), &acceptance),
            ("in flight", with(accepted(), entry(None)), &wait_end),
            ("stopped, in flight", Observed { stop: stop(), ..with(accepted(), entry(None)) }, &wait_end),
            ("over", with(accepted(), entry(Some("Success"))), "Complete Succeeded"),
            ("over, answer lost", with(announced(), entry(Some("Success"))), "Complete Succeeded"),
            ("failed", with(accepted(), entry(Some("Error"))), failure.as_str()),
            ("log purged", Observed { log: Vec::new(), ..with(announced(), None) }, "Failed LogLost"),
        ];
        for (case, observed, expected) in table {
            assert_eq!(word(&power.decide(&observed)), expected, "{case}");
        }
    }
}
