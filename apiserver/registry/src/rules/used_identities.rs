//! References to OpenStackClusterIdentities, whose Secrets the controllers read with their own permissions.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_types::{Described, OpenStackClusterIdentity};
use serde_json::Value;

/// Returns the OpenStackClusterIdentities that the references at these paths name.
pub(crate) fn at(object: &Value, paths: &[&'static str]) -> Vec<UsedObject> {
    let named = |field: &'static str| {
        let reference = object::at(object, field)?;
        let text = |part: &str| reference.get(part).and_then(Value::as_str);
        let name = text("name").filter(|_| text("type") == Some("ClusterIdentity"))?;
        Some(used(field, name))
    };
    paths.iter().copied().filter_map(named).collect()
}

fn used(field: &'static str, name: &str) -> UsedObject {
    let kind = OpenStackClusterIdentity::DESCRIPTOR;
    let remedy = format!(
        "The server requires it, since identities.requireUse is set. Bind a ClusterRole with the verb use on {} {name:?} \
         to the user, or name another identity or a Secret",
        kind.plural
    );
    let (group, version, resource) = (kind.group, kind.version, kind.plural);
    UsedObject { field, group, version, resource, name: name.to_owned(), remedy }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_references_to_identities_count() {
        let reference = |kind: Value| json!({"type": kind, "name": "a", "cloudName": "c"});
        let object = json!({"spec": {"identityRef": reference(json!("ClusterIdentity")),
            "bastion": {"spec": {"identityRef": reference(json!("Secret"))}},
            "template": {"spec": {"identityRef": reference(Value::Null)}}}});
        let fields = ["spec.identityRef", "spec.bastion.spec.identityRef", "spec.template.spec.identityRef"];
        let found = at(&object, &fields);
        let found: Vec<_> =
            found.iter().map(|used| (used.field, used.action().verb, used.action().name)).collect();
        assert_eq!(found, [("spec.identityRef", "use", "a")]);
        assert_eq!(at(&json!({"spec": 7}), &fields), []);
    }
}
