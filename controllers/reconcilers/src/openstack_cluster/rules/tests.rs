//! Tests of the rules of security groups. Names begin with the id of the requirement.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::ManagedSecurityGroups;
use controllers_infrastructure::{NewSecurityGroupRule, SecurityGroup, Subnet};
use serde_json::{Value, json};

use super::*;

/// Cluster whose rules are read.
#[derive(Clone)]
struct Case {
    groups: Value,
    ports: Vec<i32>,
    bastion: bool,
    cidrs: Vec<&'static str>,
    clients: Vec<String>,
}

impl Case {
    fn plain() -> Self {
        Self {
            groups: json!({}),
            ports: vec![6443],
            bastion: false,
            cidrs: vec!["10.6.0.0/24"],
            clients: Vec::new(),
        }
    }

    /// Returns the rules of a role except those of egress, as short lines.
    fn rules(&self, role: Role) -> BTreeSet<String> {
        let groups: ManagedSecurityGroups = serde_json::from_value(self.groups.clone()).unwrap();
        let source = RuleSource { groups: &groups, api_ports: &self.ports, bastion: self.bastion };
        let mut known = BTreeMap::new();
        for (role, id) in [(Role::ControlPlane, "cp"), (Role::Worker, "wk"), (Role::Bastion, "ba")] {
            if self.bastion || role != Role::Bastion {
                known.insert(role, SecurityGroup { id: id.to_owned(), ..SecurityGroup::default() });
            }
        }
        let subnet = |cidr: &&str| Subnet { cidr: (*cidr).to_owned(), ..Subnet::default() };
        let subnets: Vec<Subnet> = self.cidrs.iter().map(subnet).collect();
        let context = RuleContext { groups: &known, subnets: &subnets, clients: &self.clients };
        let rules = context.resolve(&managed_rules(role, &source), "group");
        let egress = rules.iter().filter(|rule| rule.direction == "egress").count();
        assert_eq!(egress, 2, "{role:?}: {rules:?}");
        rules.iter().filter(|rule| rule.direction == "ingress").map(line).collect()
    }
}

fn line(rule: &NewSecurityGroupRule) -> String {
    let ports = match (rule.port_min, rule.port_max) {
        (None, None) => "all".to_owned(),
        (Some(min), Some(max)) if min == max => min.to_string(),
        (min, max) => format!("{}-{}", min.unwrap_or_default(), max.unwrap_or_default()),
    };
    let version = if rule.ether_type == "IPv6" { "6 " } else { "" };
    let protocol = rule.protocol.as_deref().unwrap_or("any");
    let remote = rule.remote_group_id.as_deref().or(rule.remote_ip_prefix.as_deref()).unwrap_or("anyone");
    format!("{version}{protocol} {ports} {remote}")
}

fn set(lines: &[&str]) -> BTreeSet<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn r6_1_the_groups_of_a_plain_cluster_have_exactly_the_rules_of_the_table() {
    let case = Case { ports: vec![443], ..Case::plain() };
    let control_plane = ["tcp 443 anyone", "tcp 2379-2380 cp", "tcp 10250 cp", "tcp 10250 wk"];
    assert_eq!(case.rules(Role::ControlPlane), set(&control_plane));
    let worker = [
        "tcp 10250 cp",
        "tcp 10250 wk",
        "tcp 30000-32767 10.6.0.0/24",
        "tcp 30000-32767 cp",
        "tcp 30000-32767 wk",
        "udp 30000-32767 10.6.0.0/24",
        "udp 30000-32767 cp",
        "udp 30000-32767 wk",
    ];
    assert_eq!(case.rules(Role::Worker), set(&worker));
}

#[test]
fn a_bastion_and_additional_ports_add_their_rules() {
    let plain = Case::plain();
    let case = Case { ports: vec![6443, 8132], bastion: true, ..Case::plain() };
    let added = |role| -> Vec<String> { case.rules(role).difference(&plain.rules(role)).cloned().collect() };
    assert_eq!(added(Role::ControlPlane), ["tcp 22 ba", "tcp 8132 anyone"]);
    assert_eq!(added(Role::Worker), ["tcp 22 ba"]);
    assert_eq!(case.rules(Role::Bastion), set(&["tcp 22 anyone"]));
}

#[test]
fn open_traffic_between_nodes_replaces_the_rules_of_etcd_and_the_kubelet() {
    let case = Case { groups: json!({"allowAllInClusterTraffic": true}), ..Case::plain() };
    let expected = set(&["tcp 6443 anyone", "any all cp", "any all wk"]);
    assert_eq!(case.rules(Role::ControlPlane), expected);
    let worker = case.rules(Role::Worker);
    assert!(worker.contains("any all cp") && worker.contains("any all wk"), "{worker:?}");
    assert!(!worker.contains("tcp 10250 cp"), "{worker:?}");
}

#[test]
fn r6_3_rules_of_the_spec_are_expanded_for_each_kind_of_peers() {
    let groups = json!({
        "clusterNodesSecurityGroupRules": [
            {"name": "bgp", "direction": "ingress", "protocol": "tcp", "portRangeMin": 179, "portRangeMax": 179,
             "remoteManagedGroups": ["controlplane", "worker"]},
            {"name": "ipip", "direction": "ingress", "protocol": "4", "portRangeMin": 0,
             "remoteManagedGroups": ["bastion"]},
        ],
        "controlPlaneNodesSecurityGroupRules": [
            {"name": "group", "direction": "ingress", "protocol": "udp", "portRangeMin": 53,
             "remoteGroupID": "other"}],
        "workerNodesSecurityGroupRules": [
            {"name": "prefix", "direction": "ingress", "etherType": "IPv6", "protocol": "tcp",
             "portRangeMax": 80, "remoteIPPrefix": "2001:db8::/64"},
            {"name": "ping", "direction": "ingress", "protocol": "icmp", "portRangeMin": 8}],
    });
    let (plain, case) = (Case::plain(), Case { groups: groups.clone(), ..Case::plain() });
    let added = |role| -> Vec<String> { case.rules(role).difference(&plain.rules(role)).cloned().collect() };
    assert_eq!(added(Role::ControlPlane), ["tcp 179 cp", "tcp 179 wk", "udp 53 other"]);
    assert_eq!(
        added(Role::Worker),
        ["6 tcp 80 2001:db8::/64", "icmp 8-0 anyone", "tcp 179 cp", "tcp 179 wk"]
    );
    let with_bastion = Case { bastion: true, ..case };
    assert!(with_bastion.rules(Role::Worker).contains("4 all ba"));

    let groups: ManagedSecurityGroups = serde_json::from_value(groups).unwrap();
    let invalid = |bastion| invalid_rules(&RuleSource { groups: &groups, api_ports: &[], bastion });
    assert_eq!(invalid(true), Vec::<String>::new());
    assert!(invalid(false).concat().contains("rule \"ipip\""), "{:?}", invalid(false));
}

#[test]
fn r6_4_rules_in_the_notation_of_neutron_are_equal() {
    let rule = |prefix: Option<&str>, protocol: Option<&str>| NewSecurityGroupRule {
        remote_ip_prefix: prefix.map(str::to_owned),
        protocol: protocol.map(str::to_owned),
        ..NewSecurityGroupRule::default()
    };
    let same = |a: (Option<&str>, Option<&str>), b: (Option<&str>, Option<&str>)| {
        same_traffic(&rule(a.0, a.1), &rule(b.0, b.1))
    };
    assert!(same((Some("0.0.0.0/0"), Some("TCP")), (None, Some("tcp"))));
    assert!(same((Some("10.0.0.7"), Some("icmpv6")), (Some("10.0.0.7/32"), Some("ipv6-icmp"))));
    assert!(same((Some("2001:DB8:0::/64"), Some("6")), (Some("2001:db8::/64"), Some("tcp"))));
    assert!(same((None, Some("4")), (None, Some("ipip"))));
    assert!(same((None, Some("any")), (None, None)));
    assert!(!same((Some("10.0.0.0/8"), Some("tcp")), (None, Some("tcp"))));
}

#[test]
fn r6_6_a_cluster_with_ipv6_has_every_rule_for_both_versions() {
    let case = Case { cidrs: vec!["10.6.0.0/24", "2001:db8::/64"], bastion: true, ..Case::plain() };
    for role in [Role::ControlPlane, Role::Worker, Role::Bastion] {
        let rules = case.rules(role);
        let (ipv6, ipv4): (Vec<&String>, Vec<&String>) = rules.iter().partition(|it| it.starts_with("6 "));
        assert_eq!(ipv6.len(), ipv4.len(), "{role:?}: {rules:?}");
    }
    assert!(case.rules(Role::Worker).contains("6 tcp 30000-32767 2001:db8::/64"));
}

#[test]
fn r6_11_groups_check_the_clients_that_a_load_balancer_cannot_check() {
    let clients = vec!["192.0.2.0/24".to_owned(), "10.6.0.0/24".to_owned()];
    let case = Case { clients, ports: vec![6443, 8132], ..Case::plain() };
    let rules = case.rules(Role::ControlPlane);
    for expected in ["tcp 6443 192.0.2.0/24", "tcp 6443 10.6.0.0/24", "tcp 8132 192.0.2.0/24"] {
        assert!(rules.contains(expected), "{rules:?}");
    }
    assert!(!rules.contains("tcp 6443 anyone"), "{rules:?}");
}
