//! What is sent to change an object, made ready to be what it is to be.

use serde_json::{Value, json};

use super::identity;
use super::strict_decoding::{check_known_fields, check_version, check_version_and_metadata, metadata_error};
use crate::patch::{self, Patch};
use crate::status::ApiResult;
use crate::store::{FieldValidation, Kind, Target};

/// What is looked at of an object that is sent for its status: what it is, and the status.
const OF_STATUS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// What is to be in an object's place. It is used up by the first try, and nearly always that is the only one; whoever has
/// to try again makes it again of what was sent.
pub struct Replacement<'a> {
    /// The object, decoded.
    pub object: Value,
    /// Decodes it once more.
    pub again: &'a (dyn Fn() -> ApiResult<Value> + Sync),
}

impl std::fmt::Debug for Replacement<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Replacement").field("object", &self.object).finish_non_exhaustive()
    }
}

/// What was sent as it replaces something, and what to say of it.
pub(crate) fn prepared(
    kind: Kind<'_>,
    mut new: Value,
    target: Target,
    validation: FieldValidation,
) -> ApiResult<(Value, Vec<String>)> {
    name_part(kind, &mut new, target);
    check_version_and_metadata(kind.resource, &new)?;
    let warnings = check_known_fields(kind.resource, &mut new, validation)?;
    if let Some(root) = new.as_object_mut().filter(|_| target == Target::Status) {
        root.retain(|field, _| OF_STATUS.contains(&field.as_str()));
    }
    Ok((new, warnings))
}

/// Of what is written through a part nobody asks the kind.
fn name_part(kind: Kind<'_>, new: &mut Value, target: Target) {
    if let Some(root) = new.as_object_mut().filter(|_| target != Target::Object) {
        root.insert("kind".to_owned(), json!(kind.resource.kind));
    }
}

/// The object with the patch carried out, and what to say of that.
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
    // What a patch leaves behind is at error, and not what was sent.
    if let Some(why) = metadata_error(&new) {
        return Err(patch::invalid(&new, &why));
    }
    name_part(kind, &mut new, target);
    let warnings = check_patched(kind, &mut new, patch, validation)?;
    Ok((new, warnings))
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
