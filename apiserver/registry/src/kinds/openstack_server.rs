//! OpenStackServer: strategy and validation.

use std::collections::BTreeSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::quota::{Amounts, QuotaOwner};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::kinds::openstack_machine;
use crate::rules::quota_usage;
use crate::rules::{immutable, used_identities, used_secrets};

/// Strategy of OpenStackServer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackServerStrategy;

impl Strategy for OpenStackServerStrategy {
    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::server(object)
    }

    fn quota_owners(&self) -> &'static [QuotaOwner] {
        &quota_usage::OF_SERVERS
    }

    fn quota_obstacle(&self, object: &Value, limited: &BTreeSet<&str>) -> Option<String> {
        quota_usage::unknown_flavor(object, limited)
    }

    fn quota_prefixes(&self) -> &'static [&'static str] {
        &quota_usage::SERVERS
    }

    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        let mut used = used_identities::at(object, &["spec.identityRef"]);
        used.extend(used_secrets::at(object, &["spec.userDataRef.name"]));
        used
    }

    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        immutable::is_of_topology(new)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(old) = old else { return openstack_machine::validate_new(new) };
        let is_bastion = is_bastion(old);
        let spec = |object: &Value| {
            let mut spec = object.get("spec").map(immutable::as_typed)?;
            if is_bastion {
                immutable::forget(&mut spec, "identityRef");
            }
            Some(spec)
        };
        if spec(new) == spec(old) {
            return Vec::new();
        }
        let detail = "OpenStackServer spec field is immutable. Please create a new resource instead.";
        vec![FieldError::forbidden(FieldPath::new("spec"), detail)]
    }
}

/// Returns true if an OpenStackCluster controls the server. The credentials of a bastion follow those of its cluster;
/// with the old ones, its server could not be deleted any more. Upstream deletes the server with the old ones first.
fn is_bastion(server: &Value) -> bool {
    let owners = server.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let field = |owner: &Value, name: &str| owner.get(name).cloned().unwrap_or_default();
    owners.into_iter().flatten().any(|owner| {
        field(owner, "controller") == Value::Bool(true) && field(owner, "kind") == "OpenStackCluster"
    })
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
    fn only_a_bastion_may_get_other_credentials() {
        let owned = |kind: &str, controller: bool, identity: &str| {
            json!({"metadata": {"ownerReferences": [{"kind": kind, "name": "c", "controller": controller}]},
                "spec": {"flavor": "small", "identityRef": {"name": identity}}})
        };
        let table =
            [("OpenStackCluster", true, 0), ("OpenStackCluster", false, 1), ("OpenStackMachine", true, 1)];
        for (kind, controller, expected) in table {
            let (old, new) = (owned(kind, controller, "a"), owned(kind, controller, "b"));
            let found = OpenStackServerStrategy.validate(&new, Some(&old));
            assert_eq!(found.len(), expected, "{kind} {controller}");
        }
        let old = owned("OpenStackCluster", true, "a");
        let mut new = owned("OpenStackCluster", true, "b");
        new["spec"]["flavor"] = json!("large");
        assert_eq!(OpenStackServerStrategy.validate(&new, Some(&old)).len(), 1);
        let bare = json!({"spec": {"flavor": "small", "identityRef": {"name": "a"}}});
        let mut adopted = owned("OpenStackCluster", true, "b");
        adopted["spec"]["flavor"] = json!("small");
        assert_eq!(OpenStackServerStrategy.validate(&adopted, Some(&bare)).len(), 1, "its owner is new");
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
