//! OpenStackServer: strategy and validation.

use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::kinds::openstack_machine;
use crate::rules::immutable;

/// Strategy of OpenStackServer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackServerStrategy;

impl Strategy for OpenStackServerStrategy {
    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        immutable::is_of_topology(new)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = |object: &Value| object.get("spec").map(immutable::as_typed);
        match old {
            None => openstack_machine::validate_new(new),
            Some(old) if spec(new) != spec(old) => {
                let detail = "OpenStackServer spec field is immutable. Please create a new resource instead.";
                vec![FieldError::forbidden(FieldPath::new("spec"), detail)]
            }
            Some(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spec_of_a_server_is_immutable() {
        let old = json!({"spec": {"flavor": "small", "identityRef": {"name": "a"}}});
        let mut new = old.clone();
        new["status"] = json!({"ready": true});
        assert_eq!(OpenStackServerStrategy.validate(&new, Some(&old)), []);
        new["spec"]["flavor"] = json!("large");
        let found = OpenStackServerStrategy.validate(&new, Some(&old));
        let expected =
            "spec: Forbidden: OpenStackServer spec field is immutable. Please create a new resource instead.";
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn contradictory_fields_are_refused() {
        let server = json!({"spec": {
            "rootVolume": {"sizeGiB": 1}, "additionalBlockDevices": [{"name": "root"}],
            "ports": [{"enablePortSecurity": false, "securityGroups": [{"id": "a"}]}]}});
        let found: Vec<String> =
            OpenStackServerStrategy.validate(&server, None).iter().map(ToString::to_string).collect();
        let expected = [
            "spec.additionalBlockDevices: Forbidden: cannot contain a device named \"root\" when rootVolume is set",
            "spec.ports: Forbidden: cannot have security groups when EnablePortSecurity is set to false",
        ];
        assert_eq!(found, expected);
    }
}
