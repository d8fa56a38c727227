//! Delete: removes an object, or records its deletion if finalizers delay it.

use apiserver_structured_merge::parse_sets;
use serde_json::Value;
use storage_contract::{Key, Revision, StoreError};

use super::admission::admit_deletion;
use super::create;
use super::current_object::CurrentObject;
use crate::admission_control::RequestAdmission;
use crate::lock::Lock;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{DeleteOptions, Kind, ObjectStore, Origin, Propagation, Target, is_held, now};

/// Number of lost races in a row before a deletion fails, for the same reason as that of patches.
const ATTEMPTS: usize = 200;

impl DeleteOptions {
    fn check(&self, kind: Kind<'_>, object: &Value) -> ApiResult<()> {
        let name = object::name(object);
        if let Some(why) = kind.resource.strategy.refuse_deletion(object) {
            return Err(ApiError::forbidden(&kind.resource.group, &kind.resource.plural, name, why));
        }
        let (uid, revision) = (object::meta(object, "uid"), object::meta(object, "resourceVersion"));
        if let Some(required) = self.uid.as_deref().filter(|required| *required != uid) {
            let why = format!(
                "the UID in the precondition ({required}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            );
            return Err(ApiError::precondition(kind.resource, name, &why));
        }
        if let Some(required) = self.resource_version.as_deref().filter(|required| *required != revision) {
            let why = format!(
                "the ResourceVersion in the precondition ({required}) does not match the ResourceVersion in record \
                 ({revision}). The object might have been modified"
            );
            return Err(ApiError::precondition(kind.resource, name, &why));
        }
        Ok(())
    }
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// The object was removed; this was its last state.
    Gone(Value),
    /// Finalizers delay the deletion; this is the object now.
    Pending(Value),
}

impl ObjectStore {
    /// Deletes an object, or records its deletion if finalizers delay it.
    ///
    /// # Errors
    /// 403, 404, 409, 503, 504.
    pub async fn delete(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        admission: Option<&dyn RequestAdmission>,
    ) -> ApiResult<Deletion> {
        let key = self.key(kind, namespace, name)?;
        let mut cached = self.cached_object(kind, &key, None).filter(|_| !options.dry_run);
        for _ in 0..ATTEMPTS {
            let current = match cached.take() {
                Some(current) => current,
                None => self.stored_object(kind, &key, name).await?,
            };
            let is_stored = current.is_stored();
            match self.attempt_deletion(kind, &key, current, options, admission).await {
                Ok(Some(mut deletion)) => {
                    let (Deletion::Gone(object) | Deletion::Pending(object)) = &mut deletion;
                    parse_sets(object);
                    return Ok(deletion);
                }
                // The stored object may pass where the cached one failed.
                Err(error) if is_stored || error.code >= 500 => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }

    /// Deletes `current`, or records its deletion. Returns `None` if it must start again with the stored object.
    async fn attempt_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        current: CurrentObject,
        options: &DeleteOptions,
        admission: Option<&dyn RequestAdmission>,
    ) -> ApiResult<Option<Deletion>> {
        let is_stored = current.is_stored();
        let CurrentObject { object: old, revision, .. } = current;
        options.check(kind, &old)?;
        self.check_undeletable(kind, &old, options.is_by_person).await?;
        admit_deletion(kind, &old, options.dry_run, admission).await?;
        let agreed = self.agree_to_deletion(kind, &old, options).await?;
        let recorded = match agreed.as_ref().map_or(Ok(()), Lock::check) {
            Ok(()) => self.record_deletion(kind, key, (old, revision), is_stored, options).await,
            Err(error) => Err(error),
        };
        self.release(agreed).await;
        recorded
    }

    /// Deletes the object of this revision, or records its deletion. Returns `None` if it must start again.
    async fn record_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        (old, revision): (Value, Revision),
        is_stored: bool,
        options: &DeleteOptions,
    ) -> ApiResult<Option<Deletion>> {
        let mut new = with_deletion(kind, &old, options.propagation)?;
        if !is_held(kind.resource, &new) {
            if options.dry_run {
                return Ok(Some(Deletion::Gone(old)));
            }
            return match self.store.delete(key, revision).await {
                Ok(_) => Ok(Some(Deletion::Gone(old))),
                Err(StoreError::Conflict { .. }) => Ok(None),
                Err(unknown @ StoreError::Unknown { .. }) => {
                    let uid = object::meta(&old, "uid");
                    let is_gone = self.resolve_deletion(kind, key, revision, uid, &unknown).await?;
                    Ok(is_gone.then_some(Deletion::Gone(old)))
                }
                Err(error) => Err(ApiError::storage(&error)),
            };
        }
        if options.dry_run || new == old {
            return Ok(is_stored.then_some(Deletion::Pending(new)));
        }
        let prepared = self.encode(kind, key, &new, None)?;
        let value = prepared.value.clone();
        let write = self.store.update(key, revision, value.clone());
        let revision = match self.send(key, prepared, write).await {
            Ok(revision) => revision,
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(unknown @ StoreError::Unknown { .. }) => {
                self.resolve_update(key, revision, &value, &unknown).await?
            }
            Err(error) => return Err(ApiError::storage(&error)),
        };
        object::set_revision(&mut new, revision);
        Ok(Some(Deletion::Pending(new)))
    }
}

/// Returns the finalizers for a propagation policy. Without a policy, the present finalizers define it.
fn finalizers(old: &Value, propagation: Option<Propagation>) -> Vec<&str> {
    let found = object::finalizers(old);
    let required = match propagation {
        Some(Propagation::Foreground) => "foregroundDeletion",
        Some(Propagation::Orphan) => "orphan",
        Some(Propagation::Background) => "",
        None => return found,
    };
    let (of_policy, mut others): (Vec<&str>, Vec<&str>) =
        found.iter().partition(|finalizer| matches!(**finalizer, "orphan" | "foregroundDeletion"));
    if !required.is_empty() {
        if of_policy == [required] {
            return found;
        }
        others.push(required);
    }
    others
}

/// Returns the object with its deletion recorded.
fn with_deletion(kind: Kind<'_>, old: &Value, propagation: Option<Propagation>) -> ApiResult<Value> {
    let mut new = old.clone();
    let finalizers = finalizers(old, propagation);
    if finalizers.is_empty() {
        object::remove_meta(&mut new, "finalizers");
    } else {
        object::set_meta(&mut new, "finalizers", finalizers);
    }
    if !object::is_deleting(old) {
        object::set_meta(&mut new, "deletionTimestamp", now());
        // A namespace is removed when it is empty, so it has no grace period.
        if !kind.stored.strategy.has_spec_finalizers() {
            object::set_meta(&mut new, "deletionGracePeriodSeconds", 0);
        }
        if kind.resource.generation {
            let generation =
                object::at(old, "metadata.generation").and_then(Value::as_i64).unwrap_or_default();
            object::set_meta(&mut new, "generation", generation + 1);
        }
        create::prepare_by_kind(kind, &mut new, Some(old), Target::Object, Origin::Sent)?;
    }
    Ok(new)
}
