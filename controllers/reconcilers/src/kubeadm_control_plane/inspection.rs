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
    /// The control plane is not initialized.
    NotInitialized {
        /// For people.
        message: String,
        /// The call that would tell it failed.
        failed: bool,
    },
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
    /// Reports whether a call failed although there is a connection. No change tells when it would succeed.
    pub(super) fn has_failed(&self, managed_etcd: bool) -> bool {
        match self {
            Self::NotInspected | Self::Unreachable { .. } => false,
            Self::NotInitialized { failed, .. } => *failed,
            Self::Reached(it) => {
                let etcd_failed = managed_etcd && it.members.is_err();
                etcd_failed || it.nodes.is_err() || it.pods.values().any(Result::is_err)
            }
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inspection_has_failed_if_a_call_failed_and_not_if_something_is_absent() {
        let error = || "connection reset".to_owned();
        let whole = || Inspection { nodes: Ok(Vec::new()), pods: BTreeMap::new(), members: Ok(Vec::new()) };
        let pod = |found| [("etcd-a".to_owned(), found)].into();
        let reached = Workload::Reached;
        let not_initialized = |failed| Workload::NotInitialized { message: String::new(), failed };
        let table = [
            ("whole", reached(whole()), true, false),
            ("no Nodes", reached(Inspection { nodes: Err(error()), ..whole() }), true, true),
            ("a pod is absent", reached(Inspection { pods: pod(Ok(None)), ..whole() }), true, false),
            ("a pod is unknown", reached(Inspection { pods: pod(Err(error())), ..whole() }), true, true),
            ("no members", reached(Inspection { members: Err(error()), ..whole() }), true, true),
            ("external etcd", reached(Inspection { members: Err(error()), ..whole() }), false, false),
            ("not asked", Workload::NotInspected, true, false),
            ("boots", not_initialized(false), true, false),
            ("not told", not_initialized(true), true, true),
        ];
        for (case, workload, managed_etcd, expected) in table {
            assert_eq!(workload.has_failed(managed_etcd), expected, "{case}");
        }
    }
}
