//! Delete of a collection: all selected objects, one by one. It is not atomic: an object that another client deletes
//! first is no error.

use std::sync::Arc;

use crate::admission_control::RequestAdmission;
use crate::object;
use crate::status::ApiResult;
use crate::store::{CachedObject, DeleteOptions, Kind, ListRequest, Listing, ObjectStore};

impl ObjectStore {
    /// Deletes the objects of a list, and returns that list. An object whose deletion is forbidden does not keep the
    /// others.
    ///
    /// # Errors
    /// 422 for an option that a collection cannot have. Those of list and delete, except for objects that are gone already. 403 for the first object whose deletion is
    /// forbidden, after the others were deleted.
    pub async fn delete_collection(
        &self,
        kind: Kind<'_>,
        request: &ListRequest,
        options: &DeleteOptions,
        admission: Option<&dyn RequestAdmission>,
    ) -> ApiResult<Listing> {
        options.check_collection()?;
        let selected = self.list(kind, request).await?;
        let mut forbidden = None;
        for item in &selected.items {
            match self.delete_selected(kind, item, options, admission).await {
                Err(error) if error.code == 403 => forbidden = forbidden.or(Some(error)),
                result => result?,
            }
        }
        forbidden.map_or(Ok(selected), Err)
    }

    async fn delete_selected(
        &self,
        kind: Kind<'_>,
        item: &Arc<CachedObject>,
        options: &DeleteOptions,
        admission: Option<&dyn RequestAdmission>,
    ) -> ApiResult<()> {
        let object = item.to_value()?;
        let name = object::name(&object);
        // The uid protects an object of the same name that was created after the list.
        let is_guarded = options.uid.is_some() || options.resource_version.is_some();
        let uid = options.uid.clone().or_else(|| Some(object::meta(&object, "uid").to_owned()));
        let options = DeleteOptions { uid, ..options.clone() };
        match self.delete(kind, object::namespace(&object), name, &options, admission).await {
            Ok(_) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            // A precondition of the client is reported. If only the uid of the list does not match, the object is gone.
            Err(error) if error.code == 409 && !is_guarded => Ok(()),
            Err(error) => Err(error),
        }
    }
}
