//! Errors of reviews, with upstream's texts.

use apiserver_access::REALM;
use apiserver_machinery::reviews::Review;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::selectors;

/// Checks that a local review does not name another namespace than its path.
///
/// # Errors
/// 400.
pub(super) fn check_namespace(review: &Review, metadata: &Value, namespace: &str) -> ApiResult<()> {
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if review.namespaced && !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Checks the attributes of a review.
pub(super) fn of_attributes(resource: Option<&Value>, other: Option<&Value>) -> Option<FieldError> {
    match (resource, other) {
        (Some(_), Some(other)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            Some(FieldError::invalid(other_path(), &shown(other), detail))
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            Some(FieldError::invalid(FieldPath::new("spec.resourceAttributes"), &Value::Null, detail))
        }
        (Some(resource), None) => {
            selectors::FIELDS.iter().find_map(|field| selectors::check(resource, field))
        }
        (None, Some(_)) => None,
    }
}

/// Returns the error of a review's metadata: it must be empty, because a review is not stored. A local review may name
/// its namespace.
pub(super) fn of_metadata(review: &Review, metadata: &Value) -> Option<FieldError> {
    let says_more = metadata.as_object()?.iter().any(|(field, value)| {
        let is_known = field == "namespace" && review.namespaced;
        let is_empty = value.is_null() || value == "" || value == &json!({}) || value == &json!([]);
        !is_known && !is_empty
    });
    let detail = if review.namespaced { "must be empty except for namespace" } else { "must be empty" };
    says_more.then(|| FieldError::invalid(FieldPath::new("metadata"), metadata, detail))
}

/// Checks that a local review is about the namespace of its path.
pub(super) fn of_namespace(
    resource: Option<&Value>,
    other: Option<&Value>,
    namespace: &str,
) -> Option<FieldError> {
    if let Some(other) = other {
        return Some(FieldError::invalid(other_path(), &shown(other), "disallowed on this kind of request"));
    }
    let given = resource?.get("namespace").and_then(Value::as_str).unwrap_or_default();
    let field = FieldPath::new("spec.resourceAttributes.namespace");
    (given != namespace).then(|| FieldError::invalid(field, &json!(given), "must match metadata.namespace"))
}

/// Returns the error of a realm that does not exist.
pub(super) fn of_realm(name: &str) -> FieldError {
    let supported = ["host", "issuer/URL", "keystone", "machine", "own", "webhook"];
    FieldError::not_supported(FieldPath::new("spec.extra").key(REALM), &json!(name), &supported)
}

fn other_path() -> FieldPath {
    FieldPath::new("spec.nonResourceAttributes")
}

/// Formats a struct as Go does.
fn shown(other: &Value) -> Value {
    let text = |field: &str| other.get(field).and_then(Value::as_str).unwrap_or_default();
    json!({"Path": text("path"), "Verb": text("verb")})
}
