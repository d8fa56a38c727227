//! Identity checks of a write: names, revision, uid and immutable metadata.

use serde_json::Value;

use super::metadata_rules::{self, Previous};
use crate::object;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, Target};
use apiserver_schema::field_errors::{FieldError, FieldPath};

/// Checks that `new` is a version of `old` and not another object, and that no other client wrote first. Returns errors
/// for changes of immutable metadata, which are reported together with all others.
pub(crate) fn check(kind: Kind<'_>, new: &Value, old: &Value, target: Target) -> ApiResult<Vec<FieldError>> {
    check_names(new, object::namespace(old), object::name(old))?;
    check_revision(kind, new, old)?;
    // A write of a subresource leaves the metadata unchanged.
    Ok(if target == Target::Object { immutable(new, old) } else { Vec::new() })
}

/// Checks that an object has the names in its URL.
pub(crate) fn check_names(object: &Value, namespace: &str, name: &str) -> ApiResult<()> {
    let given = object::namespace(object);
    if !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let given = object::name(object);
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

fn check_revision(kind: Kind<'_>, new: &Value, old: &Value) -> ApiResult<()> {
    let name = object::name(old);
    let revision = object::meta(new, "resourceVersion");
    if !revision.is_empty() && revision.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing {revision:?}: invalid syntax");
        return Err(ApiError::untyped(500, message));
    }
    if matches!(revision, "" | "0") && !kind.stored.strategy.allow_unconditional_update() {
        let field = FieldPath::new("metadata.resourceVersion");
        let error = FieldError::invalid(field, &Value::from(0), "must be specified for an update");
        // Only here, upstream's text has the plural.
        return Err(ApiError::invalid_kind(&kind.resource.qualified_plural(), name, &[error]));
    }
    if !revision.is_empty() && revision != object::meta(old, "resourceVersion") {
        return Err(ApiError::modified(kind.resource, name));
    }
    Ok(())
}

/// Checks the uid: a client that sends one means that very object.
pub(crate) fn check_uid(kind: Kind<'_>, new: &Value, old: &Value) -> ApiResult<()> {
    let (uid, given) = (object::meta(old, "uid"), object::meta(new, "uid"));
    if given.is_empty() || given == uid {
        return Ok(());
    }
    let key = format!("{}{}/{}", kind.resource.prefix(), object::namespace(old), object::name(old));
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID \
         in precondition: {given}, UID in object meta: {uid}",
        key.replace("//", "/")
    );
    Err(ApiError::conflict(kind.resource, object::name(old), &why))
}

/// Returns errors for changes of other immutable metadata: only DELETE starts a deletion, and it cannot be stopped.
fn immutable(new: &Value, old: &Value) -> Vec<FieldError> {
    let of = |object: &Value, field: &str| {
        object.get("metadata")?.get(field).filter(|value| !value.is_null()).cloned()
    };
    let mut errors = Vec::new();
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (given, there) = (of(new, field).filter(|given| *given != ""), of(old, field));
        // The time of the deletion is kept, so a different one is no error.
        let is_settled = field == "deletionTimestamp" && there.is_some();
        if let Some(given) = given.filter(|given| !is_settled && Some(given) != there.as_ref()) {
            let field = FieldPath::new("metadata").child(field);
            errors.push(FieldError::invalid(field, &given, "field is immutable"));
        }
    }
    errors
}

/// Checks that the new version of an object has its kind. If it does not, no schema applies, and only the metadata is
/// validated.
pub(crate) fn check_kind(kind: Kind<'_>, new: &Value, before: Previous<'_>) -> ApiResult<()> {
    match wrong_kind(kind.resource, new) {
        None => Ok(()),
        Some(error) => {
            let mut errors = metadata_rules::validate_update_once(new, before);
            errors.push(error);
            Err(refuse_kind(kind.resource, new, &errors))
        }
    }
}

/// Returns the error of an object with another kind.
pub(crate) fn wrong_kind(resource: &Resource, object: &Value) -> Option<FieldError> {
    let given = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let detail = || format!("must be {}", resource.kind);
    (given != resource.kind)
        .then(|| FieldError::invalid(FieldPath::new("kind"), &Value::from(given), &detail()))
}

/// Returns the refusal of an object with another kind.
pub(crate) fn refuse_kind(resource: &Resource, object: &Value, errors: &[FieldError]) -> ApiError {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let qualified =
        if resource.group.is_empty() { kind.to_owned() } else { format!("{kind}.{}", resource.group) };
    ApiError::invalid_kind(&qualified, object::name(object), errors)
}

/// Checks that a patch does not change the version.
pub(crate) fn check_version(kind: Kind<'_>, new: &Value) -> ApiResult<()> {
    let wanted = kind.resource.api_version();
    let given = new.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if given == wanted {
        return Ok(());
    }
    let detail = format!("must be {wanted}");
    let error = FieldError::invalid(FieldPath::new("apiVersion"), &Value::from(given), &detail);
    // The text has the kind of the patched object.
    let named = new.get("kind").and_then(Value::as_str).unwrap_or_default();
    let qualified =
        given.split_once('/').map_or_else(|| named.to_owned(), |(group, _)| format!("{named}.{group}"));
    Err(ApiError::invalid_kind(&qualified, object::name(new), &[error]))
}
