//! Report of a pass: the condition Upgrading, and the versions that remain.

use apiserver_types::{Cluster, Condition, ConditionStatus, Time, UPGRADING, set_condition};
use controllers_runtime::{ReconcileError, write_status};
use kube::Api;

use super::super::act::Outcome;
use super::super::report::{self, set_plan};
use super::super::upgrade::Upgrade;
use super::super::upgrade::plan::Plan;
use super::{BLOCKED, CONTROL_PLANE, Request};
use crate::condition_order;

/// Reason of an upgrade that goes on. That of a topology.
const CLUSTER_UPGRADING: &str = "ClusterUpgrading";

/// State of an upgrade after a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// It goes on, or a hook or an annotation holds it.
    Upgrading { reason: &'static str, message: String, plan: Plan, is_held: bool },
    /// A person must act. For people.
    Blocked(String),
    /// None is in progress.
    Ended,
}

impl Report {
    /// Returns the report of a pass that decided so, in the words of a topology.
    pub(super) fn of(cluster: &Cluster, request: &Request, upgrade: &Upgrade) -> Self {
        let is_held = !upgrade.hooks.blocking.is_empty();
        let outcome = Outcome {
            upgrade: upgrade.clone(),
            control_plane_kind: CONTROL_PLANE.to_owned(),
            ..Outcome::default()
        };
        match report::of(&request.demanded(cluster), &outcome) {
            report::Report::Reconciled { reason, message, plan } if !message.is_empty() => {
                Self::Upgrading { reason, message, plan, is_held }
            }
            // Nothing else waits: the control plane has not reported a version yet.
            _ => {
                let target = &request.target;
                let message =
                    format!("Cluster is upgrading to {target}\n  * {CONTROL_PLANE} is being provisioned");
                Self::Upgrading { reason: CLUSTER_UPGRADING, message, plan: upgrade.plan.clone(), is_held }
            }
        }
    }
}

/// Writes the report into the status, if it differs.
///
/// # Errors
/// A conflict, if another client has written since.
pub(super) async fn write(
    api: &Api<Cluster>,
    cluster: &Cluster,
    report: &Report,
    now: &Time,
) -> Result<Cluster, ReconcileError> {
    let mut new = cluster.clone();
    apply(&mut new, report, now);
    write_status(api, cluster, &new).await
}

/// Sets the condition, and the versions that remain. While a person must act, those of the last decision stay.
pub(super) fn apply(cluster: &mut Cluster, report: &Report, now: &Time) {
    let (status, reason, message) = match report {
        Report::Upgrading { reason, message, .. } => (ConditionStatus::True, *reason, message.as_str()),
        Report::Blocked(message) => (ConditionStatus::True, BLOCKED, message.as_str()),
        Report::Ended => (ConditionStatus::False, "NotUpgrading", ""),
    };
    let generation = cluster.metadata.generation;
    let target = cluster.status.get_or_insert_default();
    let conditions = target.conditions.get_or_insert_default();
    let new = Condition::new(UPGRADING, status, reason, message, now.clone());
    set_condition(conditions, new.at_generation(generation));
    condition_order::sort(conditions);
    let plan = match report {
        Report::Upgrading { plan, .. } => plan.clone(),
        Report::Blocked(_) => return,
        Report::Ended => Plan::default(),
    };
    set_plan(&mut target.control_plane, &plan.control_plane);
    set_plan(&mut target.workers, &plan.workers);
}
