//! Structural schemas: each value has one type, declared in one location.

use apiserver_schema::Schema;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::{alternatives, inner_schemas};
use crate::rules::json_fields::items;

/// Keywords that only the schema around alternatives can contain.
const NOT_NESTED: [(&str, &str); 5] = [
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

/// Returns the reasons why the schema is not structural, in the order of upstream's messages.
pub(super) fn errors(schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, "must not be empty for specified object fields", &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

/// `untyped` is the error of a schema without a type.
fn check(schema: &Value, path: &FieldPath, untyped: &str, errors: &mut Vec<FieldError>) {
    let is_set = |field: &str| schema.get(field) == Some(&Value::Bool(true));
    let (either, open) = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields");
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    for (at, inner) in inner_schemas(schema, path) {
        let is_item = at == path.child("items");
        let of = if is_item { "array items" } else { "object fields" };
        check(inner, &at, &format!("must not be empty for specified {of}"), errors);
    }
    if is_set(either) && is_set(open) {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid(path.child(open), &json!(true), detail));
    }
    let skipped = either_of(schema);
    check_alternatives(schema, path, skipped, errors);
    if kind.is_empty() && !is_set(either) && !is_set(open) {
        errors.push(FieldError::required(path.child("type"), untyped));
    }
}

/// Reports whether alternatives are the form of an int-or-string: in the schema itself, and in the first part of its
/// `allOf`.
fn either_of(schema: &Value) -> (bool, bool) {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let says_so = |schema: &Value| schema.get("anyOf") == Some(&both);
    (says_so(schema), items(schema, "allOf").next().is_some_and(|(_, first)| says_so(first)))
}

fn check_alternatives(
    schema: &Value,
    path: &FieldPath,
    (skips_any, skips_first): (bool, bool),
    errors: &mut Vec<FieldError>,
) {
    let first = path.child("allOf").index(0);
    for (at, inner) in alternatives(schema, path) {
        if !(skips_any && at.as_str().starts_with(path.child("anyOf").as_str())) {
            check_nested(inner, &at, skips_first && at == first, errors);
        }
    }
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    if let Err(problem) = Schema::compile(&json!({"type": "string", "pattern": pattern})) {
        let detail = format!("must be a valid regular expression, but isn't: {}", problem.problem());
        errors.push(FieldError::invalid(path.child("pattern"), &json!(pattern), &detail));
    }
}

fn check_nested(schema: &Value, path: &FieldPath, skips_any: bool, errors: &mut Vec<FieldError>) {
    check_alternatives(schema, path, (skips_any, false), errors);
    for (at, inner) in inner_schemas(schema, path) {
        // A part that is not allowed is not validated.
        if at != path.child("additionalProperties") {
            check_nested(inner, &at, false, errors);
        }
    }
    if schema.get("type").is_some_and(|kind| *kind != json!("")) {
        errors.push(FieldError::forbidden(path.child("type"), "must be empty to be structural"));
    }
    for (field, detail) in NOT_NESTED {
        let is_nothing = |found: &&Value| **found == json!(false) || **found == json!([]);
        if schema.get(field).filter(|found| !is_nothing(found)).is_some() {
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }
    if schema.get("properties").is_some_and(|properties| properties.get("metadata").is_some()) {
        let at = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(at, "must not be specified in a nested context"));
    }
}
