//! Conditions `NodeReady` and `NodeHealthy` of a Machine.

use apiserver_types::{Condition, ConditionStatus, Machine, Time};
use controllers_workload::health::{self, NodeCondition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::node::{self, NodeObservation};
use super::node_metadata;
use super::observe::Observed;

const READY: &str = "NodeReady";
const HEALTHY: &str = "NodeHealthy";

/// Returns both conditions; one that is absent keeps its value.
pub(super) fn conditions(machine: &Machine, observed: &Observed, now: &Time) -> Vec<Condition> {
    if let NodeObservation::Found(node) = &observed.node {
        let failure = observed.node_failure.as_deref();
        let healthy = with_failure(health::node_healthy(node), node, failure);
        return vec![of_node(READY, &health::node_ready(node), now), of_node(HEALTHY, &healthy, now)];
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
            let namesake = observed.namesake.as_ref().map(|text| format!(". {text}")).unwrap_or_default();
            uninspected(&format!("Waiting for a Node with spec.providerID {id} to exist{namesake}"))
        }
        (NodeObservation::OfAnother(other), _) => {
            let id = node::provider_id(machine, observed).unwrap_or_default();
            let message = format!(
                "The Node with spec.providerID {id} belongs to Machine {other}, which has the same spec.providerID. \
                 Delete this Machine, or correct its spec.providerID"
            );
            unknown("InternalError", message)
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
    if !observed.settings.is_unknown(observed.now.duration_since(last)) {
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

/// Adds the failure of the write to the Node. A Node to which nothing was ever written keeps pods away, so it does not
/// count as healthy. Any other one is as healthy as it says.
fn with_failure(of_node: NodeCondition, node: &Node, failure: Option<&str>) -> NodeCondition {
    let Some(failure) = failure else { return of_node };
    if of_node.status == ConditionStatus::True && !node_metadata::is_written(node) {
        let (status, reason) = (ConditionStatus::Unknown, "InternalError");
        return NodeCondition { status, reason, message: failure.to_owned(), transition: None };
    }
    let message = match of_node.message.as_str() {
        "" => failure.to_owned(),
        other => format!("{other}\n* {failure}"),
    };
    NodeCondition { message, ..of_node }
}

/// Returns a condition with the Node's own time of transition, where it has one.
fn of_node(kind: &str, found: &NodeCondition, now: &Time) -> Condition {
    let at = found.transition.map(|at| Time(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    Condition::new(kind, found.status, found.reason, &found.message, at.unwrap_or_else(|| now.clone()))
}

#[cfg(test)]
mod tests {
    use apiserver_types::Cluster;
    use jiff::SignedDuration;
    use k8s_openapi::api::core::v1::{NodeCondition as NodesOwn, NodeStatus};
    use serde_json::json;

    use super::*;

    /// Returns a Node that reports these values for the conditions that make it healthy.
    fn node(ready: &str) -> Node {
        let own = |kind: &str, status: &str| NodesOwn {
            type_: kind.to_owned(),
            status: status.to_owned(),
            message: Some("of the kubelet".to_owned()),
            ..NodesOwn::default()
        };
        let pressures = ["MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| own(kind, "False"));
        let conditions = [own("Ready", ready)].into_iter().chain(pressures).collect();
        let status = Some(NodeStatus { conditions: Some(conditions), ..NodeStatus::default() });
        Node { status, ..Node::default() }
    }

    #[test]
    fn the_operator_decides_how_long_the_conditions_of_a_silent_cluster_stay() {
        use std::sync::Arc;
        use std::time::Duration;

        use controllers_runtime::ControllerSettings;

        let last = Timestamp::UNIX_EPOCH;
        let milestones = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
        let status = serde_json::from_value(json!({"initialization": milestones})).unwrap();
        let node = NodeObservation::NotConnected { message: "down".to_owned(), last_success: Some(last) };
        let observed = Observed {
            cluster: Some(Cluster { status, ..Cluster::default() }),
            node,
            now: last + SignedDuration::from_mins(4),
            ..Observed::default()
        };
        let mut machine = Machine::default();
        let healthy = Condition::new(HEALTHY, ConditionStatus::True, "NodeHealthy", "", Time::default());
        machine.status.get_or_insert_default().conditions = Some(vec![healthy]);
        let of = |observed: &Observed| {
            let found = conditions(&machine, observed, &Time::default());
            found.iter().find(|it| it.kind == HEALTHY).map(|it| it.reason.clone())
        };
        assert_eq!(of(&observed), None, "it keeps its value for five minutes");
        let conditions_grace = Duration::from_mins(3);
        let settings = ControllerSettings { conditions_grace, ..ControllerSettings::default() };
        let impatient = Observed { settings: Arc::new(settings), ..observed };
        assert_eq!(of(&impatient).as_deref(), Some("ConnectionDown"));
    }

    #[test]
    fn the_second_of_two_machines_with_one_provider_id_names_the_first() {
        let mut machine = Machine::default();
        machine.spec.provider_id = Some("openstack:///1".to_owned());
        let milestones = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
        let status = json!({"initialization": milestones});
        let status = serde_json::from_value(status).unwrap();
        let cluster = Cluster { status, ..Cluster::default() };
        let node = NodeObservation::OfAnother("first".to_owned());
        let observed = Observed { cluster: Some(cluster), node, ..Observed::default() };
        let found = conditions(&machine, &observed, &Time::default());
        for condition in found {
            assert_eq!(
                (condition.status, condition.reason.as_str()),
                (ConditionStatus::Unknown, "InternalError")
            );
            for part in ["openstack:///1", "Machine first", "spec.providerID", "Delete this Machine"] {
                assert!(condition.message.contains(part), "{condition:?}");
            }
        }
    }

    #[test]
    fn a_failed_write_to_a_node_is_told_and_only_the_first_one_makes_its_health_unknown() {
        use ConditionStatus::{False, True, Unknown};
        let mut written = node("True");
        let annotation = ("cluster.x-k8s.io/taints-from-machine".to_owned(), String::new());
        written.metadata.annotations = Some([annotation].into());
        let table = [
            ("healthy and new", node("True"), Unknown, "InternalError", "PATCH failed"),
            ("healthy", written, True, "NodeHealthy", "PATCH failed"),
            (
                "not ready",
                node("False"),
                False,
                "NodeNotHealthy",
                "* Node.Ready: of the kubelet\n* PATCH failed",
            ),
        ];
        for (case, node, status, reason, message) in table {
            let machine = Machine::default();
            let observed = Observed {
                node: NodeObservation::Found(Box::new(node)),
                node_failure: Some("PATCH failed".to_owned()),
                ..Observed::default()
            };
            let conditions = conditions(&machine, &observed, &Time::default());
            let healthy = conditions.iter().find(|it| it.kind == HEALTHY).unwrap();
            let found = (healthy.status, healthy.reason.as_str(), healthy.message.as_str());
            assert_eq!(found, (status, reason, message), "{case}");
        }
    }
}
