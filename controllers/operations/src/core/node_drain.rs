//! Drain of the Machine's Node before a disruption, and the end of the cordon after it.

use std::time::Duration;

use apiserver_types::{
    Cluster, Machine, MachineAction, MachineDrainRule, MachineOperation, OperationPhase, StepState,
};
use controllers_workload::drain::{self, DrainProgress};
use controllers_workload::{ClusterKey, WorkloadError, describe, found};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use controllers_runtime::{ReconcileError, Requeue};

use crate::core::decision::{Change, Outcome, StepUpdate};
use crate::core::report;
use crate::core::target::Target;

/// Step before the disruption.
pub(crate) const DRAIN: &str = "DrainNode";

/// Step after the disruption.
pub(crate) const UNCORDON: &str = "UncordonNode";

/// Annotation of a Node that an operation has cordoned: the uid of the operation, `/`, and the boot id at that time. A
/// Node that its user has cordoned does not get it, and stays cordoned.
const CORDONED_BY: &str = "capstan.dev/cordoned-by";

/// Annotation of a Machine whose Node is not drained before the Machine is deleted. Upstream's.
const NO_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";

/// Time limit of a drain if the Machine has none. An operation never deletes pods by force.
const DRAIN_TIMEOUT: Duration = Duration::from_hours(1);

/// Time limit of the wait until the Node is Ready again: a kubelet needs a minute on a slow machine.
const READY_TIMEOUT: Duration = Duration::from_mins(10);

/// Interval between two looks at a Node. A drain requests the eviction of each pod again.
const INTERVAL: Duration = Duration::from_secs(5);

/// Reports whether an operation drains the Node of its Machine: unless it says otherwise, if there is a Node.
pub(crate) fn drains(operation: &MachineOperation, machine: &Machine) -> bool {
    let spec = &operation.spec;
    let wanted = match spec.action {
        MachineAction::Reboot => spec.reboot.as_ref().and_then(|it| it.drain),
        MachineAction::Upgrade => spec.upgrade.as_ref().and_then(|it| it.drain),
        MachineAction::PowerOff | MachineAction::PowerOn => Some(false),
        MachineAction::Retire => Some(!machine.annotations().contains_key(NO_DRAIN)),
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
        report::note(target, Some(DRAIN), why).await?;
        return Ok(Some(Requeue::After(INTERVAL)));
    }
    let waiting = match drain_once(target).await {
        Ok(DrainProgress::Done) => {
            let change = Change::of([StepUpdate::done(DRAIN, "the Node is cordoned and drained")]);
            report::write(target, &change).await?;
            return Ok(Some(Requeue::Now));
        }
        Ok(DrainProgress::Waiting(waiting)) => {
            waiting.message(target.step(DRAIN).and_then(report::started).unwrap_or(target.now))
        }
        Err(error) => error.to_string(),
    };
    if elapsed(target, DRAIN) > timeout(&target.machine) {
        let remedy = match target.operation.spec.action {
            MachineAction::Retire => "Delete the Machine",
            _ => "Set drain to false",
        };
        let message = format!(
            "the Node was not drained in time: {waiting}. Nothing was done to the server. {remedy} to go on without"
        );
        return end(target, Outcome::failed(DRAIN, "DrainBlocked", message)).await.map(Some);
    }
    report::note(target, Some(DRAIN), &waiting).await?;
    Ok(Some(Requeue::After(INTERVAL)))
}

/// Decision at the end of an operation.
pub(crate) enum End {
    /// Another pass: the Node is not Ready yet.
    Later(Requeue),
    /// The end, with the state of the Node's step.
    Now(Outcome),
}

/// Ends the cordon before an operation ends. After a success the Node must be Ready again first.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn after(target: &Target, outcome: Outcome) -> Result<End, kube::Error> {
    let state = |name: &str| target.step(name).map(|step| step.state);
    let open = matches!(state(UNCORDON), Some(StepState::Pending | StepState::Running));
    if !open || matches!(state(DRAIN), None | Some(StepState::Pending)) {
        return Ok(End::Now(outcome));
    }
    if outcome.phase != OperationPhase::Complete {
        // One attempt only: the decision that ends the operation is not stored, and must not be made again.
        return Ok(End::Now(with(outcome, uncordoned(uncordon(target, false).await))));
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
            Ok(End::Now(with(Outcome { message: message.to_owned(), ..failed }, update)))
        }
        result => Ok(End::Now(with(outcome, uncordoned(result)))),
    }
}

fn with(mut outcome: Outcome, update: StepUpdate) -> Outcome {
    outcome.change.updates.push(update);
    outcome
}

fn uncordoned(result: Result<Option<String>, String>) -> StepUpdate {
    match result {
        Ok(None) => StepUpdate::done(UNCORDON, "the Node is schedulable"),
        Ok(Some(message)) => StepUpdate::failed(UNCORDON, message),
        Err(error) => {
            StepUpdate::failed(UNCORDON, format!("{error}; make it schedulable by kubectl uncordon"))
        }
    }
}

async fn end(target: &Target, outcome: Outcome) -> Result<Requeue, kube::Error> {
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

fn elapsed(target: &Target, step: &str) -> Duration {
    let started = target.step(step).and_then(report::started);
    started.map(|since| report::elapsed(since, target.now)).unwrap_or_default()
}

fn timeout(machine: &Machine) -> Duration {
    let seconds = machine.spec.deletion.as_ref().and_then(|it| it.node_drain_timeout_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
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
    cordon(target, &client, name).await?;
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

/// Cordons the Node and marks it, unless its user has cordoned it before.
async fn cordon(target: &Target, client: &Client, name: &str) -> Result<(), ReconcileError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let failed = |error: String| ReconcileError::waiting("NotCordoned", error);
    let Some(node) = node(&nodes, name).await.map_err(failed)? else { return Ok(()) };
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        return Ok(());
    }
    let mark = format!("{}/{}", target.uid(), boot_id(&node));
    let change = json!({
        "metadata": {"resourceVersion": node.resource_version(), "annotations": {CORDONED_BY: mark}},
        "spec": {"unschedulable": true},
    });
    patch(&nodes, name, &change).await.map_err(failed)
}

/// Reads a Node; `None` if the API server says that it does not exist.
async fn node(nodes: &Api<Node>, name: &str) -> Result<Option<Node>, String> {
    found(nodes.get(name).await).map_err(|error| format!("Node {name}: {error}"))
}

async fn patch(nodes: &Api<Node>, name: &str, change: &Value) -> Result<(), String> {
    let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    patched.map(drop).map_err(|error| format!("Node {name}: {}", describe(&error)))
}

fn boot_id(node: &Node) -> String {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.clone()).unwrap_or_default()
}

/// Reports whether a Node is Ready.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.filter(|it| it.type_ == "Ready").any(|it| it.status == "True")
}

/// Ends the cordon of this operation. With `restarted`, waits first until the Node has booted again and is Ready.
/// Returns what it waits for.
async fn uncordon(target: &Target, restarted: bool) -> Result<Option<String>, String> {
    let client = workload(target).map_err(|error| error.to_string())?;
    let name = node_name(&target.machine).unwrap_or_default();
    let nodes: Api<Node> = Api::all(client);
    let Some(node) = node(&nodes, name).await? else {
        let gone = format!("waiting for Node {name} to register");
        return Ok(restarted.then_some(gone));
    };
    let mark = node.annotations().get(CORDONED_BY).and_then(|mark| mark.split_once('/'));
    let ours = mark.filter(|(uid, _)| *uid == target.uid());
    if restarted && ours.is_some_and(|(_, before)| before == boot_id(&node)) {
        return Ok(Some(format!("waiting for Node {name} to report its new boot id")));
    }
    if restarted && !is_ready(&node) {
        return Ok(Some(format!("waiting for Node {name} to be Ready")));
    }
    if ours.is_none() {
        return Ok(None);
    }
    let change = json!({
        "metadata": {"resourceVersion": node.resource_version(), "annotations": {CORDONED_BY: null}},
        "spec": {"unschedulable": null},
    });
    patch(&nodes, name, &change).await?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A page of a load balancer was taken for a Node that does not exist, and the Node stayed cordoned.
    #[tokio::test]
    async fn only_the_api_server_says_that_a_node_does_not_exist() {
        let nodes = |answer: &'static str| {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let response = Response::builder().status(404).body(Body::from(answer.as_bytes().to_vec()));
                Ok::<_, Infallible>(response.unwrap())
            });
            Api::<Node>::all(Client::new(service, "default"))
        };
        let page = "<html><body>no such page</body></html>";
        let error = node(&nodes(page), "n").await.unwrap_err();
        assert!(error.contains("Node n: ") && error.contains("HTML instead of JSON"), "{error}");
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,
            "message":"nodes \"n\" not found"}"#;
        assert_eq!(node(&nodes(status), "n").await, Ok(None));
    }
}
