//! OpenStackMachine: strategy and validation.

use std::collections::BTreeSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::quota::Amounts;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::json_fields::annotation;
use crate::rules::quota_usage;
use crate::rules::{immutable, used_identities};

/// Annotation of an object that an extension server updates in place. Upstream's name. The owner of the Machine writes it with
/// the new spec, and the server makes the change in the cloud.
const UPDATING: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// Strategy of OpenStackMachine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineStrategy;

impl Strategy for OpenStackMachineStrategy {
    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::server(object)
    }

    fn quota_obstacle(&self, object: &Value, limited: &BTreeSet<&str>) -> Option<String> {
        quota_usage::unknown_flavor(object, limited)
    }

    fn quota_prefixes(&self) -> &'static [&'static str] {
        &quota_usage::SERVERS
    }

    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &["spec.identityRef"])
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old else { return validate_new(new) };
        if annotation(new, UPDATING).is_some() && new.get("spec") != old.get("spec") {
            return validate_new(new);
        }
        immutable::spec(new, old, |now, before| {
            for value in [now, before] {
                // A Machine can get another server.
                immutable::forget(value, "providerID");
                immutable::forget(value, "identityRef");
                for port in value.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    immutable::forget(port, "allowedAddressPairs");
                }
                // Upstream compares this kind in its typed form, without zeros and empty lists.
                immutable::forget_zeros(value);
                immutable::without_empty_lists(value);
            }
        })
        .into_iter()
        .collect()
    }
}

/// Returns the errors of a new server. Stored objects may be older than these checks.
pub(crate) fn validate_new(new: &Value) -> Vec<FieldError> {
    let list = |pointer: &str| new.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let mut errors = Vec::new();
    let has_root_volume = object::at(new, "spec.rootVolume").is_some();
    let is_root = |device: &&Value| device.get("name").and_then(Value::as_str) == Some("root");
    for _ in list("/spec/additionalBlockDevices").filter(is_root).filter(|_| has_root_volume) {
        let detail = "cannot contain a device named \"root\" when rootVolume is set";
        errors.push(FieldError::forbidden(FieldPath::new("spec.additionalBlockDevices"), detail));
    }
    let is_open_with_groups = |port: &&Value| {
        port.get("enablePortSecurity").and_then(Value::as_bool) == Some(false)
            && port.get("securityGroups").and_then(Value::as_array).is_some_and(|groups| !groups.is_empty())
    };
    for _ in list("/spec/ports").filter(is_open_with_groups) {
        let detail = "cannot have security groups when EnablePortSecurity is set to false";
        errors.push(FieldError::forbidden(FieldPath::new("spec.ports"), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(new: &Value, old: &Value) -> Vec<String> {
        OpenStackMachineStrategy
            .validate(new, Some(old))
            .iter()
            .map(|error| error.field.to_string())
            .collect()
    }

    #[test]
    fn updates_may_only_change_mutable_fields() {
        let old = json!({"spec": {"flavor": {"id": "1"}, "identityRef": {"name": "a", "region": "r"},
            "ports": [{"description": "x", "allowedAddressPairs": []}]}});
        let with = |pointer: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(pointer).unwrap() = value;
            new
        };
        assert_eq!(errors(&old, &old), Vec::<String>::new());
        assert_eq!(errors(&with("/spec/identityRef/name", json!("b")), &old), Vec::<String>::new());
        assert_eq!(
            errors(&with("/spec/ports/0/allowedAddressPairs", json!([{"ipAddress": "a"}])), &old),
            Vec::<String>::new()
        );
        assert_eq!(errors(&with("/spec/flavor/id", json!("2")), &old), ["spec"]);
        let made = with("/spec", {
            let mut spec = old["spec"].clone();
            spec["providerID"] = json!("openstack:///1");
            spec
        });
        assert_eq!(errors(&made, &old), Vec::<String>::new());
        let mut other = made.clone();
        other["spec"]["providerID"] = json!("openstack:///2");
        assert_eq!(errors(&other, &made), Vec::<String>::new(), "its server was replaced");
        assert_eq!(errors(&with("/spec/ports/0/description", json!("y")), &old), ["spec"]);
        let mut zeros = old.clone();
        zeros["spec"]["trunk"] = json!(false);
        zeros["spec"]["sshKeyName"] = json!("");
        zeros["spec"]["tags"] = json!([]);
        assert_eq!(errors(&zeros, &old), Vec::<String>::new(), "a typed client leaves them out");
        assert_eq!(errors(&old, &zeros), Vec::<String>::new());
        zeros["spec"]["trunk"] = json!(true);
        assert_eq!(errors(&zeros, &old), ["spec"]);
    }

    #[test]
    fn an_update_in_place_may_change_all_fields_to_valid_ones() {
        let old = json!({"metadata": {}, "spec": {"flavor": {"id": "1"}}});
        let mut new = old.clone();
        new["spec"]["flavor"]["id"] = json!("2");
        assert_eq!(errors(&new, &old), ["spec"]);
        new["metadata"]["annotations"] = json!({UPDATING: ""});
        assert_eq!(errors(&new, &old), Vec::<String>::new());
        new["spec"]["ports"] = json!([{"enablePortSecurity": false, "securityGroups": [{}]}]);
        assert_eq!(errors(&new, &old), ["spec.ports"]);
    }
}
