//! Delete.

use serde_json::{Value, json};
use storage_contract::StoreError;

use super::{Kind, ObjectStore, Origin, create, is_held, now};
use crate::field_errors::{FieldError, FieldPath};
use crate::object;
use crate::status::{ApiError, ApiResult};

/// Lost races in a row before a deletion gives up, see the same number for patches.
const ATTEMPTS: usize = 200;

/// What becomes of what the object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Deleted afterwards.
    Background,
    /// Deleted first.
    Foreground,
    /// Left, without the owner.
    Orphan,
}

/// `metav1.DeleteOptions`, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What becomes of what the object owns; `None` is background.
    pub propagation: Option<Propagation>,
    /// Delete only this very object.
    pub uid: Option<String>,
    /// Delete only this very version.
    pub resource_version: Option<String>,
    /// Everything but the deleting.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads a decoded body or the query's equivalents.
    ///
    /// # Errors
    /// 400 for another kind, 422 naming the field.
    pub fn from_value(value: &Value) -> ApiResult<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        if text("kind").is_some_and(|kind| kind != "DeleteOptions") {
            return Err(ApiError::bad_request(
                "the object provided is unrecognized (must be of type DeleteOptions)",
            ));
        }
        let fault = |error| ApiError::invalid_kind("DeleteOptions.meta.k8s.io", "", &[error]);
        let orphan = value.get("orphanDependents").and_then(Value::as_bool);
        let propagation = match text("propagationPolicy") {
            None | Some("") => {
                orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background })
            }
            Some(_) if orphan.is_some() => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                return Err(fault(FieldError::invalid(
                    FieldPath::new("propagationPolicy"),
                    &json!(text("propagationPolicy")),
                    detail,
                )));
            }
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                return Err(fault(FieldError::not_supported(
                    FieldPath::new("propagationPolicy"),
                    &json!(other),
                    &supported,
                )));
            }
        };
        let dry_run = match value.get("dryRun") {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) if list.is_empty() => false,
            Some(Value::Array(list)) if list.iter().all(|entry| entry == "All") => true,
            Some(other) => {
                return Err(fault(FieldError::not_supported(FieldPath::new("dryRun"), other, &["All"])));
            }
        };
        let precondition = |name: &str| {
            value.pointer(&format!("/preconditions/{name}")).and_then(Value::as_str).map(str::to_owned)
        };
        Ok(Self {
            propagation,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run,
        })
    }

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
        object::set_meta(&mut new, "deletionGracePeriodSeconds", 0);
        if kind.resource.generation {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
            object::set_meta(&mut new, "generation", generation + 1);
        }
        create::prepare_by_kind(kind, &mut new, Some(old), Origin::Sent)?;
    }
    Ok(new)
}
