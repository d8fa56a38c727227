//! Decision on the next step of a control plane.

use std::time::Duration;

use apiserver_types::KubeadmControlPlane;
use controllers_runtime::paused;
use kube::ResourceExt;

use super::adoption;
use super::config::Start;
use super::hook::{self, Departure, Known};
use super::inspection::Workload;
use super::observe::Observed;
use super::preflight::{self, Blocked, Operation};
use super::replica::{Replica, desired_replicas, managed_etcd};
use super::surplus::{self, Surplus};
use super::{FINALIZER, balancer, placement};

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
    /// Care for etcd while a Machine is being deleted.
    Depart(Departure),
    /// Wait: Machines are to be replaced, which this version does not do.
    WaitForRollout,
    /// Make a Machine in this failure domain.
    Create(Start, Option<String>),
    /// Hand over the leadership of etcd, and delete a Machine.
    Delete(String),
    /// Wait: checks forbid a change of the Machines.
    Block(Blocked),
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
    etcd(control_plane, observed).unwrap_or_else(|| scale(control_plane, observed))
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
    if let Some(view) = observed.of_etcd().filter(|_| managed_etcd)
        && let Some(surplus) = surplus::find(view)
    {
        return Some(Step::RemoveMember(surplus));
    }
    let endpoint_holder = observed.endpoint_holder.as_deref();
    // The Machines may be newer than the observation, because settings were applied to them.
    let leaving = hook::first_leaving(&observed.replicas).filter(|_| !observed.has_floating_ip);
    let balancer = leaving.and_then(|leaving| balancer::obstacle(leaving, observed.now));
    let known = Known { nodes, members, managed_etcd, endpoint_holder, balancer: balancer.as_deref() };
    hook::departure(&control_plane.spec.version, &observed.replicas, known).map(Step::Depart)
}

/// Returns the step towards the number of Machines that is desired.
fn scale(control_plane: &KubeadmControlPlane, observed: &Observed) -> Step {
    let (now, desired) = (observed.replicas.len(), desired_replicas(control_plane));
    let domains = observed.cluster.status.as_ref().and_then(|status| status.failure_domains.as_deref());
    let domains = domains.unwrap_or_default();
    let check = |operation| {
        let certificates = observed.certificates.is_available();
        preflight::check(control_plane, &observed.cluster, &observed.replicas, certificates, operation)
    };
    if now > desired {
        let managed = managed_etcd(control_plane);
        let Some(leaving) = placement::next_to_delete(domains, &observed.replicas, managed) else {
            return Step::Nothing;
        };
        let name = leaving.name();
        return check(Operation::ScaleDown(&name)).map_or_else(|| Step::Delete(name.clone()), Step::Block);
    }
    let is_outdated = observed.replicas.iter().any(Replica::is_outdated);
    if observed.replicas.iter().any(Replica::has_other_settings) || (is_outdated && now == desired) {
        return Step::WaitForRollout;
    }
    if now == desired {
        return Step::Nothing;
    }
    if observed.template.is_none() {
        let reference = &control_plane.spec.machine_template.spec.infrastructure_ref;
        let reason = format!("{} {} does not exist", reference.kind, reference.name);
        return Step::Block(Blocked { reasons: vec![reason], interval: MISSING, is_unhealthy: false });
    }
    let start = if now == 0 { Start::Init } else { Start::Join };
    let create = || Step::Create(start, placement::domain_of_new(domains, &observed.replicas));
    check(Operation::ScaleUp).map_or_else(create, Step::Block)
}

/// Returns the interval after a pass that ended with `step`. `healthy`: the control plane is initialized, and its
/// components are healthy.
pub(super) fn interval(step: &Step, healthy: bool) -> Option<Duration> {
    match step {
        Step::Pause | Step::Ignore | Step::Release => None,
        Step::AddFinalizer | Step::Adopt | Step::DeleteUnfinished | Step::RemoveMember(_) => Some(SOON),
        Step::Create(..) | Step::Delete(_) => Some(SOON),
        Step::Depart(Departure::Release(_) | Departure::Leave { .. }) => Some(SOON),
        Step::Depart(Departure::Wait(_)) | Step::WaitForOthers(_) | Step::DeleteMachines => {
            Some(preflight::DELETING)
        }
        Step::Depart(Departure::WaitForBalancer(_)) => Some(SOON),
        Step::WaitForCertificates(_) => Some(MISSING),
        Step::Block(blocked) => Some(blocked.interval),
        Step::WaitForConnection(_) => Some(INSPECT),
        Step::Nothing | Step::WaitForRollout | Step::WaitForCluster(_) if healthy => Some(RESYNC),
        Step::Nothing | Step::WaitForRollout | Step::WaitForCluster(_) => Some(INSPECT),
        Step::Refuse(_) | Step::RefuseAdoption(_) => Some(RESYNC),
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
