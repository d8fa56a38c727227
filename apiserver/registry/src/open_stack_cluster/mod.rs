//! OpenStackCluster.

mod security_groups;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

use crate::cluster::is_cidr;
use crate::{immutable, open_stack_machine};

/// OpenStackCluster's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackClusterStrategy;

impl Strategy for OpenStackClusterStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = validate_shape(new);
        validate_bastion(new, old, &mut faults);
        security_groups::validate(new, old, &mut faults);
        if let Some(old) = old {
            faults.extend(immutable::spec(new, old, |now, before| allow(now, before, old)));
            for identity in ["spec.identityRef", "spec.bastion.spec.identityRef"] {
                faults.extend(open_stack_machine::region(new, old, identity));
            }
        }
        faults
    }
}

fn validate_shape(new: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (field, path) in [("managedNetwork", "spec.managedNetwork"), ("managedRouter", "spec.managedRouter")]
    {
        let found = new.pointer(&format!("/spec/{field}"));
        if found.and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            faults.push(FieldError::invalid(
                FieldPath::new(path),
                &json!({}),
                &format!("{field} must not be empty if set"),
            ));
        }
    }
    if new.pointer("/spec/enableExternalNetwork") == Some(&json!(false)) {
        if new.pointer("/spec/apiServer/enableFloatingIP") == Some(&json!(true)) {
            let detail = "apiServer.enableFloatingIP cannot be true when enableExternalNetwork is false";
            faults.push(FieldError::invalid(
                FieldPath::new("spec.apiServer.enableFloatingIP"),
                &json!(true),
                detail,
            ));
        }
        if let Some(address) = new.pointer("/spec/bastion/floatingIP") {
            let detail = "bastion floating IP cannot be set when enableExternalNetwork is false";
            faults.push(FieldError::invalid(FieldPath::new("spec.bastion.floatingIP"), address, detail));
        }
    }
    let subnets = new.pointer("/spec/managedSubnets").and_then(Value::as_array);
    for (index, subnet) in subnets.into_iter().flatten().enumerate() {
        let cidr = subnet.get("cidr").cloned().unwrap_or_default();
        if !cidr.as_str().is_some_and(is_cidr) {
            let at = FieldPath::new("spec.managedSubnets").index(index).child("cidr");
            faults.push(FieldError::invalid(at, &cidr, "must be a CIDR, e.g. 10.0.0.0/24"));
        }
    }
    faults
}

fn validate_bastion(new: &Value, old: Option<&Value>, faults: &mut Vec<FieldError>) {
    let enabled = |object: &Value| {
        let bastion = object.pointer("/spec/bastion")?;
        Some(bastion.get("enabled") != Some(&json!(false)))
    };
    let path = FieldPath::new("spec.bastion");
    match new.pointer("/spec/bastion/spec") {
        None if enabled(new) == Some(true) => {
            faults.push(FieldError::required(path.child("spec"), "spec is required if bastion is enabled"));
        }
        Some(spec) => faults.extend(open_stack_machine::validate_spec(spec, &path.child("spec"))),
        None => {}
    }
    if old.and_then(enabled) == Some(true) && enabled(new).is_none() {
        let detail = "cannot be removed while it is enabled. Set bastion.enabled to false first";
        faults.push(FieldError::forbidden(path, detail));
    }
}

/// Makes differences disappear that an update may bring.
fn allow(now: &mut Value, before: &mut Value, old: &Value) {
    const FREE: &[&str] = &[
        "identityRef",
        "bastion",
        "managedSecurityGroups.allowAllInClusterTraffic",
        "managedSecurityGroups.clusterNodesSecurityGroupRules",
        "managedSecurityGroups.controlPlaneNodesSecurityGroupRules",
        "managedSecurityGroups.workerNodesSecurityGroupRules",
        "apiServer.managedLoadBalancer.allowedCIDRs",
        "apiServer.managedLoadBalancer.monitor",
        "controlPlaneAvailabilityZones",
        "controlPlaneOmitAvailabilityZone",
        "primarySubnet",
    ];
    for value in [&mut *now, &mut *before] {
        for path in FREE {
            immutable::forget(value, path);
        }
        for subnet in value.get_mut("managedSubnets").and_then(Value::as_array_mut).into_iter().flatten() {
            immutable::forget(subnet, "dnsNameservers");
        }
    }
    // What the controller fills in, once.
    let unset = |pointer: &str| old.pointer(pointer).is_none();
    let floating = old.pointer("/spec/apiServer/enableFloatingIP") != Some(&json!(false));
    let once = [
        ("controlPlaneEndpoint", "/spec/controlPlaneEndpoint", true),
        ("apiServer.fixedIP", "/spec/apiServer/fixedIP", !floating),
        ("apiServer.port", "/spec/apiServer/port", !floating),
    ];
    for (path, pointer, condition) in once {
        if condition && unset(pointer) {
            immutable::forget(now, path);
        }
    }
    let balanced = old.pointer("/status/apiServerManagedLoadBalancer/ip");
    if balanced.is_some() && now.pointer("/apiServer/floatingIP") == balanced {
        immutable::forget(now, "apiServer.floatingIP");
        immutable::forget(before, "apiServer.floatingIP");
    }
    pin_filters(now, before, old);
    // An apiServer that only held what was just forgotten is as good as none.
    for value in [now, before] {
        let is_empty =
            value.get("apiServer").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty);
        if is_empty {
            immutable::forget(value, "apiServer");
        }
    }
}

/// A filter may be replaced by the id that it found.
fn pin_filters(now: &mut Value, before: &mut Value, old: &Value) {
    let found = old.pointer("/status/network/id");
    if found.is_some() && before.pointer("/network/filter").is_some() && now.pointer("/network/id") == found {
        immutable::forget(now, "network");
        immutable::forget(before, "network");
    }
    let ids: Vec<&Value> = old
        .pointer("/status/network/subnets")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(|subnet| subnet.get("id")).collect())
        .unwrap_or_default();
    let (Some(after), Some(filters)) =
        (now.get("subnets").and_then(Value::as_array), before.get("subnets").and_then(Value::as_array))
    else {
        return;
    };
    let same = after.len() == filters.len()
        && after
            .iter()
            .zip(filters)
            .zip(&ids)
            .all(|((after, filter), id)| after == filter || after.get("id") == Some(*id));
    if same && ids.len() == after.len() {
        immutable::forget(now, "subnets");
        immutable::forget(before, "subnets");
    }
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
            .map(|fault| fault.field.to_string())
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
    fn updates_may_bring_only_what_is_allowed() {
        let old = cluster();
        let none = Vec::<String>::new();
        assert_eq!(update(&old, |_| {}), none);
        assert_eq!(update(&old, |new| new["spec"]["identityRef"]["name"] = json!("x")), none);
        assert_eq!(
            update(&old, |new| new["spec"]["identityRef"]["region"] = json!("x")),
            ["spec.identityRef.region"]
        );
        assert_eq!(update(&old, |new| new["spec"]["managedSubnets"][0]["dnsNameservers"] = json!([])), none);
        assert_eq!(
            update(&old, |new| new["spec"]["managedSubnets"][0]["cidr"] = json!("10.1.0.0/24")),
            ["spec.managedSubnets"]
        );
        assert_eq!(
            update(&old, |new| new["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 1})),
            none
        );
        assert_eq!(update(&old, |new| new["spec"]["network"] = json!({"id": "net-1"})), none);
        assert_eq!(update(&old, |new| new["spec"]["network"] = json!({"id": "net-2"})), ["spec.network"]);
        assert_eq!(update(&old, |new| new["spec"]["tags"] = json!(["u"])), ["spec.tags"]);
        assert_eq!(update(&old, |new| new["spec"]["primarySubnet"] = json!({"id": "s"})), none);
        let mut with_endpoint = old.clone();
        with_endpoint["spec"]["controlPlaneEndpoint"] = json!({"host": "h", "port": 1});
        assert_eq!(
            update(&with_endpoint, |new| new["spec"]["controlPlaneEndpoint"]["host"] = json!("i")),
            ["spec.controlPlaneEndpoint"]
        );
    }

    #[test]
    fn a_bastion_is_disabled_before_it_is_removed() {
        let mut old = cluster();
        old["spec"]["bastion"] = json!({"enabled": true, "spec": {}});
        let gone = |new: &mut Value| immutable::forget(new, "spec.bastion");
        assert_eq!(update(&old, gone), ["spec.bastion"]);
        old["spec"]["bastion"]["spec"]["identityRef"] = json!({"name": "b", "region": "r"});
        assert_eq!(
            update(&old, |new| new["spec"]["bastion"]["spec"]["identityRef"]["region"] = json!("x")),
            ["spec.bastion.spec.identityRef.region"]
        );
        old["spec"]["bastion"]["enabled"] = json!(false);
        assert_eq!(update(&old, gone), Vec::<String>::new());
        assert_eq!(update(&old, |new| new["spec"]["bastion"] = json!({})), ["spec.bastion.spec"]);
    }

    #[test]
    fn impossible_combinations_are_refused() {
        let found = |spec: Value| -> Vec<String> {
            let object = json!({"spec": spec});
            OpenStackClusterStrategy
                .validate(&object, None)
                .iter()
                .map(|fault| fault.field.to_string())
                .collect()
        };
        assert_eq!(found(json!({"managedNetwork": {}})), ["spec.managedNetwork"]);
        assert_eq!(
            found(json!({"enableExternalNetwork": false, "apiServer": {"enableFloatingIP": true}})),
            ["spec.apiServer.enableFloatingIP"]
        );
    }
}
