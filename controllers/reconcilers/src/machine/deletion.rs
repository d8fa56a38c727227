//! Decision on the next step of a deletion: hooks, drain, volumes, server, bootstrap data, Node.

use apiserver_types::Machine;
use controllers_workload::drain;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::decide::{Stage, Step};
use super::fence::Verdict;
use super::node::NodeObservation;
use super::observe::{Observed, Outcome};
use super::time_limits;
use crate::deletion_timeouts::NODE_DELETION_TIMEOUT;
use crate::ownership::{self, Adoption};

/// Prefix of annotations that hold a deletion before the Node is drained.
pub(super) const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";

/// Prefix of annotations that hold a deletion before the server is deleted.
pub(super) const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// Annotation that skips the drain.
pub(crate) const NO_DRAIN: &str = "machine.cluster.x-k8s.io/exclude-node-draining";

/// Annotation that skips the wait for volumes.
pub(super) const NO_VOLUMES: &str = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";

/// Decides on the next step. Every pass starts at the top, so each step may be repeated.
pub(super) fn next_step(machine: &Machine, observed: &Observed) -> Step {
    in_workload(machine, observed)
        .or_else(|| hook_step(machine, PRE_TERMINATE, Stage::PreTerminateHook))
        .or_else(|| infrastructure(machine, observed))
        .or_else(|| bootstrap(machine, observed))
        .or_else(|| node(machine, observed))
        .unwrap_or(Step::Release)
}

/// Returns the steps before the server is deleted that need the workload cluster.
fn in_workload(machine: &Machine, observed: &Observed) -> Option<Step> {
    if !touches_node(machine, observed) {
        return None;
    }
    in_service(observed)
        .or_else(|| hook_step(machine, PRE_DRAIN, Stage::PreDrainHook))
        .or_else(|| drain_step(machine, observed))
        .or_else(|| volumes_step(machine, observed))
}

/// Returns the step for a Node that Capstan has taken out of service. The taint must not stay while its server may run:
/// volumes are detached even while they are mounted.
fn in_service(observed: &Observed) -> Option<Step> {
    let node = observed.node.found().filter(|node| drain::is_taken_out_of_service(node))?;
    if !drain::is_unreachable(node) {
        return Some(Step::ReturnToService("the Node reports again".to_owned()));
    }
    // A server that is being deleted is not started any more.
    if !server_remains(observed) {
        return None;
    }
    match &observed.deletion.server {
        None => Some(Step::ReadServer),
        Some(Verdict::Unproved(reason)) => Some(Step::ReturnToService(reason.clone())),
        Some(Verdict::Off(_) | Verdict::Unknown(_)) => None,
    }
}

fn drain_step(machine: &Machine, observed: &Observed) -> Option<Step> {
    if !drains(machine, observed) {
        return None;
    }
    if off(observed).is_some() {
        let is_tainted = observed.node.found().is_some_and(drain::is_out_of_service);
        return (!is_tainted).then_some(Step::TakeOutOfService);
    }
    match &observed.deletion.drain {
        None if started(machine, Stage::Drain).is_none() => Some(Step::Begin(Stage::Drain)),
        None => Some(Step::Drain),
        Some(Outcome::Done) => None,
        Some(_) if observed.deletion.server.is_none() && is_silent(observed) => Some(Step::ReadServer),
        Some(outcome) => Some(Step::Wait(Stage::Drain, explained(outcome.clone(), observed))),
    }
}

fn volumes_step(machine: &Machine, observed: &Observed) -> Option<Step> {
    if !waits_for_volumes(machine, observed) {
        return None;
    }
    match &observed.deletion.volumes {
        None if started(machine, Stage::Volumes).is_none() => Some(Step::Begin(Stage::Volumes)),
        None if off(observed).is_some() => Some(Step::DetachVolumes),
        None => Some(Step::AwaitVolumes),
        Some(Outcome::Done) => None,
        Some(outcome) => Some(Step::Wait(Stage::Volumes, outcome.clone())),
    }
}

/// Returns what proves that the server of a Node that does not report is off, if this pass has found it out.
pub(super) fn off(observed: &Observed) -> Option<&str> {
    match &observed.deletion.server {
        Some(Verdict::Off(proof)) if is_silent(observed) => Some(proof),
        _ => None,
    }
}

/// Reports whether the kubelet of the Node does not report any more.
fn is_silent(observed: &Observed) -> bool {
    observed.node.found().is_some_and(drain::is_unreachable)
}

/// Adds to the text of a drain that waits why the Pods of a silent Node are waited for.
fn explained(outcome: Outcome, observed: &Observed) -> Outcome {
    match (outcome, &observed.deletion.server) {
        (Outcome::Waiting(text), Some(Verdict::Unproved(reason))) => Outcome::Waiting(format!(
            "{text}\n* The Node does not report, but nothing proves that its server is off: {reason}"
        )),
        (Outcome::Waiting(text), Some(Verdict::Unknown(error))) => Outcome::Waiting(format!(
            "{text}\n* The Node does not report, and OpenStack does not say whether its server is off: {error}"
        )),
        (outcome, _) => outcome,
    }
}

/// Reports whether the Node is drained and deleted with its Machine. The last control plane Machine and the Machines of
/// a Cluster or control plane that is being deleted leave their Nodes alone: the workload API ends with them.
pub(super) fn touches_node(machine: &Machine, observed: &Observed) -> bool {
    let Some(cluster) = &observed.cluster else { return false };
    let known = node_name(machine, observed).is_some();
    known
        && cluster.metadata.deletion_timestamp.is_none()
        && !observed.deletion.control_plane_deleting
        && observed.deletion.another_control_plane_machine
}

/// Returns the name of the Machine's Node, if it ever had one. One that belongs to another Machine is not its own.
pub(super) fn node_name(machine: &Machine, observed: &Observed) -> Option<String> {
    if matches!(observed.node, NodeObservation::OfAnother(_)) {
        return None;
    }
    let known = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()).map(|it| it.name.clone());
    known.or_else(|| observed.node.found().map(|node| node.name_any()))
}

fn drains(machine: &Machine, observed: &Observed) -> bool {
    !machine.annotations().contains_key(NO_DRAIN) && still(machine, observed, Stage::Drain)
}

fn waits_for_volumes(machine: &Machine, observed: &Observed) -> bool {
    !machine.annotations().contains_key(NO_VOLUMES) && still(machine, observed, Stage::Volumes)
}

/// Reports whether a stage is not over for good: by its timeout, or because the deletion is past it already.
fn still(machine: &Machine, observed: &Observed, stage: Stage) -> bool {
    let past = started(machine, Stage::PreTerminateHook).is_some();
    server_remains(observed) && !past && !time_limits::is_over(machine, observed, stage)
}

/// Reports whether the server is not being deleted yet.
fn server_remains(observed: &Observed) -> bool {
    observed.infrastructure.as_ref().is_some_and(|it| it.metadata.deletion_timestamp.is_none())
}

/// Returns the time at which a stage of the deletion began.
pub(super) fn started(machine: &Machine, stage: Stage) -> Option<Timestamp> {
    let deletion = machine.status.as_ref()?.deletion.as_ref()?;
    let time = match stage {
        Stage::PreDrainHook => &deletion.wait_for_pre_drain_hook_start_time,
        Stage::Drain => &deletion.node_drain_start_time,
        Stage::Volumes => &deletion.wait_for_node_volume_detach_start_time,
        Stage::PreTerminateHook => &deletion.wait_for_pre_terminate_hook_start_time,
    };
    time.as_ref()?.0.parse().ok()
}

fn hook_step(machine: &Machine, prefix: &str, stage: Stage) -> Option<Step> {
    let hooks: Vec<&str> = hooks(machine, prefix).collect();
    (!hooks.is_empty()).then(|| Step::WaitForHook(stage, hooks.join(", ")))
}

/// Returns the annotations with this prefix, sorted.
pub(super) fn hooks<'a>(machine: &'a Machine, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    machine.annotations().keys().map(String::as_str).filter(move |key| key.starts_with(prefix))
}

fn infrastructure(machine: &Machine, observed: &Observed) -> Option<Step> {
    let it = observed.infrastructure.as_ref().filter(|it| goes_along(*it, machine))?;
    if it.metadata.deletion_timestamp.is_none() {
        return Some(Step::DeleteInfrastructure);
    }
    let ready = it.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
    Some(Step::WaitForInfrastructure(waiting("OpenStackMachine", &ready)))
}

/// Returns the text about an object that is being deleted, with its own.
fn waiting(kind: &str, text: &str) -> String {
    let rest = if text.is_empty() { String::new() } else { format!(": {text}") };
    format!("Waiting for {kind} to be deleted{rest}")
}

/// Reports whether an object is deleted with its Machine, which may not have adopted it yet. One that another Machine
/// controls is not.
fn goes_along<K: Resource<DynamicType = ()>>(object: &K, machine: &Machine) -> bool {
    let owner = ownership::reference(machine, true);
    let adoption = ownership::adoption(object, &owner, &machine.spec.cluster_name);
    !matches!(adoption, Adoption::Refused(_))
}

fn bootstrap(machine: &Machine, observed: &Observed) -> Option<Step> {
    let it = observed.bootstrap.as_ref().filter(|it| goes_along(*it, machine))?;
    if it.metadata.deletion_timestamp.is_none() {
        return Some(Step::DeleteBootstrap);
    }
    Some(Step::WaitForBootstrap(waiting("KubeadmConfig", "")))
}

/// The Node is deleted after the server, so that its kubelet cannot register it again.
fn node(machine: &Machine, observed: &Observed) -> Option<Step> {
    if !touches_node(machine, observed) || observed.node == NodeObservation::NotFound {
        return None;
    }
    let name = node_name(machine, observed)?;
    match &observed.deletion.node {
        None => Some(Step::DeleteNode(name)),
        Some(Outcome::Done) => None,
        Some(_) if gives_up_on_node(machine, observed) => None,
        Some(outcome) => Some(Step::WaitForNode(outcome.clone())),
    }
}

/// The timeout counts from the first attempt. Counted from the deletion, as upstream does, a drain would leave no time.
fn gives_up_on_node(machine: &Machine, observed: &Observed) -> bool {
    let timeout = machine.spec.deletion.as_ref().and_then(|it| it.node_deletion_timeout_seconds);
    let timeout = i64::from(timeout.unwrap_or(NODE_DELETION_TIMEOUT));
    let since = observed.deletion.node_since;
    timeout > 0 && since.is_some_and(|since| observed.now.duration_since(since).as_secs() >= timeout)
}
