//! Validation of the address ranges of created subnets: they may grow, since no server loses its address by that.

use std::net::IpAddr;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// Adds an error for each subnet whose ranges lose an address in an update.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let subnets = |object: &Value| -> Vec<Value> {
        let subnets = object.pointer("/spec/managedSubnets").and_then(Value::as_array);
        subnets.cloned().unwrap_or_default()
    };
    for (index, (now, before)) in subnets(new).iter().zip(&subnets(old)).enumerate() {
        if pools(now) != pools(before) && !grows(now, before) {
            let at = FieldPath::new("spec.managedSubnets").index(index).child("allocationPools");
            let detail = "can only grow: each address of the existing ranges must stay in one";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
}

fn pools(subnet: &Value) -> Vec<Value> {
    subnet.get("allocationPools").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns true if each range before is within one of now. Without ranges before, Neutron has chosen the whole subnet.
fn grows(now: &Value, before: &Value) -> bool {
    let (now, before) = (ranges(now), ranges(before));
    let (Some(now), Some(before)) = (now, before) else { return false };
    let is_kept = |(first, last): &(u128, u128)| now.iter().any(|(from, to)| from <= first && last <= to);
    !before.is_empty() && before.iter().all(is_kept)
}

/// Returns the ranges in ascending order, with those that touch each other as one.
fn ranges(subnet: &Value) -> Option<Vec<(u128, u128)>> {
    let number = |pool: &Value, field: &str| match pool.get(field)?.as_str()?.parse().ok()? {
        IpAddr::V4(address) => Some(u128::from(address.to_bits())),
        IpAddr::V6(address) => Some(address.to_bits()),
    };
    let pools = pools(subnet);
    let ranges = pools.iter().map(|pool| Some((number(pool, "start")?, number(pool, "end")?)));
    let mut ranges = ranges.collect::<Option<Vec<_>>>()?;
    ranges.sort_unstable();
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(known) if first <= known.1.saturating_add(1) => known.1 = known.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r16_1_allocation_pools_may_grow_and_not_shrink() {
        let cluster = |pools: Value| json!({"spec": {"managedSubnets": [{"allocationPools": pools}]}});
        let pool = |start: &str, end: &str| json!({"start": start, "end": end});
        let old = cluster(json!([pool("10.0.0.10", "10.0.0.20")]));
        let table = [
            (json!([pool("10.0.0.10", "10.0.0.20")]), true),
            (json!([pool("10.0.0.5", "10.0.0.30")]), true),
            (json!([pool("10.0.0.10", "10.0.0.20"), pool("10.0.0.40", "10.0.0.50")]), true),
            (json!([pool("10.0.0.10", "10.0.0.14"), pool("10.0.0.15", "10.0.0.20")]), true),
            (json!([pool("10.0.0.11", "10.0.0.20")]), false),
            (json!([]), false),
            (json!([pool("nonsense", "10.0.0.20")]), false),
        ];
        for (pools, allowed) in table {
            let mut errors = Vec::new();
            validate(&cluster(pools.clone()), &old, &mut errors);
            assert_eq!(errors.is_empty(), allowed, "{pools}");
        }
        let mut errors = Vec::new();
        validate(&old, &cluster(json!([])), &mut errors);
        assert_eq!(errors.len(), 1, "Neutron has chosen the whole subnet");
    }
}
