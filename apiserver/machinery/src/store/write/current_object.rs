//! What a write starts from.
//!
//! Every write is a compare-and-swap, so it may start from anything that is likely to be what is stored: the swap
//! finds out. What the cache shows is that nearly always, and costs no question to the store. Whatever else than
//! a swap comes of it, a refusal or that nothing changes, is told only when the store has the same revision. Dry runs
//! swap nothing, and start from the store.

use apiserver_structured_merge::serialize_sets;
use serde_json::Value;
use storage_contract::{Entry, Key, Revision};

use super::update::Modification;
use crate::status::{ApiError, ApiResult};
use crate::store::cached::raw_field::RawField;
use crate::store::{Kind, ObjectStore};

/// An object that a write starts from, in the request's version. Its owners are [serialized](apiserver_structured_merge::serialize_sets),
/// and stay so until the object is written or answered.
#[derive(Debug)]
pub(crate) struct CurrentObject {
    pub(crate) object: Value,
    /// What the write leaves of it, and is not in the object.
    pub(crate) untouched: Option<RawField>,
    /// What is swapped only if it is still the newest.
    pub(crate) revision: Revision,
    /// As it was read from the store; none if the cache had it.
    pub(crate) entry: Option<Entry>,
}

impl CurrentObject {
    /// Whether it was read from the store since the request came.
    pub(crate) fn is_stored(&self) -> bool {
        self.entry.is_some()
    }

    /// Whether all of it is in the object.
    pub(crate) fn is_whole(&self) -> bool {
        self.untouched.is_none()
    }

    /// Takes out of what was made of it what stands where something was untouched.
    pub(crate) fn clear(&self, new: &mut Value) {
        if let Some(untouched) = &self.untouched {
            untouched.clear(new);
        }
    }

    /// Puts into what was made of it what was untouched.
    ///
    /// # Errors
    /// 500 for JSON of our own that cannot be read.
    pub(crate) fn make_whole(&self, new: &mut Value) -> ApiResult<()> {
        let Some(untouched) = &self.untouched else { return Ok(()) };
        untouched.put_back(new).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// Returns the field that no part of a write depends on.
pub(crate) fn untouched_field(kind: Kind<'_>, how: Modification<'_>) -> Option<&'static str> {
    let resource = kind.resource;
    let field = how.target.unchanged_field().filter(|_| how.skips_unchanged)?;
    let is_selected_by = resource.selectable.iter().any(|path| path.split('.').next() == Some(field));
    let is_apart = resource.status_subresource
        && resource.conversion.is_none()
        && resource.schema.checks_fields_alone()
        && !kind.stored.strategy.reads_status();
    (is_apart && !is_selected_by).then_some(field)
}

impl ObjectStore {
    /// What the cache shows, but for a field that is untouched. None if it has nothing, or nothing that can be read: that is
    /// for the store to say.
    pub(crate) fn cached_object(
        &self,
        kind: Kind<'_>,
        key: &Key,
        untouched: Option<&'static str>,
    ) -> Option<CurrentObject> {
        let snapshot = self.section(kind)?.snapshot();
        let item = snapshot.get(key.as_str())?;
        let (object, untouched) = item.to_serialized(untouched).ok()?;
        Some(CurrentObject {
            object: kind.served(object).ok()?,
            untouched,
            revision: item.revision,
            entry: None,
        })
    }

    /// What is stored.
    ///
    /// # Errors
    /// 404; 500 for what cannot be read; 503.
    pub(crate) async fn stored_object(
        &self,
        kind: Kind<'_>,
        key: &Key,
        name: &str,
    ) -> ApiResult<CurrentObject> {
        let Some((mut object, entry)) = self.read(kind, key).await? else {
            return Err(ApiError::not_found(kind.resource, name));
        };
        serialize_sets(&mut object);
        Ok(CurrentObject { object, untouched: None, revision: entry.modified, entry: Some(entry) })
    }
}
