//! Adapter of the generic store for actions, which read and write objects through it.

use std::sync::Arc;

use apiserver_machinery::action::Objects;
use apiserver_machinery::admission_control::RequestAdmission;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::status::{ApiError, ApiResult, ResourceNames};
use apiserver_machinery::store::{
    FieldValidation, Freshness, Kind, ListRequest, Lock, ObjectStore, Replacement, RevisionMatch, SERVER,
    Target, Validity, WriteOptions,
};
use async_trait::async_trait;
use serde_json::Value;

/// Objects of the generic store, by group and plural.
#[derive(Debug)]
pub(super) struct StoredObjects {
    pub(super) store: Arc<ObjectStore>,
    /// Admission of the client's request.
    pub(super) admission: Option<Arc<dyn RequestAdmission>>,
}

impl StoredObjects {
    fn kind(&self, group: &str, plural: &str) -> ApiResult<Kind<'_>> {
        self.store
            .kind_of(group, plural)
            .ok_or_else(|| ApiError::internal(format!("{plural}.{group} is not served")))
    }
}

#[async_trait]
impl Objects for StoredObjects {
    fn resource(&self, group: &str, plural: &str) -> Option<&dyn ResourceNames> {
        self.store.kind_of(group, plural).map(|kind| -> &dyn ResourceNames { kind.resource })
    }

    fn fill_in(&self, group: &str, plural: &str, object: &mut Value) {
        if let Some(kind) = self.store.kind_of(group, plural) {
            kind.resource.schema.fill_in(object);
        }
    }

    async fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>> {
        match self.store.get(self.kind(group, plural)?, namespace, name, Freshness::Consistent).await {
            Ok(item) => item.to_value().map(Some).map_err(ApiError::from),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        selector: &str,
    ) -> ApiResult<Vec<Value>> {
        let request = ListRequest {
            namespace: namespace.to_owned(),
            labels: LabelSelector::parse(selector)?,
            fields: FieldSelector::default(),
            limit: 0,
            token: None,
            revision: RevisionMatch::AtLeast(Freshness::Consistent),
        };
        let listing = self.store.list(self.kind(group, plural)?, &request).await?;
        listing.items.iter().map(|item| item.to_value().map_err(ApiError::from)).collect()
    }

    async fn create(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
        dry_run: bool,
        lock: Option<Validity>,
    ) -> ApiResult<Value> {
        let field_validation = FieldValidation::Strict;
        let options = WriteOptions {
            dry_run,
            field_validation,
            manager: SERVER.to_owned(),
            permissions: None,
            admission: self.admission.clone(),
            lock,
            timeout: None,
        };
        self.store.create(self.kind(group, plural)?, namespace, object, options).await?.object.into_value()
    }

    async fn update(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        object: Value,
        dry_run: bool,
    ) -> ApiResult<Value> {
        let options = WriteOptions {
            dry_run,
            field_validation: FieldValidation::Strict,
            manager: SERVER.to_owned(),
            permissions: None,
            admission: self.admission.clone(),
            lock: None,
            timeout: None,
        };
        let copy = object.clone();
        let replacement = Replacement { object, again: &|| Ok(copy.clone()) };
        let kind = self.kind(group, plural)?;
        let written = self.store.update(kind, namespace, name, replacement, Target::Object, options).await?;
        written.object.into_value()
    }

    async fn lock(&self, name: &str) -> ApiResult<Lock> {
        self.store.lock(name).await
    }

    async fn unlock(&self, lock: Lock) {
        self.store.unlock(lock).await;
    }
}
