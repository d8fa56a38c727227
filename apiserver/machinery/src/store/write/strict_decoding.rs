//! What a body is checked for when it has been decoded, before it is an object of its kind.

use serde_json::Value;

use super::identity;
use crate::object;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{FieldValidation, text};
use apiserver_schema::field_errors::FieldPath;

/// Checks that a body says to be of a kind, is of the version that it was sent to, and has metadata that can be read.
pub(crate) fn check_version_and_metadata(resource: &Resource, object: &Value) -> ApiResult<()> {
    check_version(resource, object)?;
    check_metadata(resource, object)
}

/// Checks that a body says to be of a kind, and is of the version that it was sent to.
pub(crate) fn check_version(resource: &Resource, object: &Value) -> ApiResult<()> {
    let unrecognized = |why: &str| {
        let kind = &resource.kind;
        ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    if !object.is_object() {
        return Err(unrecognized("it is not a JSON object"));
    }
    if text(object, "kind").is_empty() {
        return Err(unrecognized("Object 'Kind' is missing"));
    }
    let api_version = text(object, "apiVersion");
    if api_version != resource.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            resource.api_version()
        )));
    }
    Ok(())
}

/// `metadata` is decoded strictly: a wrong type there is a malformed request, not an invalid object.
///
/// # Errors
/// 400.
pub fn check_metadata(resource: &Resource, object: &Value) -> ApiResult<()> {
    match metadata_error(object) {
        None => Ok(()),
        Some(why) => Err(undecodable(resource, &why)),
    }
}

/// Why `metadata` cannot be read, if it cannot.
pub(crate) fn metadata_error(object: &Value) -> Option<String> {
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null());
    metadata.and_then(crate::metadata::wrong_type)
}

/// Prunes an object and says what to do about what was dropped. An object of another kind is left alone: what it is to
/// have nobody knows, and that it is none of these is told later, with all else.
pub(crate) fn check_known_fields(
    resource: &Resource,
    object: &mut Value,
    validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    if identity::wrong_kind(resource, object).is_some() {
        return Ok(Vec::new());
    }
    object::whole_numbers(object);
    let unknown = unknown_fields(resource, object);
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(unknown),
        FieldValidation::Strict if unknown.is_empty() => Ok(unknown),
        FieldValidation::Strict => Err(strictly_refused(resource, &unknown)),
    }
}

/// Prunes `object`; what to say of each field that was dropped.
pub fn unknown_fields(resource: &Resource, object: &mut Value) -> Vec<String> {
    let mut unknown = resource.schema.prune(object, &FieldPath::default());
    // Upstream decodes metadata by itself, and names the rest in order, which they have.
    unknown.sort_by_key(|path| !path.starts_with("metadata."));
    unknown.iter().map(|path| unknown_field(path)).collect()
}

/// What to say of a field that nobody knows.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// The refusal of fields that occur twice or that nobody knows.
pub fn strictly_refused(resource: &Resource, texts: &[String]) -> ApiError {
    undecodable(resource, &format!("strict decoding error: {}", texts.join(", ")))
}

fn undecodable(resource: &Resource, why: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}
