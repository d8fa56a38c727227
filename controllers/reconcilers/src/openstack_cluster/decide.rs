//! The one thing to do next for a cluster.

use controllers_infrastructure::{NewSecurityGroupRule, TaggedKind};
use controllers_runtime::OwnershipTag;

use super::desired::{Desired, EndpointWish, GroupWish, NetworkWish, RouterWish, SubnetWish};
use super::observe::{Observed, intended};
use super::rules::{Role, same_traffic};

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write these into the journal.
    Journal(Vec<(&'static str, String)>),
    /// Make the network.
    CreateNetwork,
    /// Make the subnet on this network.
    CreateSubnet { network: String },
    /// Give the subnet these DNS servers.
    SetDnsNameservers { subnet: String, nameservers: Vec<String> },
    /// Make the router to this external network.
    CreateRouter { external: String },
    /// Connect the subnet to the router.
    Connect { router: String, subnet: String },
    /// Make a security group.
    CreateGroup(Role),
    /// Add a rule to a group.
    AddRule { role: Role, rule: NewSecurityGroupRule },
    /// Remove a rule from a group.
    RemoveRule { role: Role, id: String },
    /// Allocate a floating IP on this network.
    CreateFloatingIp { external: String, address: Option<String> },
    /// OwnershipTag something of ours.
    Tag { kind: TaggedKind, id: String, tags: Vec<String> },
    /// Write the endpoint into the spec.
    SetEndpoint { host: String, port: i32 },
    /// All there.
    Nothing,
}

impl Step {
    /// What it attempts in the cloud, for errors: names the object.
    pub(super) fn attempt(&self, wanted: &Desired) -> String {
        let name = &wanted.name;
        let group = |role: &Role| {
            let wish = wanted.groups.iter().find(|wish| wish.role == *role);
            wish.map_or_else(|| role.word(), |wish| wish.name.as_str()).to_owned()
        };
        match self {
            Self::CreateNetwork => format!("create network {name:?}"),
            Self::CreateSubnet { .. } => format!("create subnet {name:?}"),
            Self::SetDnsNameservers { subnet, .. } => format!("change subnet {subnet}"),
            Self::CreateRouter { .. } => format!("create router {name:?}"),
            Self::Connect { router, subnet } => format!("connect subnet {subnet} to router {router}"),
            Self::CreateGroup(role) => format!("create security group {:?}", group(role)),
            Self::AddRule { role, rule } => {
                format!("add rule {:?} to security group {:?}", rule.description, group(role))
            }
            Self::RemoveRule { role, id } => {
                format!("remove rule {id} from security group {:?}", group(role))
            }
            Self::CreateFloatingIp { .. } => "allocate a floating IP".to_owned(),
            Self::Tag { id, .. } => format!("tag {id}"),
            Self::Journal(_) | Self::SetEndpoint { .. } | Self::Nothing => String::new(),
        }
    }
}

/// Says what to do next. Pure and total.
pub(super) fn next_step(wanted: &Desired, mark: &OwnershipTag, seen: &Observed) -> Step {
    let missing = intended(wanted).into_iter().filter(|(kind, name)| !seen.journal.has(kind, name));
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        return Step::Journal(missing);
    }
    network(wanted, seen)
        .or_else(|| router(wanted, seen))
        .or_else(|| groups(wanted, seen))
        .or_else(|| endpoint(wanted, seen))
        .or_else(|| tags(wanted, mark, seen))
        .unwrap_or(Step::Nothing)
}

fn network(wanted: &Desired, seen: &Observed) -> Option<Step> {
    let Some(network) = &seen.network else {
        return matches!(wanted.network, NetworkWish::Managed { .. }).then_some(Step::CreateNetwork);
    };
    let SubnetWish::Managed { dns_nameservers, .. } = &wanted.subnets else { return None };
    let Some(subnet) = seen.subnets.first() else {
        return Some(Step::CreateSubnet { network: network.id.clone() });
    };
    (subnet.dns_nameservers != *dns_nameservers)
        .then(|| Step::SetDnsNameservers { subnet: subnet.id.clone(), nameservers: dns_nameservers.clone() })
}

fn router(wanted: &Desired, seen: &Observed) -> Option<Step> {
    let subnet = seen.subnets.first()?;
    match (&wanted.router, &seen.router) {
        (RouterWish::None, _) | (RouterWish::Existing(_), None) => None,
        (RouterWish::Managed { .. }, None) => {
            seen.external.as_ref().map(|external| Step::CreateRouter { external: external.id.clone() })
        }
        (_, Some(router)) => {
            (!seen.connected).then(|| Step::Connect { router: router.id.clone(), subnet: subnet.id.clone() })
        }
    }
}

fn groups(wanted: &Desired, seen: &Observed) -> Option<Step> {
    // All groups before any rule, since rules name groups.
    let absent = wanted.groups.iter().find(|wish| !seen.groups.contains_key(&wish.role));
    if let Some(wish) = absent {
        return Some(Step::CreateGroup(wish.role));
    }
    wanted.groups.iter().find_map(|wish| rules(wish, seen))
}

fn rules(wish: &GroupWish, seen: &Observed) -> Option<Step> {
    let group = seen.groups.get(&wish.role)?;
    let id_of = |role: Role| seen.groups.get(&role).map(|group| group.id.clone());
    let wanted: Vec<NewSecurityGroupRule> =
        wish.rules.iter().filter_map(|rule| rule.resolve(&group.id, id_of)).collect();
    let add = wanted.iter().find(|rule| !group.rules.iter().any(|known| same_traffic(&known.rule, rule)));
    if let Some(rule) = add {
        return Some(Step::AddRule { role: wish.role, rule: rule.clone() });
    }
    if seen.rules_read_otherwise {
        return None;
    }
    let surplus = group.rules.iter().find(|known| !wanted.iter().any(|rule| same_traffic(rule, &known.rule)));
    surplus.map(|rule| Step::RemoveRule { role: wish.role, id: rule.id.clone() })
}

fn endpoint(wanted: &Desired, seen: &Observed) -> Option<Step> {
    let host = match (&wanted.endpoint, &seen.floating_ip) {
        (EndpointWish::Fixed(address), _) => address.clone(),
        (EndpointWish::Floating(_), Some(found)) => found.address.clone(),
        (EndpointWish::Floating(address), None) => {
            let external = seen.external.as_ref()?.id.clone();
            return Some(Step::CreateFloatingIp { external, address: address.clone() });
        }
        // An address that is given may be anybody's; if it is a floating IP, it is used as it is.
        (EndpointWish::Given { host, .. }, _) => host.clone(),
        (EndpointWish::Nowhere | EndpointWish::LoadBalancer, _) => return None,
    };
    let complete = seen.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    (!complete).then_some(Step::SetEndpoint { host, port: wanted.port })
}

fn tags(wanted: &Desired, mark: &OwnershipTag, seen: &Observed) -> Option<Step> {
    let network = seen.network.iter().map(|it| (TaggedKind::Network, &it.id, &it.tags, &it.description));
    let subnets = seen.subnets.iter().map(|it| (TaggedKind::Subnet, &it.id, &it.tags, &it.description));
    let router = seen.router.iter().map(|it| (TaggedKind::Router, &it.id, &it.tags, &it.description));
    let groups =
        seen.groups.values().map(|it| (TaggedKind::SecurityGroup, &it.id, &it.tags, &it.description));
    let floating =
        seen.floating_ip.iter().map(|it| (TaggedKind::FloatingIp, &it.id, &it.tags, &it.description));
    let mut things = network.chain(subnets).chain(router).chain(groups).chain(floating);
    things.find_map(|(kind, id, tags, description)| {
        let ours = mark.is_on(tags, description);
        let lacking: Vec<String> =
            mark.tags(Some(&wanted.tags)).into_iter().filter(|tag| !tags.contains(tag)).collect();
        (ours && !lacking.is_empty()).then(|| Step::Tag {
            kind,
            id: id.clone(),
            tags: tags.iter().cloned().chain(lacking).collect(),
        })
    })
}
