//! Related objects of one write, read from the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use super::metadata_rules::Previous;
use crate::admission::GrantingWrite;
use crate::object;
use crate::related::ObjectReader;
use crate::status::{ApiError, ApiResult};
use crate::store::{Freshness, Kind, ListRequest, ObjectStore, RevisionMatch, Target, WriteOptions};

#[async_trait]
impl ObjectReader for ObjectStore {
    async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>> {
        let Some(kind) = self.kind_of(group, plural) else { return Ok(None) };
        let key = self.key(kind, namespace, name)?;
        Ok(self.read(kind, &key).await?.map(|(object, _)| object))
    }

    async fn all(&self, group: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>> {
        let Some(kind) = self.kind_of(group, plural) else { return Ok(Vec::new()) };
        let request = ListRequest {
            namespace: namespace.to_owned(),
            labels: Default::default(),
            fields: Default::default(),
            limit: 0,
            token: None,
            revision: RevisionMatch::AtLeast(Freshness::Consistent),
        };
        let items = self.list(kind, &request).await?.items;
        items.iter().map(|item| item.to_value().map_err(ApiError::from)).collect()
    }
}

/// Reader of related objects for one write. Each object is read and decoded once, so defaults and validation depend on
/// the same state.
#[derive(Debug)]
pub(crate) struct RelatedObjects<'a> {
    store: &'a ObjectStore,
    found: Mutex<HashMap<[String; 4], Option<Value>>>,
}

#[async_trait]
impl ObjectReader for RelatedObjects<'_> {
    async fn find(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>> {
        let path = [group, plural, namespace, name].map(ToOwned::to_owned);
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let found = self.store.find(group, plural, namespace, name).await?;
        self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(path, found.clone());
        Ok(found)
    }

    async fn all(&self, group: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>> {
        self.store.all(group, plural, namespace).await
    }
}

impl<'a> RelatedObjects<'a> {
    /// Creates a reader that has read nothing.
    pub(crate) fn by(store: &'a ObjectStore) -> Self {
        Self { store, found: Mutex::default() }
    }

    /// Checks that the client may grant the permissions that the object grants to others.
    pub(crate) async fn check_grants(
        &self,
        kind: Kind<'_>,
        new: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> ApiResult<()> {
        let Some(permissions) = &options.permissions else { return Ok(()) };
        let write = GrantingWrite { new, old, permissions: permissions.as_ref(), others: self };
        kind.stored.strategy.check_grants(write).await
    }

    /// Checks that the client may write this part of the object.
    pub(crate) async fn check_part(
        &self,
        kind: Kind<'_>,
        target: Target,
        (new, old): (&Value, &Value),
        options: &WriteOptions,
    ) -> ApiResult<()> {
        let Some(permissions) = &options.permissions else { return Ok(()) };
        let write = GrantingWrite { new, old: Some(old), permissions: permissions.as_ref(), others: self };
        kind.stored.strategy.check_part(target.subresource(), write).await
    }

    /// Applies defaults that depend on related objects. The client does not become their field manager.
    pub(crate) async fn default(
        &self,
        kind: Kind<'_>,
        new: &mut Value,
        before: Option<Previous<'_>>,
        target: Target,
    ) -> ApiResult<()> {
        if target != Target::Object || !kind.stored.strategy.defaults_with_related() {
            return Ok(());
        }
        let mut stored = kind.as_stored(new)?.into_owned();
        let stored_old = before.map(|before| kind.as_stored(before.object)).transpose()?;
        let errors = kind.stored.strategy.default_with(&mut stored, stored_old.as_deref(), self).await?;
        let is_kept = before.is_some_and(|before| before.keeps_spec);
        if !errors.is_empty() && !is_kept {
            return Err(ApiError::invalid(kind.resource, object::name(new), &errors));
        }
        *new = if kind.resource.conversion.is_some() { kind.served(stored)? } else { stored };
        Ok(())
    }

    /// Validates a write against related objects; returns the warnings for the client.
    pub(crate) async fn validate(
        &self,
        kind: Kind<'_>,
        new: &Value,
        before: Option<Previous<'_>>,
        target: Target,
    ) -> ApiResult<Vec<String>> {
        if target != Target::Object {
            return Ok(Vec::new());
        }
        let stored = kind.as_stored(new)?;
        let strategy = &kind.stored.strategy;
        let stored_old = before.map(|before| kind.as_stored(before.object)).transpose()?;
        let mut verdict = strategy.validate_with(&stored, stored_old.as_deref(), self).await?;
        let is_kept = before.is_some_and(|before| before.keeps_spec);
        if let Some(old) = stored_old.filter(|_| is_kept && !verdict.errors.is_empty()) {
            let there = strategy.validate_with(&old, Some(&old), self).await?.errors;
            verdict.errors.retain(|error| !there.contains(error));
        }
        match verdict.errors.as_slice() {
            [] => Ok(verdict.warnings),
            errors => {
                let error = ApiError::invalid(kind.resource, object::name(new), errors);
                Err(error.after(verdict.warnings))
            }
        }
    }
}

impl ObjectStore {
    /// Returns the warnings for the client that deleted an object. Without related objects, there are none: the deletion
    /// has happened.
    pub async fn deletion_warnings(&self, kind: Kind<'_>, object: &Value) -> Vec<String> {
        let Ok(stored) = kind.as_stored(object) else { return Vec::new() };
        kind.stored.strategy.deletion_warnings_with(&stored, self).await.unwrap_or_default()
    }

    /// Checks that neither the object nor related objects prevent the deletion.
    pub(crate) async fn check_undeletable(
        &self,
        kind: Kind<'_>,
        object: &Value,
        is_by_person: bool,
    ) -> ApiResult<()> {
        let stored = kind.as_stored(object)?;
        let strategy = &kind.stored.strategy;
        let mut why = strategy.refuse_deletion_with(&stored, self).await?;
        if why.is_none() && is_by_person {
            why = strategy.refuse_deletion_by_person(&stored, self).await?;
        }
        match why {
            None => Ok(()),
            Some(why) => {
                let resource = kind.resource;
                // The text of upstream's webhook has the kind instead of the plural.
                Err(ApiError::forbidden(&resource.group, &resource.kind, object::name(object), &why))
            }
        }
    }
}
