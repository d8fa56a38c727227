//! Decision on the members of a pool, which are the control plane machines.

use controllers_infrastructure::{Member, NewMember};
use controllers_runtime::OwnershipTag;
use jiff::Timestamp;

use super::{Backend, BalancerView, BalancerWish, MEMBER_ERROR, OVN, PENDING, PoolView, Step, foreign_parts};
use crate::cidrs::same_address;
use crate::endpoint_hosts::host_and_port;

/// Time in which connections of a member that leaves can end. Requests to the API are shorter, except watches, which
/// clients begin again. Unit: seconds.
const DRAIN: i64 = 10;

/// Decides on the members of one pool. Pure.
pub(super) fn next(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    view: &BalancerView,
    pool: &PoolView,
    port: i32,
) -> Option<Step> {
    let name_of = |backend: &Backend| format!("{}-{}", wish.part_name(port), backend.machine);
    let ours = |member: &&Member| foreign_parts::is_our_member(wish, tag, view, member);
    let is_of = |member: &Member, backend: &Backend| {
        let is_tagged = || backend.tags.iter().any(|tag| member.tags.contains(tag));
        view.limits.lacks_tags || member.tags.is_empty() || is_tagged()
    };
    let stays = |member: &Member| {
        let known =
            view.backends.iter().find(|backend| is_of(member, backend) && member.name == name_of(backend));
        known.is_some_and(|backend| {
            backend.address.as_ref().is_none_or(|(address, _)| same_address(address, &member.address))
        })
    };
    // First those that leave: a new machine may have the address of an old one.
    if let Some(member) = pool.members.iter().filter(ours).find(|member| !stays(member)) {
        let other = pool.members.iter().filter(ours).any(|other| stays(other) && other.weight > 0);
        return Some(leave(view, &pool.pool.id, member, other));
    }
    let present = |backend: &&Backend| pool.members.iter().any(|member| member.name == name_of(backend));
    let absent = view.backends.iter().filter(|backend| backend.address.is_some() && !present(backend));
    let free = absent.filter(|backend| holder(pool, port, backend).is_none());
    // All that wait are added at once: each change takes seconds in which Octavia makes no other.
    let backends: Vec<Backend> = free.cloned().collect();
    (!backends.is_empty()).then(|| Step::AddMembers { pool: pool.pool.id.clone(), port, backends })
}

/// Returns the member of a machine at a port. The subnet is always named: some providers need it.
pub(super) fn new_member(wish: &BalancerWish, tag: &OwnershipTag, port: i32, backend: &Backend) -> NewMember {
    let (address, subnet_id) = backend.address.clone().unwrap_or_default();
    let name = format!("{}-{}", wish.part_name(port), backend.machine);
    let tags = tag.tags(Some(&[backend.tag()]));
    NewMember { name, tags, address, protocol_port: port, subnet_id }
}

/// Returns the member that has the address of a machine.
fn holder<'a>(pool: &'a PoolView, port: i32, backend: &Backend) -> Option<&'a Member> {
    let (address, _) = backend.address.as_ref()?;
    pool.members.iter().find(|it| it.protocol_port == port && same_address(address, &it.address))
}

/// Returns the wait for a member of another owner that has the address of a machine. Pure.
pub(super) fn taken(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView, port: i32) -> Option<Step> {
    let pool = view.pool_of(view.listener(port)?)?;
    view.backends.iter().find_map(|backend| {
        let held = holder(pool, port, backend);
        let held = held.filter(|member| !foreign_parts::is_our_member(wish, tag, view, member))?;
        let at = host_and_port(&held.address, port);
        let message = format!(
            "member {} ({}) of load balancer {} is of another owner and has the address {at} of {}. Remove it",
            held.name, held.id, wish.name, backend.machine
        );
        Some(Step::Wait { reason: MEMBER_ERROR, message })
    })
}

/// Returns the step by which a member leaves. If another one can take new connections, it first receives none.
fn leave(view: &BalancerView, pool: &str, member: &Member, other: bool) -> Step {
    let (pool, id, name) = (pool.to_owned(), member.id.clone(), member.name.clone());
    let drains = view.balancer.as_ref().is_some_and(|balancer| balancer.provider != OVN);
    if !other || !drains {
        return Step::RemoveMember { pool, id, name };
    }
    if member.weight > 0 {
        return Step::DrainMember { pool, id, name };
    }
    let changed: Option<Timestamp> = member.changed_at.parse().ok();
    let elapsed = changed.map(|changed| view.now.duration_since(changed).as_secs());
    if elapsed.is_some_and(|seconds| (0..DRAIN).contains(&seconds)) {
        return Step::Wait { reason: PENDING, message: format!("member {name} ends its connections") };
    }
    Step::RemoveMember { pool, id, name }
}
