//! Validation of the defaults in the schema of a variable.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::schema;
use serde_json::Value;

use super::without_rules;

/// Adds the errors of the defaults of the schema, its fields and its items.
pub(super) fn validate(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        validate_default(schema, default, &path.child("default"), errors);
    }
    if let Some(items) = schema.get("items") {
        validate(items, &path.child("items"), errors);
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        validate(property, &path.child("properties").key(name), errors);
    }
}

fn validate_default(schema: &Value, default: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    // A schema that does not compile is reported later.
    let Ok(plain) = schema::compile(&without_rules(schema)) else { return };
    if !plain.prune(&mut default.clone(), &FieldPath::default()).is_empty() {
        errors.push(FieldError::invalid(path.clone(), default, "must not have unknown fields"));
    }
    let mut found = plain.shape_errors(default);
    if let (true, Ok(whole)) = (found.is_empty(), schema::compile(schema)) {
        found = whole.rule_errors(default, Some(default));
        if found.is_empty() {
            found = whole.rule_errors(default, None);
        }
    }
    errors.extend(found.into_iter().map(|error| error.within(path.as_str())));
}
