//! Remediation: which unhealthy Machine is replaced, and what forbids it. Pure.

use std::time::Duration;

use apiserver_types::KubeadmControlPlane;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::act::is_initialized;
use super::decide::Step;
use super::etcd_members::{may_be_needed, member_of};
use super::etcd_projection::{self, Change, Member};
use super::inspection::Workload;
use super::observe::Observed;
use super::remediation_record::{self, IN_PROGRESS, Record};
use super::replica::{ETCD, NODE_LABELS, PODS, Replica, desired_replicas, managed_etcd};
use super::{join_stage, preflight};
use crate::machine_labels::REMEDIATE;
use crate::{protection, remediation_urgency, rollout_gate};

/// Type of the condition by which the owner of a Machine answers a health check.
pub(super) const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Reason of a Machine that is replaced later.
pub(super) const DEFERRED: &str = "RemediationDeferred";

/// Reason of a Machine that is not replaced until a person or another controller has changed something.
pub(super) const REFUSED: &str = "CannotBeRemediated";

/// Time for which a replacement must be healthy to begin a new sequence. Upstream's default.
const HEALTHY: SignedDuration = SignedDuration::from_hours(1);

/// Interval until a refused remediation is decided again: pods and members of etcd are not watched.
const AGAIN: Duration = Duration::from_secs(15);

/// Mark on a Machine: its condition `OwnerRemediated`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// Name of the Machine.
    pub name: String,
    pub reason: &'static str,
    pub message: String,
}

/// Decision on a remediation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Remediation {
    /// Machines that are healthy again. Their condition is removed.
    pub recovered: Vec<String>,
    /// The record of the control plane is to be removed: the replacement exists, or none is needed any more.
    pub is_over: bool,
    /// Machines that are not replaced now.
    pub marks: Vec<Mark>,
    /// The Machine that is replaced now.
    pub deletion: Option<Record>,
    /// Time after which the decision may be another one, although no object changes.
    pub wait: Option<Duration>,
}

/// Reason against a remediation.
struct Obstacle {
    reason: &'static str,
    message: String,
    wait: Option<Duration>,
}

/// Decides on a remediation. `next` is the step that would be made without one. Pure and total.
pub(super) fn plan(control_plane: &KubeadmControlPlane, observed: &Observed, next: &Step) -> Remediation {
    let replicas = &observed.replicas;
    let mut plan = Remediation { recovered: recovered(replicas), ..Remediation::default() };
    let record = remediation_record::in_progress(control_plane);
    let is_noted = control_plane.annotations().contains_key(IN_PROGRESS);
    let is_surplus = |record: &Record| {
        let is_gone = replicas.iter().all(|it| it.name() != record.machine);
        is_gone
            && replicas.len() >= desired_replicas(control_plane)
            && !replicas.iter().any(Replica::is_outdated)
    };
    let ends = |record: &Record| is_over(record, replicas) || is_surplus(record);
    plan.is_over = is_noted && record.as_ref().is_none_or(ends);
    let record = record.filter(|_| !plan.is_over);
    let comes = replacement_comes(control_plane, observed, next);
    for picked in candidates(replicas, record.as_ref(), comes) {
        match judge(control_plane, observed, picked, record.clone()) {
            Ok(record) => {
                plan.deletion = Some(record);
                return plan;
            }
            Err(Obstacle { reason, message, wait }) => {
                plan.marks.push(Mark { name: picked.name(), reason, message });
                plan.wait = plan.wait.into_iter().chain(wait).min();
            }
        }
    }
    plan
}

/// Returns the Machines whose check succeeds again.
fn recovered(replicas: &[Replica]) -> Vec<String> {
    let is_healthy = |it: &&Replica| it.holds("HealthCheckSucceeded") && it.fails(OWNER_REMEDIATED);
    replicas.iter().filter(is_healthy).map(Replica::name).collect()
}

/// Reports whether a recorded remediation has ended: its replacement exists, or its Machine is healthy again.
fn is_over(record: &Record, replicas: &[Replica]) -> bool {
    let is_replaced = |it: &Replica| {
        it.created() > record.time() || remediation_record::of(it).is_some_and(|known| known == *record)
    };
    let is_well = |it: &Replica| it.name() == record.machine && !it.is_deleting() && !it.needs_remediation();
    replicas.iter().any(|it| is_replaced(it) || is_well(it))
}

/// Reports whether the control plane is about to make the replacement that is missing. Other unhealthy Machines may keep
/// it from that for good, and then they are replaced, too.
fn replacement_comes(control_plane: &KubeadmControlPlane, observed: &Observed, next: &Step) -> bool {
    match next {
        Step::Create(..) | Step::Prepare(_) => true,
        Step::Block(blocked) => blocked.is_up && !preflight::waits_for_health(control_plane, observed),
        _ => false,
    }
}

/// Returns the Machines to replace, in order: the next one counts if a Machine before it cannot be replaced. The record is
/// written before the deletion, so that a pass which ended in between is continued. While the replacement of another
/// Machine is about to come, there is none.
fn candidates<'a>(replicas: &'a [Replica], record: Option<&Record>, comes: bool) -> Vec<&'a Replica> {
    let is_there = |record: &Record| replicas.iter().any(|it| it.name() == record.machine);
    let is_next = |it: &&Replica| {
        record.is_none_or(|record| if is_there(record) { record.machine == it.name() } else { !comes })
    };
    let asked = replicas.iter().filter(|it| it.needs_remediation() && !it.is_deleting());
    let mut candidates: Vec<&Replica> = asked.filter(is_next).collect();
    candidates.sort_by_cached_key(|it| {
        let [pod, member] = ETCD;
        let kinds = [member, pod].into_iter().chain(PODS).chain([NODE_LABELS]);
        let works: Vec<bool> = kinds.map(|kind| it.holds(kind)).collect();
        (!it.has_annotation(REMEDIATE), it.node().is_some(), works, it.created(), it.name())
    });
    candidates
}

/// Returns the record of the remediation, or what forbids it.
fn judge(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    picked: &Replica,
    record: Option<Record>,
) -> Result<Record, Obstacle> {
    if let Some(note) = protection::note(std::slice::from_ref(&picked.machine)) {
        return Err(later(note));
    }
    if let Some(reason) = preflight::topology(control_plane, &observed.cluster) {
        return Err(later(reason));
    }
    let record = match record {
        Some(record) if record.machine == picked.name() => record,
        other => {
            in_window(control_plane, observed, picked)?;
            let next = retry(control_plane, picked, observed.now)?;
            // The count of a Machine whose replacement never came is not lost.
            let count = other.map_or(0, |it| it.retry_count).max(next.retry_count);
            Record { retry_count: count, ..next }
        }
    };
    // The first Machine has nothing that could be lost.
    if is_initialized(control_plane, observed) {
        is_safe(control_plane, observed, picked)?;
    }
    Ok(record)
}

/// Returns the hold of a remediation that is not urgent, outside the maintenance window. One with a broken component is
/// urgent.
fn in_window(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    picked: &Replica,
) -> Result<(), Obstacle> {
    let works = picked.is_healthy(managed_etcd(control_plane));
    if !works || remediation_urgency::is_urgent(&picked.machine) {
        return Ok(());
    }
    match rollout_gate::outside_window(control_plane, Some(&observed.cluster), observed.now) {
        None => Ok(()),
        Some(hold) => {
            let message =
                format!("The replacement of Machine {} is not urgent. {}", picked.name(), hold.message);
            Err(Obstacle { wait: hold.wait, ..later(message) })
        }
    }
}

fn later(message: String) -> Obstacle {
    Obstacle { reason: DEFERRED, message, wait: Some(AGAIN) }
}

fn refused(message: String) -> Obstacle {
    Obstacle { reason: REFUSED, message, wait: Some(AGAIN) }
}

/// Returns the record of the next try, or what the policy of retries says against it.
fn retry(control_plane: &KubeadmControlPlane, picked: &Replica, now: Timestamp) -> Result<Record, Obstacle> {
    let next = |count| Record::new(picked.name(), now, count);
    let Some(previous) = remediation_record::of(picked) else { return Ok(next(0)) };
    let policy = control_plane.spec.remediation.clone().unwrap_or_default();
    let seconds = |seconds: i32| SignedDuration::from_secs(seconds.into());
    let elapsed = now.duration_since(previous.time());
    if elapsed >= policy.min_healthy_period_seconds.map_or(HEALTHY, seconds) {
        return Ok(next(0));
    }
    let period = policy.retry_period_seconds.map_or(SignedDuration::ZERO, seconds);
    let (machine, failed) = (picked.name(), &previous.machine);
    if elapsed < period {
        let left = Duration::try_from(period.saturating_sub(elapsed)).unwrap_or_default();
        let message = format!(
            "Machine {machine} replaced Machine {failed} at {}, and is unhealthy, too. It is replaced {} s after that time \
             (spec.remediation.retryPeriodSeconds)",
            previous.time(),
            period.as_secs()
        );
        return Err(Obstacle { wait: Some(left), ..later(message) });
    }
    if let Some(limit) = policy.max_retry.filter(|limit| previous.retry_count >= *limit) {
        let message = format!(
            "Machine {machine} replaced Machine {failed}, and is unhealthy, too. The remediation was retried {} times, and \
             spec.remediation.maxRetry is {limit}. Repair the cause, then delete the Machine or increase the limit",
            previous.retry_count
        );
        return Err(Obstacle { wait: None, ..refused(message) });
    }
    Ok(next(previous.retry_count.saturating_add(1)))
}

/// Returns what the cluster would lose without a Machine.
fn is_safe(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    picked: &Replica,
) -> Result<(), Obstacle> {
    let (name, managed) = (picked.name(), managed_etcd(control_plane));
    let others: Vec<&Replica> = observed.replicas.iter().filter(|it| it.name() != name).collect();
    if others.is_empty() {
        let message = format!("Machine {name} is the only one, and has all data of the cluster. Repair it");
        return Err(refused(message));
    }
    if let Some(other) = others.iter().find(|it| it.is_deleting()) {
        return Err(later(format!("Waiting for the deletion of Machine {}", other.name())));
    }
    let joins = |it: &&&Replica| it.node().is_none() && !it.fails("HealthCheckSucceeded");
    if let Some(other) = others.iter().find(joins) {
        let stage = join_stage::of(other, observed);
        return Err(later(format!("Waiting for Machine {} to get a Node: {stage}", other.name())));
    }
    let pods: Vec<&str> = PODS.into_iter().chain(managed.then_some(ETCD[0])).collect();
    let runs = |it: &&&Replica| pods.iter().all(|kind| it.holds(kind));
    if managed {
        keeps_quorum(observed, picked)?;
    }
    if others.iter().any(|it| runs(&it)) {
        return Ok(());
    }
    let message = "no other control plane Machine has healthy components".to_owned();
    Err(refused(format!("Machine {name} is not replaced, because {message}. Repair one of the others first")))
}

/// Returns the members of etcd and the Nodes, or that they are not known.
fn of_etcd(observed: &Observed) -> Result<(&[Member], &[Node]), Obstacle> {
    let waits =
        |cause: String| later(format!("Waiting for the Nodes and the members of etcd to be known{cause}"));
    let Workload::Reached(found) = &observed.workload else { return Err(waits(String::new())) };
    match (&found.members, &found.nodes) {
        (Ok(members), Ok(nodes)) => Ok((members.as_slice(), nodes.as_slice())),
        (Err(error), _) | (_, Err(error)) => Err(waits(format!(": {error}"))),
    }
}

/// Returns whether etcd keeps its quorum without a Machine. One that has not joined etcd is no loss.
fn keeps_quorum(observed: &Observed, picked: &Replica) -> Result<(), Obstacle> {
    let (members, nodes) = of_etcd(observed)?;
    let member = member_of(picked, &observed.replicas, nodes, members);
    let Some(member) = member.filter(|it| may_be_needed(it, picked, nodes)) else { return Ok(()) };
    let after = etcd_projection::project(members, &observed.replicas, Change::Leave(&member.name));
    if after.is_safe() {
        return Ok(());
    }
    let message = format!(
        "Machine {} is not replaced, because etcd would lose its quorum without it: {}. Repair a member first",
        picked.name(),
        after.text()
    );
    Err(refused(message))
}

#[cfg(test)]
#[path = "remediation_tests.rs"]
mod tests;
