//! Report of a pass: the condition TopologyReconciled, and the plan of an upgrade.

use apiserver_types::{
    Cluster, Condition, ConditionStatus, ReplicaCounts, Time, UpgradePlanVersion, set_condition,
};
use controllers_runtime::{ReconcileError, write_status};
use kube::Api;

use super::act::Outcome;
use super::blueprint::{CLASS_NOT_RECONCILED, FAILED};
use super::revision;
use super::upgrade::Upgrade;
use super::upgrade::hooks::Hooks;
use super::upgrade::plan::Plan;
use super::upgrade::workers::{Decision, Progress};
use crate::deprecated_conditions::{self, Old};
use crate::{condition_order, paused};

/// Type of the condition.
const KIND: &str = "TopologyReconciled";

/// Most names in a text.
const MOST_NAMES: usize = 5;

/// Result of a pass, for the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// The Cluster is paused.
    Paused,
    /// A pass failed: reason and stable text.
    Failed(&'static str, String),
    /// The Cluster is being deleted, and these hooks may hold that up.
    Deleting(Hooks),
    /// Everything else: status, reason and text, and the plan of an upgrade.
    Reconciled { reason: &'static str, message: String, plan: Plan },
}

/// Returns the report of a failed pass.
pub(super) fn of_error(error: &ReconcileError) -> Report {
    let reason = if error.reason() == CLASS_NOT_RECONCILED { CLASS_NOT_RECONCILED } else { FAILED };
    Report::Failed(reason, error.to_string())
}

/// Returns the report of a pass.
pub(super) fn of(cluster: &Cluster, outcome: &Outcome) -> Report {
    let upgrade = &outcome.upgrade;
    let target = cluster.spec.topology.as_ref().map(|it| it.version.clone()).unwrap_or_default();
    let plan = upgrade.plan.clone();
    if outcome.is_held {
        let message = creation_blocked(&upgrade.hooks);
        return Report::Reconciled { reason: "ClusterCreating", message, plan };
    }
    let mut lines = Vec::new();
    lines.extend(blocked(upgrade));
    lines.extend(control_plane(outcome));
    lines.extend(under_way(&upgrade.workers, &plan));
    let deferred = deferred(upgrade, &target);
    let is_upgrading = !lines.is_empty();
    let is_deferred = deferred.is_some();
    lines.extend(deferred);
    let created: Vec<String> =
        of_progress(&upgrade.workers, Progress::PendingCreate).map(|it| it.topology_name.clone()).collect();
    let reason = match (is_upgrading || !created.is_empty(), is_deferred) {
        (false, false) => {
            return Report::Reconciled { reason: "ReconcileSucceeded", message: String::new(), plan };
        }
        (true, _) => "ClusterUpgrading",
        (false, true) => "MachineDeploymentsUpgradeDeferred",
    };
    if !created.is_empty() {
        let topologies = listed(&created).replacen("MachineDeployment", "MachineDeploymentTopology", 1);
        let topologies = topologies.replacen("MachineDeploymentTopologys", "MachineDeploymentTopologies", 1);
        lines.push(format!("{topologies} creation deferred while control plane upgrade is in progress"));
    }
    let lines: Vec<String> = lines.into_iter().map(|line| format!("\n  * {line}")).collect();
    Report::Reconciled {
        reason,
        message: format!("Cluster is upgrading to {target}{}", lines.concat()),
        plan,
    }
}

/// Returns the text about hooks that hold up the creation of a Cluster.
pub(super) fn creation_blocked(hooks: &Hooks) -> String {
    format!("Following hooks are blocking Cluster topology creation: {}", hooks.text())
}

/// Returns the line about hooks that hold up an upgrade.
pub(super) fn blocked(upgrade: &Upgrade) -> Option<String> {
    let is_blocked = !upgrade.hooks.blocking.is_empty();
    is_blocked.then(|| format!("Following hooks are blocking upgrade: {}", upgrade.hooks.text()))
}

/// Returns the line about worker groups whose upgrade to this version is deferred.
pub(super) fn deferred(upgrade: &Upgrade, target: &str) -> Option<String> {
    let deferred = names(&upgrade.workers, |it| it.progress == Progress::Deferred);
    (!deferred.is_empty()).then(|| {
        let listed = listed(&deferred);
        format!(
            "{listed} upgrade to version {target} deferred using defer-upgrade or hold-upgrade-sequence annotations"
        )
    })
}

/// Returns the line about the control plane, unless it is at its goal.
fn control_plane(outcome: &Outcome) -> Option<String> {
    let (decision, kind) = (&outcome.upgrade.control_plane, &outcome.control_plane_kind);
    let mut remaining = outcome.upgrade.plan.control_plane.clone();
    if decision.is_upgrading || decision.is_starting {
        remaining.retain(|version| *version != decision.version);
        let pending = match remaining.is_empty() {
            true => String::new(),
            false => format!(" ({} pending)", remaining.join(", ")),
        };
        return Some(format!("{kind} upgrading to version {}{pending}", decision.version));
    }
    decision.is_pending.then(|| format!("{kind} pending upgrade to version {}", remaining.join(", ")))
}

/// Returns the lines about worker groups that are being upgraded or wait for that.
fn under_way(workers: &[Decision], plan: &Plan) -> Vec<String> {
    let mut versions: Vec<&str> = Vec::new();
    let is_rolling = |it: &&Decision| {
        matches!(it.progress, Progress::Upgrading | Progress::Starting | Progress::PendingWhileUpgrading)
    };
    for decision in workers.iter().filter(is_rolling) {
        if !versions.contains(&decision.version.as_str()) {
            versions.push(&decision.version);
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for version in versions {
        let names = names(workers, |it| is_rolling(&it) && it.version == version);
        lines.push(format!("{} upgrading to version {version}", listed(&names)));
    }
    let pending = names(workers, |it| it.progress == Progress::Pending);
    if !pending.is_empty() {
        let versions = plan.workers.join(", ");
        lines.push(format!("{} pending upgrade to version {versions}", listed(&pending)));
    }
    lines
}

fn of_progress(workers: &[Decision], progress: Progress) -> impl Iterator<Item = &Decision> {
    workers.iter().filter(move |it| it.progress == progress)
}

fn names(workers: &[Decision], chosen: impl Fn(&Decision) -> bool) -> Vec<String> {
    workers.iter().filter(|it| chosen(it)).map(|it| it.object.clone()).collect()
}

/// Returns the kind and the first of several names.
fn listed(names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let mut shown: Vec<String> = names.iter().take(MOST_NAMES).cloned().collect();
    if let Some(more) = names.len().checked_sub(MOST_NAMES).filter(|more| *more > 0) {
        shown.push(format!("... ({more} more)"));
    }
    format!("MachineDeployment{plural} {}", shown.join(", "))
}

/// Writes the report into the status, if it differs.
///
/// # Errors
/// A conflict, if another client has written more than the status since.
pub(super) async fn write(
    api: &Api<Cluster>,
    cluster: &Cluster,
    report: &Report,
    now: &Time,
) -> Result<Cluster, ReconcileError> {
    let with_report = |cluster: &Cluster| {
        let mut new = cluster.clone();
        apply(&mut new, report, now);
        new
    };
    match write_status(api, cluster, &with_report(cluster)).await {
        Err(error) if error.is_conflict() => match revision::newer(api, cluster).await? {
            Some(newer) => write_status(api, &newer, &with_report(&newer)).await,
            None => Err(error),
        },
        written => written,
    }
}

/// Sets the condition in both forms, and the plan.
fn apply(cluster: &mut Cluster, report: &Report, now: &Time) {
    let (status, reason, message, old) = condition(cluster, report, now);
    let generation = cluster.metadata.generation;
    let target = cluster.status.get_or_insert_default();
    let conditions = target.conditions.get_or_insert_default();
    let new = Condition::new(KIND, status, reason, &message, now.clone());
    set_condition(conditions, new.at_generation(generation));
    condition_order::sort(conditions);
    let deprecated = target.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(deprecated.conditions.get_or_insert_default(), KIND, old, now);
    if let Report::Reconciled { plan, .. } = report {
        set_plan(&mut target.control_plane, &plan.control_plane);
        set_plan(&mut target.workers, &plan.workers);
    }
}

/// Sets the versions that remain for a part of the Cluster.
pub(super) fn set_plan(counts: &mut Option<ReplicaCounts>, versions: &[String]) {
    let plan: Vec<UpgradePlanVersion> =
        versions.iter().map(|version| UpgradePlanVersion { version: version.clone() }).collect();
    let plan = (!plan.is_empty()).then_some(plan);
    if plan.is_some() || counts.as_ref().is_some_and(|it| it.upgrade_plan.is_some()) {
        counts.get_or_insert_default().upgrade_plan = plan;
    }
}

/// Returns status, reason and text of the condition, and its form in v1beta1.
fn condition(cluster: &Cluster, report: &Report, now: &Time) -> (ConditionStatus, &'static str, String, Old) {
    let no = |reason: &'static str, message: String| {
        let old = Old::no("Info", reason, message.clone());
        (ConditionStatus::False, reason, message, old)
    };
    match report {
        Report::Paused => no("Paused", paused::condition(cluster, Some(cluster), now).message),
        Report::Failed(reason, message) if *reason == FAILED => {
            let old = Old::no("Error", "TopologyReconcileFailed", message.clone());
            (ConditionStatus::False, FAILED, message.clone(), old)
        }
        Report::Failed(reason, message) => no(reason, message.clone()),
        Report::Deleting(hooks) => {
            let held = match hooks.blocking.is_empty() {
                true => String::new(),
                false => format!(". Following hooks are blocking delete: {}", hooks.text()),
            };
            no("Deleting", format!("Cluster is deleting{held}"))
        }
        Report::Reconciled { reason: "ReconcileSucceeded", message, .. } => {
            (ConditionStatus::True, "ReconcileSucceeded", message.clone(), Old::True)
        }
        Report::Reconciled { reason, message, .. } => no(reason, message.clone()),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
