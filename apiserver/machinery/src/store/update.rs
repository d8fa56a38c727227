//! Update and patch: read, change, check, compare-and-swap; again when somebody was faster.

use serde_json::{Value, json};
use storage_contract::{Entry, Key, StoreError};

use super::decoded::{check_known_fields, check_version_and_metadata};
use super::{
    FieldValidation, Kind, ObjectStore, Origin, WriteOptions, Written, create, identity, is_held, owners,
};
use crate::metadata::{self, Before};
use crate::object;
use crate::patch::{self, Patch};
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

impl Target {
    /// The subresource it is written through; empty for the object itself.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Finalizers => "finalize",
        }
    }
}

/// How an object is changed.
#[derive(Clone, Copy)]
pub(super) struct Modification<'a> {
    pub(super) target: Target,
    pub(super) options: &'a WriteOptions,
    pub(super) origin: Origin,
    /// Whether what the change makes has its owners already.
    pub(super) owned: bool,
    pub(super) method: Method,
}

/// Whether a client says what the object is to be, or what is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// What it is to be.
    Put,
    /// What is to be changed.
    Patch,
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
        name_part(kind, &mut new, target);
        check_version_and_metadata(kind.resource, &new)?;
        let warnings = check_known_fields(kind.resource, &mut new, options.field_validation)?;
        if let Err(error) = identity::check_names(&new, namespace, name) {
            return Err(error.after(warnings));
        }
        let modification = Modification {
            target,
            options: &options,
            origin: Origin::Sent,
            owned: false,
            method: Method::Put,
        };
        let change = |old: &Value| {
            identity::check_uid(kind, &new, old)?;
            Ok(new.clone())
        };
        let updated = self.modify(kind, namespace, name, modification, change).await;
        Written::told(updated, warnings)
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
            identity::check_version(kind, &new)?;
            check_version_and_metadata(kind.resource, &new)
                .map_err(|error| undecodable_patch(&new, error))?;
            name_part(kind, &mut new, target);
            warnings = check_patched(kind, &mut new, patch, options.field_validation)?;
            Ok(new)
        };
        let modification = Modification {
            target,
            options: &options,
            origin: Origin::Sent,
            owned: false,
            method: Method::Patch,
        };
        let patched = self.modify(kind, namespace, name, modification, change).await;
        Written::told(patched, warnings)
    }

    pub(super) async fn modify(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        how: Modification<'_>,
        mut change: impl FnMut(&Value) -> ApiResult<Value> + Send,
    ) -> ApiResult<Written> {
        let key = self.key(kind, namespace, name)?;
        for _ in 0..ATTEMPTS {
            let Some((old, entry)) = self.read(kind, &key).await? else {
                return Err(ApiError::not_found(kind.resource, name));
            };
            let mut new = change(&old)?;
            let immutable = identity::check(kind, &new, &old, how.target)?;
            let keeps_spec = new.get("spec") == old.get("spec");
            let before = Before { object: &old, immutable: &immutable, keeps_spec };
            identity::check_kind(kind, &new, before)?;
            metadata::normalize(&mut new);
            if how.owned {
                // Whoever applied owns what was said, and not the form that it takes.
                kind.resource.strategy.decoded(&mut new);
            } else {
                kind.resource.schema.fill_in(&mut new);
                kind.resource.strategy.decoded(&mut new);
                self.own(kind, Some(&old), &mut new, how.target, how.options);
            }
            let mut warnings = create::drop_twins(&mut new, how.method == Method::Patch);
            settle(kind, &mut new, &old, how)?;
            if let Err(error) = self.prepare_among(kind, &mut new, Some(before), how.target).await {
                return Err(error.after(warnings));
            }
            count_generation(kind, &mut new, &old);
            if let Err(error) = create::check(kind, &new, Some(before), how.target, how.options.dry_run) {
                return Err(error.after(warnings));
            }
            warnings.extend(metadata::finalizer_warnings(&new, Some(&old)));
            match self.judge(kind, &new, Some(before), how.target).await {
                Ok(told) => warnings.extend(told),
                Err(error) => return Err(error.after(warnings)),
            }
            if let Some(object) = self.swap(kind, &key, entry, &old, new, how).await? {
                return Ok(Written { object, warnings });
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }

    /// Gives `new` its owners: those of `old`, but for what the writer has changed.
    pub(super) fn own(
        &self,
        kind: Kind<'_>,
        old: Option<&Value>,
        new: &mut Value,
        target: Target,
        options: &WriteOptions,
    ) {
        let api_version = kind.resource.api_version();
        if let Some(tracker) = self.owners.write(kind, &api_version, &options.manager, target) {
            tracker.update(old, new);
        }
    }

    /// Stores `new` if nobody was faster; `None` when somebody was.
    async fn swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        entry: Entry,
        old: &Value,
        mut new: Value,
        how: Modification<'_>,
    ) -> ApiResult<Option<Value>> {
        let dry_run = how.options.dry_run;
        if object::is_deleting(&new) && !is_held(kind.resource, &new) {
            return self.finish_deletion(kind, key, entry, new, dry_run).await;
        }
        owners::keep_times(&mut new, old);
        if dry_run || (new == *old && self.is_current(kind, &entry)) {
            return Ok(Some(new));
        }
        let value = self.encode(kind, key, &new)?;
        let mut outcome = self.store.update(key, entry.modified, value).await;
        if matches!(outcome, Err(StoreError::TooLarge { .. })) && how.origin == Origin::Sent {
            object::remove_meta(&mut new, "managedFields");
            outcome = self.store.update(key, entry.modified, self.encode(kind, key, &new)?).await;
        }
        match outcome {
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

/// Of what is written through a part nobody asks the kind.
fn name_part(kind: Kind<'_>, new: &mut Value, target: Target) {
    if let Some(root) = new.as_object_mut().filter(|_| target != Target::Object) {
        root.insert("kind".to_owned(), json!(kind.resource.kind));
    }
}

/// Restores what this write may not change, sets what the server keeps.
fn settle(kind: Kind<'_>, new: &mut Value, old: &Value, how: Modification<'_>) -> ApiResult<()> {
    let owners = new.pointer_mut("/metadata/managedFields").map(Value::take);
    restore_other_parts(kind, new, old, how.target);
    match owners {
        Some(owners) => object::set_meta(new, "managedFields", owners),
        None => object::remove_meta(new, "managedFields"),
    }
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
    object::remove_meta(new, "selfLink");
    create::prepare_by_kind(kind, new, Some(old), how.origin)
}

/// Counts the generations of what is wanted.
fn count_generation(kind: Kind<'_>, new: &mut Value, old: &Value) {
    if kind.resource.generation && is_new_generation(kind, new, old) {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        object::set_meta(new, "generation", generation + 1);
    }
}

/// Leaves of `new` the part that is written, and has the others from `old`.
fn restore_other_parts(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) {
    match target {
        Target::Status => {
            // Null is none, whoever says so.
            let status = new.get("status").filter(|status| !status.is_null()).cloned();
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

/// What to say of the patch, and of the fields that it leaves behind and nobody knows. In strict
/// validation that is refused, and shown as it was patched.
fn check_patched(
    kind: Kind<'_>,
    new: &mut Value,
    patch: &Patch,
    validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    if validation != FieldValidation::Strict {
        let unknown = check_known_fields(kind.resource, new, validation)?;
        return Ok([patch.faults(), &unknown].concat());
    }
    let patched = new.clone();
    let unknown = check_known_fields(kind.resource, new, FieldValidation::Warn)?;
    let faults = [patch.faults(), &unknown].concat();
    if faults.is_empty() {
        return Ok(faults);
    }
    Err(patch::invalid(&patched, &format!("strict decoding error: {}", faults.join(", "))))
}

/// A patch that leaves something behind that is not of the kind is refused as invalid; another fault
/// is what it is.
fn undecodable_patch(patched: &Value, error: ApiError) -> ApiError {
    let is_undecodable = error.code == 400 && error.message.contains(" cannot be handled as a ");
    if !is_undecodable {
        return error;
    }
    let text = error.message.split_once(": ").map_or(error.message.as_str(), |(_, text)| text);
    patch::invalid(patched, text)
}
