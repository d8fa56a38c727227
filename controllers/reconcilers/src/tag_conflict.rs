//! Ownership tags that two objects have: a backup that was restored beside its original.

use std::fmt::Debug;

use controllers_runtime::OwnershipTag;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Reason of an object whose resources belong to an older one.
pub(crate) const REASON: &str = "MarkInUse";

/// Returns the message for an object whose ownership tag an older object of its kind has, too.
///
/// An object with its own uid as the id of its tag is the original, so nothing is read for it.
pub(crate) async fn find<K>(all: &Api<K>, object: &K) -> Result<Option<String>, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let id = OwnershipTag::id(object);
    if object.uid().as_ref() == Some(&id) {
        return Ok(None);
    }
    let known = all.list(&ListParams::default()).await?;
    let older = known.iter().find(|other| OwnershipTag::id(*other) == id && is_older(*other, object));
    Ok(older.map(|other| {
        format!(
            "the cloud resources belong to {}/{}, which is older and has the same annotation {}. Delete one of the two \
             objects, or remove the annotation from this one",
            other.namespace().unwrap_or_default(),
            other.name_any(),
            OwnershipTag::ANNOTATION
        )
    }))
}

fn is_older<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    let age = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
        (meta.creation_timestamp.as_ref().map(|time| time.0), meta.uid.clone())
    };
    age(one) < age(other)
}
