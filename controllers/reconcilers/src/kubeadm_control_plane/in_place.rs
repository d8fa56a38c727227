//! Updates of Machines in place by an extension server: which Machine is updated, and what keeps it from that. Pure.
//!
//! A Machine is updated only where it would be deleted otherwise. So the control plane can do without it.

use std::time::Duration;

use apiserver_types::KubeadmControlPlane;

use super::cause::Cause;
use super::decide::{self, Step};
use super::observe::Observed;
use super::placement;
use super::preflight::{self, Blocked, Operation};
use super::replica::{Replica, desired_replicas, managed_etcd};
use crate::in_place;
use crate::machine_labels::{DELETE_FIRST, REMEDIATE, UPDATING};
use crate::rollout_gate::{self, Hold, InPlace};

/// Interval until a server is called again about a Machine that stays because of its answer.
const AGAIN: Duration = Duration::from_mins(1);

/// Answer of an extension server about the Machine that would be deleted next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No server was called, or there is none.
    #[default]
    NotAsked,
    /// The server can update the Machine of this name.
    Accepted(String),
    /// It cannot, for these reasons, one line each.
    Refused(Vec<String>),
    /// There is no answer: a text for people, and the time until the next attempt.
    Failed(String, Duration),
}

/// Returns the Machine whose update has begun, and was interrupted before the extension server could be called. A client may
/// have created several Machines with the mark: they are updated one after the other.
pub(super) fn unfinished(observed: &Observed) -> Option<String> {
    let stay = || observed.replicas.iter().filter(|it| !it.is_deleting());
    if stay().any(|it| in_place::is_pending(&it.machine)) {
        return None;
    }
    stay().find(|it| it.has_annotation(UPDATING)).map(Replica::name)
}

/// Returns the Machines that are being updated. Until they are not, nothing else changes.
pub(super) fn updating(observed: &Observed) -> Vec<String> {
    let is_updating = |it: &&Replica| in_place::is_updating(&it.machine) && !it.is_deleting();
    observed.replicas.iter().filter(is_updating).map(Replica::name).collect()
}

/// Returns the Machine that a rollout would delete next, if a server may update it; or the checks that forbid that now.
/// `None`: it can only be replaced.
pub(super) fn candidate<'a>(
    control_plane: &KubeadmControlPlane,
    observed: &'a Observed,
) -> Option<Result<&'a Replica, Blocked>> {
    let replicas = &observed.replicas;
    let wanted = desired_replicas(control_plane);
    let policy = rollout_gate::in_place(control_plane);
    let current = replicas.iter().filter(|it| !it.is_deleting() && it.causes.is_empty()).count();
    let is_surplus = policy == InPlace::Only && replicas.len() > wanted;
    let is_held =
        || rollout_gate::hold_in_place(control_plane, Some(&observed.cluster), observed.now).is_some();
    if policy == InPlace::Never || current >= wanted || is_surplus || is_held() {
        return None;
    }
    let (domains, managed) = (decide::domains(observed), managed_etcd(control_plane));
    let replica = placement::next_to_delete(domains, replicas, managed, observed.now)?;
    if !is_eligible(replica) {
        return None;
    }
    Some(match preflight::check(control_plane, observed, Operation::Update) {
        None => Ok(replica),
        Some(blocked) => Err(blocked),
    })
}

/// Reports whether all that makes a Machine outdated can change in place, and neither a person nor a health check wants it to
/// go.
fn is_eligible(replica: &Replica) -> bool {
    let can_change = |cause: &Cause| match cause {
        Cause::Version { .. } | Cause::Config | Cause::Infrastructure(_) => true,
        Cause::After | Cause::Expiry(_) => false,
    };
    replica.is_outdated()
        && replica.causes.iter().all(can_change)
        && ![DELETE_FIRST, REMEDIATE].into_iter().any(|mark| replica.has_annotation(mark))
        && !replica.needs_remediation()
        && replica.config.is_some()
        && replica.infrastructure.is_some()
}

/// Returns the Machine about which a server is to be called before the next step is made.
pub(super) fn in_question(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<String> {
    let next = decide::next_step(control_plane, observed);
    let is_due = matches!(next, Step::Delete(_) | Step::Hold(_));
    let replica = candidate(control_plane, observed).filter(|_| is_due)?.ok()?;
    Some(replica.name())
}

/// Returns the step in place of the deletion of a Machine; `None` if it is deleted.
pub(super) fn instead(observed: &Observed) -> Option<Step> {
    match &observed.verdict {
        Verdict::Accepted(name) => Some(Step::Update(name.clone())),
        Verdict::Failed(text, wait) => Some(Step::Hold(rollout_gate::blocked(text.clone(), Some(*wait)))),
        Verdict::NotAsked | Verdict::Refused(_) => None,
    }
}

/// Returns the step while a setting holds the rollout, and the number of Machines is right; `None` if a Machine is updated,
/// which the setting allows.
pub(super) fn held(control_plane: &KubeadmControlPlane, observed: &Observed, hold: Hold) -> Option<Step> {
    let is_allowed = rollout_gate::in_place(control_plane) == InPlace::Only
        && rollout_gate::hold_in_place(control_plane, Some(&observed.cluster), observed.now).is_none();
    match &observed.verdict {
        Verdict::Accepted(_) if is_allowed => None,
        Verdict::Failed(text, wait) if is_allowed => {
            Some(Step::Hold(rollout_gate::blocked(text.clone(), Some(*wait))))
        }
        Verdict::Refused(_) if is_allowed => {
            let lines: String = refusals(observed).iter().map(|line| format!(". {line}")).collect();
            Some(Step::Hold(rollout_gate::blocked(hold.message + &lines, Some(AGAIN))))
        }
        Verdict::NotAsked if is_allowed => Some(Step::Hold(match candidate(control_plane, observed) {
            // There may be no server: the policy stays the reason.
            Some(Err(Blocked { reasons, interval, .. })) => {
                let reasons = reasons.join("; ");
                let message = format!("{}. No server is called before this ends: {reasons}", hold.message);
                Hold { message, wait: Some(interval), ..hold }
            }
            // There was no server to call. ExtensionConfigs are not watched.
            Some(Ok(_)) => Hold { wait: Some(AGAIN), ..hold },
            None => hold,
        })),
        _ => Some(Step::Hold(hold)),
    }
}

/// Returns the reasons for which a Machine is replaced, although there is a server that updates others, one line each.
pub(super) fn refusals(observed: &Observed) -> Vec<String> {
    match &observed.verdict {
        Verdict::Refused(lines) => lines.iter().map(|line| format!("Not made in place: {line}")).collect(),
        Verdict::NotAsked | Verdict::Accepted(_) | Verdict::Failed(..) => Vec::new(),
    }
}

/// Returns the text about Machines that are being updated.
pub(super) fn waits(names: &[String]) -> String {
    format!("Waiting for the update in place of Machine {}", names.join(", "))
}

#[cfg(test)]
#[path = "in_place_tests.rs"]
mod tests;
