//! Secrets and identities that a Cluster names through the patches of its class. The controllers write the patched templates
//! with their own permissions, and read what these name. So a user who sets a variable that becomes a name needs the
//! permission to read it. The writers of the class and of its templates answer for what the class alone names: for the Secrets
//! of their own namespace, and for identities.

mod blueprint;

use std::collections::BTreeSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use super::class::ClassKey;
use crate::kinds::cluster_class;
use crate::rules::json_fields::get;
use crate::rules::used_identities;
use blueprint::Blueprint;

/// Field of a refusal.
const FIELD: &str = "spec.topology";

/// Stands for a name that the controller generates. No name of an object has capital letters.
const GENERATED: &str = "GENERATED";

/// Parts of a Cluster on which the values of patches depend.
const INPUTS: [&str; 5] =
    [FIELD, "spec.clusterNetwork", "spec.controlPlaneRef", "metadata.labels", "metadata.annotations"];

/// Returns what the templates of a Cluster newly name by its own values.
///
/// # Errors
/// 503 if the class or its templates cannot be read.
pub(super) async fn newly_used(
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Vec<UsedObject>> {
    let is_unchanged = |old: &Value| INPUTS.into_iter().all(|part| get(old, part) == get(new, part));
    if object::is_deleting(new) || old.is_some_and(is_unchanged) {
        return Ok(Vec::new());
    }
    let (Some(key), namespace) = (ClassKey::of(new), object::namespace(new)) else { return Ok(Vec::new()) };
    let Some(class) = key.find(others).await? else { return Ok(unknown(namespace)) };
    let is_beside = key.namespace == namespace;
    // All names are then those of the templates.
    if is_beside && !cluster_class::has_names(&class) {
        return Ok(Vec::new());
    }
    let blueprint = Blueprint::read(class, &key.namespace, others).await?;
    let rendered = blueprint.as_ref().and_then(|blueprint| Some((blueprint, blueprint.used(new)?)));
    let Some((blueprint, found)) = rendered else { return Ok(unknown(namespace)) };
    let of_same_class = old.filter(|old| ClassKey::of(old).as_ref() == Some(&key));
    let mut known = of_same_class.and_then(|old| blueprint.used(old)).unwrap_or_default();
    // The permission on an identity has no namespace. So the writers of a class have it for all Clusters.
    let of_class = blueprint.named_by_class(new).into_iter();
    known.extend(of_class.filter(|used| is_beside || used.namespace.is_empty()));
    Ok(added(found, &known, namespace))
}

/// Returns the objects that are not known yet, each once.
fn added(found: Vec<UsedObject>, known: &[UsedObject], namespace: &str) -> Vec<UsedObject> {
    let key = |used: &UsedObject| (used.resource, used.namespace.clone(), used.name.clone());
    let known: BTreeSet<_> = known.iter().map(key).collect();
    let mut added: Vec<UsedObject> = Vec::new();
    for used in found {
        if known.contains(&key(&used)) {
            continue;
        }
        // The writer of the Cluster or of the class may choose the part that is not known.
        let is_generated = used.name.contains(GENERATED);
        let mut any = used_identities::any(FIELD, namespace).into_iter();
        let any = any.find(|any| is_generated && any.permission == used.permission);
        let used = UsedObject { field: FIELD, ..any.unwrap_or(used) };
        if !added.iter().any(|known| known.action() == used.action()) {
            added.push(used);
        }
    }
    added
}

/// Returns what a Cluster can name if that cannot be determined.
fn unknown(namespace: &str) -> Vec<UsedObject> {
    let remedy = "Which Secrets the Cluster names is not known, see identities.requireSecretRead. Its ClusterClass or a template \
        of the class does not exist, a patch fails, or its variables are too large for so many worker groups. Correct it first, \
        or bind the permission, without names, to the user";
    let any = used_identities::any(FIELD, namespace);
    any.into_iter().map(|used| UsedObject { remedy: remedy.to_owned(), ..used }).collect()
}

#[cfg(test)]
mod tests;
