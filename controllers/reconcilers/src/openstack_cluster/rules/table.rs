//! Rules of each group, from the spec alone.

use apiserver_types::{EtherType, ManagedSecurityGroups, RuleDirection, SecurityGroupRuleSpec};

use super::{Family, Peers, Role, RuleSpec};

/// Port of SSH.
const SSH: (i32, i32) = (22, 22);

/// Default range of the ports of Services of type NodePort in Kubernetes.
const NODE_PORTS: (i32, i32) = (30000, 32767);

/// Ports of etcd: for clients and for its members.
const ETCD: (i32, i32) = (2379, 2380);

/// Port of the kubelet's API.
const KUBELET: (i32, i32) = (10250, 10250);

/// Groups of nodes.
const NODES: [Role; 2] = [Role::ControlPlane, Role::Worker];

/// Parts of the spec that decide on the rules.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RuleSource<'a> {
    pub groups: &'a ManagedSecurityGroups,
    /// Ports of control plane nodes that clients of the API reach.
    pub api_ports: &'a [i32],
    /// A bastion is desired.
    pub bastion: bool,
}

/// Returns the rules of one group: all egress, the rules that Kubernetes needs, and those of the spec.
pub(in super::super) fn managed_rules(role: Role, source: &RuleSource<'_>) -> Vec<RuleSpec> {
    let mut rules = vec![
        RuleSpec { ingress: false, family: Family::V4, ..any("Full open") },
        RuleSpec { ingress: false, family: Family::V6, ..any("Full open") },
    ];
    if role == Role::Bastion {
        rules.push(ingress("tcp", SSH, Peers::Anyone, "SSH"));
        return rules;
    }
    if source.bastion {
        rules.push(ingress("tcp", SSH, Peers::Managed(Role::Bastion), "SSH"));
    }
    if role == Role::ControlPlane {
        let api = source.api_ports.iter();
        rules.extend(api.map(|port| ingress("tcp", (*port, *port), Peers::Clients, "Kubernetes API")));
    } else {
        rules.extend(node_ports());
    }
    rules.extend(in_cluster(role, source.groups.allow_all_in_cluster_traffic == Some(true)));
    rules.extend(of_spec(role, source.groups).flat_map(expand));
    rules
}

/// Returns the messages of rules of the spec that name the group of a bastion that is not desired.
pub(in super::super) fn invalid_rules(source: &RuleSource<'_>) -> Vec<String> {
    let names_bastion = |rule: &&SecurityGroupRuleSpec| {
        let mut groups = rule.remote_managed_groups.iter().flatten();
        groups.any(|group| group == Role::Bastion.word())
    };
    let all = source.groups.cluster_nodes_security_group_rules.iter();
    let all = all.chain(&source.groups.control_plane_nodes_security_group_rules);
    let all = all.chain(&source.groups.worker_nodes_security_group_rules).flatten();
    let invalid = all.filter(|_| !source.bastion).filter(names_bastion);
    invalid
        .map(|rule| {
            format!(
                "rule {:?} in spec.managedSecurityGroups names the group \"bastion\", but the cluster has no \
                 bastion. Enable spec.bastion, or remove the group from the rule",
                rule.name
            )
        })
        .collect()
}

/// Returns the rules of Services of type NodePort, which nodes and the cluster's subnets reach.
fn node_ports() -> Vec<RuleSpec> {
    let peers = [Peers::Subnets, Peers::Managed(Role::Worker), Peers::Managed(Role::ControlPlane)];
    let of = |protocol: &'static str| {
        peers.clone().map(|peers| ingress(protocol, NODE_PORTS, peers, "Node Port Services"))
    };
    of("tcp").into_iter().chain(of("udp")).collect()
}

/// Returns the rules of traffic between the nodes.
fn in_cluster(role: Role, open: bool) -> Vec<RuleSpec> {
    let mut rules = Vec::new();
    if role == Role::ControlPlane && !open {
        rules.push(ingress("tcp", ETCD, Peers::Managed(Role::ControlPlane), "Etcd"));
    }
    for peers in NODES.map(Peers::Managed) {
        rules.push(if open {
            RuleSpec { peers, ..any("In-cluster traffic") }
        } else {
            ingress("tcp", KUBELET, peers, "Kubelet API")
        });
    }
    rules
}

fn of_spec(role: Role, spec: &ManagedSecurityGroups) -> impl Iterator<Item = &SecurityGroupRuleSpec> {
    let own = match role {
        Role::ControlPlane => &spec.control_plane_nodes_security_group_rules,
        _ => &spec.worker_nodes_security_group_rules,
    };
    spec.cluster_nodes_security_group_rules.iter().flatten().chain(own.iter().flatten())
}

fn any(description: &str) -> RuleSpec {
    RuleSpec {
        ingress: true,
        family: Family::OfCluster,
        protocol: None,
        ports: (None, None),
        peers: Peers::Anyone,
        description: description.to_owned(),
    }
}

fn ingress(protocol: &str, ports: (i32, i32), peers: Peers, description: &str) -> RuleSpec {
    let ports = (Some(ports.0), Some(ports.1));
    RuleSpec { protocol: Some(protocol.to_owned()), ports, peers, ..any(description) }
}

/// Expands one rule of the spec: one rule for each group of peers.
fn expand(rule: &SecurityGroupRuleSpec) -> Vec<RuleSpec> {
    let base = RuleSpec {
        ingress: rule.direction == RuleDirection::Ingress,
        family: if rule.ether_type == Some(EtherType::IPv6) { Family::V6 } else { Family::V4 },
        protocol: rule.protocol.clone(),
        ports: ports(rule),
        peers: Peers::Anyone,
        description: rule.description.clone().unwrap_or_else(|| rule.name.clone()),
    };
    let roles = [Role::ControlPlane, Role::Worker, Role::Bastion];
    let managed = rule.remote_managed_groups.iter().flatten();
    let mut peers: Vec<Peers> = managed
        .filter_map(|group| roles.into_iter().find(|role| role.word() == group).map(Peers::Managed))
        .collect();
    if rule.remote_managed_groups.as_ref().is_none_or(Vec::is_empty) {
        peers.push(match (&rule.remote_group_id, &rule.remote_ip_prefix) {
            (Some(id), _) => Peers::Group(id.clone()),
            (None, Some(prefix)) => Peers::Prefix(prefix.clone()),
            (None, None) => Peers::Anyone,
        });
    }
    peers.into_iter().map(|peers| RuleSpec { peers, ..base.clone() }).collect()
}

fn ports(rule: &SecurityGroupRuleSpec) -> (Option<i32>, Option<i32>) {
    let protocol = rule.protocol.as_deref().unwrap_or_default().to_lowercase();
    if protocol.contains("icmp") || ["1", "58"].contains(&protocol.as_str()) {
        // A type without a code matches every code.
        return (rule.port_range_min, rule.port_range_max);
    }
    // Upstream's clients send 0 for a port that is not set.
    let port = |port: Option<i32>| port.filter(|port| *port > 0);
    let (min, max) = (port(rule.port_range_min), port(rule.port_range_max));
    (min.or(max), max.or(min))
}
