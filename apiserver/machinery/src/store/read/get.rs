//! Get: one object.

use std::sync::Arc;

use storage_contract::Revision;

use crate::status::{ApiError, ApiResult};
use crate::store::{CATCH_UP, CachedObject, Kind, ObjectStore, WAIT_FOR_REVISION};

/// Freshness of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// At least as fresh as every write that was acknowledged before the read began.
    Consistent,
    /// Any age.
    Any,
    /// At least as fresh as this revision.
    AtLeast(Revision),
}

impl ObjectStore {
    /// Returns one object.
    ///
    /// # Errors
    /// 404; 503; 504 if the requested revision has not happened.
    pub async fn get(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        freshness: Freshness,
    ) -> ApiResult<Arc<CachedObject>> {
        let not_found = || ApiError::not_found(kind.resource, name);
        if kind.resource.strategy.is_read_only() {
            return self.fixed_object(kind, namespace, name).ok_or_else(not_found);
        }
        let key = self.key(kind, namespace, name)?;
        if self.freshen(freshness).await? {
            let snapshot = self.resource_cache(kind).ok_or_else(not_found)?.snapshot();
            return snapshot.get(key.as_str()).map(|item| item.view(kind.resource)).ok_or_else(not_found);
        }
        let entry =
            self.store.get(&key).await.map_err(|error| ApiError::storage(&error))?.ok_or_else(not_found)?;
        Ok(self.project(kind, &entry))
    }

    /// Waits until the cache is fresh enough; returns false if the store must be read instead.
    pub(crate) async fn freshen(&self, freshness: Freshness) -> ApiResult<bool> {
        match freshness {
            Freshness::Any if self.cache.is_ready() => Ok(true),
            Freshness::Any => Ok(self.cache.wait_for(Revision::NONE, WAIT_FOR_REVISION).await),
            Freshness::Consistent => {
                self.cache.catch_up(CATCH_UP).await.map_err(|error| ApiError::storage(&error))
            }
            Freshness::AtLeast(revision) => {
                if self.cache.wait_for(revision, WAIT_FOR_REVISION).await {
                    return Ok(true);
                }
                let current = self.ping().await?;
                if current >= revision {
                    return Ok(false);
                }
                Err(ApiError::revision_too_large(revision.number(), current.number()))
            }
        }
    }
}
