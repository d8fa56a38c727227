//! Objects of Capstan's own store, as the tasks about the host cluster read them.

mod gone;
mod references;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::store::{CachedObject, Freshness, ListRequest, ObjectStore, RevisionMatch};

pub(crate) use gone::GoneNamespaces;
pub(crate) use references::ObjectReferences;

/// Returns the stored kinds that the host cluster serves through Capstan.
fn hosted(objects: &ObjectStore) -> impl Iterator<Item = &Arc<Resource>> {
    objects.registry().stored().iter().filter(|kind| kind.hosted && !kind.strategy.is_read_only())
}

/// Returns all objects of a kind in the watch cache; none if the kind is not served. `None`: it cannot be read now.
async fn all(objects: &ObjectStore, group: &str, plural: &str) -> Option<Vec<Arc<CachedObject>>> {
    let Some(kind) = objects.kind_of(group, plural) else { return Some(Vec::new()) };
    let request = ListRequest {
        namespace: String::new(),
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
        limit: 0,
        token: None,
        revision: RevisionMatch::AtLeast(Freshness::Any),
    };
    objects.list(kind, &request).await.ok().map(|listing| listing.items)
}
