//! Cluster.

use std::net::IpAddr;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::version;

/// Cluster's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterStrategy;

impl Strategy for ClusterStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        for part in ["pods", "services"] {
            validate_ranges(new, part, &mut faults);
        }
        validate_topology_version(new, old, &mut faults);
        faults
    }
}

fn validate_ranges(new: &Value, part: &str, faults: &mut Vec<FieldError>) {
    let path = FieldPath::new(format!("spec.clusterNetwork.{part}.cidrBlocks"));
    let blocks = new.pointer(&format!("/spec/clusterNetwork/{part}/cidrBlocks")).and_then(Value::as_array);
    for (index, block) in blocks.into_iter().flatten().enumerate() {
        if !block.as_str().is_some_and(is_cidr) {
            faults.push(FieldError::invalid(path.index(index), block, "must be a CIDR, e.g. 10.0.0.0/16"));
        }
    }
}

/// Whether `text` is an address with a prefix length that its family has.
pub(crate) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => length <= 32,
        Ok(IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

fn validate_topology_version(new: &Value, old: Option<&Value>, faults: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology.version");
    let text =
        |object: &Value| object.pointer("/spec/topology/version").and_then(Value::as_str).map(str::to_owned);
    let Some(wanted) = text(new) else { return };
    let shown = Value::String(wanted.clone());
    let Some(now) = version::parse(&wanted) else {
        let detail = "must be a valid semantic version with a leading v, e.g. v1.30.2";
        return faults.push(FieldError::invalid(path, &shown, detail));
    };
    let Some(before) = old.and_then(text).and_then(|text| version::parse(&text)) else { return };
    if now < before {
        let (major, minor, patch) = before;
        let detail = format!("version cannot be decreased from v{major}.{minor}.{patch}");
        faults.push(FieldError::invalid(path, &shown, &detail));
    } else if now.0 == before.0 && now.1 > before.1 + 1 {
        let detail = format!(
            "version cannot be increased by more than one minor at a time, from v{}.{}",
            before.0, before.1
        );
        faults.push(FieldError::forbidden(path, &detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_must_be_cidrs() {
        for (text, expected) in [
            ("10.0.0.0/16", true),
            ("fd00::/64", true),
            ("10.0.0.0", false),
            ("10.0.0.0/33", false),
            ("x/8", false),
        ] {
            assert_eq!(is_cidr(text), expected, "{text}");
        }
        let cluster = json!({"spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16", "nope"]}}}});
        let faults = ClusterStrategy.validate(&cluster, None);
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].field.as_str(), "spec.clusterNetwork.pods.cidrBlocks[1]");
    }

    #[test]
    fn a_topology_goes_up_one_minor_at_a_time() {
        let at = |version: &str| json!({"spec": {"topology": {"version": version}}});
        for (from, to, faults) in [
            ("v1.30.1", "v1.31.0", 0),
            ("v1.30.1", "v1.30.0", 1),
            ("v1.30.1", "v1.32.0", 1),
            ("v1.30.1", "1.31.0", 1),
        ] {
            assert_eq!(ClusterStrategy.validate(&at(to), Some(&at(from))).len(), faults, "{from} to {to}");
        }
    }
}
