//! Delete of an object that cannot be read: its value is damaged, or sealed with a key that is gone.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};
use storage_contract::StoreError;

use super::admission::admit_deletion;
use super::delete_options::IGNORES_READ_ERRORS;
use crate::admission_control::RequestAdmission;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore};

impl ObjectStore {
    /// Deletes an object that cannot be read. Its finalizers and owners are not known, so no controller cleans up after it.
    /// Admission configurations see its names. Returns an object with the names alone.
    ///
    /// # Errors
    /// 403; 404; 409; 422 for an object that can be read; 503, also if a KMS plug-in may open the value later; 504.
    pub async fn delete_unreadable(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        admission: Option<&dyn RequestAdmission>,
    ) -> ApiResult<Value> {
        let resource = kind.resource;
        let key = self.key(kind, namespace, name)?;
        let entry = self.store.get(&key).await.map_err(|error| ApiError::storage(&error))?;
        let entry = entry.ok_or_else(|| ApiError::not_found(resource, name))?;
        match self.decode(kind, &entry) {
            Ok(_) => {
                let detail =
                    "is exclusively used to delete corrupt object(s), try again by removing this option";
                let field = FieldPath::new(IGNORES_READ_ERRORS);
                return Err(ApiError::invalid(
                    resource,
                    name,
                    &[FieldError::invalid(field, &json!(true), detail)],
                ));
            }
            Err(error) if error.code == 503 => return Err(error),
            Err(_) => {}
        }
        let names = names(kind, namespace, name);
        if let Some(why) = resource.strategy.refuse_deletion(&names) {
            return Err(ApiError::forbidden(&resource.group, &resource.plural, name, why));
        }
        admit_deletion(kind, &names, false, admission).await?;
        match self.store.delete(&key, entry.modified).await {
            Ok(_) => Ok(names),
            Err(StoreError::Conflict { .. }) => Err(ApiError::modified(resource, name)),
            Err(error) => Err(ApiError::storage(&error)),
        }
    }
}

/// Returns an object that has its names alone.
fn names(kind: Kind<'_>, namespace: &str, name: &str) -> Value {
    let resource = kind.resource;
    let mut names = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {}});
    object::set_meta(&mut names, "name", name);
    if resource.namespaced {
        object::set_meta(&mut names, "namespace", namespace);
    }
    names
}
