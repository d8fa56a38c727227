//! Reads of read-only kinds: the server defines their objects, so none of them is stored.
//!
//! The objects are made for each request. They are large, and few clients read them.

use std::sync::Arc;

use serde_json::{Value, json};
use storage_contract::Revision;

use crate::object;
use crate::status::ApiResult;
use crate::store::{CachedObject, Freshness, Kind, ListRequest, Listing, ObjectStore, RevisionMatch};

/// Revision of every object. It does not change while the server runs.
const REVISION: Revision = Revision::new(1);

impl ObjectStore {
    /// Returns one object, or `None` if there is no object of this name.
    pub(super) fn fixed_object(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<CachedObject>> {
        let objects = self.fixed_objects(kind, namespace);
        let found = objects.into_iter().find(|found| object::name(found) == name)?;
        Some(cached(kind, &found))
    }

    /// Lists the selected objects in one page.
    ///
    /// # Errors
    /// 503; 504 if the requested revision has not happened.
    pub(super) async fn list_fixed(&self, kind: Kind<'_>, request: &ListRequest) -> ApiResult<Listing> {
        match request.revision {
            RevisionMatch::AtLeast(freshness) => self.freshen(freshness).await?,
            RevisionMatch::Exactly(revision) => self.freshen(Freshness::AtLeast(revision)).await?,
        };
        let objects = self.fixed_objects(kind, &request.namespace);
        let items = objects.iter().map(|object| cached(kind, object));
        let items = items.filter(|item| item.is_selected(&request.labels, &request.fields)).collect();
        Ok(Listing { items, revision: self.cache.revision(), next: String::new(), remaining: None })
    }

    /// Returns the objects of a namespace, or of all namespaces, in the order of their keys.
    fn fixed_objects(&self, kind: Kind<'_>, namespace: &str) -> Vec<Value> {
        let mut objects = kind.resource.strategy.fixed_objects(&self.registry);
        let is_anywhere = namespace.is_empty() || !kind.resource.namespaced;
        objects.retain(|found| is_anywhere || object::namespace(found) == namespace);
        objects.sort_by_key(|found| kind.resource.key(object::namespace(found), object::name(found)));
        objects
    }
}

/// Returns an object with the metadata that every object of an API has.
fn cached(kind: Kind<'_>, object: &Value) -> Arc<CachedObject> {
    let mut object = object.clone();
    let identity = kind.resource.key(object::namespace(&object), object::name(&object));
    object::set_meta(&mut object, "uid", json!(crate::digest::uid_of(&identity)));
    Arc::new(CachedObject::new(kind.resource, &object, REVISION))
}
