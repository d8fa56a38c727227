//! Names of the compared fields, and what the cluster wants in them.

use std::collections::BTreeSet;
use std::fmt::Display;

use controllers_infrastructure::{Listener, MonitorTimes, NewSecurityGroupRule, TaggedKind};
use controllers_runtime::OwnershipTag;

use super::super::balancer::{self, Backend, BalancerWish, IDLE_TIMEOUT};
use super::super::decide::{Step, clients, tagged};
use super::super::desired::{Desired, EndpointWish, SubnetWish};
use super::super::gateway;
use super::super::observe::Observed;
use super::super::rules::Role;

/// Returns the field that a step corrects; `None` for other steps, and for those with several fields.
pub(super) fn of(step: &Step, observed: &Observed) -> Option<String> {
    Some(match step {
        Step::SetDnsNameservers { subnet, .. } => dns_nameservers(subnet),
        Step::SetPools { subnet, .. } => allocation_pools(subnet),
        Step::SetGateway { router, .. } => external_gateway(router),
        Step::Tag { kind, id, .. } => tags(*kind, id),
        Step::RemoveRule { role, id } => {
            let known = observed.groups.get(role)?.rules.iter().find(|known| known.id == *id)?;
            rule(&known.rule)
        }
        Step::Balance(part) => of_part(part)?,
        _ => return None,
    })
}

/// Returns the field of the load balancer that a step corrects.
pub(super) fn of_part(step: &balancer::Step) -> Option<String> {
    Some(match step {
        balancer::Step::Associate { floating_ip, .. } => port_of(floating_ip),
        balancer::Step::SetCidrs { listener, .. } => allowed_cidrs(listener),
        balancer::Step::SetIdleTimeout(listener) => timeouts(listener),
        balancer::Step::SetAlgorithm { pool, .. } => algorithm(pool),
        balancer::Step::UpdateMonitor(monitor) => numbers(monitor),
        balancer::Step::SetTags { id, .. } => tags(TaggedKind::LoadBalancer, id),
        _ => return None,
    })
}

fn dns_nameservers(subnet: &str) -> String {
    format!("dns_nameservers of subnet {subnet}")
}

fn allocation_pools(subnet: &str) -> String {
    format!("allocation_pools of subnet {subnet}")
}

fn external_gateway(router: &str) -> String {
    format!("external_gateway_info of router {router}")
}

fn tags(kind: TaggedKind, id: &str) -> String {
    let kind = match kind {
        TaggedKind::Network => "network",
        TaggedKind::Subnet => "subnet",
        TaggedKind::Router => "router",
        TaggedKind::SecurityGroup => "security group",
        TaggedKind::Port => "port",
        TaggedKind::FloatingIp => "floating IP",
        TaggedKind::Trunk => "trunk",
        TaggedKind::Server => "server",
        TaggedKind::LoadBalancer => "load balancer",
    };
    format!("tags of {kind} {id}")
}

fn port_of(floating_ip: &str) -> String {
    format!("port_id of floating IP {floating_ip}")
}

fn allowed_cidrs(listener: &str) -> String {
    format!("allowed_cidrs of listener {listener}")
}

fn timeouts(listener: &str) -> String {
    format!("timeouts of listener {listener}")
}

fn algorithm(pool: &str) -> String {
    format!("lb_algorithm of pool {pool}")
}

fn numbers(monitor: &str) -> String {
    format!("numbers of health monitor {monitor}")
}

/// Returns the field of a rule of a security group: the rule itself.
pub(super) fn rule(rule: &NewSecurityGroupRule) -> String {
    let port = |port: Option<i32>| port.map_or_else(|| "any".to_owned(), |port| port.to_string());
    let peers = rule.remote_group_id.as_deref().or(rule.remote_ip_prefix.as_deref());
    format!(
        "rule {} {} {} {}-{} {} of security group {}",
        rule.direction,
        rule.ether_type,
        rule.protocol.as_deref().unwrap_or("any"),
        port(rule.port_min),
        port(rule.port_max),
        peers.unwrap_or("anyone"),
        rule.group_id
    )
}

/// First word of the fields of members.
const MEMBER: &str = "member ";

/// Returns the field of a machine's member of a pool. At another address, it is another field.
pub(super) fn member(pool: &str, backend: &Backend) -> String {
    let address = backend.address.as_ref().map(|(address, _)| address.as_str()).unwrap_or_default();
    format!("{MEMBER}{} at {address} of pool {pool}", backend.machine)
}

/// Returns true for the field of a member.
pub(super) fn is_member(field: &str) -> bool {
    field.starts_with(MEMBER)
}

/// Returns the fields of all members that the pools are to have.
pub(super) fn all_members(observed: &Observed) -> BTreeSet<String> {
    let view = &observed.balancing;
    let members = |pool: &str| view.backends.iter().map(|backend| member(pool, backend)).collect::<Vec<_>>();
    view.pools.iter().flat_map(|known| members(&known.pool.id)).collect()
}

/// Returns a list as text.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(", "))
}

/// Returns address ranges as text.
pub(super) fn ranges(pools: &[(String, String)]) -> String {
    list(pools.iter().map(|(first, last)| format!("{first}-{last}")))
}

/// Returns the numbers of a health monitor as text.
pub(super) fn times(times: &MonitorTimes) -> String {
    format!(
        "delay {}, timeout {}, max_retries {}, max_retries_down {}",
        times.delay, times.timeout, times.max_retries, times.max_retries_down
    )
}

/// Returns the wish of one field.
pub(super) fn wish(field: &str, wanted: &str) -> String {
    format!("{field}: {wanted}")
}

/// Returns the wish of the rules of a group: all of them, since they change together.
pub(super) fn rules(role: Role, desired: &Desired, observed: &Observed) -> Option<String> {
    let specs = &desired.groups.iter().find(|wish| wish.role == role)?.rules;
    let group = observed.groups.get(&role)?;
    let clients = clients(desired, observed);
    let rules = observed.rule_context(&clients).resolve(specs, &group.id);
    Some(wish(&format!("rules of security group {}", group.id), &list(rules.iter().map(rule))))
}

/// Returns the wish of the members of a pool: all of them.
pub(super) fn members(pool: &str, observed: &Observed) -> String {
    let member = |backend: &Backend| {
        let (address, _) = backend.address.as_ref()?;
        Some(format!("{} at {address}", backend.machine))
    };
    let mut members: Vec<String> = observed.balancing.backends.iter().filter_map(member).collect();
    members.sort();
    wish(&format!("members of pool {pool}"), &list(members))
}

/// Returns the wishes of all compared fields. At the end of a complete pass, the cloud has them.
pub(in super::super) fn wishes(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Vec<String> {
    let mut wishes = Vec::new();
    if let (SubnetWish::Managed { dns_nameservers: servers, allocation_pools: pools, .. }, Some(subnet)) =
        (&desired.subnets, observed.subnets.first())
    {
        wishes.push(wish(&dns_nameservers(&subnet.id), &list(servers)));
        wishes.push(wish(&allocation_pools(&subnet.id), &ranges(pools)));
    }
    if let (Some(router), Some(external)) = (&observed.router, &observed.external) {
        let wanted = gateway::wanted(&external.id, &observed.gateway_ips);
        wishes.push(wish(&external_gateway(&router.id), &wanted));
    }
    wishes.extend(desired.groups.iter().filter_map(|group| rules(group.role, desired, observed)));
    let own = list(tag.tags(Some(&desired.tags)));
    // A resource that is adopted later is not tagged yet.
    let ours = tagged(observed)
        .filter(|(_, id, held, description)| tag.is_on(held, description) || desired.adopted.has(id));
    wishes.extend(ours.map(|(kind, id, ..)| wish(&tags(kind, id), &own)));
    if let EndpointWish::LoadBalancer(balanced) = &desired.endpoint {
        wishes_of_balancer(balanced, &own, observed, &mut wishes);
    }
    wishes
}

fn wishes_of_balancer(balanced: &BalancerWish, own: &str, observed: &Observed, wishes: &mut Vec<String>) {
    let view = &observed.balancing;
    if let (Some(ip), Some(port)) = (&observed.floating_ip, view.vip_port_id()) {
        wishes.push(wish(&port_of(&ip.id), port));
    }
    let balancer = view.balancer.iter();
    wishes.extend(balancer.map(|it| wish(&tags(TaggedKind::LoadBalancer, &it.id), own)));
    for listener in balanced.ports.iter().filter_map(|port| view.listener(*port)) {
        wishes_of_listener(balanced, listener, observed, wishes);
    }
}

fn wishes_of_listener(
    balanced: &BalancerWish,
    listener: &Listener,
    observed: &Observed,
    wishes: &mut Vec<String>,
) {
    let cidrs = list(balancer::allowed_cidrs(balanced, observed));
    wishes.push(wish(&allowed_cidrs(&listener.id), &cidrs));
    wishes.push(wish(&timeouts(&listener.id), &IDLE_TIMEOUT.to_string()));
    let Some(view) = observed.balancing.pool_of(listener) else { return };
    wishes.push(wish(&algorithm(&view.pool.id), balancer::decide::algorithm(observed)));
    wishes.push(members(&view.pool.id, observed));
    let monitor = view.monitor.iter();
    wishes.extend(monitor.map(|known| wish(&numbers(&known.id), &times(&balanced.times))));
}
