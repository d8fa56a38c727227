//! Node of a Machine: found by its provider ID, and by nothing else.

use apiserver_types::{Machine, NodeSystemInfo};
use controllers_runtime::ControllerContext;
use controllers_workload::ClusterKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::observe::Observed;

/// Observed state of the Node of a Machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum NodeObservation {
    /// The infrastructure of the Cluster is not provisioned, so there is no workload API.
    #[default]
    NoClusterInfrastructure,
    /// The server has no provider ID yet.
    NoProviderId,
    /// The workload API cannot be read.
    NotConnected {
        /// The error. For people.
        message: String,
        /// Time of the last successful probe.
        last_success: Option<Timestamp>,
    },
    /// No Node has the provider ID.
    NotFound,
    /// Several Nodes have the provider ID: their names.
    Several(Vec<String>),
    /// The Node belongs to this Machine, which has the same provider ID.
    OfAnother(String),
    /// The Node.
    Found(Box<Node>),
}

impl NodeObservation {
    /// Returns the Node, if it was found.
    pub(super) fn found(&self) -> Option<&Node> {
        match self {
            Self::Found(node) => Some(node),
            _ => None,
        }
    }
}

/// Returns the key of a Machine's Cluster.
pub(super) fn cluster_key(machine: &Machine) -> ClusterKey {
    ClusterKey { namespace: machine.namespace().unwrap_or_default(), name: machine.spec.cluster_name.clone() }
}

/// Looks for the Node of a Machine.
pub(super) fn observe(
    context: &ControllerContext,
    machine: &Machine,
    observed: &Observed,
) -> NodeObservation {
    if !cluster_provisioned(observed) {
        return NodeObservation::NoClusterInfrastructure;
    }
    let Some(provider_id) = provider_id(machine, observed) else { return NodeObservation::NoProviderId };
    let key = cluster_key(machine);
    match context.workloads.nodes_by_provider_id(&key, provider_id) {
        Err(error) => NodeObservation::NotConnected {
            message: error.to_string(),
            last_success: context.workloads.probe(&key).last_success,
        },
        Ok(nodes) => match nodes.as_slice() {
            [] => NodeObservation::NotFound,
            [node] => NodeObservation::Found(Box::new(node.as_ref().clone())),
            several => NodeObservation::Several(several.iter().map(|node| node.name_any()).collect()),
        },
    }
}

/// Describes the Node of a name that has another provider ID than its Machine.
pub(super) fn namesake<'a>(mut nodes: impl Iterator<Item = &'a Node>, name: &str) -> Option<String> {
    let node = nodes.find(|node| node.metadata.name.as_deref() == Some(name))?;
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty());
    Some(match id {
        Some(id) => format!("Node {name} has spec.providerID {id}"),
        None => format!(
            "Node {name} has no spec.providerID, which the cloud controller of the workload cluster or the kubelet sets"
        ),
    })
}

/// Returns the provider ID of a Machine's server.
pub(super) fn provider_id<'a>(machine: &'a Machine, observed: &'a Observed) -> Option<&'a str> {
    let of_server = || observed.infrastructure.as_ref()?.spec.provider_id.as_deref();
    machine.spec.provider_id.as_deref().or_else(of_server).filter(|id| !id.is_empty())
}

/// Reports whether the infrastructure of the Cluster was provisioned once.
pub(super) fn cluster_provisioned(observed: &Observed) -> bool {
    let initialization =
        observed.cluster.as_ref().and_then(|it| it.status.as_ref()).and_then(|it| it.initialization.as_ref());
    initialization.and_then(|it| it.infrastructure_provisioned) == Some(true)
}

/// Returns the info of a Node in the form of `Machine.status.nodeInfo`; `None` if the Node reports none.
pub(super) fn info(node: &Node) -> Option<NodeSystemInfo> {
    let from = node.status.as_ref()?.node_info.as_ref()?;
    serde_json::from_value(serde_json::to_value(from).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_another_provider_id_is_named_with_it() {
        let node = |name: &str, id: Option<&str>| {
            let mut node = Node::default();
            node.metadata.name = Some(name.to_owned());
            node.spec.get_or_insert_default().provider_id = id.map(str::to_owned);
            node
        };
        let of = |id| namesake([node("other", Some("x")), node("m", id)].iter(), "m");
        assert_eq!(
            of(Some("openstack://r/1")).as_deref(),
            Some("Node m has spec.providerID openstack://r/1")
        );
        assert!(of(None).unwrap().starts_with("Node m has no spec.providerID"));
        assert_eq!(namesake([node("other", None)].iter(), "m"), None);
    }
}
