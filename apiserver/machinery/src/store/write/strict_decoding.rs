//! Strict decoding: checks of a decoded body before it is an object of its kind.

use serde_json::Value;

use super::identity;
use crate::object;
use crate::resource::Resource;
use crate::status::{ApiError, ApiResult};
use crate::store::{FieldValidation, text};
use apiserver_schema::field_errors::FieldPath;

/// Checks that a body names its kind, has the version of its URL, and has metadata that can be decoded.
pub(crate) fn check_version_and_metadata(resource: &Resource, object: &Value) -> ApiResult<()> {
    check_version(resource, object)?;
    check_metadata(resource, object)
}

/// Checks that a body names its kind, and has the version of its URL.
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

/// Checks the types in `metadata`: a wrong one is a malformed request, not an invalid object.
///
/// # Errors
/// 400.
pub fn check_metadata(resource: &Resource, object: &Value) -> ApiResult<()> {
    match metadata_error(object) {
        None => Ok(()),
        Some(why) => Err(undecodable(resource, &why)),
    }
}

/// Returns the error of `metadata` that cannot be decoded.
pub(crate) fn metadata_error(object: &Value) -> Option<String> {
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null());
    metadata.and_then(crate::metadata::wrong_type)
}

/// Prunes an object, and treats its unknown fields as the request demands. An object of another kind is unchanged: its
/// fields are unknown here, and its kind is refused later, with all other errors.
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

/// Prunes `object`; returns a text for each dropped field.
pub fn unknown_fields(resource: &Resource, object: &mut Value) -> Vec<String> {
    let mut unknown = resource.schema.prune(object, &FieldPath::default());
    // Upstream decodes metadata separately, and names the other fields in order.
    unknown.sort_by_key(|path| !path.starts_with("metadata."));
    unknown.iter().map(|path| unknown_field(path)).collect()
}

/// Returns the text for an unknown field.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

/// Returns the refusal of duplicate and unknown fields.
pub fn strictly_refused(resource: &Resource, texts: &[String]) -> ApiError {
    undecodable(resource, &format!("strict decoding error: {}", texts.join(", ")))
}

fn undecodable(resource: &Resource, why: &str) -> ApiError {
    let (kind, version) = (&resource.kind, &resource.version);
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
}
