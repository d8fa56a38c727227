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
