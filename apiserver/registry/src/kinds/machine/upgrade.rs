//! Check of `machines/upgrade`: the version skew between the Machine and the request.

use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

/// Checks that a Machine can go from its version to the version in `body`.
///
/// # Errors
/// 422 at `version`, in the name of the body's kind.
pub(super) fn check((group, _, kind): (&str, &str, &str), body: &Value, machine: &Value) -> ApiResult<()> {
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (desired, current) = (text(body, "/version"), text(machine, "/spec/version"));
    let current = Some(current.as_str()).filter(|current| !current.is_empty());
    let another_image = body.get("image").is_some();
    match apiserver_types::version::skew(current, &desired, another_image) {
        None => Ok(()),
        Some(detail) => {
            let error = FieldError::invalid(FieldPath::new("version"), &json!(desired), &detail);
            Err(ApiError::invalid_kind(&format!("{kind}.{group}"), object::name(machine), &[error]))
        }
    }
}
