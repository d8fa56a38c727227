//! Update and patch: read, change, validate, compare and swap. If another client wrote first, the write starts again.

use apiserver_schema::field_errors::FieldError;
use apiserver_structured_merge::{parse_sets, serialize_sets};
use serde_json::Value;
use storage_contract::Key;

use super::admission::Admitted;
use super::current_object::CurrentObject;
use super::decision::Agreement;
use super::immutable_parts::{count_generation, keep_status, settle};
use super::metadata_rules::Previous;
use super::previewed::Previewed;
use super::related_objects::RelatedObjects;
use super::replacement::{Replacement, patched, prepared};
use super::{create, current_object, identity, used_objects};
use crate::lock::{Lock, Validity};
use crate::metadata;
use crate::object;
use crate::patch::Patch;
use crate::resource::Scale;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore, Origin, WriteOptions, Written, WrittenObject};

/// Number of lost races in a row before a patch fails. Each loss means that another client won, so only an extreme load
/// reaches this limit; the request's deadline usually ends it first.
const ATTEMPTS: usize = 200;

/// Part of an object that a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Everything, except `status` where it is a subresource.
    Object,
    /// `status` alone.
    Status,
    /// Decisions in `status` alone, where the kind has them.
    Approval,
    /// `spec.finalizers` alone, where the kind has them.
    Finalizers,
}

impl Target {
    /// Returns the subresource of the write; empty for the object itself.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Object => "",
            Self::Status => "status",
            Self::Approval => "approval",
            Self::Finalizers => "finalize",
        }
    }

    /// Returns the field that a write of this part leaves unchanged, and that may be large.
    pub(crate) fn unchanged_field(self) -> Option<&'static str> {
        match self {
            Self::Object => Some("status"),
            Self::Status => Some("spec"),
            Self::Approval | Self::Finalizers => None,
        }
    }

    /// Returns true for the parts that are in the status.
    pub(crate) fn is_in_status(self) -> bool {
        matches!(self, Self::Status | Self::Approval)
    }
}

/// Parameters of a change.
#[derive(Clone, Copy)]
pub(crate) struct Modification<'a> {
    pub(crate) target: Target,
    pub(crate) options: &'a WriteOptions,
    pub(crate) origin: Origin,
    /// True if the result of the change has its field managers already.
    pub(crate) has_managers: bool,
    /// True if the change neither reads nor writes the [unchanged field](Target::unchanged_field) of its target.
    pub(crate) skips_unchanged: bool,
    pub(crate) method: Method,
    /// Set for the subresource `scale`.
    pub(crate) scale: Option<&'a Scale>,
}

/// Method of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A client sends the whole object.
    Put,
    /// A client sends a change.
    Patch,
}

impl ObjectStore {
    /// Replaces an object by the one that the client sent, which names the revision that it is based on.
    ///
    /// # Errors
    /// 400, 404, 409, 413, 422, 503, 504.
    pub async fn update(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        replacement: Replacement<'_>,
        target: Target,
        options: WriteOptions,
    ) -> ApiResult<Written> {
        let Replacement { object, again } = replacement;
        let (first, warnings) = prepared(kind, object, target, options.field_validation)?;
        if let Err(error) = identity::check_names(&first, namespace, name) {
            return Err(error.after(warnings));
        }
        let modification = Modification {
            target,
            options: &options,
            origin: Origin::Sent,
            has_managers: false,
            skips_unchanged: target == Target::Status,
            method: Method::Put,
            scale: None,
        };
        let mut first = Some(first);
        let change = |old: &Value| {
            let new = match first.take() {
                Some(new) => new,
                None => prepared(kind, again()?, target, options.field_validation)?.0,
            };
            identity::check_uid(kind, &new, old)?;
            Ok(new)
        };
        let updated = self.modify(kind, namespace, name, modification, change).await;
        Written::with_warnings(updated, warnings)
    }

    /// Patches an object. If another client wrote first, it is tried again on the newest object, unless the patch names
    /// a revision.
    ///
    /// # Errors
    /// 400, 404, 409, 413, 422, 503, 504.
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
            let checked = |current: Value| patched(kind, current, patch, target, options.field_validation);
            // A refusal repeats the whole object.
            let brief = patch.leaves_managers().then(|| checked(object::without(old, &[])).ok()).flatten();
            let new = brief.map_or_else(|| checked(with_parsed_sets(old)), Ok)?;
            warnings = new.1;
            Ok(new.0)
        };
        let modification = Modification {
            target,
            options: &options,
            origin: Origin::Sent,
            has_managers: false,
            skips_unchanged: target.unchanged_field().is_some_and(|field| patch.leaves_unchanged(field)),
            method: Method::Patch,
            scale: None,
        };
        let patched = self.modify(kind, namespace, name, modification, change).await;
        Written::with_warnings(patched, warnings)
    }

    pub(crate) async fn modify(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        name: &str,
        how: Modification<'_>,
        mut change: impl FnMut(&Value) -> ApiResult<Value> + Send,
    ) -> ApiResult<Written> {
        let key = self.key(kind, namespace, name)?;
        let mut cached = self
            .cached_object(kind, &key, current_object::untouched_field(kind, how))
            .filter(|_| !how.options.dry_run);
        for _ in 0..ATTEMPTS {
            let current = match cached.take() {
                Some(current) => current,
                None => self.stored_object(kind, &key, name).await?,
            };
            let (is_stored, is_whole, revision) = (current.is_stored(), current.is_whole(), current.revision);
            let preview = Previewed::of(kind, how, &current);
            match self.attempt(kind, (namespace, &key), current, how, &mut change).await {
                Ok(Some(written)) => {
                    return Ok(match preview {
                        Some(preview) => Box::pin(preview.complete(kind, written)).await,
                        None => written,
                    });
                }
                Err(error) if is_stored || error.code >= 500 => return Err(error),
                // An error on the cached object may not occur on the stored one, if that is another; and its text has
                // to repeat the whole object.
                Err(error) => {
                    let stored = self.stored_object(kind, &key, name).await?;
                    if is_whole && stored.revision == revision {
                        return Err(error);
                    }
                    cached = Some(stored);
                }
                Ok(None) => {}
            }
        }
        Err(ApiError::modified(kind.resource, name))
    }

    /// Changes `current` and stores the result. Returns `None` if it must start again with the stored object.
    async fn attempt(
        &self,
        kind: Kind<'_>,
        (namespace, key): (&str, &Key),
        current: CurrentObject,
        how: Modification<'_>,
        change: &mut (impl FnMut(&Value) -> ApiResult<Value> + Send),
    ) -> ApiResult<Option<Written>> {
        let old = &current.object;
        let mut new = change(old)?;
        let mut immutable = identity::check(kind, &new, old, how.target)?;
        let mut keeps_spec = how.target.is_in_status() || new.get("spec") == old.get("spec");
        let before = Previous { object: old, immutable: &immutable, keeps_spec };
        identity::check_kind(kind, &new, before)?;
        let mut warnings = Vec::new();
        if how.target.is_in_status() {
            // Errors in parts that do not count are reported, too.
            metadata::normalize(&mut new);
            warnings.extend(create::drop_duplicate_owners(&mut new, how.method == Method::Patch));
            keep_status(kind, &mut new, old, how.target);
        }
        metadata::normalize(&mut new);
        if how.has_managers {
            // An apply owns the fields as they were applied, and not their canonical form.
            kind.resource.strategy.canonicalize(&mut new);
        } else {
            kind.resource.schema.fill_in(&mut new);
            kind.resource.strategy.canonicalize(&mut new);
            self.assign_managers(kind, Some(old), &mut new, how.target, how.options);
        }
        warnings.extend(create::drop_duplicate_owners(&mut new, how.method == Method::Patch));
        let admitted = Admitted { kind, namespace, target: how.target, scale: how.scale, old: Some(old) };
        match admitted.mutate(&mut new, how.options).await {
            Err(error) => return Err(error.after(warnings)),
            Ok(false) => {}
            Ok(true) => {
                // A configuration can change what a client can, and no more.
                immutable = identity::check(kind, &new, old, how.target)?;
                warnings.extend(refresh(kind, &mut new, old, how));
                keeps_spec = how.target.is_in_status() || new.get("spec") == old.get("spec");
            }
        }
        settle(kind, &mut new, old, how)?;
        current.clear(&mut new);
        let related = RelatedObjects::by(self);
        if how.target == Target::Object {
            used_objects::check(kind, &new, Some(old), how.options, &related).await?;
            related.check_grants(kind, &new, Some(old), how.options).await?;
        } else {
            related.check_part(kind, how.target, (&new, old), how.options).await?;
        }
        let rules = (immutable.as_slice(), keeps_spec);
        match self.decide(kind, (namespace, key), (current, new), how, rules, &mut warnings).await {
            Ok(object) => Ok(object.map(|object| Written { object, warnings })),
            Err(error) => Err(error.after(warnings)),
        }
    }

    /// Checks the changed object against related ones, and stores it. Returns `None` if it must start again.
    async fn decide(
        &self,
        kind: Kind<'_>,
        (namespace, key): (&str, &Key),
        (current, mut new): (CurrentObject, Value),
        how: Modification<'_>,
        (immutable, keeps_spec): (&[FieldError], bool),
        warnings: &mut Vec<String>,
    ) -> ApiResult<Option<WrittenObject>> {
        let old = &current.object;
        let before = Previous { object: old, immutable, keeps_spec };
        let related = RelatedObjects::by(self);
        related.default(kind, &mut new, Some(before), how.target).await?;
        count_generation(kind, &mut new, old);
        create::check(kind, &new, Some(before), how.target, how.options.dry_run)?;
        warnings.extend(metadata::finalizer_warnings(&new, Some(old)));
        warnings.extend(related.validate(kind, &new, Some(before), how.target).await?);
        let admitted = Admitted { kind, namespace, target: how.target, scale: how.scale, old: Some(old) };
        admitted.validate(&new, how.options).await?;
        let agreement = self.agree(kind, &new, Some(before), how.target, how.options).await?;
        let Agreement::Agreed(agreed) = agreement else { return Ok(None) };
        let swapped = match self.reserve(kind, namespace, (&new, Some(old)), how.target, how.options).await {
            Ok(reserved) => {
                let swapped = match Validity::check_all(agreed.iter().chain(&reserved).map(Lock::validity)) {
                    Ok(()) => self.swap(kind, key, current, new, how).await,
                    Err(error) => Err(error),
                };
                self.release(reserved).await;
                swapped
            }
            Err(error) => Err(error),
        };
        self.release(agreed).await;
        swapped
    }

    /// Gives `new` its field managers: those of `old`, plus the client's changes.
    pub(crate) fn assign_managers(
        &self,
        kind: Kind<'_>,
        old: Option<&Value>,
        new: &mut Value,
        target: Target,
        options: &WriteOptions,
    ) {
        let api_version = kind.resource.api_version();
        match self.field_managers.write(kind, &api_version, &options.manager, target) {
            Some(field_manager) => field_manager.update(old, new),
            // The changed object may be a copy without them.
            None => match old.and_then(|old| object::at(old, "metadata.managedFields")) {
                Some(managers) => object::set_meta(new, "managedFields", managers.clone()),
                None => serialize_sets(new),
            },
        }
    }
}

/// Restores the canonical form of an object that a configuration has changed; returns the warnings for the client.
fn refresh(kind: Kind<'_>, new: &mut Value, old: &Value, how: Modification<'_>) -> Vec<String> {
    metadata::normalize(new);
    if how.target.is_in_status() {
        keep_status(kind, new, old, how.target);
    }
    kind.resource.strategy.canonicalize(new);
    create::drop_duplicate_owners(new, true)
}

fn with_parsed_sets(object: &Value) -> Value {
    let mut object = object.clone();
    parse_sets(&mut object);
    object
}
