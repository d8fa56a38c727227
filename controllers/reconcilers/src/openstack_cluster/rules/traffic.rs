//! Comparison of security group rules.

use std::net::IpAddr;

use controllers_infrastructure::NewSecurityGroupRule;

/// Protocol numbers that Neutron also knows by a name.
const NAMES: [(&str, &str); 18] = [
    ("1", "icmp"),
    ("2", "igmp"),
    ("4", "ipip"),
    ("6", "tcp"),
    ("8", "egp"),
    ("17", "udp"),
    ("33", "dccp"),
    ("41", "ipv6-encap"),
    ("46", "rsvp"),
    ("47", "gre"),
    ("50", "esp"),
    ("51", "ah"),
    ("58", "ipv6-icmp"),
    ("89", "ospf"),
    ("112", "vrrp"),
    ("113", "pgm"),
    ("132", "sctp"),
    ("136", "udplite"),
];

/// Returns true if two rules allow the same traffic. Neutron stores some in another notation: "any
/// address" as no prefix, all ports as none, protocols by name or number.
pub(in super::super) fn same_traffic(a: &NewSecurityGroupRule, b: &NewSecurityGroupRule) -> bool {
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
    match protocol.as_str() {
        "any" | "0" | "" => return None,
        "1" | "icmp" if ipv6 => return Some("ipv6-icmp".to_owned()),
        "icmpv6" => return Some("ipv6-icmp".to_owned()),
        _ => {}
    }
    let name = NAMES.iter().find(|(number, _)| *number == protocol).map(|(_, name)| (*name).to_owned());
    Some(name.unwrap_or(protocol))
}
