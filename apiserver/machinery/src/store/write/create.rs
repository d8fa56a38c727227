//! Create: defaults, validates and stores a new object.

use serde_json::Value;

use super::admission::Admitted;
use super::decision::Agreement;
use super::metadata_rules::{self, Previous};
use super::namespaces::NamespaceState;
use super::related_objects::RelatedObjects;
use super::strict_decoding::{check_known_fields, check_version_and_metadata};
use super::{identity, insert, used_objects};
use crate::lock::{Lock, Validity};
use crate::metadata;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore, Origin, Target, WriteOptions, Written, WrittenObject, now, text};
use apiserver_schema::Schema;

/// Attempts to find a free name for a `generateName`: upstream's number. With 27^5 suffixes, more failures have another
/// cause.
const NAME_ATTEMPTS: usize = 8;

/// Number of changes of related objects in a row, each between the checks and the lock, before a create fails.
const ATTEMPTS: usize = 8;

/// Longest prefix of a generated name: 63 minus the suffix.
const LONGEST_PREFIX: usize = 58;

/// Letters of a suffix: no vowels and no similar letters, so that it spells no words and is not misread.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl ObjectStore {
    /// Creates `object` in `namespace` (empty for cluster-scoped kinds).
    ///
    /// # Errors
    /// 400, 404 (namespace), 409, 413, 422, 503, 504.
    pub async fn create(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        mut object: Value,
        options: WriteOptions,
    ) -> ApiResult<Written> {
        check_version_and_metadata(kind.resource, &object)?;
        if let Some(error) = identity::wrong_kind(kind.resource, &object) {
            return Err(identity::refuse_kind(kind.resource, &object, &[error]));
        }
        let mut warnings = check_known_fields(kind.resource, &mut object, options.field_validation)?;
        if let Err(error) = set_namespace(kind, namespace, &mut object) {
            return Err(error.after(warnings));
        }
        metadata::normalize(&mut object);
        warnings.extend(drop_duplicate_owners(&mut object, false));
        let created = self.create_validated(kind, namespace, object, &options).await;
        Written::with_warnings(created, warnings)
    }

    async fn create_validated(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> ApiResult<Written> {
        let namespace = self.namespace_state(kind, namespace, object::name(&object)).await?;
        let dry_run = options.dry_run;
        // A text that is no number is no version.
        let versioned =
            object::meta(&object, "resourceVersion").parse::<u64>().is_ok_and(|version| version > 0);
        object::remove_meta(&mut object, "resourceVersion");
        kind.resource.schema.fill_in(&mut object);
        kind.resource.strategy.canonicalize(&mut object);
        // A client that moves an object from another server sends these fields, and does not become their manager.
        forget_deletion(&mut object);
        self.assign_managers(kind, None, &mut object, Target::Object, options);
        let warnings = mutate(kind, namespace.name, &mut object, options).await?;
        prepare(kind, &mut object);
        let related = RelatedObjects::by(self);
        used_objects::check(kind, &object, None, options, &related).await?;
        related.check_grants(kind, &object, None, options).await?;
        // Other errors of the object are reported first.
        let options = &WriteOptions { dry_run: options.dry_run || versioned, ..options.clone() };
        let created = self.create_named(kind, &namespace, object, options).await;
        let created = Written::with_warnings(created, warnings)?;
        if versioned && !dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::untyped(500, why));
        }
        Ok(created)
    }

    /// Creates it under its name, or under a generated one.
    async fn create_named(
        &self,
        kind: Kind<'_>,
        namespace: &NamespaceState<'_>,
        mut object: Value,
        options: &WriteOptions,
    ) -> ApiResult<Written> {
        let generate = object::meta(&object, "generateName").to_owned();
        if !object::name(&object).is_empty() || generate.is_empty() {
            let created = self.create_once(kind, namespace, object, Origin::Sent, options).await;
            // Upstream treats it as a name that it generated itself.
            return created
                .map_err(|error| if generate.is_empty() { error } else { error.of_generated_name() });
        }
        for _ in 0..NAME_ATTEMPTS {
            object::set_meta(&mut object, "name", generate_name(&generate));
            match self.create_once(kind, namespace, object.clone(), Origin::Sent, options).await {
                Err(error) if error.code == 409 => {}
                other => return other,
            }
        }
        Err(ApiError::name_exhausted(kind.resource, object::name(&object)))
    }

    /// Creates the result of an apply to a missing object.
    pub(crate) async fn create_applied(
        &self,
        kind: Kind<'_>,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> ApiResult<Written> {
        object::remove_meta(&mut object, "resourceVersion");
        set_namespace(kind, namespace, &mut object)?;
        let namespace = self.namespace_state(kind, namespace, object::name(&object)).await?;
        metadata::normalize(&mut object);
        let mut warnings = drop_duplicate_owners(&mut object, true);
        kind.resource.strategy.canonicalize(&mut object);
        warnings.extend(mutate(kind, namespace.name, &mut object, options).await?);
        prepare(kind, &mut object);
        let related = RelatedObjects::by(self);
        used_objects::check(kind, &object, None, options, &related).await?;
        related.check_grants(kind, &object, None, options).await?;
        let created = self.create_once(kind, &namespace, object, Origin::Applied, options).await;
        Written::with_warnings(created, warnings)
    }

    /// Tries to create it under one name; returns the object and the warnings for the client.
    async fn create_once(
        &self,
        kind: Kind<'_>,
        namespace: &NamespaceState<'_>,
        mut object: Value,
        origin: Origin,
        options: &WriteOptions,
    ) -> ApiResult<Written> {
        prepare_by_kind(kind, &mut object, None, Target::Object, origin)?;
        self.mark_provisional(kind, &mut object, options);
        // A kind without a lock never starts again.
        let attempts = if kind.stored.strategy.locks_decisions() { ATTEMPTS } else { 1 };
        for _ in 1..attempts {
            let created = self.attempt_creation(kind, namespace, object.clone(), origin, options).await?;
            if let Some(created) = created {
                return Ok(created);
            }
        }
        // The last attempt needs no copy.
        let created = self.attempt_creation(kind, namespace, object, origin, options).await?;
        created.ok_or_else(|| busy(kind))
    }

    /// Checks a new object against related ones, and stores it. Returns `None` if it must start again.
    async fn attempt_creation(
        &self,
        kind: Kind<'_>,
        namespace: &NamespaceState<'_>,
        mut object: Value,
        origin: Origin,
        options: &WriteOptions,
    ) -> ApiResult<Option<Written>> {
        let related = RelatedObjects::by(self);
        related.default(kind, &mut object, None, Target::Object).await?;
        check(kind, &object, None, Target::Object, options.dry_run)?;
        let mut warnings = metadata::finalizer_warnings(&object, None);
        warnings.extend(related.validate(kind, &object, None, Target::Object).await?);
        if let Err(error) = admitted(kind, namespace.name).validate(&object, options).await {
            return Err(error.after(warnings));
        }
        let agreed = match self.agree(kind, &object, None, Target::Object, options).await {
            Ok(Agreement::Agreed(agreed)) => agreed,
            Ok(Agreement::Changed) => return Ok(None),
            Err(error) => return Err(error.after(warnings)),
        };
        let created = self.store_new(kind, namespace, object, (origin, agreed.as_ref()), options).await;
        self.release(agreed).await;
        let created = created.map(|object| Written { object, warnings: Vec::new() });
        Written::with_warnings(created, warnings).map(Some)
    }

    /// Stores a new object while its locks are valid, if the quotas allow it.
    async fn store_new(
        &self,
        kind: Kind<'_>,
        namespace: &NamespaceState<'_>,
        object: Value,
        (origin, agreed): (Origin, Option<&Lock>),
        options: &WriteOptions,
    ) -> ApiResult<WrittenObject> {
        let key = self.key(kind, namespace.name, object::name(&object))?;
        let lock = self.reserve(kind, namespace.name, (&object, None), Target::Object, options).await?;
        let created = if options.dry_run {
            match self.read(kind, &key).await? {
                Some((existing, _)) => Err(insert::exists(kind, &existing)),
                None => Ok(WrittenObject::of_serialized(object)),
            }
        } else {
            match Validity::check_all(lock.iter().chain(agreed).map(Lock::validity).chain(options.lock)) {
                Ok(()) => self.insert(kind, &key, namespace, object, origin).await,
                Err(error) => Err(error),
            }
        };
        self.release(lock).await;
        created
    }
}

/// Error of a new object whose related objects change all the time.
fn busy(kind: Kind<'_>) -> ApiError {
    let plural = kind.resource.qualified_plural();
    ApiError::unavailable(format!(
        "objects on which the new one of {plural} depends are changing, please try again"
    ))
}

fn admitted<'a>(kind: Kind<'a>, namespace: &'a str) -> Admitted<'a> {
    Admitted { kind, namespace, target: Target::Object, scale: None, old: None }
}

/// Lets configurations change a new object; returns the warnings for the client.
async fn mutate(
    kind: Kind<'_>,
    namespace: &str,
    object: &mut Value,
    options: &WriteOptions,
) -> ApiResult<Vec<String>> {
    if !admitted(kind, namespace).mutate(object, options).await? {
        return Ok(Vec::new());
    }
    set_namespace(kind, namespace, object)?;
    object::remove_meta(object, "resourceVersion");
    metadata::normalize(object);
    kind.resource.strategy.canonicalize(object);
    Ok(drop_duplicate_owners(object, true))
}

/// Removes the deletion fields: a new object is not being deleted.
fn forget_deletion(object: &mut Value) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        object::remove_meta(object, field);
    }
}

/// Sets the fields that the server assigns to a new object, and removes those that clients may not set.
fn prepare(kind: Kind<'_>, object: &mut Value) {
    forget_deletion(object);
    for field in ["selfLink", "generation"] {
        object::remove_meta(object, field);
    }
    object::set_meta(object, "uid", uuid::Uuid::new_v4().to_string());
    object::set_meta(object, "creationTimestamp", now());
    if kind.resource.generation {
        object::set_meta(object, "generation", 1);
    }
    if let Some(root) = object.as_object_mut().filter(|_| kind.resource.status_subresource) {
        root.remove("status");
    }
}

/// Drops duplicate owner references, and returns the warnings for the client. Upstream finds those of a patch late, and
/// its text says so.
pub(crate) fn drop_duplicate_owners(object: &mut Value, patched: bool) -> Vec<String> {
    let dropped = metadata::dedup_owners(object);
    if dropped.is_empty() {
        return Vec::new();
    }
    let when = if patched { " after mutating admission happens" } else { "" };
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        dropped.join(", ")
    )]
}

/// Applies the defaults of the kind's strategy and of the schema. The strategy knows only the stored version.
pub(crate) fn prepare_by_kind(
    kind: Kind<'_>,
    new: &mut Value,
    old: Option<&Value>,
    target: Target,
    origin: Origin,
) -> ApiResult<()> {
    let is_asked = target != Target::Status || kind.stored.strategy.reads_status();
    let keeps_nulls = origin == Origin::Applied && !kind.stored.strategy.drops_nulls();
    let fill_in = |schema: &Schema, object: &mut Value| match keeps_nulls {
        false => schema.fill_in(object),
        true => schema.fill_in_defaults(object),
    };
    if kind.resource.conversion.is_none() {
        // Before the strategy's defaults, which fill in absent fields.
        if origin == Origin::Applied && !keeps_nulls {
            kind.stored.schema.fill_in(new);
        }
        if is_asked {
            kind.stored.strategy.prepare(new, old);
        }
        fill_in(&kind.stored.schema, new);
        return Ok(());
    }
    fill_in(&kind.resource.schema, new);
    let mut stored = kind.as_stored(new)?.into_owned();
    let stored_old = old.map(|old| kind.as_stored(old)).transpose()?;
    if is_asked {
        kind.stored.strategy.prepare(&mut stored, stored_old.as_deref());
    }
    fill_in(&kind.stored.schema, &mut stored);
    *new = kind.served(stored)?;
    Ok(())
}

/// Validates an object that is about to be stored.
pub(crate) fn check(
    kind: Kind<'_>,
    new: &Value,
    before: Option<Previous<'_>>,
    target: Target,
    dry_run: bool,
) -> ApiResult<()> {
    let resource = kind.resource;
    let old = before.map(|before| before.object);
    let mut errors = match before {
        None => metadata_rules::validate_new(resource, new),
        Some(before) => metadata_rules::validate_update(new, before),
    };
    match target {
        Target::Status | Target::Approval => resource.schema.add_part_errors("status", new, old, &mut errors),
        Target::Object | Target::Finalizers => resource.schema.add_errors(new, old, &mut errors),
    }
    errors.extend(crate::scale::validate(resource, new));
    resource.schema.add_rule_errors(new, old, &mut errors);
    if let Some(conversion) = &resource.conversion {
        // Errors that the stored object has, too, do not count against an update.
        let before = old.map(|old| conversion.validate(old)).unwrap_or_default();
        errors.extend(conversion.validate(new).into_iter().filter(|error| !before.contains(error)));
    }
    let strategy = &kind.stored.strategy;
    let is_exempt = (dry_run && old.is_some() && strategy.is_exempt_in_dry_run(new))
        || (target == Target::Status && !strategy.reads_status());
    if errors.is_empty() && !is_exempt {
        let stored_old = old.map(|old| kind.as_stored(old)).transpose()?;
        errors = strategy.validate(kind.as_stored(new)?.as_ref(), stored_old.as_deref());
        if let Some(old) =
            stored_old.filter(|_| !errors.is_empty() && before.is_some_and(|before| before.keeps_spec))
        {
            let there = strategy.validate(&old, Some(&old));
            errors.retain(|error| !there.contains(error));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(resource, object::name(new), &errors)) }
}

/// Sets the namespace of the URL; the body may repeat it.
pub(crate) fn set_namespace(kind: Kind<'_>, namespace: &str, object: &mut Value) -> ApiResult<()> {
    let given = object.get("metadata").map(|meta| text(meta, "namespace")).unwrap_or_default();
    if !kind.resource.namespaced {
        object::remove_meta(object, "namespace");
    } else if !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    } else {
        object::set_meta(object, "namespace", namespace);
    }
    Ok(())
}

fn generate_name(prefix: &str) -> String {
    let prefix: String = prefix.chars().take(LONGEST_PREFIX).collect();
    let random = uuid::Uuid::new_v4();
    let letter =
        |byte: &u8| ALPHABET.get(usize::from(*byte) % ALPHABET.len()).map(|letter| char::from(*letter));
    // The first bytes of a v4 UUID are random.
    let suffix: String = random.as_bytes().iter().take(5).filter_map(letter).collect();
    format!("{prefix}{suffix}")
}
