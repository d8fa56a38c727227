//! Nodes of a workload cluster, as a health check sees them.

use std::sync::Arc;

use apiserver_types::Machine;
use controllers_runtime::ControllerContext;
use controllers_workload::{ClusterKey, describe};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::judge::NodeSeen;

/// Returns the Nodes as the watch has reported them.
///
/// # Errors
/// The reason why they cannot be used, for people.
pub(super) fn watched(context: &ControllerContext, key: &ClusterKey) -> Result<Vec<Arc<Node>>, String> {
    let nodes = context.workloads.nodes(key).map_err(|error| unreadable(key, &error.to_string()))?;
    // The Nodes may have changed since the watch failed.
    match context.workloads.probe(key).watch_error {
        Some(error) => Err(unreadable(key, &error)),
        None => Ok(nodes),
    }
}

/// Reads the Nodes from the workload cluster itself. A connection that was lost a moment ago is noticed that way.
///
/// # Errors
/// The reason why they cannot be read, for people.
pub(super) async fn live(context: &ControllerContext, key: &ClusterKey) -> Result<Vec<Arc<Node>>, String> {
    let client = context.workloads.client(key).map_err(|error| unreadable(key, &error.to_string()))?;
    let listed = Api::<Node>::all(client).list(&ListParams::default()).await;
    let listed = listed.map_err(|error| unreadable(key, &describe(&error)))?;
    Ok(listed.items.into_iter().map(Arc::new).collect())
}

fn unreadable(key: &ClusterKey, error: &str) -> String {
    format!("The Nodes of Cluster {} cannot be read, so that no Machine is judged: {error}", key.name)
}

/// Returns the Node of a Machine. One whose name the Machine does not report yet is found by the provider ID.
pub(super) fn of(machine: &Machine, nodes: &[Arc<Node>]) -> NodeSeen {
    let found = |node: &Arc<Node>| NodeSeen::Found { node: Arc::clone(node), sighted: Default::default() };
    if let Some(reference) = machine.status.as_ref().and_then(|status| status.node_ref.as_ref()) {
        let named = nodes.iter().find(|node| node.metadata.name.as_ref() == Some(&reference.name));
        return named.map_or_else(|| NodeSeen::Gone(reference.name.clone()), found);
    }
    let Some(id) = machine.spec.provider_id.as_deref().filter(|id| !id.is_empty()) else {
        return NodeSeen::Missing;
    };
    let has_id =
        |node: &&Arc<Node>| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
    nodes.iter().find(has_id).map_or(NodeSeen::Missing, found)
}

/// Returns the uid of a Node that was seen.
pub(super) fn uid(seen: &NodeSeen) -> Option<String> {
    match seen {
        NodeSeen::Found { node, .. } => node.uid(),
        _ => None,
    }
}
