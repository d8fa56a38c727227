//! Decision on the next step of a bastion.

use std::time::Duration;

use apiserver_types::{OpenStackServer, OpenStackServerSpec};
use controllers_runtime::OwnershipTag;
use kube::ResourceExt;

use super::super::desired::Desired;
use super::super::observe::Observed;
use super::super::rules::Role;
use super::{BastionView, BastionWish, DELETING, FLOATING_IP, HASH};
use crate::names;

/// Time in which the replacements of a bastion in ERROR are counted.
const WINDOW: Duration = Duration::from_hours(1);

/// Replacements of a bastion in ERROR within [`WINDOW`]: more would not help.
const REPLACEMENTS: usize = 3;

/// Nova's status of a server that failed.
const ERROR: &str = "ERROR";

/// Next step of a bastion.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Create the OpenStackServer.
    Create(Box<OpenStackServerSpec>),
    /// Give it the credentials of the spec.
    SetIdentity,
    /// Give it the tags of the spec.
    SetTags,
    /// Delete it. `failed` is true if its server is in ERROR.
    Delete { why: &'static str, failed: bool },
    /// Allocate a floating IP on this network.
    CreateFloatingIp { external: String, address: Option<String> },
    /// Associate the floating IP with the port.
    Associate { floating_ip: String, port: String },
    /// Release the floating IP that was allocated for it.
    Release { floating_ip: String },
    /// Delete its group.
    RemoveGroup { id: String, name: String },
    /// Remove an entry from the journal, whose resource is gone.
    Strike { kind: &'static str, name: String },
    /// Wait.
    Wait { reason: &'static str, message: String },
    /// Nothing is left to do.
    Nothing,
}

impl Step {
    /// Describes the attempt for errors, and the reason of the condition if it fails.
    pub(super) fn attempt(&self, name: &str) -> (&'static str, String) {
        match self {
            Self::CreateFloatingIp { .. } => {
                ("FloatingIPError", format!("allocate a floating IP for bastion {name:?}"))
            }
            Self::Associate { floating_ip, .. } => {
                ("FloatingIPError", format!("associate floating IP {floating_ip} with bastion {name:?}"))
            }
            Self::Release { floating_ip } => (DELETING, format!("release floating IP {floating_ip}")),
            Self::RemoveGroup { name, .. } => (DELETING, format!("delete security group {name:?}")),
            Self::Delete { .. } => (DELETING, format!("delete OpenStackServer {name:?}")),
            Self::SetIdentity => {
                ("BastionCreateFailed", format!("change spec.identityRef of OpenStackServer {name:?}"))
            }
            Self::SetTags => ("BastionCreateFailed", format!("change the tags of OpenStackServer {name:?}")),
            _ => ("BastionCreateFailed", format!("create OpenStackServer {name:?}")),
        }
    }
}

fn wait(reason: &'static str, message: impl Into<String>) -> Step {
    Step::Wait { reason, message: message.into() }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Step {
    match &desired.bastion {
        Some(wish) => provide(wish, tag, observed),
        None => remove(desired, tag, observed),
    }
}

fn provide(wish: &BastionWish, tag: &OwnershipTag, observed: &Observed) -> Step {
    let view = &observed.bastion;
    match &view.server {
        None => create(wish, observed),
        Some(server) if server.metadata.deletion_timestamp.is_some() => {
            wait(DELETING, format!("waiting for the deletion of OpenStackServer {}", server.name_any()))
        }
        Some(server) if view.foreign => taken(server),
        Some(server) if server.annotations().get(HASH) != Some(&wish.hash) => {
            Step::Delete { why: "its spec has changed", failed: false }
        }
        // Another region is another cloud.
        Some(server) if server.spec.identity_ref.region != wish.identity.region => {
            Step::Delete { why: "its region has changed", failed: false }
        }
        Some(server) if server.spec.identity_ref != wish.identity => Step::SetIdentity,
        Some(server) if tags(server) != wish.tags() => Step::SetTags,
        Some(server) => running(server, view).unwrap_or_else(|| floating_ip(wish, tag, observed)),
    }
}

/// Returns the tags of a server: those of its annotation, else those of its spec.
fn tags(server: &OpenStackServer) -> Vec<String> {
    let later = server.annotations().get(names::TAGS);
    let later = later.map(|text| text.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect());
    later.or_else(|| server.spec.tags.clone()).unwrap_or_default()
}

fn taken(server: &OpenStackServer) -> Step {
    let name = server.name_any();
    wait("NameTaken", format!("OpenStackServer {name} has another owner. Delete it, so that it is created"))
}

fn create(wish: &BastionWish, observed: &Observed) -> Step {
    let group = observed.groups.get(&Role::Bastion);
    let network = observed.network.as_ref().filter(|_| !observed.subnets.is_empty());
    match (network, group) {
        (Some(network), group) if group.is_some() || !wish.grouped => {
            Step::Create(Box::new(wish.server(&network.id, group.map(|group| group.id.as_str()))))
        }
        _ => wait("WaitingForNetwork", "the cluster has no network or security group for the bastion yet"),
    }
}

/// Returns what a server that cannot be used requires.
fn running(server: &OpenStackServer, view: &BastionView) -> Option<Step> {
    let status = server.status.as_ref();
    let state = status.and_then(|status| status.instance_state.as_deref()).unwrap_or_default();
    if status.is_some_and(|status| status.ready) && view.port.is_some() {
        return None;
    }
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let failing = conditions.filter(|condition| !condition.holds()).find(|it| !it.message.is_empty());
    let message = failing.map_or_else(
        || format!("OpenStackServer {} is not ready", server.name_any()),
        |condition| format!("OpenStackServer {}: {}", server.name_any(), condition.message),
    );
    if state != ERROR {
        return Some(wait("InstanceNotReady", message));
    }
    let recent = |at: &&jiff::Timestamp| view.now.duration_since(**at).unsigned_abs() < WINDOW;
    if view.replaced.iter().filter(recent).count() < REPLACEMENTS {
        return Some(Step::Delete { why: "its server is in ERROR", failed: true });
    }
    Some(wait("InstanceStateError", message))
}

fn floating_ip(wish: &BastionWish, tag: &OwnershipTag, observed: &Observed) -> Step {
    let view = &observed.bastion;
    let (Some(address), Some((port, _))) = (&wish.floating, &view.port) else { return Step::Nothing };
    match (&view.floating_ip, &observed.external) {
        (Some(ip), _) if ip.port_id.as_ref() == Some(port) => Step::Nothing,
        (Some(ip), _) if ip.port_id.is_some() && !is_ours(tag, &ip.description) => {
            let other = ip.port_id.as_deref().unwrap_or_default();
            wait("FloatingIPError", format!("floating IP {} is associated with port {other}", ip.address))
        }
        (Some(ip), _) => Step::Associate { floating_ip: ip.id.clone(), port: port.clone() },
        (None, Some(external)) => {
            Step::CreateFloatingIp { external: external.id.clone(), address: address.clone() }
        }
        (None, None) => wait(
            "FloatingIPError",
            "a floating IP needs an external network and the cloud has none. \
             Set spec.enableExternalNetwork to false",
        ),
    }
}

/// Returns the description of the floating IP that is allocated for the bastion. It differs from that of the API.
pub(super) fn description(tag: &OwnershipTag) -> String {
    format!("{} {FLOATING_IP}", tag.description())
}

fn is_ours(tag: &OwnershipTag, known: &str) -> bool {
    known == description(tag)
}

/// Deletes the address, the server and the security group of a bastion.
fn remove(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Step {
    let view = &observed.bastion;
    if let Some(ip) = view.floating_ip.as_ref().filter(|ip| is_ours(tag, &ip.description)) {
        return Step::Release { floating_ip: ip.id.clone() };
    }
    match view.server.as_ref().filter(|_| !view.foreign) {
        Some(server) if server.metadata.deletion_timestamp.is_none() => {
            return Step::Delete { why: "the spec requests no bastion", failed: false };
        }
        Some(server) => {
            let message = format!("waiting for the deletion of OpenStackServer {}", server.name_any());
            return wait(DELETING, message);
        }
        None => {}
    }
    if observed.journal.has(names::FLOATING_IP, FLOATING_IP) {
        return Step::Strike { kind: names::FLOATING_IP, name: FLOATING_IP.to_owned() };
    }
    let name = &desired.bastion_group;
    match &view.retired_group {
        Some(group) => Step::RemoveGroup { id: group.id.clone(), name: group.name.clone() },
        None if observed.journal.has(names::SECURITY_GROUP, name) => {
            Step::Strike { kind: names::SECURITY_GROUP, name: name.clone() }
        }
        None => Step::Nothing,
    }
}
