//! OpenStackMachine: strategy and validation.

use std::collections::BTreeSet;

use apiserver_machinery::admission::{GrantingWrite, UsedObject};
use apiserver_machinery::object;
use apiserver_machinery::quota::Amounts;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{Described, Descriptor, OpenStackMachine};
use async_trait::async_trait;
use serde_json::Value;

use crate::rules::in_place_marks::{self, UPDATING};
use crate::rules::json_fields::annotation;
use crate::rules::quota_usage;
use crate::rules::{immutable, used_identities};

/// Reason why a client may not change the spec under the mark.
const SPEC_OF_CONTROLLERS: &str = "cannot be modified: an extension server updates the server in place, and the controllers of \
    Capstan alone change the spec for that. Change the template of the Machine";

/// Strategy of OpenStackMachine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineStrategy;

#[async_trait]
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

    /// The mark of an update in place lets the spec change, so it is for the controllers alone. An object that is created with
    /// the mark keeps it: `clusterctl move` takes it along, and it gives the client nothing.
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        let errors = match write.old.filter(|_| !write.permissions.is_internal()) {
            Some(old) => errors_under_the_mark(write.new, old),
            None => Vec::new(),
        };
        if errors.is_empty() {
            return Ok(());
        }
        let Descriptor { group, kind, .. } = OpenStackMachine::DESCRIPTOR;
        Err(ApiError::invalid_kind(&format!("{kind}.{group}"), object::name(write.new), &errors))
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old else { return validate_new(new) };
        if annotation(new, UPDATING).is_some() && new.get("spec") != old.get("spec") {
            return validate_new(new);
        }
        changed_spec(new, old).into_iter().collect()
    }
}

/// Returns the errors of a client's update that writes the mark, or that would be allowed by it.
fn errors_under_the_mark(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = in_place_marks::changed(new, old, &[UPDATING]);
    if annotation(new, UPDATING).is_some() && changed_spec(new, old).is_some() {
        errors.push(FieldError::forbidden(FieldPath::new("spec"), SPEC_OF_CONTROLLERS));
    }
    errors
}

/// Returns an error if the spec differs in more than the fields that may always change.
fn changed_spec(new: &Value, old: &Value) -> Option<FieldError> {
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
    fn a_client_writes_neither_the_mark_nor_the_spec_under_it() {
        let object = |mark: Option<&str>, flavor: &str| {
            let annotations = mark.map(|mark| json!({UPDATING: mark}));
            let spec = json!({"flavor": {"id": flavor}, "providerID": flavor});
            json!({"metadata": {"annotations": annotations}, "spec": spec})
        };
        let mark = format!("metadata.annotations[{UPDATING}]");
        let (mark, spec) = (mark.as_str(), "spec");
        let table = [
            (object(None, "1"), object(None, "1"), vec![]),
            (object(None, "1"), object(None, "2"), vec![]),
            (object(None, "1"), object(Some(""), "1"), vec![mark]),
            (object(None, "1"), object(Some(""), "2"), vec![mark, spec]),
            (object(Some(""), "1"), object(Some(""), "1"), vec![]),
            (object(Some(""), "1"), object(Some(""), "2"), vec![spec]),
            (object(Some(""), "1"), object(Some("x"), "1"), vec![mark]),
            (object(Some(""), "1"), object(None, "1"), vec![mark]),
        ];
        for (old, new, expected) in table {
            let found = errors_under_the_mark(&new, &old);
            let found: Vec<&str> = found.iter().map(|error| error.field.as_str()).collect();
            assert_eq!(found, expected, "{old} {new}");
        }
        let mut other = object(Some(""), "1");
        other["spec"]["providerID"] = json!("2");
        assert_eq!(errors_under_the_mark(&other, &object(Some(""), "1")), [], "it may always change");
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
