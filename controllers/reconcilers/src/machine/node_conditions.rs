//! Conditions `NodeReady` and `NodeHealthy` of a Machine.

use apiserver_types::{Condition, ConditionStatus, Machine, Time};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt;

use super::node::{self, NodeObservation};
use super::observe::Observed;

/// Time after the last successful probe for which the conditions keep their last value. Upstream's default.
const GRACE: SignedDuration = SignedDuration::from_mins(5);

/// Conditions of a Node that must be False.
const PRESSURES: [&str; 3] = ["MemoryPressure", "DiskPressure", "PIDPressure"];

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";

/// Returns both conditions; one that is absent keeps its value.
pub(super) fn conditions(machine: &Machine, observed: &Observed, now: &Time) -> Vec<Condition> {
    if let NodeObservation::Found(node) = &observed.node {
        return vec![ready(node, now), healthy(node, now)];
    }
    let verdict = absent(machine, observed);
    let both = [READY, HEALTHY].into_iter();
    both.filter_map(|kind| {
        let (status, reason, message) = match &verdict {
            Verdict::Set(status, reason, message) => (*status, *reason, message.as_str()),
            Verdict::SetIfAbsent(reason, message) => {
                if machine.condition(kind).is_some() {
                    return None;
                }
                (ConditionStatus::Unknown, *reason, message.as_str())
            }
        };
        Some(Condition::new(kind, status, reason, message, now.clone()))
    })
    .collect()
}

/// Value of both conditions of a Machine without an observed Node.
enum Verdict {
    Set(ConditionStatus, &'static str, String),
    /// Unknown with this reason, unless a value is known.
    SetIfAbsent(&'static str, String),
}

fn absent(machine: &Machine, observed: &Observed) -> Verdict {
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let known = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()).map(|it| &it.name);
    let unknown =
        |reason: &'static str, message: String| Verdict::Set(ConditionStatus::Unknown, reason, message);
    let uninspected = |message: &str| unknown("InspectionFailed", message.to_owned());
    match (&observed.node, known) {
        (NodeObservation::NotFound, Some(name)) => {
            let end = if deleting { "" } else { " while the Machine still exists" };
            Verdict::Set(ConditionStatus::False, "NodeDeleted", format!("Node {name} has been deleted{end}"))
        }
        (NodeObservation::NotFound | NodeObservation::NoProviderId, None) if deleting => {
            unknown("NodeDoesNotExist", "Node does not exist".to_owned())
        }
        (NodeObservation::NoClusterInfrastructure, _) => {
            uninspected("Waiting for Cluster status.initialization.infrastructureProvisioned to be true")
        }
        _ if !control_plane_initialized(observed) => {
            uninspected("Waiting for Cluster control plane to be initialized")
        }
        (NodeObservation::NotConnected { last_success, message }, _) => {
            disconnected(observed, *last_success, message)
        }
        (NodeObservation::NotFound, None) => {
            let id = node::provider_id(machine, observed).unwrap_or_default();
            uninspected(&format!("Waiting for a Node with spec.providerID {id} to exist"))
        }
        (NodeObservation::Several(names), _) => {
            let names = names.join(", ");
            unknown(
                "InternalError",
                format!("Nodes {names} have the same spec.providerID; delete all but one"),
            )
        }
        _ => uninspected("Waiting for OpenStackMachine to report spec.providerID"),
    }
}

fn disconnected(observed: &Observed, last_success: Option<Timestamp>, error: &str) -> Verdict {
    let initialized = initialized_at(observed);
    let Some(last) = last_success.into_iter().chain(initialized).max() else {
        return Verdict::SetIfAbsent(
            "ConnectionDown",
            format!("Remote connection not established yet: {error}"),
        );
    };
    if observed.now.duration_since(last) <= GRACE {
        return Verdict::SetIfAbsent(
            "ConnectionDown",
            format!("Remote connection not established yet: {error}"),
        );
    }
    let message = match last_success {
        Some(at) => format!("Last successful probe at {}", at.strftime("%Y-%m-%dT%H:%M:%SZ")),
        None => format!("Remote connection not established yet: {error}"),
    };
    Verdict::Set(ConditionStatus::Unknown, "ConnectionDown", message)
}

fn control_plane_initialized(observed: &Observed) -> bool {
    let initialization =
        observed.cluster.as_ref().and_then(|it| it.status.as_ref()).and_then(|it| it.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

fn initialized_at(observed: &Observed) -> Option<Timestamp> {
    let condition = observed.cluster.as_ref()?.condition("ControlPlaneInitialized")?;
    condition.holds().then(|| condition.last_transition_time.0.parse().ok()).flatten()
}

fn of<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn ready(node: &Node, now: &Time) -> Condition {
    let Some(found) = of(node, "Ready") else {
        let message = format!("Node {} reports no condition Ready yet", node.name_any());
        return Condition::new(READY, ConditionStatus::Unknown, "NodeReadyUnknown", &message, now.clone());
    };
    let text = format!("* Node.Ready: {}", found.message.as_deref().unwrap_or_default());
    let (status, reason, message) = match found.status.as_str() {
        "True" => (ConditionStatus::True, "NodeReady", ""),
        "False" => (ConditionStatus::False, "NodeNotReady", text.as_str()),
        _ => (ConditionStatus::Unknown, "NodeReadyUnknown", text.as_str()),
    };
    let at = found.last_transition_time.as_ref();
    let at = at.map_or_else(|| now.clone(), |at| Time(at.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    Condition::new(READY, status, reason, message, at)
}

/// Healthy: Ready is True, and the pressures are False.
fn healthy(node: &Node, now: &Time) -> Condition {
    let expected = [("Ready", "True")].into_iter().chain(PRESSURES.map(|kind| (kind, "False")));
    let mut issues: Vec<(ConditionStatus, String, String)> = Vec::new();
    for (kind, wanted) in expected {
        let (status, message) = match of(node, kind) {
            Some(found) => (found.status.clone(), found.message.clone().unwrap_or_default()),
            None => ("Unknown".to_owned(), "Condition not yet reported".to_owned()),
        };
        if status != wanted {
            let unknown = status != "True" && status != "False";
            let verdict = if unknown { ConditionStatus::Unknown } else { ConditionStatus::False };
            issues.push((verdict, kind.to_owned(), message));
        }
    }
    let any = |status| issues.iter().any(|(verdict, ..)| *verdict == status);
    let (status, reason) = match (any(ConditionStatus::False), issues.is_empty()) {
        (true, _) => (ConditionStatus::False, "NodeNotHealthy"),
        (false, false) => (ConditionStatus::Unknown, "NodeHealthyUnknown"),
        (false, true) => (ConditionStatus::True, "NodeHealthy"),
    };
    Condition::new(HEALTHY, status, reason, &lines(&issues), now.clone())
}

/// Returns one line for each issue, or one for all four if they say the same.
fn lines(issues: &[(ConditionStatus, String, String)]) -> String {
    let all_equal = issues.len() == PRESSURES.len().saturating_add(1)
        && issues.iter().all(|issue| Some(&issue.2) == issues.first().map(|first| &first.2));
    if let (true, Some((_, _, message))) = (all_equal, issues.first()) {
        return format!("* Node.AllConditions: {message}");
    }
    issues.iter().map(|(_, kind, message)| format!("* Node.{kind}: {message}")).collect::<Vec<_>>().join("\n")
}
