//! Current object: the object that a write starts from.
//!
//! Every write is a compare-and-swap. So it may start from the cached object: if that is stale, the swap fails. The
//! cache is nearly always current, and costs no read of the store. A result without a swap, such as a refusal or no
//! change, is returned only if the store has the same revision. Dry runs do not swap, and start from the store.

use apiserver_structured_merge::serialize_sets;
use serde_json::Value;
use storage_contract::{Entry, Key, Revision};

use super::update::Modification;
use crate::status::{ApiError, ApiResult};
use crate::store::cached::raw_field::RawField;
use crate::store::{Kind, ObjectStore};

/// The object that a write starts from, in the request's version. Its field managers are
/// [serialized](apiserver_structured_merge::serialize_sets), and stay so until the object is stored or returned.
#[derive(Debug)]
pub(crate) struct CurrentObject {
    pub(crate) object: Value,
    /// The field that the write leaves unchanged; it is not in the object.
    pub(crate) untouched: Option<RawField>,
    /// The revision that the swap requires.
    pub(crate) revision: Revision,
    /// The stored entry; none if the object is from the cache.
    pub(crate) entry: Option<Entry>,
}

impl CurrentObject {
    /// Returns true if it was read from the store during this request.
    pub(crate) fn is_stored(&self) -> bool {
        self.entry.is_some()
    }

    /// Returns true if no field is missing in the object.
    pub(crate) fn is_whole(&self) -> bool {
        self.untouched.is_none()
    }

    /// Removes the untouched field from the changed object: only defaults can be there.
    pub(crate) fn clear(&self, new: &mut Value) {
        if let Some(untouched) = &self.untouched {
            untouched.clear(new);
        }
    }

    /// Puts the untouched field into the changed object.
    ///
    /// # Errors
    /// 500 for stored JSON that cannot be parsed.
    pub(crate) fn make_whole(&self, new: &mut Value) -> ApiResult<()> {
        let Some(untouched) = &self.untouched else { return Ok(()) };
        untouched.put_back(new).map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// Returns the field that no part of a write depends on.
pub(crate) fn untouched_field(kind: Kind<'_>, how: Modification<'_>) -> Option<&'static str> {
    let resource = kind.resource;
    // A configuration sees the whole object.
    let skips = how.skips_unchanged && how.options.admission.is_none();
    let field = how.target.unchanged_field().filter(|_| skips)?;
    let is_selected_by = resource.selectable.iter().any(|path| path.split('.').next() == Some(field));
    let is_apart = resource.status_subresource
        && resource.conversion.is_none()
        && resource.schema.checks_fields_alone()
        && !kind.stored.strategy.reads_status();
    (is_apart && !is_selected_by).then_some(field)
}

impl ObjectStore {
    /// Returns the cached object, without the untouched field. Returns `None` if the cache does not have it, or if it
    /// cannot be decoded: the store then reports the error.
    pub(crate) fn cached_object(
        &self,
        kind: Kind<'_>,
        key: &Key,
        untouched: Option<&'static str>,
    ) -> Option<CurrentObject> {
        let snapshot = self.resource_cache(kind)?.snapshot();
        let item = snapshot.get(key.as_str())?;
        let (object, untouched) = item.to_serialized(untouched).ok()?;
        Some(CurrentObject {
            object: kind.served(object).ok()?,
            untouched,
            revision: item.revision,
            entry: None,
        })
    }

    /// Reads the object from the store.
    ///
    /// # Errors
    /// 404; 500 for an object that cannot be decoded; 503.
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
