//! Replacement of an object: the decoded body of an update, and the result of a patch.

use serde_json::{Value, json};

use super::identity;
use super::strict_decoding::{check_known_fields, check_version, check_version_and_metadata, metadata_error};
use crate::patch::{self, Patch};
use crate::status::ApiResult;
use crate::store::{FieldValidation, Kind, Target};

/// Fields of a status update that count: the type, the metadata and the status.
const OF_STATUS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// The object of an update. The first attempt consumes it, and usually it is the only attempt. Another attempt decodes
/// it again.
pub struct Replacement<'a> {
    /// The object, decoded.
    pub object: Value,
    /// Decodes the object again.
    pub again: &'a (dyn Fn() -> ApiResult<Value> + Sync),
}

impl std::fmt::Debug for Replacement<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Replacement").field("object", &self.object).finish_non_exhaustive()
    }
}

/// Checks a replacement; returns it with the warnings for the client.
pub(crate) fn prepared(
    kind: Kind<'_>,
    mut new: Value,
    target: Target,
    validation: FieldValidation,
) -> ApiResult<(Value, Vec<String>)> {
    name_part(kind, &mut new, target);
    check_version_and_metadata(kind.resource, &new)?;
    let warnings = check_known_fields(kind.resource, &mut new, validation)?;
    if let Some(root) = new.as_object_mut().filter(|_| target.is_in_status()) {
        root.retain(|field, _| OF_STATUS.contains(&field.as_str()));
    }
    Ok((new, warnings))
}

/// Sets the kind: a write of a subresource need not name it.
fn name_part(kind: Kind<'_>, new: &mut Value, target: Target) {
    if let Some(root) = new.as_object_mut().filter(|_| target != Target::Object) {
        root.insert("kind".to_owned(), json!(kind.resource.kind));
    }
}

/// Applies a patch; returns the result with the warnings for the client.
pub(crate) fn patched(
    kind: Kind<'_>,
    base: Value,
    patch: &Patch,
    target: Target,
    validation: FieldValidation,
) -> ApiResult<(Value, Vec<String>)> {
    let mut new = patch.carry_out(base)?;
    identity::check_version(kind, &new)?;
    check_version(kind.resource, &new)?;
    // The error is one of the patched object, and not of the body.
    if let Some(why) = metadata_error(&new) {
        return Err(patch::invalid(&new, &why));
    }
    name_part(kind, &mut new, target);
    let warnings = check_patched(kind, &mut new, patch, validation)?;
    Ok((new, warnings))
}

/// Checks the patch and its result for unknown fields; returns the warnings. In strict validation, they are errors that
/// repeat the patched object.
fn check_patched(
    kind: Kind<'_>,
    new: &mut Value,
    patch: &Patch,
    validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    if validation != FieldValidation::Strict {
        let unknown = check_known_fields(kind.resource, new, validation)?;
        return Ok([patch.errors(), &unknown].concat());
    }
    let patched = new.clone();
    let unknown = check_known_fields(kind.resource, new, FieldValidation::Warn)?;
    let errors = [patch.errors(), &unknown].concat();
    if errors.is_empty() {
        return Ok(errors);
    }
    Err(patch::invalid(&patched, &format!("strict decoding error: {}", errors.join(", "))))
}
