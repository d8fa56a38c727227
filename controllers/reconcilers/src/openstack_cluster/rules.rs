//! Rules of the security groups of a cluster.

use std::net::IpAddr;

use apiserver_types::{EtherType, ManagedSecurityGroups, RuleDirection, SecurityGroupRuleSpec};
use controllers_infrastructure::NewSecurityGroupRule;

/// Role of the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    /// Control planes.
    ControlPlane,
    /// Workers.
    Worker,
}

impl Role {
    /// Returns the role as in names and in `remoteManagedGroups`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }
}

/// Peers of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peers {
    /// Any address.
    Anyone,
    /// Members of a group that Capstan created.
    Managed(Role),
    /// Members of another group.
    Group(String),
    /// CIDR.
    Prefix(String),
}

/// Rule before ids are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleSpec {
    pub ingress: bool,
    pub ipv6: bool,
    pub protocol: Option<String>,
    /// First and last port; for ICMP type and code.
    pub ports: (Option<i32>, Option<i32>),
    pub peers: Peers,
    pub description: String,
}

impl RuleSpec {
    /// Returns the rule for Neutron; `None` while the group of its peers does not exist.
    pub(super) fn resolve(
        &self,
        group: &str,
        id_of: impl Fn(Role) -> Option<String>,
    ) -> Option<NewSecurityGroupRule> {
        let (remote_group_id, remote_ip_prefix) = match &self.peers {
            Peers::Anyone => (None, None),
            Peers::Managed(role) => (Some(id_of(*role)?), None),
            Peers::Group(id) => (Some(id.clone()), None),
            Peers::Prefix(prefix) => (None, Some(prefix.clone())),
        };
        Some(NewSecurityGroupRule {
            group_id: group.to_owned(),
            direction: if self.ingress { "ingress" } else { "egress" }.to_owned(),
            ether_type: if self.ipv6 { "IPv6" } else { "IPv4" }.to_owned(),
            protocol: self.protocol.clone(),
            port_min: self.ports.0,
            port_max: self.ports.1,
            remote_group_id,
            remote_ip_prefix,
            description: self.description.clone(),
        })
    }
}

/// Returns true if two rules allow the same traffic. Neutron stores some in another notation: "any
/// address" as no prefix, all ports as none, protocols by name or number.
pub(super) fn same_traffic(a: &NewSecurityGroupRule, b: &NewSecurityGroupRule) -> bool {
    (&a.group_id, &a.direction, &a.ether_type, &a.remote_group_id)
        == (&b.group_id, &b.direction, &b.ether_type, &b.remote_group_id)
        && ports(a) == ports(b)
        && prefix(a) == prefix(b)
        && protocol(a) == protocol(b)
}

fn ports(rule: &NewSecurityGroupRule) -> (Option<i32>, Option<i32>) {
    match (rule.port_min, rule.port_max) {
        (Some(1), Some(65535)) => (None, None),
        ports => ports,
    }
}

fn prefix(rule: &NewSecurityGroupRule) -> Option<String> {
    let prefix = rule.remote_ip_prefix.as_deref()?;
    let (address, length) = match prefix.split_once('/') {
        Some((address, length)) => (address, length.to_owned()),
        None if prefix.contains(':') => (prefix, "128".to_owned()),
        None => (prefix, "32".to_owned()),
    };
    let address =
        address.parse::<IpAddr>().map_or_else(|_| address.to_lowercase(), |address| address.to_string());
    let everything = length == "0" && ["0.0.0.0", "::"].contains(&address.as_str());
    (!everything).then(|| format!("{address}/{length}"))
}

fn protocol(rule: &NewSecurityGroupRule) -> Option<String> {
    let protocol = rule.protocol.as_deref()?.to_lowercase();
    let ipv6 = rule.ether_type == "IPv6";
    Some(match protocol.as_str() {
        "any" | "0" => return None,
        "1" | "58" | "icmp" | "icmpv6" | "ipv6-icmp" if ipv6 => "ipv6-icmp".to_owned(),
        "1" => "icmp".to_owned(),
        "6" => "tcp".to_owned(),
        "17" => "udp".to_owned(),
        "58" | "icmpv6" => "ipv6-icmp".to_owned(),
        _ => protocol,
    })
}

/// Returns the rules of one group: all egress, the rules that Kubernetes needs, and those of the spec.
pub(super) fn managed_rules(role: Role, spec: &ManagedSecurityGroups, api_ports: &[i32]) -> Vec<RuleSpec> {
    let mut rules = vec![any(false, false, "Full open"), any(false, true, "Full open")];
    if role == Role::ControlPlane {
        for port in api_ports {
            rules.push(ingress("tcp", (*port, *port), Peers::Anyone, "Kubernetes API"));
        }
    }
    if role == Role::Worker {
        rules.push(ingress("tcp", (30000, 32767), Peers::Anyone, "Node Port Services"));
        rules.push(ingress("udp", (30000, 32767), Peers::Anyone, "Node Port Services"));
    }
    let both = [Role::ControlPlane, Role::Worker];
    if spec.allow_all_in_cluster_traffic == Some(true) {
        for peers in both {
            for ipv6 in [false, true] {
                rules
                    .push(RuleSpec { peers: Peers::Managed(peers), ..any(true, ipv6, "In-cluster traffic") });
            }
        }
    } else {
        if role == Role::ControlPlane {
            rules.push(ingress("tcp", (2379, 2380), Peers::Managed(Role::ControlPlane), "Etcd"));
        }
        for peers in both {
            rules.push(ingress("tcp", (10250, 10250), Peers::Managed(peers), "Kubelet API"));
        }
    }
    let own = match role {
        Role::ControlPlane => &spec.control_plane_nodes_security_group_rules,
        Role::Worker => &spec.worker_nodes_security_group_rules,
    };
    for rule in spec.cluster_nodes_security_group_rules.iter().flatten().chain(own.iter().flatten()) {
        rules.extend(asked_for(rule));
    }
    rules
}

fn any(ingress: bool, ipv6: bool, description: &str) -> RuleSpec {
    RuleSpec {
        ingress,
        ipv6,
        protocol: None,
        ports: (None, None),
        peers: Peers::Anyone,
        description: description.to_owned(),
    }
}

fn ingress(protocol: &str, ports: (i32, i32), peers: Peers, description: &str) -> RuleSpec {
    RuleSpec {
        protocol: Some(protocol.to_owned()),
        ports: (Some(ports.0), Some(ports.1)),
        peers,
        ..any(true, false, description)
    }
}

/// Expands one rule of the spec: one rule for each group of peers.
fn asked_for(rule: &SecurityGroupRuleSpec) -> Vec<RuleSpec> {
    let icmp = rule
        .protocol
        .as_deref()
        .is_some_and(|it| it.to_lowercase().contains("icmp") || ["1", "58"].contains(&it));
    let ports = match (rule.port_range_min, rule.port_range_max) {
        (None, None) => (None, None),
        // A type without a code matches every code.
        (kind, code) if icmp => (kind, code),
        (min, max) => (min.or(max), max.or(min)),
    };
    let base = RuleSpec {
        ingress: rule.direction == RuleDirection::Ingress,
        ipv6: rule.ether_type == Some(EtherType::IPv6),
        protocol: rule.protocol.clone(),
        ports,
        peers: Peers::Anyone,
        description: rule.description.clone().unwrap_or_else(|| rule.name.clone()),
    };
    let mut peers = Vec::new();
    for group in rule.remote_managed_groups.iter().flatten() {
        match group.as_str() {
            "controlplane" => peers.push(Peers::Managed(Role::ControlPlane)),
            "worker" => peers.push(Peers::Managed(Role::Worker)),
            // Validation admits the bastion's group too, which does not exist without a bastion.
            _ => {}
        }
    }
    if rule.remote_managed_groups.as_ref().is_none_or(Vec::is_empty) {
        peers.push(match (&rule.remote_group_id, &rule.remote_ip_prefix) {
            (Some(id), _) => Peers::Group(id.clone()),
            (None, Some(prefix)) => Peers::Prefix(prefix.clone()),
            (None, None) => Peers::Anyone,
        });
    }
    peers.into_iter().map(|peers| RuleSpec { peers, ..base.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_rules_of_kubernetes_and_of_the_spec() {
        let spec = ManagedSecurityGroups {
            cluster_nodes_security_group_rules: Some(vec![SecurityGroupRuleSpec {
                name: "bgp".to_owned(),
                protocol: Some("tcp".to_owned()),
                port_range_min: Some(179),
                remote_managed_groups: Some(vec!["controlplane".to_owned(), "worker".to_owned()]),
                ..SecurityGroupRuleSpec::default()
            }]),
            ..ManagedSecurityGroups::default()
        };
        let words = |role| -> Vec<String> {
            let rules = managed_rules(role, &spec, &[6443]).into_iter();
            rules
                .map(|rule| {
                    format!("{} {:?} {:?}", rule.description, rule.ports.0.zip(rule.ports.1), rule.peers)
                })
                .collect()
        };
        assert_eq!(
            words(Role::ControlPlane),
            [
                "Full open None Anyone",
                "Full open None Anyone",
                "Kubernetes API Some((6443, 6443)) Anyone",
                "Etcd Some((2379, 2380)) Managed(ControlPlane)",
                "Kubelet API Some((10250, 10250)) Managed(ControlPlane)",
                "Kubelet API Some((10250, 10250)) Managed(Worker)",
                "bgp Some((179, 179)) Managed(ControlPlane)",
                "bgp Some((179, 179)) Managed(Worker)",
            ]
        );
        assert_eq!(words(Role::Worker).len(), 8);
        let open = ManagedSecurityGroups { allow_all_in_cluster_traffic: Some(true), ..Default::default() };
        assert_eq!(managed_rules(Role::ControlPlane, &open, &[443]).len(), 7);
    }

    #[test]
    fn rules_in_the_notation_of_neutron_are_equal() {
        let rule = |prefix: Option<&str>, protocol: Option<&str>| NewSecurityGroupRule {
            remote_ip_prefix: prefix.map(str::to_owned),
            protocol: protocol.map(str::to_owned),
            ..NewSecurityGroupRule::default()
        };
        assert!(same_traffic(&rule(Some("0.0.0.0/0"), Some("TCP")), &rule(None, Some("tcp"))));
        assert!(same_traffic(
            &rule(Some("10.0.0.7"), Some("icmpv6")),
            &rule(Some("10.0.0.7/32"), Some("ipv6-icmp"))
        ));
        assert!(same_traffic(
            &rule(Some("2001:DB8:0::/64"), Some("6")),
            &rule(Some("2001:db8::/64"), Some("tcp"))
        ));
        assert!(!same_traffic(&rule(Some("10.0.0.0/8"), Some("tcp")), &rule(None, Some("tcp"))));
    }
}
