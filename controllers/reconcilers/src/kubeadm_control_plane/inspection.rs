//! Inspection of the workload cluster: Nodes, static pods, and members of etcd.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::etcd_projection::Member;

/// Observed state of the workload cluster.
#[derive(Debug, Clone, Default)]
pub(super) enum Workload {
    /// It was not looked at in this pass.
    #[default]
    NotInspected,
    /// The control plane is not initialized. For people.
    NotInitialized(String),
    /// There is no connection.
    Unreachable {
        /// For people.
        message: String,
        /// The connection is lost for so long that known conditions no longer count.
        is_over: bool,
        /// Reason of the conditions.
        reason: &'static str,
    },
    /// The workload cluster responds.
    Reached(Inspection),
}

/// State of the workload cluster. An error is text, because it goes into conditions.
#[derive(Debug, Clone)]
pub(super) struct Inspection {
    pub nodes: Result<Vec<Node>, String>,
    /// Static pods by name. A pod that does not exist is `None`.
    pub pods: BTreeMap<String, Result<Option<Pod>, String>>,
    /// Members of etcd. An error, too, where kubeadm does not run etcd.
    pub members: Result<Vec<Member>, String>,
}

impl Workload {
    /// Returns the members of etcd, if they are known.
    pub(super) fn members(&self) -> Option<&[Member]> {
        match self {
            Self::Reached(inspection) => inspection.members.as_deref().ok(),
            _ => None,
        }
    }

    /// Returns the Nodes, if they are known.
    pub(super) fn nodes(&self) -> Option<&[Node]> {
        match self {
            Self::Reached(inspection) => inspection.nodes.as_deref().ok(),
            _ => None,
        }
    }
}
