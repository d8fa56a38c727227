//! Delete everything that is selected. Not atomic: what vanishes meanwhile is no error.

use std::sync::Arc;

use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, DeleteOptions, Kind, ListRequest, Listing, ObjectStore};

impl ObjectStore {
    /// Deletes what `request` lists, and answers what that was.
    ///
    /// # Errors
    /// As list and delete; single objects that are gone meanwhile excepted.
    pub async fn delete_collection(
        &self,
        kind: Kind<'_>,
        request: &ListRequest,
        options: &DeleteOptions,
    ) -> ApiResult<Listing> {
        let selected = self.list(kind, request).await?;
        for item in &selected.items {
            self.delete_selected(kind, item, options).await?;
        }
        Ok(selected)
    }

    async fn delete_selected(
        &self,
        kind: Kind<'_>,
        item: &Arc<CachedObject>,
        options: &DeleteOptions,
    ) -> ApiResult<()> {
        let object = item.to_value().map_err(ApiError::internal)?;
        let name = object::name(&object);
        // The uid keeps a namesake safe that was made after the list.
        let is_guarded = options.uid.is_some() || options.resource_version.is_some();
        let uid = options.uid.clone().or_else(|| Some(object::meta(&object, "uid").to_owned()));
        let options = DeleteOptions { uid, ..options.clone() };
        match self.delete(kind, object::namespace(&object), name, &options).await {
            Ok(_) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            // A precondition of the client's own is its business; ours says that this object is gone.
            Err(error) if error.code == 409 && !is_guarded => Ok(()),
            Err(error) => Err(error),
        }
    }
}
