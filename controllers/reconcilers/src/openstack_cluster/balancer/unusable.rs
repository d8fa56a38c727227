//! States of a load balancer in which clients do not reach the API through it.

use controllers_runtime::OwnershipTag;

use super::super::observe::Observed;
use super::{
    ACTIVE, BROKEN, BalancerView, BalancerWish, DEGRADED, DISABLED, ERROR, LOST, NAME_TAKEN, PENDING,
    RECREATE, Step, decide, foreign_parts, health,
};

/// Returns why the API cannot be reached through a load balancer that exists: reason and message. The reason `DEGRADED` is
/// that of one that still forwards. Pure.
pub(in super::super) fn unusable(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    observed: &Observed,
) -> Option<(&'static str, String)> {
    let view = &observed.balancing;
    let balancer = view.balancer.as_ref()?;
    let title = format!("load balancer {} ({})", balancer.name, balancer.id);
    match balancer.provisioning_status.as_str() {
        ACTIVE => {}
        ERROR => {
            let reason = if view.answers { DEGRADED } else { BROKEN };
            return Some((reason, in_error(view, &balancer.id, &title)));
        }
        status => {
            let (reason, message) = health::changing(view, balancer);
            // An ordinary change interrupts nothing, and ends no interruption.
            if reason != PENDING || status != "PENDING_UPDATE" || view.was_unusable {
                return Some((reason, message));
            }
        }
    }
    if let Some(message) = lost_port(view) {
        return Some((LOST, message));
    }
    if !balancer.admin_state_up {
        let message = format!(
            "another client has switched {title} off: its admin_state_up is false. Capstan switches it on once per \
             hour. Stop that client"
        );
        return Some((DISABLED, message));
    }
    let stopped = decide::floating_ip(wish, tag, observed).filter(|_| wish.floating);
    if let Some(Step::Wait { reason, message }) = stopped {
        return Some((reason, message));
    }
    if let Some(message) = foreign_parts::taken(wish, tag, view) {
        return Some((NAME_TAKEN, message));
    }
    let port = missing_listener(wish, view)?;
    Some((PENDING, format!("{title} has no listener for port {port} of the API yet. Capstan creates it")))
}

/// Returns the port of the API if it has no listener yet.
pub(in super::super) fn missing_listener(wish: &BalancerWish, view: &BalancerView) -> Option<i32> {
    wish.ports.first().copied().filter(|port| view.listener(*port).is_none())
}

/// Describes a load balancer in ERROR, with what Capstan does next.
fn in_error(view: &BalancerView, id: &str, title: &str) -> String {
    match health::heal(view, id, true) {
        Step::Wait { message, .. } => message,
        step => {
            let next = match step {
                Step::FailOver { .. } => "requests a failover",
                _ => "creates another one behind the same address",
            };
            format!("{title} is in ERROR. Octavia gives no reason; its operator sees one. Capstan {next}")
        }
    }
}

/// Returns the message about a load balancer whose port does not exist any more.
pub(super) fn lost_port(view: &BalancerView) -> Option<String> {
    let balancer = view.balancer.as_ref().filter(|_| view.is_port_lost)?;
    Some(format!(
        "port {} with the address {} of load balancer {} ({}) does not exist any more, so no connection arrives. Annotate \
         the OpenStackCluster with {RECREATE} to create another one with the same address",
        balancer.vip_port_id, balancer.vip_address, balancer.name, balancer.id
    ))
}
