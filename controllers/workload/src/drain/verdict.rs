//! Decision what a drain does with each Pod, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{DrainBehavior, MachineDrainRule};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::rules::{Labels, selects_pod};
use crate::WorkloadError;

/// Label with which a Pod decides on its own drain.
const DRAIN_LABEL: &str = "cluster.x-k8s.io/drain";

/// Annotation of the API server's copy of a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Age of a deletion after which a Pod of an unreachable Node is ignored: the clocks of both sides may differ.
const DELETED_BEFORE: SignedDuration = SignedDuration::from_secs(1);

/// Treatment of a Pod in a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The Pod is left alone, and nothing waits for it.
    Skip,
    /// The Pod is evicted when its order comes.
    Drain {
        /// Position in the drain: lower values first.
        order: i32,
    },
    /// The drain waits until the Pod has completed or is gone.
    WaitCompleted,
}

impl Verdict {
    /// Position in the drain, or `None` without one.
    fn order(self) -> Option<i32> {
        match self {
            Self::Skip => None,
            Self::Drain { order } => Some(order),
            Self::WaitCompleted => Some(0),
        }
    }
}

/// Facts that the decision needs beyond the Pod.
#[derive(Debug)]
pub(super) struct Observed<'a> {
    pub(super) now: Timestamp,
    /// The kubelet does not report.
    pub(super) unreachable: bool,
    /// Rules that match the Machine, by name.
    pub(super) rules: &'a [MachineDrainRule],
    /// Labels by name of namespace, if a rule needs them.
    pub(super) namespaces: Option<BTreeMap<String, Labels>>,
    /// DaemonSets that exist, of those that own a Pod of the Node: namespace and name.
    pub(super) daemon_sets: BTreeSet<(String, String)>,
}

/// Decides on one Pod: the first filter that has an opinion.
pub(super) fn verdict(pod: &Pod, observed: &Observed<'_>) -> Result<Verdict, WorkloadError> {
    if observed.unreachable && is_deleted(pod, observed.now) {
        return Ok(Verdict::Skip);
    }
    if let Some(name) = daemon_set(pod) {
        let found = observed.daemon_sets.contains(&(namespace(pod).to_owned(), name.to_owned()));
        return Ok(if is_finished(pod) || !found { Verdict::Drain { order: 0 } } else { Verdict::Skip });
    }
    if is_mirror(pod) {
        return Ok(Verdict::Skip);
    }
    let decided = match by_label(pod) {
        Some(verdict) => verdict,
        None => by_rule(pod, observed)?,
    };
    // Completion is the end of the containers, not the removal of the object.
    let completed = decided == Verdict::WaitCompleted && is_finished(pod);
    Ok(if completed { Verdict::Skip } else { decided })
}

/// Returns why a drain leaves a Pod alone, for people.
pub(super) fn why_skipped(pod: &Pod) -> &'static str {
    if daemon_set(pod).is_some() {
        "a DaemonSet controls the Pod"
    } else if is_mirror(pod) {
        "the Pod is static"
    } else {
        "by its label, by a MachineDrainRule, or because it has ended"
    }
}

fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR))
}

fn by_label(pod: &Pod) -> Option<Verdict> {
    let value = pod.metadata.labels.as_ref()?.get(DRAIN_LABEL)?;
    match value.to_ascii_lowercase().as_str() {
        "skip" => Some(Verdict::Skip),
        "waitcompleted" | "wait-completed" => Some(Verdict::WaitCompleted),
        _ => None,
    }
}

fn by_rule(pod: &Pod, observed: &Observed<'_>) -> Result<Verdict, WorkloadError> {
    let labels = match &observed.namespaces {
        Some(namespaces) => Some(namespaces.get(namespace(pod)).ok_or_else(|| {
            WorkloadError::Request(format!("the namespace of Pod {} was not listed", full_name(pod)))
        })?),
        None => None,
    };
    for rule in observed.rules {
        if selects_pod(rule, pod, labels)? {
            let drain = &rule.spec.drain;
            return Ok(match drain.behavior {
                DrainBehavior::Skip => Verdict::Skip,
                DrainBehavior::Drain => Verdict::Drain { order: drain.order.unwrap_or(0) },
                DrainBehavior::WaitCompleted => Verdict::WaitCompleted,
            });
        }
    }
    Ok(Verdict::Drain { order: 0 })
}

/// Pods by what this pass does with them, each list by namespace and name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan<'a> {
    pub(super) terminating: Vec<&'a Pod>,
    pub(super) evict_now: Vec<&'a Pod>,
    pub(super) evict_later: Vec<&'a Pod>,
    pub(super) wait_now: Vec<&'a Pod>,
    pub(super) wait_later: Vec<&'a Pod>,
}

/// Puts Pods in order. Only those of the lowest order are evicted or waited for now.
pub(super) fn plan<'a>(verdicts: &[(&'a Pod, Verdict)]) -> Plan<'a> {
    let mut verdicts = verdicts.to_vec();
    verdicts.sort_by_key(|(pod, _)| full_name(pod));
    let first = verdicts.iter().filter_map(|(_, verdict)| verdict.order()).min();
    let mut plan = Plan::default();
    for (pod, verdict) in verdicts {
        let now = verdict.order() == first;
        match verdict {
            Verdict::Skip => {}
            Verdict::Drain { .. } if pod.metadata.deletion_timestamp.is_some() => plan.terminating.push(pod),
            Verdict::Drain { .. } if now => plan.evict_now.push(pod),
            Verdict::Drain { .. } => plan.evict_later.push(pod),
            Verdict::WaitCompleted if now => plan.wait_now.push(pod),
            Verdict::WaitCompleted => plan.wait_later.push(pod),
        }
    }
    plan
}

/// Name of the DaemonSet that controls a Pod.
pub(super) fn daemon_set(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
    (controller.kind == "DaemonSet").then_some(controller.name.as_str())
}

/// Says whether all containers have ended for good.
pub(super) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_deleted(pod: &Pod, now: Timestamp) -> bool {
    let deleted = pod.metadata.deletion_timestamp.as_ref();
    deleted.is_some_and(|deleted| now.duration_since(deleted.0) > DELETED_BEFORE)
}

pub(super) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

/// Namespace and name, as texts show them.
pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", namespace(pod), pod.metadata.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
