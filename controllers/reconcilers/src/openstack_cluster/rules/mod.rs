//! Rules of the security groups of a cluster.

mod table;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::BTreeMap;

use controllers_infrastructure::{NewSecurityGroupRule, SecurityGroup, Subnet};

pub(super) use table::{RuleSource, invalid_rules, managed_rules};
pub(super) use traffic::same_traffic;

/// Role of the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    /// Control planes.
    ControlPlane,
    /// Workers.
    Worker,
    /// The bastion.
    Bastion,
}

impl Role {
    /// Returns the role as in names and in `remoteManagedGroups`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
            Self::Bastion => "bastion",
        }
    }
}

/// Peers of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peers {
    /// Any address.
    Anyone,
    /// Clients of the API: any address, unless the load balancer cannot check them.
    Clients,
    /// Members of a group that Capstan created.
    Managed(Role),
    /// Members of another group.
    Group(String),
    /// CIDR.
    Prefix(String),
    /// Addresses of the cluster's subnets.
    Subnets,
}

/// IP versions of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4, and IPv6 if a subnet of the cluster has it.
    OfCluster,
}

/// Rule before ids are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleSpec {
    pub ingress: bool,
    pub family: Family,
    pub protocol: Option<String>,
    /// First and last port; for ICMP type and code.
    pub ports: (Option<i32>, Option<i32>),
    pub peers: Peers,
    pub description: String,
}

/// Observed resources that rules name.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleContext<'a> {
    pub groups: &'a BTreeMap<Role, SecurityGroup>,
    pub subnets: &'a [Subnet],
    /// CIDRs of the clients of the API, if the groups have to check them.
    pub clients: &'a [String],
}

impl RuleContext<'_> {
    /// Returns the rules of a group for Neutron. Those that name an absent group are not among them.
    pub(super) fn resolve(&self, rules: &[RuleSpec], group: &str) -> Vec<NewSecurityGroupRule> {
        rules.iter().flat_map(|rule| self.expand(rule, group)).collect()
    }

    fn expand(&self, rule: &RuleSpec, group: &str) -> Vec<NewSecurityGroupRule> {
        let dual = self.subnets.iter().any(|subnet| is_ipv6(&subnet.cidr));
        let families: &[bool] = match rule.family {
            Family::V4 => &[false],
            Family::V6 => &[true],
            Family::OfCluster if dual => &[false, true],
            Family::OfCluster => &[false],
        };
        let mut expanded = Vec::new();
        for ipv6 in families {
            for (remote_group_id, remote_ip_prefix) in self.remotes(&rule.peers, *ipv6) {
                expanded.push(NewSecurityGroupRule {
                    group_id: group.to_owned(),
                    direction: if rule.ingress { "ingress" } else { "egress" }.to_owned(),
                    ether_type: if *ipv6 { "IPv6" } else { "IPv4" }.to_owned(),
                    protocol: rule.protocol.clone(),
                    port_min: rule.ports.0,
                    port_max: rule.ports.1,
                    remote_group_id,
                    remote_ip_prefix,
                    description: rule.description.clone(),
                });
            }
        }
        expanded
    }

    /// Returns the groups and prefixes of peers, one for each rule in Neutron.
    fn remotes(&self, peers: &Peers, ipv6: bool) -> Vec<(Option<String>, Option<String>)> {
        let prefixes = |cidrs: &mut dyn Iterator<Item = &String>| {
            let fitting = cidrs.filter(|cidr| is_ipv6(cidr) == ipv6);
            fitting.map(|cidr| (None, Some(cidr.clone()))).collect()
        };
        match peers {
            Peers::Clients if !self.clients.is_empty() => prefixes(&mut self.clients.iter()),
            Peers::Anyone | Peers::Clients => vec![(None, None)],
            Peers::Managed(role) => {
                self.groups.get(role).map(|group| (Some(group.id.clone()), None)).into_iter().collect()
            }
            Peers::Group(id) => vec![(Some(id.clone()), None)],
            Peers::Prefix(prefix) => vec![(None, Some(prefix.clone()))],
            Peers::Subnets => prefixes(&mut self.subnets.iter().map(|subnet| &subnet.cidr)),
        }
    }
}

fn is_ipv6(cidr: &str) -> bool {
    cidr.contains(':')
}
