//! Calls to etcd of the workload cluster.

use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::ClusterKey;

use super::etcd_projection::Member;
use super::observe::Observed;

/// Message until the connections to workload clusters reach etcd.
const NOT_SERVED: &str = "this version does not connect to etcd";

/// Returns the members of etcd, with their alarms.
///
/// # Errors
/// The reason, for people.
pub(super) async fn members(
    _context: &ControllerContext,
    _key: &ClusterKey,
    _observed: &Observed,
) -> Result<Vec<Member>, String> {
    Err(NOT_SERVED.to_owned())
}

/// Hands over the leadership, if the member on this Node has it.
///
/// # Errors
/// The leader is not known, or no other member takes over.
pub(super) async fn forward_leadership(
    _context: &ControllerContext,
    _observed: &Observed,
    _leaving: &str,
) -> Result<Option<String>, ReconcileError> {
    Err(ReconcileError::waiting("EtcdUnreachable", NOT_SERVED))
}

/// Removes a member. One that is gone already is no error.
///
/// # Errors
/// The call failed.
pub(super) async fn remove_member(
    _context: &ControllerContext,
    _observed: &Observed,
    _id: u64,
) -> Result<(), ReconcileError> {
    Err(ReconcileError::waiting("EtcdUnreachable", NOT_SERVED))
}
