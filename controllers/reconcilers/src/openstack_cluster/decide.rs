//! Decision on the next step of an OpenStackCluster.

use controllers_infrastructure::{
    FailedStep, FloatingIp, NewSecurityGroupRule, SecurityGroupRule, TaggedKind,
};
use controllers_runtime::OwnershipTag;

use super::applied_rules::is_removable;
use super::balancer::{self, BalancerWish};
use super::desired::{Desired, EndpointWish, GroupWish, NetworkWish, RouterWish, SubnetWish};
use super::drift;
use super::observe::{Observed, intended};
use super::rules::{Role, same_traffic};
use super::{gateway, lost_network};
use crate::applied_tags::{self, TagChange};
use crate::cidrs;
use crate::duplicates::{AMBIGUOUS, Duplicate, Remedy, remedy};
use crate::resource_events::failed_deletion;

/// Next step of an OpenStackCluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write these entries into the journal.
    Journal(Vec<(&'static str, String)>),
    /// Create the network.
    CreateNetwork,
    /// Create the subnet on this network.
    CreateSubnet { network: String },
    /// Give the subnet these DNS servers.
    SetDnsNameservers { subnet: String, nameservers: Vec<String> },
    /// Give the subnet these address ranges.
    SetPools { subnet: String, pools: Vec<(String, String)> },
    /// Create the router to this external network.
    CreateRouter { external: String },
    /// Give the router its gateway on this external network.
    SetGateway { router: String, network: String },
    /// Connect the subnet to the router.
    Connect { router: String, subnet: String },
    /// Create a security group.
    CreateGroup(Role),
    /// Add rules to a group.
    AddRules { role: Role, rules: Vec<NewSecurityGroupRule> },
    /// Remove a rule from a group.
    RemoveRule { role: Role, id: String },
    /// Keep the fixed address of the API from all other ports.
    ReserveAddress { network: String, subnet: String },
    /// Allocate a floating IP on this network.
    CreateFloatingIp { external: String, address: Option<String> },
    /// Add tags to a resource, and remove others.
    Tag { kind: TaggedKind, id: String, change: TagChange },
    /// Delete a resource of which another one is adopted.
    DeleteDuplicate(Duplicate),
    /// Write the endpoint into the spec.
    SetEndpoint { host: String, port: i32 },
    /// Wait.
    Wait { reason: &'static str, message: String },
    /// Change the load balancer, or wait for it.
    Balance(balancer::Step),
    /// Nothing is left to do.
    Nothing,
}

impl Step {
    /// Returns true if the step, made twice, creates two resources.
    pub(super) fn creates(&self) -> bool {
        matches!(
            self,
            Self::CreateNetwork
                | Self::CreateSubnet { .. }
                | Self::CreateRouter { .. }
                | Self::CreateGroup(_)
                | Self::ReserveAddress { .. }
                | Self::CreateFloatingIp { .. }
        )
    }

    /// Returns the reasons of the conditions and Events if the step fails.
    pub(super) fn failure(&self) -> Option<FailedStep> {
        let (condition, event) = match self {
            Self::CreateNetwork => ("NetworkCreateFailed", "FailedCreateNetwork"),
            Self::CreateSubnet { .. } => ("SubnetCreateFailed", "FailedCreateSubnet"),
            Self::SetDnsNameservers { .. } | Self::SetPools { .. } => {
                ("SubnetCreateFailed", "FailedUpdateSubnet")
            }
            Self::CreateRouter { .. } => ("RouterCreateFailed", "FailedCreateRouter"),
            Self::SetGateway { .. } => ("RouterCreateFailed", "FailedUpdateRouter"),
            Self::Connect { .. } => ("RouterCreateFailed", "FailedConnectRouter"),
            Self::CreateGroup(_) => ("SecurityGroupCreateFailed", "FailedCreateSecurityGroup"),
            Self::AddRules { .. } => ("SecurityGroupCreateFailed", "FailedCreateSecurityGroupRule"),
            Self::RemoveRule { .. } => ("SecurityGroupCreateFailed", "FailedDeleteSecurityGroupRule"),
            Self::ReserveAddress { .. } => ("APIEndpointConfigFailed", "FailedCreatePort"),
            Self::CreateFloatingIp { .. } => ("APIEndpointConfigFailed", "FailedCreateFloatingIP"),
            Self::Balance(step) => return Some(step.failure()),
            Self::DeleteDuplicate(it) => return Some(failed_deletion(it.kind)),
            Self::Tag { .. }
            | Self::Journal(_)
            | Self::SetEndpoint { .. }
            | Self::Wait { .. }
            | Self::Nothing => return None,
        };
        Some(FailedStep::new(condition, event))
    }

    /// Describes the attempt in the cloud for errors, with the name of the resource.
    pub(super) fn attempt(&self, desired: &Desired) -> String {
        let name = &desired.name;
        let group = |role: &Role| {
            let wish = desired.groups.iter().find(|wish| wish.role == *role);
            wish.map_or_else(|| role.word(), |wish| wish.name.as_str()).to_owned()
        };
        match self {
            Self::CreateNetwork => format!("create network {name:?}"),
            Self::CreateSubnet { .. } => format!("create subnet {name:?}"),
            Self::SetDnsNameservers { subnet, .. } => format!("change subnet {subnet}"),
            Self::SetPools { subnet, .. } => format!("change the allocation pools of subnet {subnet}"),
            Self::CreateRouter { .. } => format!("create router {name:?}"),
            Self::SetGateway { router, .. } => format!("set the external gateway of router {router}"),
            Self::Connect { router, subnet } => format!("connect subnet {subnet} to router {router}"),
            Self::CreateGroup(role) => format!("create security group {:?}", group(role)),
            Self::AddRules { role, rules } => {
                let names: Vec<_> = rules.iter().map(|rule| format!("{:?}", rule.description)).collect();
                format!("add the rules {} to security group {:?}", names.join(", "), group(role))
            }
            Self::RemoveRule { role, id } => {
                format!("remove rule {id} from security group {:?}", group(role))
            }
            Self::ReserveAddress { .. } => {
                let address = desired.reserved.as_ref().map(|wish| wish.address.as_str());
                format!("reserve the address {} of spec.apiServer.fixedIP", address.unwrap_or_default())
            }
            Self::CreateFloatingIp { address: None, .. } => "allocate a floating IP".to_owned(),
            Self::CreateFloatingIp { address: Some(address), .. } => {
                format!("allocate the floating IP {address}")
            }
            Self::Tag { id, .. } => format!("tag {id}"),
            Self::DeleteDuplicate(it) => format!("delete {} {}", it.kind, it.id),
            Self::Balance(step) => step.attempt(&format!("{name}-kubeapi")),
            Self::Journal(_) | Self::SetEndpoint { .. } | Self::Wait { .. } | Self::Nothing => String::new(),
        }
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Step {
    let missing = intended(desired).into_iter().filter(|(kind, name)| !observed.journal.has(kind, name));
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        return Step::Journal(missing);
    }
    duplicates(observed)
        .or_else(|| lost(desired, observed))
        .or_else(|| network(desired, observed))
        .or_else(|| router(desired, observed))
        .or_else(|| gateway::urgent_step(desired, observed))
        .or_else(|| groups(desired, observed))
        .or_else(|| reservation(desired, observed))
        .or_else(|| endpoint(desired, tag, observed))
        .or_else(|| tags(desired, tag, observed))
        .or_else(|| balanced(desired, tag, observed))
        .or_else(|| gateway::step(desired, observed))
        .unwrap_or(Step::Nothing)
}

fn duplicates(observed: &Observed) -> Option<Step> {
    Some(match remedy(&observed.duplicates)? {
        Remedy::Delete(duplicate) => Step::DeleteDuplicate(duplicate),
        Remedy::Refuse(message) => Step::Wait { reason: AMBIGUOUS, message },
    })
}

fn lost(desired: &Desired, observed: &Observed) -> Option<Step> {
    let message = lost_network::message(desired, observed)?;
    Some(Step::Wait { reason: lost_network::NETWORK_LOST, message })
}

fn network(desired: &Desired, observed: &Observed) -> Option<Step> {
    let Some(network) = &observed.network else {
        return matches!(desired.network, NetworkWish::Managed { .. }).then_some(Step::CreateNetwork);
    };
    let SubnetWish::Managed { dns_nameservers, allocation_pools, .. } = &desired.subnets else { return None };
    let Some(subnet) = observed.subnets.first() else {
        return Some(Step::CreateSubnet { network: network.id.clone() });
    };
    let differ = subnet.dns_nameservers != *dns_nameservers;
    let set = || Step::SetDnsNameservers { subnet: subnet.id.clone(), nameservers: dns_nameservers.clone() };
    let step = differ.then(set).and_then(|step| drift::permitted(step, observed));
    if step.is_some() {
        return step;
    }
    // Without pools in the spec, Neutron chooses them. Its order is not that of the spec, and it joins neighbours.
    let differ =
        !allocation_pools.is_empty() && !cidrs::same_ranges(allocation_pools, &subnet.allocation_pools);
    let step = differ.then(|| Step::SetPools { subnet: subnet.id.clone(), pools: allocation_pools.clone() });
    step.and_then(|step| drift::permitted(step, observed))
}

fn router(desired: &Desired, observed: &Observed) -> Option<Step> {
    let subnet = observed.subnets.first()?;
    match (&desired.router, &observed.router) {
        (RouterWish::None | RouterWish::Connected(_), _) | (RouterWish::Existing(_), None) => None,
        (RouterWish::Managed { .. }, None) => {
            observed.external.as_ref().map(|external| Step::CreateRouter { external: external.id.clone() })
        }
        (_, Some(router)) => (!observed.connected)
            .then(|| Step::Connect { router: router.id.clone(), subnet: subnet.id.clone() }),
    }
}

fn reservation(desired: &Desired, observed: &Observed) -> Option<Step> {
    desired.reserved.as_ref().filter(|_| observed.reserved.is_none())?;
    let (network, subnet) = (observed.network.as_ref()?, observed.subnets.first()?);
    Some(Step::ReserveAddress { network: network.id.clone(), subnet: subnet.id.clone() })
}

fn groups(desired: &Desired, observed: &Observed) -> Option<Step> {
    // All groups before any rule, since rules name groups.
    let absent = desired.groups.iter().find(|wish| !observed.groups.contains_key(&wish.role));
    if let Some(wish) = absent {
        return Some(Step::CreateGroup(wish.role));
    }
    desired.groups.iter().find_map(|wish| rules(wish, desired, observed))
}

fn rules(wish: &GroupWish, desired: &Desired, observed: &Observed) -> Option<Step> {
    let group = observed.groups.get(&wish.role)?;
    let clients = clients(desired, observed);
    let wanted = observed.rule_context(&clients).resolve(&wish.rules, &group.id);
    let mut rules: Vec<NewSecurityGroupRule> = Vec::new();
    for rule in &wanted {
        let mut known = group.rules.iter().map(|known| &known.rule).chain(&rules);
        if !known.any(|known| same_traffic(known, rule)) {
            rules.push(rule.clone());
        }
    }
    let added = drift::permitted(Step::AddRules { role: wish.role, rules }, observed);
    if added.is_some() {
        return added;
    }
    if observed.rules_read_otherwise {
        return None;
    }
    let is_surplus = |known: &&SecurityGroupRule| {
        !wanted.iter().any(|rule| same_traffic(rule, &known.rule)) && is_removable(desired, observed, known)
    };
    let remove = |rule: &SecurityGroupRule| Step::RemoveRule { role: wish.role, id: rule.id.clone() };
    group.rules.iter().filter(is_surplus).find_map(|rule| drift::permitted(remove(rule), observed))
}

/// Returns the CIDRs of clients that the groups have to check, because the load balancer cannot.
pub(super) fn clients(desired: &Desired, observed: &Observed) -> Vec<String> {
    match &desired.endpoint {
        EndpointWish::LoadBalancer(wish) if balancer::passes_clients(wish, observed) => {
            balancer::allowed_cidrs(wish, observed)
        }
        _ => Vec::new(),
    }
}

/// Decides on the load balancer, the address of the endpoint, and the endpoint itself, if it is a load balancer.
fn balanced(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    let EndpointWish::LoadBalancer(wish) = &desired.endpoint else { return None };
    let ready = balancer::decide::state(observed);
    if let Some(step) = ready.or_else(|| balancer::decide::first_listener(wish, tag, observed)) {
        return Some(Step::Balance(step));
    }
    let complete = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    // A host that is known stays, whatever the load balancer has.
    let known = observed.endpoint.as_ref().map(|(host, _)| host.clone()).filter(|host| !host.is_empty());
    let host = known.or_else(|| observed.balanced_host(wish)).filter(|_| !complete);
    let endpoint = host.map(|host| Step::SetEndpoint { host, port: desired.port });
    let parts = balancer::decide::parts(wish, tag, observed);
    let own = || tag.tags(Some(&desired.tags));
    let parts = parts.or_else(|| {
        let step = balancer::decide::tags(&own(), tag, observed);
        step.and_then(|step| drift::permitted_part(step, observed))
    });
    endpoint.or_else(|| parts.map(Step::Balance))
}

/// Decides on the load balancer itself and on its floating IP.
fn balancer_address(wish: &BalancerWish, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    if let Some(step) = balancer::decide::base(wish, observed) {
        return Some(Step::Balance(step));
    }
    if wish.floating && observed.floating_ip.is_none() {
        if let Some(wait) = balancer::decide::unresolvable(observed) {
            return Some(Step::Balance(wait));
        }
        let external = observed.external.as_ref()?.id.clone();
        return Some(Step::CreateFloatingIp { external, address: wish.floating_ip.clone() });
    }
    let step = balancer::decide::floating_ip(wish, tag, observed);
    step.and_then(|step| drift::permitted_part(step, observed)).map(Step::Balance)
}

fn endpoint(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    if let EndpointWish::LoadBalancer(wish) = &desired.endpoint {
        return balancer_address(wish, tag, observed);
    }
    let complete = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    let host = match (&desired.endpoint, &observed.floating_ip) {
        (
            EndpointWish::Floating(Some(_)),
            Some(FloatingIp { port_id: Some(port), address, tags, description, .. }),
        ) if !complete && !tag.is_on(tags, description) => {
            let message = format!(
                "spec.apiServer.floatingIP: floating IP {address} is associated with port {port}. \
                 Disassociate it, or name another one"
            );
            return Some(Step::Wait { reason: "FloatingIPInUse", message });
        }
        (EndpointWish::Fixed(address), _) => address.clone(),
        (EndpointWish::Floating(_), Some(found)) => found.address.clone(),
        (EndpointWish::Floating(address), None) => {
            let external = observed.external.as_ref()?.id.clone();
            return Some(Step::CreateFloatingIp { external, address: address.clone() });
        }
        // A given address may belong to another owner; if it is a floating IP, it is used as it is.
        (EndpointWish::Given { host, .. }, _) => host.clone(),
        (EndpointWish::Nowhere | EndpointWish::LoadBalancer(_), _) => return None,
    };
    (!complete).then_some(Step::SetEndpoint { host, port: desired.port })
}

/// Returns what can have tags: kind, id, tags and description.
pub(super) fn tagged(
    observed: &Observed,
) -> impl Iterator<Item = (TaggedKind, &String, &Vec<String>, &String)> {
    let network = observed.network.iter().map(|it| (TaggedKind::Network, &it.id, &it.tags, &it.description));
    let subnets = observed.subnets.iter().map(|it| (TaggedKind::Subnet, &it.id, &it.tags, &it.description));
    let router = observed.router.iter().map(|it| (TaggedKind::Router, &it.id, &it.tags, &it.description));
    let groups =
        observed.groups.values().map(|it| (TaggedKind::SecurityGroup, &it.id, &it.tags, &it.description));
    let floating =
        observed.floating_ip.iter().map(|it| (TaggedKind::FloatingIp, &it.id, &it.tags, &it.description));
    let bastion = observed.bastion.floating_ip.iter();
    let bastion = bastion.map(|it| (TaggedKind::FloatingIp, &it.id, &it.tags, &it.description));
    let floating = floating.chain(bastion);
    let vip = observed.balancing.vip_port.iter().chain(&observed.reserved);
    let vip = vip.map(|it| (TaggedKind::Port, &it.id, &it.tags, &it.description));
    network.chain(subnets).chain(router).chain(groups).chain(floating).chain(vip)
}

fn tags(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    tagged(observed).find_map(|(kind, id, tags, description)| {
        let ours = tag.is_on(tags, description) || desired.adopted.has(id);
        let change = applied_tags::changed(&tag.tags(Some(&desired.tags)), &observed.applied_tags, tags);
        let step = change.filter(|_| ours).map(|change| Step::Tag { kind, id: id.clone(), change });
        step.and_then(|step| drift::permitted(step, observed))
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackCluster;
    use serde_json::{Value, json};

    use super::*;

    fn endpoint_step(server: &Value, floating_ip: FloatingIp) -> String {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "network": {"id": "n"}, "apiServer": server});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        object.metadata.uid = Some("u".to_owned());
        let observed = Observed { floating_ip: Some(floating_ip), ..Observed::default() };
        format!("{:?}", endpoint(&Desired::read(&object, "c"), &OwnershipTag::of(&object), &observed))
    }

    #[test]
    fn r7_7_a_given_floating_ip_that_is_in_use_is_not_taken_away_and_never_tagged() {
        let given = json!({"floatingIP": "203.0.113.7"});
        let mut ip = FloatingIp { address: "203.0.113.7".to_owned(), ..FloatingIp::default() };
        assert!(endpoint_step(&given, ip.clone()).contains("SetEndpoint"));
        ip.port_id = Some("other".to_owned());
        let step = endpoint_step(&given, ip.clone());
        assert!(step.contains("FloatingIPInUse") && step.contains("with port other"), "{step}");
        assert!(endpoint_step(&json!({}), ip.clone()).contains("SetEndpoint"), "one of ours");
        let observed = Observed { floating_ip: Some(ip), ..Observed::default() };
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "network": {"id": "n"}, "apiServer": given});
        let object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert_eq!(tags(&Desired::read(&object, "c"), &OwnershipTag::of(&object), &observed), None);
    }
}
