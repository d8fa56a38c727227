//! Nodes of the Cluster and of its infrastructure.

use apiserver_types::{Cluster, ClusterPhase, ContractVersionedObjectReference, OpenStackCluster};
use kube::ResourceExt;

use super::node::{Counts, Node};
use super::severity::{Severity, state_word};

/// Condition of the bastion of an OpenStackCluster.
const BASTION: &str = "BastionReady";

/// Conditions that explain the state of an OpenStackCluster, from the cause to its effects.
const NETWORK_CAUSES: [&str; 7] = [
    "OpenStackAuthenticationSucceeded",
    "NetworkReady",
    "RouterReady",
    "SecurityGroupsReady",
    BASTION,
    "APIEndpointReady",
    "Ready",
];

/// Changes that a Cluster or a set of Machines reports as its state, with the most disruptive first.
const CHANGES: [&str; 6] = ["Remediating", "RollingOut", "ScalingDown", "ScalingUp", "Updating", "Upgrading"];

/// Returns the node of the Cluster, without children.
pub(super) fn cluster(cluster: &Cluster) -> Node {
    let status = cluster.status.clone().unwrap_or_default();
    let mut node = Node::new(cluster, &status.conditions.unwrap_or_default());
    node.title = format!("Cluster {}/{}", node.namespace, node.name);
    let (control_plane, workers) =
        (status.control_plane.unwrap_or_default(), status.workers.unwrap_or_default());
    let sum = |first: Option<i32>, second: Option<i32>| {
        first.unwrap_or_default().saturating_add(second.unwrap_or_default())
    };
    node.counts = Some(Counts {
        ready: sum(control_plane.ready_replicas, workers.ready_replicas),
        desired: sum(control_plane.desired_replicas, workers.desired_replicas),
    });
    let topology = cluster.spec.topology.as_ref();
    node.version = topology.map(|it| it.version.clone()).unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    settle(&mut node, &["TopologyReconciled", "Available"]);
    if phase != ClusterPhase::Provisioned {
        node.state = format!("{phase:?}");
    }
    if phase == ClusterPhase::Failed {
        node.severity = Severity::Failed;
    }
    let endpoint = cluster.spec.control_plane_endpoint.clone().unwrap_or_default();
    if let (Some(host), Some(port)) = (endpoint.host, endpoint.port) {
        node.note = format!("https://{host}:{port}");
    }
    if cluster.spec.paused == Some(true) {
        node.state = "Paused".to_owned();
        node.severity = node.severity.max(Severity::Warning);
    }
    node.override_state(cluster);
    node
}

/// Returns the node of an object that the Cluster refers to and that is not shown, if the condition about it is open: the
/// object does not exist, or it is of another kind.
pub(super) fn referenced(
    cluster: &Cluster,
    reference: Option<&ContractVersionedObjectReference>,
    kind: &str,
) -> Option<Node> {
    let conditions = cluster.status.as_ref().and_then(|status| status.conditions.as_deref());
    let condition = apiserver_types::condition(conditions.unwrap_or_default(), kind)?;
    let reference = reference.filter(|_| !condition.holds())?;
    let namespace = cluster.namespace().unwrap_or_default();
    Some(Node::absent(&reference.kind, &namespace, &reference.name, condition))
}

/// Takes the state of a Cluster or of a set of Machines from its changes in flight, else from these conditions.
pub(super) fn settle(node: &mut Node, causes: &[&str]) {
    let available = node.condition("Available").cloned();
    let change = CHANGES.iter().filter_map(|kind| node.condition(kind)).find(|it| it.holds()).cloned();
    let open = node.first_open(causes).cloned();
    match (&change, &open, &available) {
        (Some(change), ..) => {
            node.explain(change);
            node.state.clone_from(&change.kind);
        }
        (None, Some(open), _) => {
            node.explain(open);
            node.state.clone_from(&open.reason);
        }
        (None, None, Some(available)) => {
            node.explain(available);
            node.state.clone_from(&available.kind);
        }
        (None, None, None) => {}
    }
    if let (Some(cause), Some(available)) = (&mut node.cause, &available)
        && cause.message.is_empty()
    {
        cause.message.clone_from(&available.message);
    }
    // Such a list repeats what the Machines below say.
    if node.cause.as_ref().is_some_and(|it| it.message.starts_with("* Machine") && it.message.contains('\n'))
    {
        node.cause = None;
    }
}

/// Returns the node of an OpenStackCluster.
pub(super) fn openstack_cluster(network: &OpenStackCluster) -> Node {
    let status = network.status.clone().unwrap_or_default();
    let mut node = Node::new(network, &status.conditions.clone().unwrap_or_default());
    let is_ready = node.holds("Ready");
    let condition = if is_ready {
        // A bastion holds up nothing, so `Ready` says nothing about it.
        let bastion = node.condition(BASTION).filter(|it| !it.holds());
        bastion.or_else(|| node.condition("Ready"))
    } else {
        node.first_open(&NETWORK_CAUSES)
    };
    if let Some(condition) = condition.cloned() {
        node.explain(&condition);
        node.state = if is_ready { "Ready".to_owned() } else { condition.reason };
    } else {
        node.state = state_word(node.severity).to_owned();
    }
    let subnets = status.network.and_then(|it| it.subnets).unwrap_or_default();
    let subnets = subnets.into_iter().map(|subnet| subnet.cidr);
    let balancer = status.api_server_managed_load_balancer;
    let balancer = balancer.map(|it| format!("load balancer {} {}", it.name, it.ip));
    node.note = subnets.chain(balancer).collect::<Vec<_>>().join(", ");
    node.override_state(network);
    node
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackClusterSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_failure_of_a_bastion_is_shown_although_the_cluster_is_ready() {
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-12-01T00:00:00Z"})
        };
        let table = [
            ("True", "Ready", Severity::Done, None),
            ("False", "InstanceNotReady", Severity::Waiting, Some("InstanceNotReady")),
            ("False", "InstanceStateError", Severity::Failed, Some("InstanceStateError")),
        ];
        for (status, reason, severity, cause) in table {
            let conditions = [condition(BASTION, status, reason), condition("Ready", "True", "Ready")];
            let mut network = OpenStackCluster::new("c", OpenStackClusterSpec::default());
            network.status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
            let node = openstack_cluster(&network);
            assert_eq!((node.severity, node.state.as_str()), (severity, "Ready"), "{reason}");
            assert_eq!(node.cause.map(|it| it.reason).as_deref(), cause, "{reason}");
        }
    }
}
