//! Combined schemas: `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! They only validate. Fields, types and defaults come from the enclosing schema, and the parts repeat none of it.

use serde_json::{Map, Value};

use super::location::Location;
use super::{InvalidSchema, Schema, compile};
use crate::field_errors::{FieldError, FieldPath, NO_FIELD};

/// Mark of a schema whose type comes from the enclosing schema.
pub(super) const INHERITED: &str = "x-inherited-type";

/// Compiled `allOf`, `anyOf`, `oneOf` and `not` of one schema.
#[derive(Debug, Clone, Default)]
pub(crate) struct Combined {
    all: Vec<Schema>,
    any: Vec<Schema>,
    one: Vec<Schema>,
    not: Option<Schema>,
}

/// Compiles the combined parts of a schema. Returns `None` if it has none.
pub(super) fn compile(schema: &Value, path: &str) -> Result<Option<Box<Combined>>, InvalidSchema> {
    let part = |part: &Value| compile::compile(&inherit(part, schema), path);
    let parts = |name: &str| -> Result<Vec<Schema>, InvalidSchema> {
        schema.get(name).and_then(Value::as_array).into_iter().flatten().map(part).collect()
    };
    let combined = Combined {
        all: parts("allOf")?,
        any: parts("anyOf")?,
        one: parts("oneOf")?,
        not: schema.get("not").map(part).transpose()?,
    };
    let is_empty = combined.all.is_empty()
        && combined.any.is_empty()
        && combined.one.is_empty()
        && combined.not.is_none();
    Ok((!is_empty).then(|| Box::new(combined)))
}

/// Returns a part with the types of the enclosing schema where the part has none.
fn inherit(part: &Value, around: &Value) -> Value {
    let Some(fields) = part.as_object() else { return part.clone() };
    let mut found = fields.clone();
    if !fields.contains_key("type") {
        for name in ["type", "x-kubernetes-int-or-string"] {
            if let Some(value) = around.get(name) {
                found.insert(name.to_owned(), value.clone());
            }
        }
        found.insert(INHERITED.to_owned(), Value::Bool(true));
    }
    let inner = |name: &str| around.get(name).unwrap_or(&Value::Null);
    if let Some(Value::Object(properties)) = fields.get("properties") {
        let typed: Map<String, Value> = properties
            .iter()
            .map(|(name, field)| {
                let around = inner("properties").get(name).unwrap_or_else(|| inner("additionalProperties"));
                (name.clone(), inherit(field, around))
            })
            .collect();
        found.insert("properties".to_owned(), Value::Object(typed));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(part) = fields.get(name) {
            found.insert(name.to_owned(), inherit(part, inner(name)));
        }
    }
    if found.get("type").and_then(Value::as_str) == Some("array") {
        found.entry("items").or_insert_with(|| Value::Object(Map::new()));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(parts)) = found.get(name) {
            let parts = parts.iter().map(|part| inherit(part, around)).collect();
            found.insert(name.to_owned(), Value::Array(parts));
        }
    }
    if let Some(part) = fields.get("not") {
        found.insert("not".to_owned(), inherit(part, around));
    }
    Value::Object(found)
}

impl Combined {
    /// Adds the errors of a value, in upstream's order. If no alternative holds, the errors of the first one are added.
    pub(super) fn check(&self, value: &Value, path: &Location<'_>, errors: &mut Vec<FieldError>) {
        let validate = |schema: &Schema| {
            let mut found = Vec::new();
            schema.walk(value, None, path, &mut found);
            found
        };
        if !self.any.is_empty() {
            let found: Vec<_> = self.any.iter().map(validate).collect();
            if found.iter().all(|errors| !errors.is_empty()) {
                errors.push(whole_value_error(path, "must validate at least one schema (anyOf)"));
                errors.extend(found.into_iter().next().into_iter().flatten());
            }
        }
        if !self.one.is_empty() {
            let found: Vec<_> = self.one.iter().map(validate).collect();
            match found.iter().filter(|errors| errors.is_empty()).count() {
                1 => {}
                0 => {
                    let detail = "must validate one and only one schema (oneOf). Found none valid";
                    errors.push(whole_value_error(path, detail));
                    errors.extend(found.into_iter().next().into_iter().flatten());
                }
                many => {
                    let detail = format!(
                        "must validate one and only one schema (oneOf). Found {many} valid alternatives"
                    );
                    errors.push(whole_value_error(path, &detail));
                }
            }
        }
        let found: Vec<_> = self.all.iter().map(validate).collect();
        let broken = found.iter().filter(|errors| !errors.is_empty()).count();
        if broken > 0 {
            let none = if broken == found.len() { ". None validated" } else { "" };
            errors.extend(found.into_iter().flatten());
            errors.push(whole_value_error(path, &format!("must validate all the schemas (allOf){none}")));
        }
        if self.not.as_ref().is_some_and(|not| validate(not).is_empty()) {
            errors.push(whole_value_error(path, "must not validate the schema (not)"));
        }
    }
}

/// Creates an error of the whole value, which upstream attributes to no field.
fn whole_value_error(path: &Location<'_>, detail: &str) -> FieldError {
    FieldError::invalid(FieldPath::new(NO_FIELD), &Value::from(""), &format!("\"{path}\" {detail}"))
}
