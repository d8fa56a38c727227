//! Types of the keywords of a schema. The Cluster API schema checks the outermost level only, and not the schemas
//! within it.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use super::{alternatives, inner_schemas};

type Test = fn(&Value) -> bool;

/// Keywords that are not schemas, with a predicate and the name of their type.
const KEYWORDS: [(&[&str], Test, &str); 6] = [
    (&["type", "description", "format", "pattern"], Value::is_string, "string"),
    (
        &[
            "exclusiveMaximum",
            "exclusiveMinimum",
            "uniqueItems",
            "x-kubernetes-int-or-string",
            "x-kubernetes-preserve-unknown-fields",
        ],
        Value::is_boolean,
        "boolean",
    ),
    (
        &[
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
        ],
        Value::is_i64,
        "integer",
    ),
    (&["enum", "allOf", "anyOf", "oneOf", "x-kubernetes-validations"], Value::is_array, "array"),
    (&["required"], is_list_of_texts, "array of strings"),
    (&["properties", "additionalProperties", "items", "not", "x-metadata"], Value::is_object, "object"),
];

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

/// Returns an error for every keyword of the schema, or of a schema within it, that has the wrong type.
pub(super) fn errors(schema: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, &mut errors);
    errors
}

fn check(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut refuse = |at: FieldPath, value: &Value, expected: &str| {
        let detail = format!("must be of type {expected}");
        errors.push(FieldError::type_invalid(at, value, &detail));
    };
    let Some(fields) = schema.as_object() else { return refuse(path.clone(), schema, "object") };
    for (names, is_good, expected) in KEYWORDS {
        for name in names {
            if let Some(value) = fields.get(*name).filter(|value| !value.is_null() && !is_good(value)) {
                refuse(path.child(name), value, expected);
            }
        }
    }
    for (at, inner) in inner_schemas(schema, path).into_iter().chain(alternatives(schema, path)) {
        // The enclosing schema has reported a part that is no object.
        if inner.is_object() || !inner.is_null() && at.as_str().ends_with(']') {
            check(inner, &at, errors);
        }
    }
}
