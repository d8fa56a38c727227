//! OpenStackCluster: strategy and validation.

mod allocation_pools;
mod security_groups;
mod warnings;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::kinds::cluster::is_cidr;
use crate::rules::{immutable, used_identities};

/// Strategy of OpenStackCluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackClusterStrategy;

#[async_trait]
impl Strategy for OpenStackClusterStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &["spec.identityRef", "spec.bastion.spec.identityRef"])
    }

    /// An update can replace the controller's choices by the values in the status.
    fn reads_status(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_subnets(new);
        validate_bastion(new, old, &mut errors);
        security_groups::validate(new, old, &mut errors);
        if let Some(old) = old {
            validate_ranges_kept(new, old, &mut errors);
            allocation_pools::validate(new, old, &mut errors);
            errors.extend(immutable::spec(new, old, |now, before| {
                if requests_load_balancer(new, old) {
                    allow_another_load_balancer(now, before);
                }
                allow(now, before, old);
            }));
        }
        errors
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        Ok(Verdict { warnings: warnings::warnings(new, old), ..Verdict::default() })
    }
}

fn validate_subnets(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let subnets = object::at(new, "spec.managedSubnets").and_then(Value::as_array);
    for (index, subnet) in subnets.into_iter().flatten().enumerate() {
        let cidr = subnet.get("cidr").cloned().unwrap_or_default();
        if !cidr.as_str().is_some_and(is_cidr) {
            let at = FieldPath::new("spec.managedSubnets").index(index).child("cidr");
            errors.push(FieldError::invalid(at, &cidr, "must be a CIDR, e.g. 10.0.0.0/24"));
        }
    }
    errors
}

/// Validates that the range of a created subnet stays the same.
fn validate_ranges_kept(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let range = |object: &Value, index: usize| {
        let text = object.pointer(&format!("/spec/managedSubnets/{index}/cidr"));
        text.and_then(Value::as_str).map(str::to_owned)
    };
    let count = |object: &Value| Some(object::at(object, "spec.managedSubnets")?.as_array()?.len());
    let before = count(old).unwrap_or_default();
    if count(new).zip(count(old)).is_some_and(|(now, then)| now != then) {
        let at = FieldPath::new("spec.managedSubnets");
        errors.push(FieldError::forbidden(at, "cannot add or remove subnets"));
        return;
    }
    for (now, then) in (0..before).filter_map(|index| range(new, index).zip(range(old, index))) {
        if now != then {
            let detail = format!("cannot change subnet CIDR from existing value to {now}");
            errors.push(FieldError::forbidden(FieldPath::new("spec.managedSubnets"), &detail));
        }
    }
}

fn validate_bastion(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let enabled = |object: &Value| {
        let bastion = object::at(object, "spec.bastion")?;
        Some(bastion.get("enabled") != Some(&json!(false)))
    };
    if old.and_then(enabled) == Some(true) && enabled(new).is_none() {
        let detail = "cannot be removed before disabling it";
        errors.push(FieldError::forbidden(FieldPath::new("spec.bastion"), detail));
    }
}

/// Annotation by which a user requests another load balancer behind the same address.
const RECREATE: &str = "capstan.dev/recreate-load-balancer";

/// Returns true if an update requests another load balancer.
fn requests_load_balancer(new: &Value, old: &Value) -> bool {
    let request = |object: &Value| object.pointer("/metadata/annotations")?.get(RECREATE).cloned();
    request(new).is_some() && request(new) != request(old)
}

/// Removes the differences that only another load balancer can have.
fn allow_another_load_balancer(now: &mut Value, before: &mut Value) {
    for field in ["flavor", "provider", "availabilityZone"] {
        let path = format!("apiServer.managedLoadBalancer.{field}");
        immutable::forget(now, &path);
        immutable::forget(before, &path);
    }
}

/// Removes the differences that an update may make.
fn allow(now: &mut Value, before: &mut Value, old: &Value) {
    const FREE: &[&str] = &[
        "identityRef",
        "bastion",
        "managedSecurityGroups.allowAllInClusterTraffic",
        "managedSecurityGroups.clusterNodesSecurityGroupRules",
        "managedSecurityGroups.controlPlaneNodesSecurityGroupRules",
        "managedSecurityGroups.workerNodesSecurityGroupRules",
        "apiServer.managedLoadBalancer.additionalPorts",
        "apiServer.managedLoadBalancer.allowedCIDRs",
        "apiServer.managedLoadBalancer.monitor",
        "controlPlaneAvailabilityZones",
        "controlPlaneOmitAvailabilityZone",
        "managedRouter",
        "primarySubnet",
        "tags",
    ];
    for value in [&mut *now, &mut *before] {
        immutable::forget_zeros(value);
        for path in FREE {
            immutable::forget(value, path);
        }
        for subnet in value.get_mut("managedSubnets").and_then(Value::as_array_mut).into_iter().flatten() {
            immutable::forget(subnet, "dnsNameservers");
            // Their own validation says whether they grow.
            immutable::forget(subnet, "allocationPools");
        }
    }
    // Groups can be added later, but not removed.
    if before.get("managedSecurityGroups").is_none() && now.get("managedSecurityGroups") == Some(&json!({})) {
        immutable::forget(now, "managedSecurityGroups");
    }
    // Fields that the controller sets once.
    let unset = |pointer: &str| old.pointer(pointer).is_none_or(|value| value == "");
    if object::at(old, "spec.controlPlaneEndpoint.host").is_none() {
        immutable::forget(before, "controlPlaneEndpoint");
        immutable::forget(now, "controlPlaneEndpoint");
    }
    let floating = object::at(old, "spec.apiServer.enableFloatingIP") != Some(&json!(false));
    let once = [("apiServer.fixedIP", "/spec/apiServer/fixedIP"), ("apiServer.port", "/spec/apiServer/port")];
    for (path, pointer) in once {
        if !floating && unset(pointer) {
            immutable::forget(now, path);
            immutable::forget(before, path);
        }
    }
    let balanced = object::at(old, "status.apiServerManagedLoadBalancer.ip");
    if balanced.is_some() && object::at(now, "apiServer.floatingIP") == balanced {
        immutable::forget(now, "apiServer.floatingIP");
        immutable::forget(before, "apiServer.floatingIP");
        // An apiServer that is empty after the removal of these fields counts as absent.
        for value in [&mut *now, &mut *before] {
            if value.get("apiServer") == Some(&json!({})) {
                immutable::forget(value, "apiServer");
            }
        }
    }
    pin_filters(now, before, old);
}

/// Removes the difference between a filter and the id that it resolved to.
fn pin_filters(now: &mut Value, before: &mut Value, old: &Value) {
    let Some(network) = object::at(old, "status.network") else { return };
    if now.get("network").is_none() || before.get("network").is_none() {
        return;
    }
    let subnets = |value: &Value, pointer: &str| -> Vec<Value> {
        value.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let (after, filters) = (subnets(now, "/subnets"), subnets(before, "/subnets"));
    let found = subnets(network, "/subnets");
    let are_pinned = after.len() == filters.len()
        && !found.is_empty()
        && after.iter().zip(&filters).all(|(after, before)| is_pinned(after, before, &found));
    if are_pinned {
        immutable::forget(now, "subnets");
        immutable::forget(before, "subnets");
    }
    if network.get("id").is_some() && object::at(now, "network.id") == network.get("id") {
        immutable::forget(now, "network");
        immutable::forget(before, "network");
    }
}

/// Reports whether a subnet is unchanged, or is the one in `found` with the former name.
fn is_pinned(after: &Value, before: &Value, found: &[Value]) -> bool {
    let name = object::at(before, "filter.name");
    let is_found = |subnet: &Value| subnet.get("name") == name && subnet.get("id") == after.get("id");
    after == before || (name.is_some() && after.get("filter").is_none() && found.iter().any(is_found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(old: &Value, change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut new = old.clone();
        change(&mut new);
        OpenStackClusterStrategy
            .validate(&new, Some(old))
            .iter()
            .map(|error| error.field.to_string())
            .collect()
    }

    fn cluster() -> Value {
        json!({"spec": {
            "identityRef": {"name": "a", "cloudName": "b", "region": "r"},
            "managedSubnets": [{"cidr": "10.0.0.0/24", "dnsNameservers": ["a"]}],
            "network": {"filter": {"name": "n"}}, "tags": ["t"]},
            "status": {"network": {"id": "net-1"}}})
    }

    #[test]
    fn updates_may_only_change_mutable_fields() {
        let old = cluster();
        let none = Vec::<String>::new();
        assert_eq!(update(&old, |_| {}), none);
        assert_eq!(update(&old, |new| new["spec"]["identityRef"]["name"] = json!("x")), none);
        assert_eq!(update(&old, |new| new["spec"]["managedSubnets"][0]["dnsNameservers"] = json!([])), none);
        assert_eq!(
            update(&old, |new| new["spec"]["managedSubnets"][0]["cidr"] = json!("10.1.0.0/24")),
            ["spec.managedSubnets", "spec"]
        );
        assert_eq!(
            update(&old, |new| new["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 1})),
            none
        );
        assert_eq!(update(&old, |new| new["spec"]["network"] = json!({"id": "net-1"})), none);
        assert_eq!(update(&old, |new| new["spec"]["network"] = json!({"id": "net-2"})), ["spec"]);
        assert_eq!(update(&old, |new| new["spec"]["primarySubnet"] = json!({"id": "s"})), none);
        assert_eq!(
            update(&old, |new| new["spec"]["managedSecurityGroups"] =
                json!({"allowAllInClusterTraffic": true})),
            none
        );
        assert_eq!(
            update(&old, |new| new["spec"]["managedSubnets"] = json!([])),
            ["spec.managedSubnets", "spec"]
        );
        assert_eq!(update(&old, |new| new["spec"]["network"]["filter"]["description"] = json!("")), none);
        assert_eq!(update(&old, |new| new["spec"]["apiServer"] = json!({})), ["spec"]);
        let mut with_endpoint = old.clone();
        with_endpoint["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 1});
        assert_eq!(
            update(&with_endpoint, |new| new["spec"]["controlPlaneEndpoint"]["host"] = json!("i")),
            ["spec"]
        );
    }

    #[test]
    fn r16_2_tags_and_ports_of_the_load_balancer_can_change() {
        let mut old = cluster();
        old["spec"]["apiServer"] = json!({"managedLoadBalancer": {"additionalPorts": [8132]}});
        let none = Vec::<String>::new();
        assert_eq!(update(&old, |new| new["spec"]["tags"] = json!(["u"])), none);
        assert_eq!(update(&old, |new| immutable::forget(new, "spec.tags")), none);
        let ports = |ports: Value| {
            update(&old, |new| new["spec"]["apiServer"]["managedLoadBalancer"]["additionalPorts"] = ports)
        };
        assert_eq!(ports(json!([8132, 9000])), none);
        assert_eq!(ports(json!([])), none);
    }

    #[test]
    fn r16_the_addresses_of_the_gateway_of_a_managed_router_can_change() {
        let router = |address: &str| json!({"externalIPs": [{"subnet": {"id": "s"}, "fixedIP": address}]});
        let mut old = cluster();
        let none = Vec::<String>::new();
        assert_eq!(update(&old, |new| new["spec"]["managedRouter"] = router("203.0.113.8")), none);
        old["spec"]["managedRouter"] = router("203.0.113.8");
        assert_eq!(update(&old, |new| new["spec"]["managedRouter"] = router("203.0.113.9")), none);
        assert_eq!(update(&old, |new| immutable::forget(new, "spec.managedRouter")), none);
        assert_eq!(update(&old, |new| new["spec"]["externalNetwork"] = json!({"id": "e"})), ["spec"]);
    }

    #[test]
    fn r16_3_the_kind_of_a_load_balancer_changes_only_with_the_request_of_another_one() {
        let mut old = cluster();
        old["spec"]["apiServer"] =
            json!({"managedLoadBalancer": {"flavor": "small", "network": {"id": "n"}}});
        old["metadata"] = json!({"annotations": {RECREATE: "1"}});
        let changed = |field: &str, request: &str| {
            update(&old, |new| {
                new["spec"]["apiServer"]["managedLoadBalancer"][field] = json!("other");
                new["metadata"]["annotations"][RECREATE] = json!(request);
            })
        };
        for field in ["flavor", "provider", "availabilityZone"] {
            assert_eq!(changed(field, "1"), ["spec"], "{field} without a new request");
            assert_eq!(changed(field, "2"), Vec::<String>::new(), "{field} with one");
        }
        assert_eq!(changed("network", "2"), ["spec"], "the address would be another one");
    }

    #[test]
    fn filters_may_become_the_ids_that_they_resolved_to() {
        let none = Vec::<String>::new();
        let mut old = cluster();
        old["spec"]["subnets"] = json!([{"filter": {"name": "a"}}, {"id": "s-2"}]);
        old["status"]["network"]["subnets"] = json!([{"id": "s-2", "name": "b"}, {"id": "s-1", "name": "a"}]);
        let subnets = |list: Value| update(&old, |new| new["spec"]["subnets"] = list);
        assert_eq!(subnets(json!([{"id": "s-1"}, {"id": "s-2"}])), none);
        assert_eq!(subnets(json!([{"id": "s-2"}, {"id": "s-2"}])), ["spec"]);
        assert_eq!(subnets(json!([{"id": "s-1"}])), ["spec"]);
        assert_eq!(subnets(json!([{"id": "s-1"}, {"filter": {"name": "b"}}])), ["spec"]);
    }

    #[test]
    fn a_bastion_is_disabled_before_it_is_removed() {
        let mut old = cluster();
        old["spec"]["bastion"] = json!({"enabled": true, "spec": {}});
        let gone = |new: &mut Value| immutable::forget(new, "spec.bastion");
        assert_eq!(update(&old, gone), ["spec.bastion"]);
        old["spec"]["bastion"]["enabled"] = json!(false);
        assert_eq!(update(&old, gone), Vec::<String>::new());
    }
}
