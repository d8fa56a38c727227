//! Parts of our load balancer that belong to other owners. Capstan changes none of them.

use controllers_infrastructure::{Listener, Member, Pool};
use controllers_runtime::OwnershipTag;

use super::{BalancerView, BalancerWish, NAME_TAKEN, Step};
use crate::endpoint_hosts::host_and_port;

/// Returns true if Capstan created a listener: by its tag, else by its name, as an old Octavia has no tags.
pub(super) fn is_our_listener(wish: &BalancerWish, tag: &OwnershipTag, listener: &Listener) -> bool {
    listener.tags.contains(&tag.text()) || listener.name == wish.part_name(listener.protocol_port)
}

/// Returns true if Capstan created a pool: by its tag, or by its name if it has no tags.
pub(super) fn is_our_pool(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView, pool: &Pool) -> bool {
    let has_none = view.limits.lacks_tags || pool.tags.is_empty();
    pool.tags.contains(&tag.text()) || has_none && is_our_name(wish, &pool.name)
}

/// Returns true if Capstan added a member: by its tag, or by its name if it has no tags, as `names::is_member_of` does.
pub(super) fn is_our_member(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    view: &BalancerView,
    member: &Member,
) -> bool {
    let has_none = view.limits.lacks_tags || member.tags.is_empty();
    member.tags.contains(&tag.text()) || has_none && is_our_name(wish, &member.name)
}

fn is_our_name(wish: &BalancerWish, name: &str) -> bool {
    let port = name.strip_prefix(&wish.name).and_then(|rest| rest.strip_prefix('-'));
    port.and_then(|rest| rest.split('-').next()).is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Returns the listener of another owner on a port of the spec.
pub(super) fn taken_port<'a>(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    view: &'a BalancerView,
    port: i32,
) -> Option<&'a Listener> {
    view.listener(port).filter(|listener| !is_our_listener(wish, tag, listener))
}

/// Returns the message about the first port of the spec on which another owner has a listener. Pure.
pub(super) fn taken(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Option<String> {
    let listener = wish.ports.iter().find_map(|port| taken_port(wish, tag, view, *port))?;
    Some(format!(
        "listener {} ({}) of load balancer {} belongs to another owner and has port {} of the cluster. Capstan does not \
         change it. Remove it, or name another port in the spec",
        listener.name, listener.id, wish.name, listener.protocol_port
    ))
}

/// Returns the wait for a port that another owner has. Pure.
pub(super) fn wait(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Option<Step> {
    taken(wish, tag, view).map(|message| Step::Wait { reason: NAME_TAKEN, message })
}

/// Returns the titles of the listeners of other owners and of their members in our pools. They go with the load balancer.
/// Pure.
pub(in super::super) fn titles(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Vec<String> {
    let of = &wish.name;
    let listeners = view.listeners.iter().filter(|it| !is_our_listener(wish, tag, it));
    let listeners = listeners.map(|it| {
        format!(
            "listener {} ({}, port {}) of another owner on load balancer {of}",
            it.name, it.id, it.protocol_port
        )
    });
    let members = view.pools.iter().flat_map(|pool| &pool.members);
    let members = members.filter(|it| !is_our_member(wish, tag, view, it)).map(|it| {
        let at = host_and_port(&it.address, it.protocol_port);
        format!("member {} ({}, {at}) of another owner on load balancer {of}", it.name, it.id)
    });
    listeners.chain(members).collect()
}

/// Returns our first listener. Pure.
pub(super) fn first_listener<'a>(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    view: &'a BalancerView,
) -> Option<&'a Listener> {
    view.listeners.iter().find(|it| is_our_listener(wish, tag, it))
}

/// Returns our first pool. Pure.
pub(super) fn first_pool<'a>(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    view: &'a BalancerView,
) -> Option<&'a Pool> {
    view.pools.iter().map(|it| &it.pool).find(|it| is_our_pool(wish, tag, view, it))
}

/// Returns the tags by which another owner uses our load balancer, too: those of Services, and of other clusters. Pure.
/// The user's own tags, of the spec, are no such tags.
pub(in super::super) fn other_tags(tag: &OwnershipTag, own: &[String], tags: &[String]) -> Vec<String> {
    let is_other = |held: &&String| {
        let of_other = held.starts_with("kube_service_") || held.starts_with("capstan-");
        of_other && **held != tag.text() && !own.contains(*held)
    };
    tags.iter().filter(is_other).cloned().collect()
}
