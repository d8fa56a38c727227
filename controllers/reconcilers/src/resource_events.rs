//! Reasons of the Events about a resource of the cloud that was deleted, or could not be.

use controllers_infrastructure::{FailedStep, OPENSTACK_ERROR};
use controllers_runtime::ReconcileError;

use crate::names;

/// Returns the reason of the Event about a resource that was deleted, by its kind in the journal.
pub(crate) fn deleted(kind: &str) -> &'static str {
    match kind {
        names::NETWORK => "DeletedNetwork",
        names::SUBNET => "DeletedSubnet",
        names::ROUTER => "DeletedRouter",
        names::ROUTER_INTERFACE => "DeletedRouterInterface",
        names::SECURITY_GROUP => "DeletedSecurityGroup",
        names::FLOATING_IP => "DeletedFloatingIP",
        names::PORT | names::VIP_PORT | names::SUBPORT => "DeletedPort",
        names::TRUNK => "DeletedTrunk",
        names::SERVER => "DeletedServer",
        names::SERVER_GROUP => "DeletedServerGroup",
        names::VOLUME => "DeletedVolume",
        names::LOAD_BALANCER => "DeletedLoadBalancer",
        _ => "Deleted",
    }
}

/// Returns the reasons of a deletion that failed, by the kind in the journal.
pub(crate) fn failed_deletion(kind: &str) -> FailedStep {
    let (condition, event) = match kind {
        names::NETWORK => (OPENSTACK_ERROR, "FailedDeleteNetwork"),
        names::SUBNET => (OPENSTACK_ERROR, "FailedDeleteSubnet"),
        names::ROUTER => (OPENSTACK_ERROR, "FailedDeleteRouter"),
        names::ROUTER_INTERFACE => (OPENSTACK_ERROR, "FailedDeleteRouterInterface"),
        names::SECURITY_GROUP => (OPENSTACK_ERROR, "FailedDeleteSecurityGroup"),
        names::FLOATING_IP => (OPENSTACK_ERROR, "FailedDeleteFloatingIP"),
        names::PORT | names::VIP_PORT | names::SUBPORT => (OPENSTACK_ERROR, "FailedDeletePort"),
        names::TRUNK => (OPENSTACK_ERROR, "FailedDeleteTrunk"),
        names::SERVER => ("InstanceDeleteFailed", "FailedDeleteServer"),
        names::SERVER_GROUP => (OPENSTACK_ERROR, "FailedDeleteServerGroup"),
        names::VOLUME => (OPENSTACK_ERROR, "FailedDeleteVolume"),
        names::LOAD_BALANCER => (OPENSTACK_ERROR, "FailedDeleteLoadBalancer"),
        _ => (OPENSTACK_ERROR, "FailedDelete"),
    };
    FailedStep::new(condition, event)
}

/// Returns the error of a deletion, with the resource named.
pub(crate) fn deletion_error(kind: &str, name: &str, error: ReconcileError) -> ReconcileError {
    let attempt = || format!("delete {} {name:?}", kind.replace('-', " "));
    error.during(attempt).of_step(Some(failed_deletion(kind)))
}
