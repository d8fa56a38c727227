//! References to credentials: OpenStackClusterIdentities and Secrets, which the controllers read with their own
//! permissions.

use apiserver_machinery::admission::{Use, UsedObject};
use apiserver_machinery::object;
use apiserver_types::{Described, OpenStackClusterIdentity};
use serde_json::Value;

/// Path in an OpenStackMachineTemplate.
pub(crate) const OF_MACHINE_TEMPLATE: [&str; 1] = ["spec.template.spec.identityRef"];

/// Paths in an OpenStackClusterTemplate.
pub(crate) const OF_CLUSTER_TEMPLATE: [&str; 2] =
    ["spec.template.spec.identityRef", "spec.template.spec.bastion.spec.identityRef"];

/// Returns the OpenStackClusterIdentities and the Secrets that the references at these paths name.
pub(crate) fn at(object: &Value, paths: &[&'static str]) -> Vec<UsedObject> {
    let named = |field: &'static str| {
        let reference = object::at(object, field)?;
        let text = |part: &str| reference.get(part).and_then(Value::as_str);
        let name = text("name").filter(|name| !name.is_empty())?;
        Some(match text("type") {
            Some("ClusterIdentity") => identity(field, name),
            _ => secret(field, object::namespace(object), name),
        })
    };
    paths.iter().copied().filter_map(named).collect()
}

fn identity(field: &'static str, name: &str) -> UsedObject {
    let kind = OpenStackClusterIdentity::DESCRIPTOR;
    let remedy = format!(
        "The server requires it, since identities.requireUse is set. Bind a ClusterRole with the verb use on {} {name:?} \
         to the user, or name another identity or a Secret",
        kind.plural
    );
    let (group, version, resource) = (kind.group, kind.version, kind.plural);
    let (permission, namespace, name) = (Use::Use, String::new(), name.to_owned());
    UsedObject { field, permission, group, version, resource, namespace, name, remedy }
}

/// Returns the Secret of a reference. Most references have no namespace: the Secret is beside the object.
pub(crate) fn secret(field: &'static str, namespace: &str, name: &str) -> UsedObject {
    let remedy = format!(
        "The server requires it, see identities.requireSecretRead. Bind a Role with the verb get on secrets {name:?} to \
         the user, or name a Secret that the user can read"
    );
    let (permission, namespace, name) = (Use::ReadSecret, namespace.to_owned(), name.to_owned());
    UsedObject { field, permission, group: "", version: "v1", resource: "secrets", namespace, name, remedy }
}

/// Returns what a reference can name whose value is not known: all Secrets of the namespace, and all identities.
pub(crate) fn any(field: &'static str, namespace: &str) -> [UsedObject; 2] {
    let remedy = format!(
        "Its values depend on variables, so they can name any identity, and identities.requireUse is set. Bind a ClusterRole \
         with the verb use on {}, without names, to the user, or give the field a literal value",
        OpenStackClusterIdentity::DESCRIPTOR.plural
    );
    [super::used_secrets::any(field, namespace), UsedObject { remedy, ..identity(field, "") }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_name_identities_and_secrets_beside_the_object() {
        let reference = |kind: Value| json!({"type": kind, "name": "a", "cloudName": "c"});
        let object = json!({"metadata": {"namespace": "ns"}, "spec": {"identityRef": reference(json!("ClusterIdentity")),
            "bastion": {"spec": {"identityRef": reference(json!("Secret"))}},
            "template": {"spec": {"identityRef": reference(Value::Null)}}}});
        let fields = ["spec.identityRef", "spec.bastion.spec.identityRef", "spec.template.spec.identityRef"];
        let found = at(&object, &fields);
        let found: Vec<_> =
            found.iter().map(|used| (used.field, used.action().verb, used.action().namespace)).collect();
        let expected = [(fields[0], "use", ""), (fields[1], "get", "ns"), (fields[2], "get", "ns")];
        assert_eq!(found, expected);
        assert_eq!(at(&json!({"spec": 7}), &fields), []);
    }
}
