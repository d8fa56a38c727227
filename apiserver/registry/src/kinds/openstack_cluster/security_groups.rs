//! Validation of the rules of managed security groups. It reports what Neutron would reject, with the field and before
//! the write.

use std::collections::HashSet;
use std::net::IpAddr;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::kinds::cluster::is_cidr;

/// Lists that hold rules.
const LISTS: [&str; 3] = [
    "clusterNodesSecurityGroupRules",
    "controlPlaneNodesSecurityGroupRules",
    "workerNodesSecurityGroupRules",
];

/// Groups that rules can name as peers.
const GROUPS: [&str; 3] = ["controlplane", "worker", "bastion"];

/// Protocols whose "ports" are a type and a code, by Neutron's names and by number.
const ICMP: [&str; 5] = ["icmp", "icmpv6", "ipv6-icmp", "1", "58"];

/// Adds every error of the rules. A stored rule is not validated again in an update.
pub(super) fn validate(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for list in LISTS {
        let pointer = format!("/spec/managedSecurityGroups/{list}");
        let stored: HashSet<&Value> = old.into_iter().flat_map(|old| rules(old, &pointer)).collect();
        for (index, rule) in rules(new, &pointer).enumerate() {
            if !stored.contains(rule) {
                let at = FieldPath::new(format!("spec.managedSecurityGroups.{list}")).index(index);
                validate_peers(rule, &at, errors);
                validate_ports(rule, &at, errors);
            }
        }
    }
}

fn rules<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Validates that a rule names at most one kind of peer, of the rule's IP version.
fn validate_peers(rule: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let peers = ["remoteGroupID", "remoteIPPrefix", "remoteManagedGroups"];
    if peers.iter().filter(|peer| rule.get(**peer).is_some()).count() > 1 {
        let detail = "only one of remoteManagedGroups, remoteGroupID, or remoteIPPrefix can be set";
        errors.push(FieldError::forbidden(at.clone(), detail));
    }
    if let Some(prefix) = rule.get("remoteIPPrefix") {
        let text = prefix.as_str().unwrap_or_default();
        let path = at.child("remoteIPPrefix");
        let version = if text.contains(':') { "IPv6" } else { "IPv4" };
        if !is_cidr(text) && text.parse::<IpAddr>().is_err() {
            errors.push(FieldError::invalid(path, prefix, "must be a CIDR or an address, e.g. 10.0.0.0/24"));
        } else if rule.get("etherType").and_then(Value::as_str).is_some_and(|declared| declared != version) {
            errors.push(FieldError::invalid(path, prefix, "must be of the IP version that etherType names"));
        }
    }
    let groups = rule.get("remoteManagedGroups").and_then(Value::as_array);
    for (number, group) in groups.into_iter().flatten().enumerate() {
        if !group.as_str().is_some_and(|group| GROUPS.contains(&group)) {
            errors.push(FieldError::not_supported(
                at.child("remoteManagedGroups").index(number),
                group,
                &GROUPS,
            ));
        }
    }
}

/// Validates that a range of ports ascends. For ICMP, the fields hold a type and a code in no order.
fn validate_ports(rule: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let port = |name: &str| rule.get(name).and_then(Value::as_i64);
    let (least, most) = (port("portRangeMin"), port("portRangeMax"));
    let protocol = rule.get("protocol").and_then(Value::as_str).unwrap_or_default();
    let icmp = ICMP.contains(&protocol);
    let (limit, what) =
        if icmp { (255, "type and code must be 0 to 255") } else { (65535, "must be 0 to 65535") };
    for (field, found) in [("portRangeMin", least), ("portRangeMax", most)] {
        if let Some(number) = found.filter(|number| !(0..=limit).contains(number)) {
            errors.push(FieldError::invalid(at.child(field), &json!(number), what));
        }
    }
    match (least, most) {
        (Some(least), Some(most)) if !icmp && least > most => {
            let detail = format!("must not be less than portRangeMin, which is {least}");
            errors.push(FieldError::invalid(at.child("portRangeMax"), &json!(most), &detail));
        }
        (None, Some(_)) if icmp => {
            let detail = "an ICMP code (portRangeMax) needs a type (portRangeMin)";
            errors.push(FieldError::required(at.child("portRangeMin"), detail));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(rule: &Value) -> Value {
        json!({"spec": {"managedSecurityGroups": {"workerNodesSecurityGroupRules": [rule]}}})
    }

    #[test]
    fn rules_that_neutron_would_refuse_are_refused() {
        let table = [
            (
                json!({"protocol": "tcp", "portRangeMin": 80, "portRangeMax": 90, "remoteIPPrefix": "10.0.0.0/8"}),
                vec![],
            ),
            (json!({"protocol": "icmp", "portRangeMin": 8, "portRangeMax": 0}), vec![]),
            (json!({"protocol": "icmp", "portRangeMax": 0}), vec![".portRangeMin"]),
            (json!({"protocol": "icmp", "portRangeMin": 300}), vec![".portRangeMin"]),
            (json!({"protocol": "tcp", "portRangeMin": 5, "portRangeMax": 4}), vec![".portRangeMax"]),
            (json!({"portRangeMax": 70000}), vec![".portRangeMax"]),
            (json!({"remoteIPPrefix": "10.0.0.1", "etherType": "IPv4"}), vec![]),
            (json!({"remoteIPPrefix": "fd00::/8", "etherType": "IPv4"}), vec![".remoteIPPrefix"]),
            (json!({"remoteIPPrefix": "anywhere"}), vec![".remoteIPPrefix"]),
            (json!({"remoteManagedGroups": ["worker", "nobody"]}), vec![".remoteManagedGroups[1]"]),
            (json!({"remoteGroupID": "a", "remoteIPPrefix": "::/0"}), vec![""]),
        ];
        for (rule, expected) in table {
            let mut errors = Vec::new();
            validate(&cluster(&rule), None, &mut errors);
            let expected: Vec<String> = expected
                .into_iter()
                .map(|end| format!("spec.managedSecurityGroups.workerNodesSecurityGroupRules[0]{end}"))
                .collect();
            let found: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
            assert_eq!(found, expected, "{rule}");
        }
    }

    /// A rule stored under looser validation must not prevent the removal of a finalizer.
    #[test]
    fn a_stored_rule_does_not_block_updates() {
        let old = cluster(&json!({"remoteIPPrefix": "anywhere"}));
        let mut errors = Vec::new();
        validate(&old, Some(&old), &mut errors);
        assert_eq!(errors, []);
    }
}
