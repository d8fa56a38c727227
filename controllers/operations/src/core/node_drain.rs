//! Drain of the Machine's Node before a disruption, and the end of the cordon after it.

use std::time::Duration;

use apiserver_types::{
    Cluster, DrainParameters, Machine, MachineAction, MachineDrainRule, MachineOperation, OperationPhase,
    StepState,
};
use controllers_workload::drain::{self, DrainProgress};
use controllers_workload::{ClusterKey, WorkloadError};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use controllers_runtime::{ReconcileError, Requeue};

use crate::core::cordon;
use crate::core::decision::{Change, Outcome, StepUpdate};
use crate::core::report;
use crate::core::step_pause;
use crate::core::target::Target;

/// Step before the disruption.
pub(crate) const DRAIN: &str = "DrainNode";

/// Step after a drain by force whose time is over: the Pods that are left are deleted.
pub(crate) const DELETE_PODS: &str = "DeletePods";

/// Step after the disruption.
pub(crate) const UNCORDON: &str = "UncordonNode";

/// Annotation of a Machine whose Node is not drained before the Machine is deleted. Upstream's.
const NO_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";

/// Time limit of a drain if neither the operation nor the Machine has one. Only the action `drain` deletes pods by force.
const DRAIN_TIMEOUT: Duration = Duration::from_hours(1);

/// Time limit of the wait until the Node is Ready again: a kubelet needs a minute on a slow machine.
const READY_TIMEOUT: Duration = Duration::from_mins(10);

/// Interval between two looks at a Node. A drain requests the eviction of each pod again.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// Reports whether an operation drains the Node of its Machine: unless it says otherwise, if there is a Node.
pub(crate) fn drains(operation: &MachineOperation, machine: &Machine) -> bool {
    let spec = &operation.spec;
    let wanted = match spec.action {
        MachineAction::Reboot => spec.reboot.as_ref().and_then(|it| it.drain),
        MachineAction::Upgrade => spec.upgrade.as_ref().and_then(|it| it.drain),
        MachineAction::PowerOff
        | MachineAction::PowerOn
        | MachineAction::Cordon
        | MachineAction::Uncordon => Some(false),
        MachineAction::Retire => Some(!machine.annotations().contains_key(NO_DRAIN)),
        MachineAction::Drain => Some(true),
    };
    wanted != Some(false) && node_name(machine).is_some()
}

/// Returns the steps of an operation with those for its Node.
pub(crate) fn plan(
    operation: &MachineOperation,
    machine: &Machine,
    steps: Vec<&'static str>,
) -> Vec<&'static str> {
    if !drains(operation, machine) {
        return steps;
    }
    [vec![DRAIN], steps, vec![UNCORDON]].concat()
}

/// Drains the Node, if that is planned. Returns when to continue; `None` once the disruption may begin.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn before(target: &Target) -> Result<Option<Requeue>, kube::Error> {
    let Some(step) = target.step(DRAIN) else { return Ok(None) };
    match step.state {
        StepState::Done | StepState::Skipped | StepState::Failed => return Ok(None),
        StepState::Pending => {
            report::write(target, &Change::of([StepUpdate::running(DRAIN, "draining the Node")])).await?;
            return Ok(Some(Requeue::Now));
        }
        StepState::Running => {}
    }
    if let Some(stop) = target.stop() {
        return end(target, Outcome::stopped(&stop, "nothing was done to the server")).await.map(Some);
    }
    if let Some(why) = &target.paused {
        step_pause::begin(target, DRAIN, why).await?;
        return Ok(Some(Requeue::After(INTERVAL)));
    }
    if step_pause::end(target, DRAIN).await? {
        return Ok(Some(Requeue::Now));
    }
    let (waiting, left) = match drain_once(target).await {
        Ok(DrainProgress::Done) => {
            let change = Change::of([StepUpdate::done(DRAIN, "the Node is cordoned and drained")]);
            report::write(target, &change).await?;
            return Ok(Some(Requeue::Now));
        }
        Ok(DrainProgress::Waiting(waiting)) => {
            let started = target.step(DRAIN).and_then(report::started).unwrap_or(target.now);
            (waiting.message(started), waiting.given_up())
        }
        Err(error) => (error.to_string(), error.to_string()),
    };
    if elapsed(target, DRAIN) > timeout(target) {
        return give_up(target, &waiting, &left).await.map(Some);
    }
    report::note(target, Some(DRAIN), &waiting).await?;
    Ok(Some(Requeue::After(INTERVAL)))
}

/// Ends a drain whose time is over. By force, it goes on with the deletion of the Pods that are left. The Event of the
/// failed step lists what was given up.
async fn give_up(target: &Target, waiting: &str, left: &str) -> Result<Requeue, kube::Error> {
    let text = match target.operation.spec.action {
        MachineAction::Drain if parameters(target).force == Some(true) => {
            let failed = StepUpdate::failed(DRAIN, format!("gave up the evictions: {left}"));
            let next = StepUpdate::running(DELETE_PODS, "deleting the Pods that are left, by force");
            let change = Change { plan: vec![DELETE_PODS], ..Change::of([failed, next]) };
            report::write(target, &change).await?;
            return Ok(Requeue::Now);
        }
        MachineAction::Drain => {
            format!("{left}. Correct the cause, or request the drain with force to delete these Pods")
        }
        MachineAction::Retire => {
            format!("{waiting}. Nothing was done to the server. Delete the Machine to go on without")
        }
        _ => format!("{waiting}. Nothing was done to the server. Set drain to false to go on without"),
    };
    let message = format!("the Node was not drained in time: {text}");
    fail(target, Outcome::failed(DRAIN, "DrainBlocked", message)).await
}

/// Ends an operation whose drain has failed. The Node becomes schedulable again, unless the operation wants otherwise.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn fail(target: &Target, outcome: Outcome) -> Result<Requeue, kube::Error> {
    if parameters(target).uncordon_on_failure == Some(false) {
        report::finish(&target.context, &target.operation, &outcome, target.now).await?;
        return Ok(Requeue::Now);
    }
    end(target, outcome).await
}

/// Returns the parameters of a drain; those of other actions are the defaults.
fn parameters(target: &Target) -> DrainParameters {
    target.operation.spec.drain.clone().unwrap_or_default()
}

/// Decision at the end of an operation.
pub(crate) enum End {
    /// Another pass: the Node is not Ready yet.
    Later(Requeue),
    /// The end, with the state of the Node's step.
    Now(Box<Outcome>),
}

/// Ends the cordon of an earlier operation after an upgrade that has not drained the Node. If the Node cannot be read,
/// nothing is known of such a cordon, and the upgrade is complete all the same.
async fn upgraded(target: &Target, outcome: Outcome) -> Outcome {
    let is_upgraded = target.operation.spec.action == MachineAction::Upgrade
        && outcome.phase == OperationPhase::Complete
        && target.step(UNCORDON).is_none();
    if !is_upgraded || target.machine.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let (Some(name), Ok(client)) = (node_name(&target.machine), workload(target)) else { return outcome };
    let found = cordon::node(&client, name).await.ok().flatten();
    let Some(node) = found.filter(cordon::is_marked) else { return outcome };
    let update = match cordon::lift(&client, &node).await {
        Ok(()) => StepUpdate::done(UNCORDON, "the cordon of an earlier operation has ended"),
        Err(error) => uncordoned(Err(error)),
    };
    with(outcome, update)
}

/// Ends the cordon before an operation ends, unless the Machine is being deleted. After a success the Node must be Ready
/// again first.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn after(target: &Target, outcome: Outcome) -> Result<End, kube::Error> {
    let state = |name: &str| target.step(name).map(|step| step.state);
    let open = matches!(state(UNCORDON), Some(StepState::Pending | StepState::Running));
    if !open || matches!(state(DRAIN), None | Some(StepState::Pending)) {
        return Ok(End::Now(Box::new(upgraded(target, outcome).await)));
    }
    // The deletion drains the Node, too, and no pod must return to it before.
    if target.machine.metadata.deletion_timestamp.is_some() {
        let kept = StepUpdate::skipped(UNCORDON, "the Node goes with its Machine");
        return Ok(End::Now(Box::new(with(outcome, kept))));
    }
    if outcome.phase != OperationPhase::Complete {
        // One attempt only: the decision that ends the operation is not stored, and must not be made again.
        return Ok(End::Now(Box::new(with(outcome, uncordoned(uncordon(target, false).await)))));
    }
    if state(UNCORDON) == Some(StepState::Pending) {
        // The last steps of the disruption are written with it.
        let waiting = StepUpdate::running(UNCORDON, "waiting for the Node");
        report::write(target, &with(outcome, waiting).change).await?;
        return Ok(End::Later(Requeue::Now));
    }
    let late = elapsed(target, UNCORDON) > READY_TIMEOUT;
    match uncordon(target, !late).await {
        Ok(Some(waiting)) | Err(waiting) if !late => {
            report::note(target, Some(UNCORDON), &waiting).await?;
            Ok(End::Later(Requeue::After(INTERVAL)))
        }
        result if late => {
            let update = uncordoned(result);
            let message = "the Node was not Ready in time; its server has what was asked for";
            let failed = Outcome { phase: OperationPhase::Failed, reason: "NodeNotReady", ..outcome };
            Ok(End::Now(Box::new(with(Outcome { message: message.to_owned(), ..failed }, update))))
        }
        result => Ok(End::Now(Box::new(with(outcome, uncordoned(result))))),
    }
}

fn with(mut outcome: Outcome, update: StepUpdate) -> Outcome {
    outcome.change.updates.push(update);
    outcome
}

fn uncordoned(result: Result<Option<String>, String>) -> StepUpdate {
    match result {
        // Another client, or an earlier operation, may have cordoned the Node.
        Ok(None) => StepUpdate::done(UNCORDON, "the cordon of this operation has ended"),
        Ok(Some(message)) => StepUpdate::failed(UNCORDON, message),
        Err(error) => {
            StepUpdate::failed(UNCORDON, format!("{error}; make it schedulable by kubectl uncordon"))
        }
    }
}

/// Ends an operation before its disruption has begun.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn end(target: &Target, outcome: Outcome) -> Result<Requeue, kube::Error> {
    match after(target, outcome).await? {
        End::Later(requeue) => Ok(requeue),
        End::Now(outcome) => {
            report::finish(&target.context, &target.operation, &outcome, target.now).await?;
            Ok(Requeue::Now)
        }
    }
}

/// Returns the name of the Node, once the Machine has one.
pub(crate) fn node_name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

/// Returns the time since the start of a step, without its pauses.
pub(crate) fn elapsed(target: &Target, step: &str) -> Duration {
    target.step(step).map(|step| step_pause::elapsed(step, target.now)).unwrap_or_default()
}

/// Returns the time limit of a drain: that of the operation, else of the Machine, else one hour.
pub(crate) fn timeout(target: &Target) -> Duration {
    let of_machine = target.machine.spec.deletion.as_ref().and_then(|it| it.node_drain_timeout_seconds);
    let limit = |seconds: Option<i32>| {
        seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0)
    };
    let seconds = limit(parameters(target).timeout_seconds).or_else(|| limit(of_machine));
    seconds.map_or(DRAIN_TIMEOUT, Duration::from_secs)
}

/// Returns a client of the workload API.
///
/// # Errors
/// There is no connection.
pub(crate) fn workload(target: &Target) -> Result<Client, WorkloadError> {
    let name = target.machine.spec.cluster_name.clone();
    target.context.workloads.client(&ClusterKey { namespace: target.namespace().to_owned(), name })
}

async fn drain_once(target: &Target) -> Result<DrainProgress, ReconcileError> {
    let unreachable = |error: WorkloadError| ReconcileError::waiting("NotConnected", error.to_string());
    let client = workload(target).map_err(unreachable)?;
    let name = node_name(&target.machine).unwrap_or_default();
    let not_cordoned = |error: String| ReconcileError::waiting("NotCordoned", error);
    cordon::begin(&client, name, target.uid()).await.map_err(not_cordoned)?;
    drain::drain(&client, name, &rules(target).await?).await.map_err(unreachable)
}

/// Returns the rules by which the Pods of the Machine's Node are drained.
///
/// # Errors
/// The API's own failure, or a rule cannot be evaluated.
pub(crate) async fn rules(target: &Target) -> Result<Vec<MachineDrainRule>, ReconcileError> {
    let own = || target.context.client.clone();
    let rules: Api<MachineDrainRule> = Api::namespaced(own(), target.namespace());
    let rules = rules.list(&ListParams::default()).await?.items;
    let clusters: Api<Cluster> = Api::namespaced(own(), target.namespace());
    let cluster = clusters.get_opt(&target.machine.spec.cluster_name).await?;
    let labels = cluster.map(|cluster| cluster.labels().clone()).unwrap_or_default();
    drain::matching_rules(&rules, Some(target.machine.labels()), Some(&labels))
        .map_err(|error| ReconcileError::waiting("NotConnected", error.to_string()))
}

/// Reports whether a Node is Ready.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.filter(|it| it.type_ == "Ready").any(|it| it.status == "True")
}

/// Ends the cordon of this operation. With `restarted`, waits first until the Node has booted again and is Ready; an
/// upgrade then ends the cordon of an earlier operation, too. Returns what it waits for.
async fn uncordon(target: &Target, restarted: bool) -> Result<Option<String>, String> {
    let client = workload(target).map_err(|error| error.to_string())?;
    let name = node_name(&target.machine).unwrap_or_default();
    let Some(node) = cordon::node(&client, name).await? else {
        let gone = format!("waiting for Node {name} to register");
        return Ok(restarted.then_some(gone));
    };
    let ours = cordon::mark(&node).filter(|(uid, _)| *uid == target.uid());
    if restarted && ours.is_some_and(|(_, before)| before == cordon::boot_id(&node)) {
        return Ok(Some(format!("waiting for Node {name} to report its new boot id")));
    }
    if restarted && !is_ready(&node) {
        return Ok(Some(format!("waiting for Node {name} to be Ready")));
    }
    let is_upgraded = restarted && target.operation.spec.action == MachineAction::Upgrade;
    if ours.is_some() || is_upgraded && cordon::is_marked(&node) {
        cordon::lift(&client, &node).await?;
    }
    Ok(None)
}
