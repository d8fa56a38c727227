//! Schemas of variables: the keywords that Cluster API knows.

use apiserver_schema::{InvalidSchema, Schema};
use serde_json::{Map, Value};

/// Keywords that are copied unchanged.
const PLAIN: [&str; 20] = [
    "type",
    "required",
    "maxProperties",
    "minProperties",
    "maxItems",
    "minItems",
    "uniqueItems",
    "format",
    "maxLength",
    "minLength",
    "pattern",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "minimum",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "default",
    "enum",
    "example",
];

/// Keywords of a validation rule.
const RULE: [&str; 5] = ["rule", "message", "messageExpression", "reason", "fieldPath"];

/// Keywords with one schema, and keywords with a list of schemas.
const INNER: [&str; 3] = ["additionalProperties", "items", "not"];
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Returns the schema without keywords that Cluster API does not know, such as `nullable`. Inner schemas can contain
/// anything.
pub fn known(schema: &Value) -> Value {
    let mut found = Map::new();
    for name in PLAIN {
        if let Some(value) = schema.get(name).filter(|value| !value.is_null()) {
            found.insert(name.to_owned(), value.clone());
        }
    }
    for name in INNER {
        if let Some(inner) = schema.get(name).filter(|inner| inner.is_object()) {
            found.insert(name.to_owned(), known(inner));
        }
    }
    for name in LISTS {
        if let Some(Value::Array(list)) = schema.get(name) {
            found.insert(name.to_owned(), list.iter().map(known).collect());
        }
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let properties: Map<String, Value> =
            properties.iter().map(|(name, property)| (name.clone(), known(property))).collect();
        found.insert("properties".to_owned(), Value::Object(properties));
    }
    if let Some(Value::Array(rules)) = schema.get("x-kubernetes-validations") {
        let rule = |rule: &Value| -> Value {
            let field = |name: &&str| Some(((*name).to_owned(), rule.get(*name)?.clone()));
            Value::Object(RULE.iter().filter_map(field).collect())
        };
        found.insert("x-kubernetes-validations".to_owned(), rules.iter().map(rule).collect());
    }
    Value::Object(found)
}

/// Compiles the schema of a variable's values.
///
/// # Errors
/// The errors of [`Schema::compile`].
pub fn compile(schema: &Value) -> Result<Schema, InvalidSchema> {
    Schema::compile(&known(schema))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_keywords_are_ignored() {
        let schema = json!({"type": "object", "nullable": true, "description": "x", "properties": {
            "a": {"type": "string", "nullable": true, "x-kubernetes-list-type": "set"}},
            "anyOf": [{"required": ["a"], "title": "x"}],
            "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": true}]});
        let expected = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "anyOf": [{"required": ["a"]}], "x-kubernetes-validations": [{"rule": "true"}]});
        assert_eq!(known(&schema), expected);
    }
}
