//! Errors of writes into a namespace that the host does not have, or deletes.

use kube::core::Status;

/// Returns true if the host refuses an object because it deletes the namespace.
pub(crate) fn is_terminating(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Returns true if the host refuses an object of this resource because it has no such namespace. It may exist in Capstan
/// alone.
pub(crate) fn is_missing(status: &Status, resource: &str) -> bool {
    let kind = status.details.as_ref().map(|details| details.kind.as_str()).unwrap_or_default();
    status.code == 404 && kind != resource
}
