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

/// An object that a write starts from, in the request's version. Its owners are [packed](apiserver_structured_merge::serialize_sets),
/// and stay so until the object is written or answered.
#[derive(Debug)]
pub(crate) struct CurrentObject {
    pub(crate) object: Value,
    /// What the write leaves of it, and is not in the object.
    pub(crate) left: Option<RawField>,
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
        self.left.is_none()
    }

    /// Takes out of what was made of it what stands where something was left.
    pub(crate) fn clear(&self, new: &mut Value) {
        if let Some(left) = &self.left {
            left.clear(new);
        }
    }

    /// Puts into what was made of it what was left.
    ///
    /// # Errors
    /// 500 for JSON of our own that cannot be read.
    pub(crate) fn make_whole(&self, new: &mut Value) -> ApiResult<()> {
        let Some(left) = &self.left else { return Ok(()) };
        left.put_back(new).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// Returns the field that no part of a write depends on.
pub(crate) fn untouched_field(kind: Kind<'_>, how: Modification<'_>) -> Option<&'static str> {
    let resource = kind.resource;
    let field = how.target.leaves().filter(|_| how.leaves_rest)?;
    let is_selected_by = resource.selectable.iter().any(|path| path.split('.').next() == Some(field));
    let is_apart = resource.status_subresource
        && resource.conversion.is_none()
        && resource.schema.checks_fields_alone()
        && !kind.stored.strategy.reads_status();
    (is_apart && !is_selected_by).then_some(field)
}

impl ObjectStore {
    /// What the cache shows, but for a field that is left. None if it has nothing, or nothing that can be read: that is
    /// for the store to say.
    pub(crate) fn at_hand(
        &self,
        kind: Kind<'_>,
        key: &Key,
        left: Option<&'static str>,
    ) -> Option<CurrentObject> {
        let snapshot = self.section(kind)?.snapshot();
        let item = snapshot.get(key.as_str())?;
        let (object, left) = item.to_packed(left).ok()?;
        Some(CurrentObject { object: kind.served(object).ok()?, left, revision: item.revision, entry: None })
    }

    /// What is stored.
    ///
    /// # Errors
    /// 404; 500 for what cannot be read; 503.
    pub(crate) async fn base(&self, kind: Kind<'_>, key: &Key, name: &str) -> ApiResult<CurrentObject> {
        let Some((mut object, entry)) = self.read(kind, key).await? else {
            return Err(ApiError::not_found(kind.resource, name));
        };
        serialize_sets(&mut object);
        Ok(CurrentObject { object, left: None, revision: entry.modified, entry: Some(entry) })
    }
}
