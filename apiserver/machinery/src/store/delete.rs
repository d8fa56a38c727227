//! Delete.

use serde_json::Value;
use storage_contract::StoreError;

use super::{DeleteOptions, Kind, ObjectStore, Origin, Propagation, create, is_held, now};
use crate::object;
use crate::status::{ApiError, ApiResult};

/// Lost races in a row before a deletion gives up, see the same number for patches.
const ATTEMPTS: usize = 200;

impl DeleteOptions {
    fn check(&self, kind: Kind<'_>, object: &Value) -> ApiResult<()> {
        let name = object::name(object);
        if let Some(why) = kind.resource.strategy.refuse_deletion(object) {
            return Err(ApiError::forbidden(&kind.resource.group, &kind.resource.plural, name, why));
        }
        let (uid, revision) = (object::meta(object, "uid"), object::meta(object, "resourceVersion"));
        if let Some(wanted) = self.uid.as_deref().filter(|wanted| *wanted != uid) {
            let why = format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
                 The object might have been deleted and then recreated"
            );
            return Err(ApiError::precondition(kind.resource, name, &why));
        }
        if let Some(wanted) = self.resource_version.as_deref().filter(|wanted| *wanted != revision) {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({revision}). The object might have been modified"
            );
            return Err(ApiError::precondition(kind.resource, name, &why));
        }
        Ok(())
    }
}

/// How a deletion ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// The object is gone; this was it.
    Gone(Value),
    /// Finalizers hold it; this is it now.
    Pending(Value),
}

impl ObjectStore {
    /// Deletes an object, or marks it when finalizers hold it.
    ///
    /// # Errors
    /// 403, 404, 409, 503.
    pub async fn delete(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> ApiResult<Deletion> {
        let key = self.key(kind, namespace, name)?;
        for _ in 0..ATTEMPTS {
            let Some((old, entry)) = self.read(kind, &key).await? else {
                return Err(ApiError::not_found(kind.resource, name));
            };
            options.check(kind, &old)?;
            self.check_undeletable(kind, &old).await?;
            let new = marked(kind, &old, options.propagation)?;
            if !is_held(kind.resource, &new) {
                if options.dry_run {
                    return Ok(Deletion::Gone(old));
                }
                match self.store.delete(&key, entry.modified).await {
                    Ok(_) => return Ok(Deletion::Gone(old)),
                    Err(StoreError::Conflict { .. }) => continue,
                    Err(StoreError::Unknown { .. }) if self.read(kind, &key).await?.is_none() => {
                        return Ok(Deletion::Gone(old));
                    }
                    Err(error) => return Err(ApiError::storage(&error)),
                }
            }
            if options.dry_run || new == old {
                return Ok(Deletion::Pending(new));
            }
            let mut new = new;
            let value = self.encode(kind, &key, &new)?;
            match self.store.update(&key, entry.modified, value).await {
                Ok(revision) => {
                    object::set_revision(&mut new, revision);
                    return Ok(Deletion::Pending(new));
                }
                Err(StoreError::Conflict { .. } | StoreError::Unknown { .. }) => {}
                Err(error) => return Err(ApiError::storage(&error)),
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }
}

/// The object with its deletion asked for, in the way asked for.
fn marked(kind: Kind<'_>, old: &Value, propagation: Option<Propagation>) -> ApiResult<Value> {
    let mut new = old.clone();
    let mut finalizers: Vec<String> = object::finalizers(old).into_iter().map(str::to_owned).collect();
    let policy = ["orphan", "foregroundDeletion"];
    if propagation.is_some() || !object::is_deleting(old) {
        finalizers.retain(|finalizer| !policy.contains(&finalizer.as_str()));
        match propagation {
            Some(Propagation::Foreground) => finalizers.push("foregroundDeletion".to_owned()),
            Some(Propagation::Orphan) => finalizers.push("orphan".to_owned()),
            Some(Propagation::Background) | None => {}
        }
    }
    if finalizers.is_empty() {
        object::remove_meta(&mut new, "finalizers");
    } else {
        object::set_meta(&mut new, "finalizers", finalizers);
    }
    if !object::is_deleting(old) {
        object::set_meta(&mut new, "deletionTimestamp", now());
        // Namespaces go when they are empty: nobody speaks of seconds there.
        if !kind.stored.strategy.has_spec_finalizers() {
            object::set_meta(&mut new, "deletionGracePeriodSeconds", 0);
        }
        if kind.resource.generation {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
            object::set_meta(&mut new, "generation", generation + 1);
        }
        create::prepare_by_kind(kind, &mut new, Some(old), Origin::Sent)?;
    }
    Ok(new)
}
