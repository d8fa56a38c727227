//! Update and patch: read, change, check, compare-and-swap; again when somebody was faster.

use serde_json::{Value, json};
use storage_contract::{Entry, Key, StoreError};

use super::{Kind, ObjectStore, WriteOptions, Written, check_fields, check_type, create, is_held};
use crate::field_errors::{FieldError, FieldPath};
use crate::object;
use crate::patch::Patch;
use crate::status::{ApiError, ApiResult};

/// Lost races in a row before a patch gives up. Each loss means that somebody else won, so this is
/// reached only under a storm; the request's deadline usually ends it first.
const ATTEMPTS: usize = 200;

/// Which part of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Everything but `status` where that is a subresource.
    Object,
    /// `status` alone.
    Status,
    /// `spec.finalizers` alone, where those are.
    Finalizers,
}

impl ObjectStore {
    /// Replaces an object with `new`, which names the revision it was made from.
    ///
    /// # Errors
    /// 400, 404, 409, 413, 422, 503.
    pub async fn update(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        mut new: Value,
        target: Target,
        options: WriteOptions,
    ) -> ApiResult<Written> {
        check_type(kind.resource, &mut new)?;
        if object::meta(&new, "resourceVersion").is_empty() && kind.resource.generation {
            let field = FieldPath::new("metadata.resourceVersion");
            let fault = FieldError::invalid(field, &Value::from(0), "must be specified for an update");
            return Err(ApiError::invalid(kind.resource, name, &[fault]));
        }
        let warnings = check_fields(kind.resource, &mut new, options.field_validation)?;
        let mut written =
            self.modify(kind, namespace, name, target, options.dry_run, |_| Ok(new.clone())).await?;
        written.warnings.splice(0..0, warnings);
        Ok(written)
    }

    /// Patches an object; tried again on the newest object when somebody else was faster, unless
    /// the patch itself names a revision.
    ///
    /// # Errors
    /// 400, 404, 409, 413, 422, 503.
    pub async fn patch(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        patch: &Patch,
        target: Target,
        options: WriteOptions,
    ) -> ApiResult<Written> {
        let mut warnings = Vec::new();
        let change = |old: &Value| {
            let mut new = patch.apply(old)?;
            check_type(kind.resource, &mut new)?;
            warnings = check_fields(kind.resource, &mut new, options.field_validation)
                .map_err(|error| strict_patch_error(&new, &error))?;
            Ok(new)
        };
        let mut written = self.modify(kind, namespace, name, target, options.dry_run, change).await?;
        written.warnings.splice(0..0, warnings);
        Ok(written)
    }

    pub(super) async fn modify(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        target: Target,
        dry_run: bool,
        mut change: impl FnMut(&Value) -> ApiResult<Value> + Send,
    ) -> ApiResult<Written> {
        let key = self.key(kind, namespace, name)?;
        for _ in 0..ATTEMPTS {
            let Some((old, entry)) = self.read(kind, &key).await? else {
                return Err(ApiError::not_found(kind.resource, name));
            };
            let mut new = change(&old)?;
            check_identity(kind, &new, &old)?;
            settle(kind, &mut new, &old, target)?;
            let warnings = create::warnings(&mut new);
            create::check(kind, &new, Some(&old))?;
            if let Some(object) = self.swap(kind, &key, entry, &old, new, dry_run).await? {
                return Ok(Written { object, warnings });
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }

    /// Stores `new` if nobody was faster; `None` when somebody was.
    async fn swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        entry: Entry,
        old: &Value,
        mut new: Value,
        dry_run: bool,
    ) -> ApiResult<Option<Value>> {
        if object::is_deleting(&new) && !is_held(kind.resource, &new) {
            return self.finish_deletion(kind, key, entry, new, dry_run).await;
        }
        if dry_run || (new == *old && self.is_current(kind, &entry)) {
            return Ok(Some(new));
        }
        let value = self.encode(kind, key, &new)?;
        match self.store.update(key, entry.modified, value).await {
            Ok(revision) => {
                object::set_revision(&mut new, revision);
                Ok(Some(new))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(StoreError::Unknown { .. }) => self.settle_swap(kind, key, new).await,
            Err(error) => Err(ApiError::storage(&error)),
        }
    }

    /// The store did not say whether the write happened: look. What we wrote, standing there,
    /// says yes; what we started from says try again.
    async fn settle_swap(&self, kind: Kind<'_>, key: &Key, new: Value) -> ApiResult<Option<Value>> {
        let Some((found, _)) = self.read(kind, key).await? else { return Ok(None) };
        let without_revision = |mut object: Value| {
            object::remove_meta(&mut object, "resourceVersion");
            object
        };
        let ours = without_revision(found.clone()) == without_revision(new);
        Ok(ours.then_some(found))
    }

    /// The last finalizer is gone: so is the object.
    async fn finish_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        entry: Entry,
        new: Value,
        dry_run: bool,
    ) -> ApiResult<Option<Value>> {
        if dry_run {
            return Ok(Some(new));
        }
        match self.store.delete(key, entry.modified).await {
            Ok(_) => Ok(Some(new)),
            Err(StoreError::Conflict { .. } | StoreError::Unknown { .. }) => {
                // Gone, by us or somebody else, is what was wanted.
                Ok(self.read(kind, key).await?.is_none().then_some(new))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }
}

/// Checks that `new` is a version of `old` and not another object.
fn check_identity(kind: Kind<'_>, new: &Value, old: &Value) -> ApiResult<()> {
    let (name, given) = (object::name(old), object::name(new));
    if given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    let namespace = object::namespace(new);
    if !namespace.is_empty() && namespace != object::namespace(old) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let revision = object::meta(new, "resourceVersion");
    if !revision.is_empty() && revision.parse::<u64>().is_err() {
        let field = FieldPath::new("metadata.resourceVersion");
        let fault = FieldError::invalid(field, &Value::from(revision), "must be a decimal number");
        return Err(ApiError::invalid(kind.resource, name, &[fault]));
    }
    if !revision.is_empty() && revision != object::meta(old, "resourceVersion") {
        return Err(ApiError::modified(kind.resource, name));
    }
    let (uid, given) = (object::meta(old, "uid"), object::meta(new, "uid"));
    if !given.is_empty() && given != uid {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
        return Err(ApiError::conflict(kind.resource, name, &why));
    }
    Ok(())
}

/// Restores what this write may not change, sets what the server keeps.
fn settle(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) -> ApiResult<()> {
    restore_other_parts(kind, new, old, target);
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "namespace",
        "generation",
        "resourceVersion",
    ] {
        match old.get("metadata").and_then(|meta| meta.get(field)) {
            Some(value) => object::set_meta(new, field, value.clone()),
            None => object::remove_meta(new, field),
        }
    }
    for field in ["selfLink", "managedFields"] {
        object::remove_meta(new, field);
    }
    create::prepare_by_kind(kind, new, Some(old))?;
    if kind.resource.generation && is_new_generation(kind, new, old) {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        object::set_meta(new, "generation", generation + 1);
    }
    Ok(())
}

/// Leaves of `new` the part that is written, and has the others from `old`.
fn restore_other_parts(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) {
    match target {
        Target::Status => {
            let status = new.get("status").cloned();
            *new = old.clone();
            set_or_remove(new, "status", status);
        }
        Target::Finalizers => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            *new = old.clone();
            set_spec_finalizers(new, finalizers);
        }
        Target::Object => {
            if kind.resource.status_subresource {
                set_or_remove(new, "status", old.get("status").cloned());
            }
            if kind.resource.strategy.has_spec_finalizers() {
                set_spec_finalizers(new, old.pointer("/spec/finalizers").cloned());
            }
        }
    }
}

/// Whether anything changed that controllers must react to.
fn is_new_generation(kind: Kind<'_>, new: &Value, old: &Value) -> bool {
    let counts =
        |field: &str| field != "metadata" && !(field == "status" && kind.resource.status_subresource);
    let part = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields
            .filter(|(field, _)| counts(field))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    part(new) != part(old)
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(root) = object.as_object_mut() {
        match value {
            Some(value) => root.insert(field.to_owned(), value),
            None => root.remove(field),
        };
    }
}

fn set_spec_finalizers(object: &mut Value, finalizers: Option<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    let spec = root.entry("spec").or_insert_with(|| json!({}));
    set_or_remove(spec, "finalizers", finalizers);
}

/// A patch that leaves unknown fields behind is refused as invalid, with the patched object shown.
fn strict_patch_error(patched: &Value, error: &ApiError) -> ApiError {
    let text = error.message.split_once(": ").map_or(error.message.as_str(), |(_, text)| text);
    let fault = FieldError::invalid(FieldPath::new("patch"), &json!(patched.to_string()), text);
    ApiError::invalid_kind("", "", &[fault])
}
