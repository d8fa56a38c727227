//! Status of a control plane in the form of v1beta1, for clients of that version.

use apiserver_types::{
    Condition, ConditionStatus, KubeadmControlPlane, KubeadmControlPlaneDeprecated, Machine, Time,
};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::decide::Step;
use super::health::{COMPONENTS, ETCD_CLUSTER};
use super::observe::Observed;
use super::replica::desired_replicas;
use super::report::Outcome;
use crate::deprecated_conditions::{self, Old, set, state};

/// Conditions that the summary `Ready` is made of. The first of the most severe ones is copied.
const PARTS: [&str; 6] = [
    "MachinesCreated",
    "MachinesSpecUpToDate",
    "Resized",
    "MachinesReady",
    "Available",
    "CertificatesAvailable",
];

/// Type and state of a condition.
type Draft = (&'static str, Old);

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
    for (kind, draft) in drafts {
        set(conditions, kind, draft, now);
    }
    let parts = PARTS.map(|kind| state(conditions, kind));
    set(conditions, "Ready", deprecated_conditions::summary(&parts), now);
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
    let mut drafts = Vec::new();
    if observed.certificates.examined {
        let error = observed.certificates.error.clone();
        let missing = error.unwrap_or_else(|| observed.certificates.missing.join(", "));
        let is_available = observed.certificates.is_available();
        let certificates = match is_available {
            true => Old::True,
            false => Old::no("Error", "CertificatesGenerationFailed", missing),
        };
        let serves = if initialized { Old::True } else { Old::no("Info", "WaitingForKubeadmInit", "") };
        drafts.extend([("CertificatesAvailable", certificates), ("Available", serves)]);
    }
    drafts.extend(machines_created(observed, outcome).map(|state| ("MachinesCreated", state)));
    let ready = observed.replicas.iter().filter(|it| it.holds("Ready")).count();
    drafts.extend(machines_ready(observed).map(|state| ("MachinesReady", state)));
    drafts.extend(resized(control_plane, observed, ready).map(|state| ("Resized", state)));
    drafts.extend([COMPONENTS, ETCD_CLUSTER].into_iter().filter_map(|kind| health(control_plane, kind)));
    drafts.extend(spec_up_to_date(control_plane, observed).map(|state| ("MachinesSpecUpToDate", state)));
    drafts
}

/// Returns whether the last attempt to make a Machine succeeded; `None` before the first one.
fn machines_created(observed: &Observed, outcome: &Outcome) -> Option<Old> {
    if let Some((reason, message)) = &observed.failure {
        return Some(Old::no("Error", reason, message.as_str()));
    }
    (!observed.replicas.is_empty() || matches!(outcome, Ok(Step::Create(..)))).then_some(Old::True)
}

/// Returns the aggregate over the Machines; `None` while no Machine has reported anything.
fn machines_ready(observed: &Observed) -> Option<Old> {
    let machines: Vec<Machine> = observed.replicas.iter().map(|it| it.machine.clone()).collect();
    let is_reported = machines.iter().any(|machine| deprecated_conditions::ready(machine).is_some());
    is_reported.then(|| deprecated_conditions::machines_ready(&machines))
}

/// Returns the condition on outdated Machines; `None` until the first rollout.
fn spec_up_to_date(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<Old> {
    let outdated = observed.replicas.iter().filter(|it| it.is_outdated()).count();
    if outdated > 0 {
        let current = observed.replicas.len().saturating_sub(outdated);
        let message =
            format!("Rolling {outdated} replicas with outdated spec ({current} replicas up to date)");
        return Some(Old::no("Warning", "RollingUpdateInProgress", message));
    }
    let known = control_plane.status.as_ref().and_then(|it| it.deprecated.as_ref()?.v1beta1.as_ref());
    let mut known = known.and_then(|it| it.conditions.as_ref()).into_iter().flatten();
    known.any(|it| it.kind == "MachinesSpecUpToDate").then_some(Old::True)
}

/// Returns the condition on the number of Machines; `None` while their number is right and not all are ready.
fn resized(control_plane: &KubeadmControlPlane, observed: &Observed, ready: usize) -> Option<Old> {
    let (current, desired) = (observed.replicas.len(), desired_replicas(control_plane));
    if control_plane.metadata.deletion_timestamp.is_some() {
        return Some(Old::no("Info", "Deleting", ""));
    }
    let numbers = format!("control plane to {desired} replicas (actual {current})");
    match current.cmp(&desired) {
        std::cmp::Ordering::Less => Some(Old::no("Warning", "ScalingUp", format!("Scaling up {numbers}"))),
        std::cmp::Ordering::Greater => {
            Some(Old::no("Warning", "ScalingDown", format!("Scaling down {numbers}")))
        }
        std::cmp::Ordering::Equal => (ready == current).then_some(Old::True),
    }
}

/// Returns a condition of health in the words of v1beta1.
fn health(control_plane: &KubeadmControlPlane, kind: &'static str) -> Option<Draft> {
    let found: &Condition = control_plane.condition(kind)?;
    let message = found.message.clone();
    let is_etcd = kind == ETCD_CLUSTER;
    let state = match (found.status, found.reason.as_str()) {
        (ConditionStatus::True, _) => Old::True,
        // Before the first API server responds, v1beta1 had no such condition.
        (ConditionStatus::Unknown, "InspectionFailed") => return None,
        (ConditionStatus::Unknown, _) if is_etcd => Old::Unknown("EtcdClusterUnknown", message),
        (ConditionStatus::Unknown, _) => Old::Unknown("ControlPlaneComponentsUnknown", message),
        (ConditionStatus::False, _) if is_etcd => Old::no("Error", "EtcdClusterUnhealthy", message),
        (ConditionStatus::False, _) => Old::no("Error", "ControlPlaneComponentsUnhealthy", message),
    };
    Some((kind, state))
}

#[cfg(test)]
mod tests {
    use controllers_runtime::ReconcileError;

    use super::super::replica::Replica;
    use super::super::replica::examples::healthy;
    use super::*;

    fn reported(observed: &Observed, outcome: &Outcome) -> Vec<(String, String)> {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.replicas = Some(1);
        report(&mut control_plane, observed, outcome, true, &Time::default());
        let old = control_plane.status.unwrap().deprecated.unwrap().v1beta1.unwrap();
        let text = |it: apiserver_types::DeprecatedCondition| (it.kind, it.reason.unwrap_or(it.status));
        old.conditions.unwrap().into_iter().map(text).collect()
    }

    fn found(all: &[(String, String)], kind: &str) -> Option<String> {
        all.iter().find(|(known, _)| known == kind).map(|(_, reason)| reason.clone())
    }

    fn with_old_ready(mut replica: Replica, state: Old) -> Replica {
        let status = replica.machine.status.get_or_insert_default();
        let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
        set(old.conditions.get_or_insert_default(), "Ready", state, &Time::default());
        replica
    }

    #[test]
    fn a_machine_that_cannot_be_made_is_reported_by_its_stage() {
        let failure = Some(("InfrastructureTemplateCloningFailed", "no template".to_owned()));
        let observed = Observed { failure, ..Observed::default() };
        let outcome = Err(ReconcileError::waiting("Any", "no template"));
        let all = reported(&observed, &outcome);
        let expected = Some("InfrastructureTemplateCloningFailed".to_owned());
        assert_eq!(found(&all, "MachinesCreated"), expected);
        assert_eq!(
            found(&all, "Ready"),
            expected,
            "an error is worse than the warning that a Machine is missing"
        );
    }

    #[test]
    fn a_machine_that_is_not_ready_any_more_is_named() {
        let of = |replica| Observed { replicas: vec![replica], ..Observed::default() };
        let ready = |state| reported(&of(with_old_ready(healthy("a", 1), state)), &Ok(Step::Nothing));
        assert_eq!(found(&ready(Old::True), "MachinesReady").as_deref(), Some("True"));
        let broken = ready(Old::no("Error", "NodeNotFound", ""));
        assert_eq!(found(&broken, "MachinesReady").as_deref(), Some("NodeNotFound @ Machine/a"));
        assert_eq!(found(&broken, "Ready").as_deref(), Some("NodeNotFound @ Machine/a"));
        let silent = reported(&of(healthy("a", 1)), &Ok(Step::Nothing));
        assert_eq!(found(&silent, "MachinesReady"), None);
    }
}
