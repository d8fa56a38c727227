//! Decision on the next step of a control plane.

use std::cmp::Ordering;
use std::time::Duration;

use apiserver_types::{FailureDomain, KubeadmControlPlane};
use controllers_runtime::paused;
use kube::ResourceExt;

use super::adoption;
use super::config::Start;
use super::etcd_members::belongs;
use super::hook::{self, Departure, Known};
use super::inspection::Workload;
use super::observe::Observed;
use super::preflight::{self, Blocked, Operation};
use super::remediation::{self, Remediation};
use super::remediation_record::Record;
use super::replica::{Replica, desired_replicas, managed_etcd, surge};
use super::surplus::{self, Surplus};
use super::workload_settings::{self, Settings};
use super::{FINALIZER, balancer, in_place, join_stage, learner_slot, placement};
use crate::rollout_gate::{self, Hold, InPlace};

/// Interval of a control plane that waits for nothing; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval while the control plane is not initialized or its components are not healthy: pods are not watched.
const INSPECT: Duration = Duration::from_secs(20);

/// Interval while certificates of the user are missing.
const MISSING: Duration = Duration::from_secs(30);

/// Interval after a change whose effect is observed next.
const SOON: Duration = Duration::from_secs(1);

/// Next step of a control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Report only: the control plane or its Cluster is paused.
    Pause,
    /// Do nothing at all: the control plane is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizer.
    AddFinalizer,
    /// Do nothing: another owner controls a Machine.
    Refuse(String),
    /// Take over Machines that have no controller.
    Adopt,
    /// Take over no Machine, for this reason.
    RefuseAdoption(String),
    /// Remove the finalizer: nothing is left.
    Release,
    /// Wait until Machines and MachinePools of others are deleted.
    WaitForOthers(Vec<String>),
    /// Delete all Machines.
    DeleteMachines,
    /// Delete objects that were made for a Machine which does not exist.
    DeleteUnfinished,
    /// Wait for the infrastructure of the Cluster, or for its endpoint.
    WaitForCluster(&'static str),
    /// Wait for certificates, for this reason.
    WaitForCertificates(String),
    /// Wait for a connection to the workload cluster.
    WaitForConnection(String),
    /// Remove a member of etcd that has no Machine.
    RemoveMember(Surplus),
    /// Remove the learner with this id, which took the slot in etcd while a Machine went.
    FreeSlot(u64),
    /// Care for etcd while a Machine is being deleted.
    Depart(Departure),
    /// Replace a Machine that a health check found unhealthy.
    Remediate(Record),
    /// Change the settings of kubeadm in the workload cluster, before a Machine is replaced.
    Prepare(Vec<workload_settings::Change>),
    /// Make a Machine in this failure domain.
    Create(Start, Option<String>),
    /// Hand over the leadership of etcd, and delete a Machine.
    Delete(String),
    /// Begin the update in place of a Machine.
    Update(String),
    /// Wait until the updates in place of these Machines are over.
    AwaitUpdates(Vec<String>),
    /// Wait: checks forbid a change of the Machines.
    Block(Blocked),
    /// Wait: a setting holds the rollout, and the number of Machines is right.
    Hold(Hold),
    /// Nothing is left to do.
    Nothing,
}

/// Decides on the step that precedes all work on certificates and on the workload cluster. Pure and total.
pub(super) fn first_step(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<Step> {
    if paused(control_plane, Some(&observed.cluster)) {
        return Some(Step::Pause);
    }
    let is_held = control_plane.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let is_deleting = control_plane.metadata.deletion_timestamp.is_some();
    match (is_deleting, is_held) {
        (true, false) => return Some(Step::Ignore),
        (false, false) => return Some(Step::AddFinalizer),
        _ => {}
    }
    if let Some(reason) = &observed.refused {
        return Some(Step::Refuse(reason.clone()));
    }
    if is_deleting {
        return Some(deletion(observed));
    }
    if !observed.standalone.is_empty() {
        let refusal = adoption::refusal(control_plane, &observed.standalone);
        return Some(refusal.map_or(Step::Adopt, Step::RefuseAdoption));
    }
    if !observed.unfinished.is_empty() {
        return Some(Step::DeleteUnfinished);
    }
    if !observed.is_provisioned() {
        return Some(Step::WaitForCluster("Waiting for Cluster status.infrastructureReady to be true"));
    }
    None
}

/// Returns the step of a deletion. Without Machines of its own, a control plane holds up nothing: a control plane that
/// has adopted no Machine can be deleted and made again.
fn deletion(observed: &Observed) -> Step {
    if observed.replicas.is_empty() {
        return Step::Release;
    }
    if !observed.others.is_empty() {
        return Step::WaitForOthers(observed.others.clone());
    }
    Step::DeleteMachines
}

/// Decides on the step after certificates, kubeconfig and workload cluster are known. Pure and total.
pub(super) fn next_step(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    if observed.endpoint().is_none() {
        return Step::WaitForCluster("Waiting for Cluster spec.controlPlaneEndpoint to be set");
    }
    if let Some(reason) = &observed.certificates.kubeconfig {
        return Step::WaitForCertificates(reason.clone());
    }
    if let Workload::Unreachable { message, .. } = &observed.workload {
        return Step::WaitForConnection(message.clone());
    }
    if let Some(step) = etcd(control_plane, observed) {
        return step;
    }
    if let Some(name) = in_place::unfinished(observed) {
        return Step::Update(name);
    }
    if let Some(record) = &observed.remediation.deletion {
        return Step::Remediate(record.clone());
    }
    let updating = in_place::updating(observed);
    if updating.is_empty() { change(control_plane, observed) } else { Step::AwaitUpdates(updating) }
}

/// Decides on the step that makes or deletes a Machine, after all else is done. Pure and total.
pub(super) fn change(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    rollout(control_plane, observed).unwrap_or_else(|| scale(control_plane, observed))
}

/// Decides on unhealthy Machines, unless another step comes first. Pure and total.
pub(super) fn remediation(control_plane: &KubeadmControlPlane, observed: &Observed) -> Remediation {
    match next_step(control_plane, observed) {
        Step::WaitForCluster(_)
        | Step::WaitForCertificates(_)
        | Step::WaitForConnection(_)
        | Step::RemoveMember(_)
        | Step::FreeSlot(_)
        | Step::Depart(_)
        | Step::Update(_) => Remediation::default(),
        next => remediation::plan(control_plane, observed, &next),
    }
}

/// Returns the step for members of etcd that have no Machine, or whose Machine goes.
fn etcd(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<Step> {
    let unknown = Err("the workload cluster is not inspected");
    let (nodes, members) = match &observed.workload {
        Workload::Reached(it) => {
            (it.nodes.as_deref().map_err(String::as_str), it.members.as_deref().map_err(String::as_str))
        }
        _ => (unknown, Err("the workload cluster is not inspected")),
    };
    let managed_etcd = managed_etcd(control_plane);
    let endpoint_holder = observed.endpoint_holder.as_deref();
    // The Machines may be newer than the observation, because settings were applied to them.
    let leaving = hook::first_leaving(&observed.replicas).filter(|_| !observed.has_floating_ip);
    let balancer = leaving.and_then(|leaving| balancer::obstacle(leaving, observed.now));
    let (balancer, has_slot) = (balancer.as_deref(), observed.slot.is_some());
    let known = Known { nodes, members, managed_etcd, endpoint_holder, balancer, has_slot };
    let departure = hook::departure(&control_plane.spec.version, &observed.replicas, known);
    let is_released = matches!(departure, Some(Departure::Release(_)));
    let is_unused = !is_released && !learner_slot::is_in_use(&observed.replicas);
    if let Some(slot) = observed.slot.filter(|_| is_unused) {
        return Some(Step::FreeSlot(slot));
    }
    if let Some(view) = observed.of_etcd().filter(|_| managed_etcd)
        && let Some(surplus) = surplus::find(view)
    {
        return Some(Step::RemoveMember(surplus));
    }
    departure.map(Step::Depart)
}

/// Returns the step that replaces outdated Machines, one at a time.
fn rollout(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<Step> {
    if !observed.replicas.iter().any(Replica::is_outdated) {
        return None;
    }
    let count = observed.replicas.len().cmp(&desired_replicas(control_plane));
    match rollout_gate::hold(control_plane, Some(&observed.cluster), observed.now) {
        Some(hold) if count.is_eq() => {
            if let Some(step) = in_place::held(control_plane, observed, hold) {
                return Some(step);
            }
        }
        // A replacement that has begun is finished: an even number of members of etcd is worse than a deletion.
        Some(_) if count.is_gt() => return None,
        _ => {}
    }
    let blocked = |reason: String| {
        Step::Block(Blocked {
            reasons: vec![reason],
            interval: preflight::UNHEALTHY,
            is_unhealthy: false,
            is_up: true,
        })
    };
    Some(match &observed.settings {
        Settings::NotRead => blocked(not_initialized(observed)),
        Settings::Unusable(reason) => blocked(reason.clone()),
        Settings::Read(changes) if !changes.is_empty() => Step::Prepare(changes.clone()),
        Settings::Read(_) => {
            let is_alone = rollout_gate::in_place(control_plane) == InPlace::Only;
            let surge = if is_alone { 0 } else { surge(control_plane) };
            let limit = desired_replicas(control_plane).saturating_add(surge);
            let one_makes_way = observed.replicas.iter().any(|it| makes_way(control_plane, it, observed));
            let has_room = observed.replicas.len() < limit && !one_makes_way;
            if has_room {
                return Some(grow(control_plane, observed));
            }
            in_place::instead(observed).unwrap_or_else(|| shrink(control_plane, observed))
        }
    })
}

/// Reports whether an outdated Machine has failed to join, and goes although there is a place for another one: while it is
/// there, no other one can be made, because all wait for its health. Another Machine carries the cluster. A vote of etcd
/// must not go with it, because there would be fewer votes than before, without need.
pub(super) fn makes_way(control_plane: &KubeadmControlPlane, replica: &Replica, observed: &Observed) -> bool {
    let members = observed.workload.members();
    let votes = || members.is_none_or(|all| all.iter().any(|it| it.has_vote() && belongs(it, replica)));
    let may_vote = || managed_etcd(control_plane) && join_stage::has_server(replica) && votes();
    observed.replicas.len() > 1 && placement::has_failed_to_join(replica, observed.now) && !may_vote()
}

/// Returns the reason for which outdated Machines stay while there is no API server.
fn not_initialized(observed: &Observed) -> String {
    let names: Vec<String> = observed.replicas.iter().map(Replica::name).collect();
    format!(
        "The control plane is not initialized. To make it with the new settings, delete Machine {}",
        names.join(", ")
    )
}

/// Returns the step towards the number of Machines that is desired.
fn scale(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    match observed.replicas.len().cmp(&desired_replicas(control_plane)) {
        Ordering::Less => grow(control_plane, observed),
        Ordering::Equal => Step::Nothing,
        Ordering::Greater => shrink(control_plane, observed),
    }
}

/// Returns the failure domains of the Cluster.
pub(super) fn domains(observed: &Observed) -> &[FailureDomain] {
    let domains = observed.cluster.status.as_ref().and_then(|status| status.failure_domains.as_deref());
    domains.unwrap_or_default()
}

/// Returns the step that makes a Machine.
fn grow(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    if observed.template.is_none() {
        let reference = &control_plane.spec.machine_template.spec.infrastructure_ref;
        let (kind, name) = (&reference.kind, &reference.name);
        let remedy = format!("Create {kind} {name}, or correct spec.machineTemplate.spec.infrastructureRef");
        let reasons = vec![format!("{kind} {name} does not exist. {remedy}")];
        return Step::Block(Blocked { reasons, interval: MISSING, is_unhealthy: false, is_up: true });
    }
    if let Some(blocked) = preflight::check(control_plane, observed, Operation::ScaleUp) {
        return Step::Block(blocked);
    }
    let start = if observed.replicas.is_empty() { Start::Init } else { Start::Join };
    Step::Create(start, placement::domain_of_new(domains(observed), &observed.replicas))
}

/// Returns the step that deletes a Machine.
fn shrink(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    let managed = managed_etcd(control_plane);
    let leaving = placement::next_to_delete(domains(observed), &observed.replicas, managed, observed.now);
    let Some(name) = leaving.map(Replica::name) else { return Step::Nothing };
    match preflight::check(control_plane, observed, Operation::ScaleDown(&name)) {
        Some(blocked) => Step::Block(blocked),
        None => Step::Delete(name),
    }
}

/// Returns the interval after a pass that ended with `step`. `healthy`: the control plane is initialized, and its
/// components are healthy.
pub(super) fn interval(step: &Step, healthy: bool) -> Option<Duration> {
    match step {
        Step::Pause | Step::Ignore | Step::Release => None,
        Step::AddFinalizer | Step::Adopt | Step::DeleteUnfinished | Step::RemoveMember(_) => Some(SOON),
        Step::Create(..) | Step::Delete(_) | Step::Update(_) => Some(SOON),
        Step::Remediate(_) | Step::Prepare(_) | Step::FreeSlot(_) => Some(SOON),
        Step::Depart(Departure::TakeSlot(_) | Departure::Release(_) | Departure::Leave { .. }) => Some(SOON),
        Step::Depart(Departure::Wait(_) | Departure::WaitForQuorum(_))
        | Step::WaitForOthers(_)
        | Step::DeleteMachines => Some(preflight::DELETING),
        Step::Depart(Departure::WaitForBalancer(_)) => Some(SOON),
        Step::WaitForCertificates(_) => Some(MISSING),
        Step::Block(blocked) => Some(blocked.interval),
        Step::Hold(hold) => Some(hold.interval(if healthy { RESYNC } else { INSPECT })),
        Step::WaitForConnection(_) | Step::AwaitUpdates(_) => Some(INSPECT),
        Step::Nothing | Step::WaitForCluster(_) if healthy => Some(RESYNC),
        Step::Nothing | Step::WaitForCluster(_) => Some(INSPECT),
        Step::Refuse(_) | Step::RefuseAdoption(_) => Some(RESYNC),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
