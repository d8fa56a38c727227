//! Upgrade by Nova's rebuild: the same server, id, ports and addresses, with another image and
//! fresh user data.

use apiserver_types::{OperationResult, OperationStep, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{ActionRecord, CloudError, ErrorClass, Rebuild as RebuildCall, Server};
use controllers_runtime::ReconcileError;

use crate::core::action_log::{self, CallState, call_state};
use crate::core::claim::{self, UpgradeGoal};
use crate::core::decision::{Call, Change, Decision, Outcome, StepUpdate};
use crate::core::procedure::Procedure;
use crate::core::rejoin::{self, Rejoin};
use crate::core::target::{Stop, Target, find};
use crate::procedures::upgrade::{self, Way};

/// Name of the action in Nova's log.
const ACTION: &str = "rebuild";

const PREPARE: &str = "PrepareRebuild";
const REBUILD: &str = "Rebuild";
const AWAIT: &str = "AwaitRebuild";
const RECORD: &str = "RecordVersion";

/// Returns the steps.
pub(crate) fn plan() -> Vec<&'static str> {
    vec![claim::STEP, PREPARE, REBUILD, AWAIT, RECORD]
}

/// Upgrade by rebuild.
#[derive(Debug)]
pub(crate) struct Rebuild;

/// Effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Claim the server.
    Claim,
    /// Call Nova.
    Rebuild,
    /// Record the upgraded server.
    Record,
    /// Prepare the second join of the node.
    Rejoin(rejoin::Effect),
}

/// Everything a decision is made from.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    server: Option<Server>,
    log: Vec<ActionRecord>,
    steps: Vec<OperationStep>,
    goal: UpgradeGoal,
    settled: bool,
    claimed: bool,
    rejoin: Rejoin,
    recorded: bool,
    /// Another way may be tried.
    free: bool,
    done: String,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Rebuild {
    type Observed = Observed;
    type Effect = Effect;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let id = target.server_id().unwrap_or_default();
        let server = target.server(id).await?;
        let log = if server.is_some() { target.cloud.actions(id).await? } else { Vec::new() };
        let goal = upgrade::goal(target);
        Ok(Observed {
            server,
            log,
            steps: target.steps().to_vec(),
            settled: target.is_settled(REBUILD, ""),
            claimed: claim::is_claimed(target),
            rejoin: rejoin::observe(target).await?,
            recorded: claim::is_recorded(target, &goal),
            goal,
            free: upgrade::is_free(&target.operation),
            done: upgrade::done(target, Way::Rebuild),
            stop: target.stop(),
        })
    }

    fn decide(&self, observed: &Observed) -> Decision<Effect> {
        let Some(server) = &observed.server else {
            let message = "Nova does not know the Machine's server (any more)";
            return Decision::End(Outcome::failed(REBUILD, "ServerMissing", message));
        };
        let (announce, issue) = (find(&observed.steps, PREPARE), find(&observed.steps, REBUILD));
        match call_state(&observed.log, ACTION, announce, issue, observed.settled) {
            CallState::Unannounced => prepare(observed),
            CallState::Nothing => ask(observed, server),
            CallState::InFlight(id) if issue.is_none_or(|step| step.state != StepState::Done) => {
                Decision::record(accepted(id, &observed.steps))
            }
            CallState::InFlight(_) => Decision::wait(AWAIT, "waiting for Nova to finish the rebuild"),
            CallState::Succeeded(id) => succeeded(observed, server, id),
            CallState::Failed(id, message) => {
                failed(observed, "RebuildFailed", &format!("the rebuild failed: {message} (request id {id})"))
            }
            CallState::Lost(baseline) => {
                Decision::End(Outcome::failed(AWAIT, "LogLost", action_log::lost(ACTION, &baseline)))
            }
        }
    }

    async fn act(&self, target: &Target, effect: &Effect) -> Result<Change, ReconcileError> {
        match effect {
            Effect::Claim => {
                claim::claim(target).await?;
                Ok(Change::of([StepUpdate::done(
                    claim::STEP,
                    "claimed the server; its reconciler does not change it",
                )]))
            }
            Effect::Rebuild => {
                let call = RebuildCall {
                    image_id: upgrade::goal(target).image,
                    user_data: Some(target.user_data().await?),
                    metadata: None,
                };
                let id = target.server_id().unwrap_or_default();
                Ok(accepted(target.cloud.rebuild_server(id, &call).await?, target.steps()))
            }
            Effect::Record => {
                claim::record(target, &upgrade::goal(target)).await?;
                Ok(Change::of([StepUpdate::done(RECORD, "the Machine has its new version")]))
            }
            Effect::Rejoin(effect) => rejoin::act(target, effect).await,
        }
    }

    fn refused(&self, observed: &Observed, call: &Call<Effect>, error: &CloudError) -> Decision<Effect> {
        if call.effect == Effect::Rebuild && error.class != ErrorClass::NotFound {
            return failed(observed, error.class.reason(), &error.to_string());
        }
        Decision::End(Outcome::failed(call.step, error.class.reason(), error.to_string()))
    }
}

fn accepted(request: Option<String>, steps: &[OperationStep]) -> Change {
    let mut updates = vec![
        StepUpdate::done(REBUILD, "Nova accepted the rebuild").by(request),
        StepUpdate::running(AWAIT, "waiting for Nova to finish the rebuild"),
    ];
    updates.extend(rejoin::deleted(steps));
    Change::of(updates)
}

/// Prepares the call.
fn prepare(observed: &Observed) -> Decision<Effect> {
    if let Some(stop) = &observed.stop {
        return Decision::End(Outcome::stopped(stop, "the server was not rebuilt"));
    }
    if !observed.claimed {
        return Decision::act(claim::STEP, Effect::Claim);
    }
    if let Some(decision) = observed.rejoin.prepare(&observed.steps, Effect::Rejoin) {
        return decision;
    }
    let message = format!("noted the newest of {} entries in Nova's action log", observed.log.len());
    let mut updates = vec![
        StepUpdate::done(claim::STEP, "claimed the server; its reconciler does not change it"),
        StepUpdate::done(PREPARE, message).by(action_log::baseline(&observed.log)),
    ];
    updates.extend(observed.rejoin.announcement());
    updates.push(StepUpdate::running(REBUILD, "requesting a rebuild from Nova"));
    Decision::record(Change::of(updates))
}

/// Decides to make the call, as soon as it is certain that it has not been made.
fn ask(observed: &Observed, server: &Server) -> Decision<Effect> {
    if !observed.settled {
        return Decision::wait(REBUILD, "looking for a call that may still be on its way to Nova");
    }
    if let Some(stop) = observed.rejoin.late_stop(observed.stop.as_ref()) {
        return Decision::End(Outcome::stopped(stop, "the server was not rebuilt"));
    }
    if let Some(task) = &server.task_state {
        let message = format!("waiting for Nova to end the server's present task, {task}");
        return Decision::wait(REBUILD, message);
    }
    let delete = observed.rejoin.delete_node(Effect::Rejoin);
    delete.unwrap_or_else(|| Decision::act(REBUILD, Effect::Rebuild))
}

fn succeeded(observed: &Observed, server: &Server, id: String) -> Decision<Effect> {
    if server.image_id.as_ref() != Some(&observed.goal.image) {
        let message = format!(
            "the rebuild that Nova's log shows (request id {id}) was another one: the server's image is {}",
            server.image_id.as_deref().unwrap_or("none")
        );
        return Decision::End(Outcome::failed(AWAIT, "AnotherRebuild", message));
    }
    let over = find(&observed.steps, AWAIT).is_some_and(|step| step.state == StepState::Done);
    if !over {
        let mut updates = vec![
            StepUpdate::done(REBUILD, "Nova accepted the rebuild").by(Some(id)),
            StepUpdate::done(AWAIT, "Nova's action log says that the rebuild succeeded"),
            StepUpdate::running(RECORD, "writing the new version"),
        ];
        updates.extend(rejoin::deleted(&observed.steps));
        return Decision::record(Change::of(updates));
    }
    if !observed.recorded {
        return Decision::act(RECORD, Effect::Record);
    }
    if let Some(decision) = observed.rejoin.wait(&observed.steps, observed.stop.as_ref()) {
        return decision;
    }
    let update = StepUpdate::done(RECORD, "the Machine has its new version");
    Decision::End(Outcome::complete(observed.done.clone(), Change::of([update])))
}

/// Decides after a failed rebuild: a replacement if that is allowed, else the end.
fn failed(observed: &Observed, reason: &'static str, message: &str) -> Decision<Effect> {
    if !observed.free || observed.stop.is_some() {
        let message = format!("{message}{}", observed.rejoin.consequence(&observed.steps));
        return Decision::End(Outcome::failed(AWAIT, reason, message));
    }
    let result =
        OperationResult { strategy: Some(Way::Replace.word().to_owned()), ..OperationResult::default() };
    let updates = [
        StepUpdate::done(upgrade::CHOOSE, format!("{message}; so the server is replaced")),
        StepUpdate::skipped(REBUILD, message),
        StepUpdate::failed(AWAIT, message),
        StepUpdate::skipped(RECORD, "a replacement follows"),
    ];
    let plan = crate::procedures::upgrade_replace::plan();
    Decision::record(Change { plan, ..Change::of(updates).with(result) })
}
