//! Upgrade by Nova's rebuild: the same server, id, ports and addresses, with another image and
//! fresh user data.

use apiserver_types::{OperationResult, OperationStep, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, CloudError, ErrorClass, Rebuild as RebuildCall, Server};
use controllers_runtime::ReconcileError;

use crate::core::action_log::{self, CallState, heard};
use crate::core::claim::{self, UpgradeTarget};
use crate::core::decision::{Call, Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::Procedure;
use crate::core::target::{Stop, Target, find};
use crate::procedures::upgrade::{self, Way};

/// Nova's word for it.
const ACTION: &str = "rebuild";

const PREPARE: &str = "PrepareRebuild";
const REBUILD: &str = "Rebuild";
const AWAIT: &str = "AwaitRebuild";
const RECORD: &str = "RecordVersion";

/// The steps.
pub(crate) fn plan() -> Vec<&'static str> {
    vec![claim::STEP, PREPARE, REBUILD, AWAIT, RECORD]
}

/// An upgrade by rebuild.
#[derive(Debug)]
pub(crate) struct Rebuild;

/// What can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Keep the server's reconciler away.
    Claim,
    /// Ask Nova.
    Rebuild,
    /// Write what the server is now.
    Record,
}

/// What a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    log: Vec<ActionRecord>,
    steps: Vec<OperationStep>,
    target: UpgradeTarget,
    settled: bool,
    claimed: bool,
    recorded: bool,
    /// Another way may be taken.
    free: bool,
    done: String,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Rebuild {
    type Observed = Observed;
    type Effect = Effect;

    async fn observe(&self, subject: &Target) -> Result<Observed, ReconcileError> {
        let id = subject.server_id().unwrap_or_default();
        let server = subject.server(id).await?;
        let log = if server.is_some() { subject.cloud.actions(id).await? } else { Vec::new() };
        let target = upgrade::target(subject);
        Ok(Observed {
            server,
            log,
            steps: subject.steps().to_vec(),
            settled: subject.is_settled(REBUILD, ""),
            claimed: claim::is_claimed(subject),
            recorded: claim::is_recorded(subject, &target),
            target,
            free: upgrade::is_free(&subject.operation),
            done: upgrade::done(subject, Way::Rebuild),
            stop: subject.stop(),
        })
    }

    fn decide(&self, seen: &Observed) -> Decision<Effect> {
        let Some(server) = &seen.server else {
            let message = "Nova does not know the Machine's server (any more)";
            return Decision::End(Outcome::failed(REBUILD, "ServerMissing", message));
        };
        let (announce, issue) = (find(&seen.steps, PREPARE), find(&seen.steps, REBUILD));
        match heard(&seen.log, ACTION, announce, issue, seen.settled) {
            CallState::Unannounced => prepare(seen),
            CallState::Nothing => ask(seen, server),
            CallState::UnderWay(id) if issue.is_none_or(|step| step.state != StepState::Done) => {
                Decision::record(accepted(id))
            }
            CallState::UnderWay(_) => Decision::wait(AWAIT, "waiting for Nova to finish the rebuild"),
            CallState::Succeeded(id) => succeeded(seen, server, id),
            CallState::Failed(id, words) => {
                failed(seen, "RebuildFailed", &format!("the rebuild failed: {words} (request id {id})"))
            }
            CallState::Lost(baseline) => {
                Decision::End(Outcome::failed(AWAIT, "LogLost", action_log::lost(ACTION, &baseline)))
            }
        }
    }

    async fn act(&self, subject: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
        match effect {
            Effect::Claim => {
                claim::claim(subject).await?;
                Ok(Change::of([StepUpdate::done(claim::STEP, "the server's reconciler leaves it alone")]))
            }
            Effect::Rebuild => {
                let call = RebuildCall {
                    image_id: upgrade::target(subject).image,
                    user_data: Some(subject.user_data().await?),
                    metadata: None,
                };
                let id = subject.server_id().unwrap_or_default();
                Ok(accepted(subject.cloud.rebuild_server(id, &call).await?))
            }
            Effect::Record => {
                claim::record(subject, &upgrade::target(subject)).await?;
                Ok(Change::of([StepUpdate::done(RECORD, "the Machine has its new version")]))
            }
        }
    }

    fn refused(&self, seen: &Observed, call: &Call<Effect>, error: &CloudError) -> Decision<Effect> {
        if call.effect == Effect::Rebuild && error.class != ErrorClass::NotFound {
            return failed(seen, error.class.reason(), &error.to_string());
        }
        Decision::End(Outcome::failed(call.step, error.class.reason(), error.to_string()))
    }
}

fn accepted(request: Option<String>) -> Change {
    Change::of([
        StepUpdate::done(REBUILD, "Nova accepted the rebuild").by(request),
        StepUpdate::running(AWAIT, "waiting for Nova to finish the rebuild"),
    ])
}

/// Everything that must be so before Nova is asked.
fn prepare(seen: &Observed) -> Decision<Effect> {
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebuilt"));
    }
    if !seen.claimed {
        return Decision::act(claim::STEP, Effect::Claim);
    }
    let message = format!("noted the newest of {} entries in Nova's action log", seen.log.len());
    Decision::record(Change::of([
        StepUpdate::done(claim::STEP, "the server's reconciler leaves it alone"),
        StepUpdate::done(PREPARE, message).by(action_log::baseline(&seen.log)),
        StepUpdate::running(REBUILD, "asking Nova for a rebuild"),
    ]))
}

/// Asks Nova, once it is certain that it has not been asked.
fn ask(seen: &Observed, server: &Server) -> Decision<Effect> {
    if !seen.settled {
        return Decision::wait(REBUILD, "looking for a call that may still be on its way to Nova");
    }
    if let Some(stop) = &seen.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebuilt"));
    }
    match &server.task_state {
        Some(task) => {
            Decision::wait(REBUILD, format!("waiting for Nova to end the server's present task, {task}"))
        }
        None => Decision::act(REBUILD, Effect::Rebuild),
    }
}

fn succeeded(seen: &Observed, server: &Server, id: String) -> Decision<Effect> {
    if server.image_id.as_ref() != Some(&seen.target.image) {
        let message = format!(
            "the rebuild that Nova's log shows (request id {id}) was another one: the server's image is {}",
            server.image_id.as_deref().unwrap_or("none")
        );
        return Decision::End(Outcome::failed(AWAIT, "AnotherRebuild", message));
    }
    let over = find(&seen.steps, AWAIT).is_some_and(|step| step.state == StepState::Done);
    if !over {
        return Decision::record(Change::of([
            StepUpdate::done(REBUILD, "Nova accepted the rebuild").by(Some(id)),
            StepUpdate::done(AWAIT, "Nova's action log says that the rebuild succeeded"),
            StepUpdate::running(RECORD, "writing the new version"),
        ]));
    }
    if !seen.recorded {
        return Decision::act(RECORD, Effect::Record);
    }
    let mark = StepUpdate::done(RECORD, "the Machine has its new version");
    Decision::End(Outcome::complete(seen.done.clone(), Change::of([mark])))
}

/// A rebuild that does not work: a replacement if that is allowed, and else the end.
fn failed(seen: &Observed, reason: &'static str, message: &str) -> Decision<Effect> {
    if !seen.free || seen.stop.is_some() {
        return Decision::End(Outcome::failed(AWAIT, reason, message));
    }
    let result =
        OperationResult { strategy: Some(Way::Replace.word().to_owned()), ..OperationResult::default() };
    let marks = [
        StepUpdate::done(upgrade::CHOOSE, format!("{message}; so the server is replaced")),
        StepUpdate::skipped(REBUILD, message),
        StepUpdate::failed(AWAIT, message),
        StepUpdate::skipped(RECORD, "a replacement follows"),
    ];
    let plan = crate::procedures::upgrade_replace::plan();
    Decision::record(Change { plan, ..Change::of(marks).with(result) })
}
