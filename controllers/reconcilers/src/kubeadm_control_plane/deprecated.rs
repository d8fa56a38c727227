//! Status of a control plane in the form of v1beta1, for clients of that version.

use apiserver_types::{
    Condition, ConditionStatus, DeprecatedCondition, KubeadmControlPlane, KubeadmControlPlaneDeprecated, Time,
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::decide::Step;
use super::health::{COMPONENTS, ETCD_CLUSTER};
use super::observe::Observed;
use super::replica::desired_replicas;
use super::report::Outcome;

/// Conditions that the summary `Ready` is made of, in the order in which the first that fails is copied.
const PARTS: [&str; 7] = [
    "MachinesSpecUpToDate",
    "Resized",
    "MachinesReady",
    "Available",
    "CertificatesAvailable",
    COMPONENTS,
    ETCD_CLUSTER,
];

/// Condition before its time is known.
type Draft = (&'static str, ConditionStatus, &'static str, &'static str, String);

/// Writes `status.deprecated`.
pub(super) fn report(
    control_plane: &mut KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    initialized: bool,
    now: &Time,
) {
    let drafts = drafts(control_plane, observed, outcome, initialized);
    let nodes = observed.workload.nodes();
    let ready = nodes.map(|nodes| {
        let names = observed.replicas.iter().filter_map(|it| it.node());
        names.filter(|name| nodes.iter().any(|node| node.name_any() == **name && is_ready(node))).count()
    });
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let replicas = observed.replicas.len();
    let updated = observed.replicas.iter().filter(|it| it.causes.is_empty()).count();
    let status = control_plane.status.get_or_insert_default();
    let deprecated = status.deprecated.get_or_insert(apiserver_types::Deprecated { v1beta1: None });
    let old = deprecated.v1beta1.get_or_insert_with(KubeadmControlPlaneDeprecated::default);
    // Without a connection the last count stays.
    let ready = ready.map_or_else(|| old.ready_replicas.unwrap_or_default(), count).min(count(replicas));
    old.updated_replicas = Some(count(updated));
    old.ready_replicas = Some(ready);
    old.unavailable_replicas = Some(count(replicas).saturating_sub(ready));
    let conditions = old.conditions.get_or_insert_default();
    for draft in drafts {
        set(conditions, draft, now);
    }
    let summary = summary(conditions);
    set(conditions, summary, now);
    conditions.sort_by(|a, b| (a.kind != "Ready", &a.kind).cmp(&(b.kind != "Ready", &b.kind)));
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn drafts(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    initialized: bool,
) -> Vec<Draft> {
    let yes = |kind| (kind, ConditionStatus::True, "", "", String::new());
    let mut drafts = Vec::new();
    if observed.certificates.examined {
        drafts.push(match observed.certificates.is_available() {
            true => yes("CertificatesAvailable"),
            false => {
                let message = observed.certificates.missing.join(", ");
                let reason = "CertificatesGenerationFailed";
                ("CertificatesAvailable", ConditionStatus::False, reason, "Error", message)
            }
        });
        drafts.push(match initialized {
            true => yes("Available"),
            false => ("Available", ConditionStatus::False, "WaitingForKubeadmInit", "Info", String::new()),
        });
    }
    if !observed.replicas.is_empty() || matches!(outcome, Ok(Step::Create(..))) {
        drafts.push(yes("MachinesCreated"));
    }
    let ready = observed.replicas.iter().filter(|it| it.holds("Ready")).count();
    if !observed.replicas.is_empty() && ready == observed.replicas.len() {
        drafts.push(yes("MachinesReady"));
    }
    drafts.extend(resized(control_plane, observed, ready));
    drafts.extend([COMPONENTS, ETCD_CLUSTER].into_iter().filter_map(|kind| health(control_plane, kind)));
    drafts.extend(spec_up_to_date(control_plane, observed));
    drafts
}

/// Returns the condition on outdated Machines; `None` until the first rollout.
fn spec_up_to_date(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<Draft> {
    let kind = "MachinesSpecUpToDate";
    let outdated = observed.replicas.iter().filter(|it| it.is_outdated()).count();
    if outdated > 0 {
        let current = observed.replicas.len().saturating_sub(outdated);
        let message =
            format!("Rolling {outdated} replicas with outdated spec ({current} replicas up to date)");
        return Some((kind, ConditionStatus::False, "RollingUpdateInProgress", "Warning", message));
    }
    let known = control_plane.status.as_ref().and_then(|it| it.deprecated.as_ref()?.v1beta1.as_ref());
    let mut known = known.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
    known.any(|it| it.kind == kind).then(|| (kind, ConditionStatus::True, "", "", String::new()))
}

/// Returns the condition on the number of Machines; `None` while their number is right and not all are ready.
fn resized(control_plane: &KubeadmControlPlane, observed: &Observed, ready: usize) -> Option<Draft> {
    let (current, desired) = (observed.replicas.len(), desired_replicas(control_plane));
    let no = |reason, severity, message| Some(("Resized", ConditionStatus::False, reason, severity, message));
    if control_plane.metadata.deletion_timestamp.is_some() {
        return no("Deleting", "Info", String::new());
    }
    let numbers = format!("control plane to {desired} replicas (actual {current})");
    match current.cmp(&desired) {
        std::cmp::Ordering::Less => no("ScalingUp", "Warning", format!("Scaling up {numbers}")),
        std::cmp::Ordering::Greater => no("ScalingDown", "Warning", format!("Scaling down {numbers}")),
        std::cmp::Ordering::Equal if ready == current => {
            Some(("Resized", ConditionStatus::True, "", "", String::new()))
        }
        std::cmp::Ordering::Equal => None,
    }
}

/// Returns a condition of health in the words of v1beta1.
fn health(control_plane: &KubeadmControlPlane, kind: &'static str) -> Option<Draft> {
    let found: &Condition = control_plane.condition(kind)?;
    let is_etcd = kind == ETCD_CLUSTER;
    let (reason, severity) = match (found.status, found.reason.as_str()) {
        (ConditionStatus::True, _) => return Some((kind, ConditionStatus::True, "", "", String::new())),
        // Before the first API server responds, v1beta1 had no such condition.
        (ConditionStatus::Unknown, "InspectionFailed") => return None,
        (ConditionStatus::Unknown, _) if is_etcd => ("EtcdClusterUnknown", ""),
        (ConditionStatus::Unknown, _) => ("ControlPlaneComponentsUnknown", ""),
        (ConditionStatus::False, _) if is_etcd => ("EtcdClusterUnhealthy", "Error"),
        (ConditionStatus::False, _) => ("ControlPlaneComponentsUnhealthy", "Error"),
    };
    Some((kind, found.status, reason, severity, found.message.clone()))
}

/// Returns the summary: the first part that does not hold.
fn summary(conditions: &[DeprecatedCondition]) -> Draft {
    let broken = PARTS.iter().find_map(|kind| {
        conditions.iter().find(|condition| condition.kind == *kind && condition.status == "False")
    });
    let Some(broken) = broken else { return ("Ready", ConditionStatus::True, "", "", String::new()) };
    let reason =
        REASONS.into_iter().find(|reason| Some(*reason) == broken.reason.as_deref()).unwrap_or_default();
    let severities = ["Error", "Warning", "Info"];
    let severity =
        severities.into_iter().find(|it| Some(*it) == broken.severity.as_deref()).unwrap_or_default();
    ("Ready", ConditionStatus::False, reason, severity, broken.message.clone().unwrap_or_default())
}

/// Reasons that a part may have.
const REASONS: [&str; 8] = [
    "CertificatesGenerationFailed",
    "WaitingForKubeadmInit",
    "Deleting",
    "ScalingUp",
    "ScalingDown",
    "RollingUpdateInProgress",
    "EtcdClusterUnhealthy",
    "ControlPlaneComponentsUnhealthy",
];

/// Sets a condition. Its time changes with its status only.
fn set(conditions: &mut Vec<DeprecatedCondition>, draft: Draft, now: &Time) {
    let (kind, status, reason, severity, message) = draft;
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut new = DeprecatedCondition {
        kind: kind.to_owned(),
        status: format!("{status:?}"),
        last_transition_time: now.clone(),
        reason: text(reason),
        severity: text(severity),
        message: text(&message),
    };
    match conditions.iter_mut().find(|known| known.kind == kind) {
        Some(known) => {
            if known.status == new.status {
                new.last_transition_time = known.last_transition_time.clone();
            }
            *known = new;
        }
        None => conditions.push(new),
    }
}
