//! Members of etcd without a Machine: what a Machine left behind that went without care, or never joined fully.
//!
//! A member belongs to a Machine that has its name or its address. With the address, a member that has not started is
//! told from one that never will. A Machine may have an address that it does not report: while it can be joining, a
//! member without a Machine stays.

use apiserver_types::condition;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_members::{addresses, belongs};
use super::etcd_projection::{self, Change, Member};
use super::learner_slot;
use super::outdated::timestamp;
use super::replica::Replica;

/// Time in which a Machine whose server exists may still join. As long as Cluster API waits for a Node by default.
pub(super) const JOINS: SignedDuration = SignedDuration::from_mins(10);

/// Age of a Node up to which kubeadm may still add or start its member. Upstream's.
const STARTS: SignedDuration = SignedDuration::from_mins(2);

/// Member of etcd that has no Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surplus {
    /// Id by which the member is removed.
    pub id: u64,
    /// Name of its Node. Empty if the member never started.
    pub name: String,
}

impl Surplus {
    /// Returns the name of the member for people.
    pub(super) fn title(&self) -> String {
        let Self { id, name } = self;
        if name.is_empty() { format!("{id:x} (no name)") } else { name.clone() }
    }
}

/// Reason for which a member without a Machine is not removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stay {
    /// It may be the member of a Machine that joins. For people.
    Joins(String),
    /// Etcd needs it. For people.
    Needed(String),
}

/// Member of etcd that has no Machine, and the reason for which it stays, if it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stray {
    pub member: Surplus,
    pub stays: Option<Stay>,
}

/// Facts that decide on a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub members: &'a [Member],
    pub replicas: &'a [Replica],
    /// The Nodes, if they are known.
    pub nodes: Option<&'a [Node]>,
    pub now: Timestamp,
}

/// Returns the member to remove; `None` if there is none, or if all stay.
pub(super) fn find(view: View<'_>) -> Option<Surplus> {
    strays(view).into_iter().find(|it| it.stays.is_none()).map(|it| it.member)
}

/// Returns the members without a Machine, by name. Those without a name are first.
pub(super) fn strays(view: View<'_>) -> Vec<Stray> {
    let View { members, replicas, .. } = view;
    let is_stray = |member: &&Member| !replicas.iter().any(|it| belongs(member, it));
    let mut strays: Vec<&Member> = members.iter().filter(is_stray).collect();
    strays.sort_by(|a, b| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
    let stray = |member: &Member| {
        let surplus = Surplus { id: member.id, name: member.name.clone() };
        Stray { member: surplus, stays: stays(member, view) }
    };
    strays.into_iter().map(stray).collect()
}

/// Returns the reason for which a member without a Machine stays.
fn stays(member: &Member, view: View<'_>) -> Option<Stay> {
    let View { members, replicas, .. } = view;
    if members.len() <= 1 {
        return Some(Stay::Needed("it is the only one".to_owned()));
    }
    if let Some(name) = learner_slot::kept_out_by(member, members, replicas) {
        let reason = format!("without it, Machine {name} could join, which is on its way out");
        return Some(Stay::Needed(reason));
    }
    let has_member = |it: &Replica| members.iter().any(|member| belongs(member, it));
    // If it is the member of a Machine that is being deleted and has no vote, it goes before the Machine.
    let leaves_before = |it: &Replica| it.is_deleting() && !member.has_vote();
    let mut others = replicas.iter().filter(|it| !has_member(it) && !leaves_before(it));
    if let Some(reason) = others.find_map(|it| joins(member, it, view)) {
        return Some(Stay::Joins(reason));
    }
    if member.name.is_empty() {
        return None;
    }
    let after = etcd_projection::project(members, replicas, Change::Leave(&member.name));
    let reason = || format!("without it, etcd would have {}", after.text());
    (!after.is_safe()).then(|| Stay::Needed(reason()))
}

/// Returns the reason for which a member may be that of a Machine that has none, although it has another address.
fn joins(member: &Member, replica: &Replica, view: View<'_>) -> Option<String> {
    let name = replica.name();
    let Some(node) = replica.node() else {
        let can_join = addresses(replica).is_empty() || view.now.duration_since(started(replica)) < JOINS;
        return can_join.then(|| {
            format!("it may be that of Machine {name}, which has no Node yet. Delete the Machine if it does not join")
        });
    };
    // A member with a name and a vote has started, and then the Machine has its name.
    if !member.name.is_empty() && !member.is_learner {
        return None;
    }
    let is_young =
        |it: &Node| it.creation_timestamp().is_some_and(|at| view.now.duration_since(at.0) < STARTS);
    let is_starting = match view.nodes {
        Some(nodes) => nodes.iter().any(|it| it.name_any() == node && is_young(it)),
        None => true,
    };
    is_starting.then(|| format!("it may be that of Machine {name}, whose Node {node} has just joined"))
}

/// Returns the time from which a Machine has a server, or that of its creation.
pub(super) fn started(replica: &Replica) -> Timestamp {
    let conditions = replica.machine.status.as_ref().and_then(|status| status.conditions.as_deref());
    let ready = condition(conditions.unwrap_or_default(), "InfrastructureReady").filter(|it| it.holds());
    ready.and_then(|it| timestamp(&it.last_transition_time)).unwrap_or_else(|| replica.created())
}

#[cfg(test)]
#[path = "surplus_tests.rs"]
mod tests;
