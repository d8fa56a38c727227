//! Reasons of the Events about a resource of the cloud that was deleted, or could not be.

use controllers_infrastructure::{FailedStep, OPENSTACK_ERROR};
use controllers_runtime::ReconcileError;

use crate::names;

/// Returns the reasons of the Events about a deletion that succeeded and one that failed, by the kind in the journal.
fn reasons(kind: &str) -> (&'static str, &'static str) {
    match kind {
        names::NETWORK => ("DeletedNetwork", "FailedDeleteNetwork"),
        names::SUBNET => ("DeletedSubnet", "FailedDeleteSubnet"),
        names::ROUTER => ("DeletedRouter", "FailedDeleteRouter"),
        names::ROUTER_INTERFACE => ("DeletedRouterInterface", "FailedDeleteRouterInterface"),
        names::SECURITY_GROUP => ("DeletedSecurityGroup", "FailedDeleteSecurityGroup"),
        names::FLOATING_IP => ("DeletedFloatingIP", "FailedDeleteFloatingIP"),
        names::PORT | names::VIP_PORT | names::SUBPORT => ("DeletedPort", "FailedDeletePort"),
        names::TRUNK => ("DeletedTrunk", "FailedDeleteTrunk"),
        names::SERVER => ("DeletedServer", "FailedDeleteServer"),
        names::SERVER_GROUP => ("DeletedServerGroup", "FailedDeleteServerGroup"),
        names::VOLUME => ("DeletedVolume", "FailedDeleteVolume"),
        names::LOAD_BALANCER => ("DeletedLoadBalancer", "FailedDeleteLoadBalancer"),
        _ => ("Deleted", "FailedDelete"),
    }
}

/// Returns the reason of the Event about a resource that was deleted.
pub(crate) fn deleted(kind: &str) -> &'static str {
    reasons(kind).0
}

/// Returns the reasons of a deletion that failed.
pub(crate) fn failed_deletion(kind: &str) -> FailedStep {
    let condition = if kind == names::SERVER { "InstanceDeleteFailed" } else { OPENSTACK_ERROR };
    FailedStep::new(condition, reasons(kind).1)
}

/// Returns the error of a deletion, with the resource named.
pub(crate) fn deletion_error(kind: &str, name: &str, error: ReconcileError) -> ReconcileError {
    let attempt = || format!("delete {} {name:?}", kind.replace('-', " "));
    error.during(attempt).of_step(Some(failed_deletion(kind)))
}
