//! Structural schemas, generated from Rust types.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Returns the structural schema of `T`. It has no references and no keywords that are not structural. Only
/// values that can be null on the wire are nullable.
pub(crate) fn structural<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut value = schema.to_value();
    rewrite(&mut value);
    value
}

/// Returns the schema of a whole object of a kind.
pub(crate) fn object(description: &str, spec: Option<Value>, status: Option<Value>, required: bool) -> Value {
    let mut schema = json!({"type": "object", "description": description, "properties": {
        "apiVersion": {"type": "string", "description": "Group and version of this representation."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object"}}});
    for (field, part) in [("spec", spec), ("status", status)] {
        if let Some(part) = part {
            schema["properties"][field] = part;
        }
    }
    if required {
        schema["required"] = json!(["spec"]);
    }
    schema
}

/// Removes the format of every 32-bit integer except that of the endpoint's port. In v1beta1 of the OpenStack kinds,
/// upstream's other integers are Go's `int`, which has no format, while v1beta2 has `int32` and shares our types.
pub(crate) fn without_int32(mut schema: Value) -> Value {
    remove_int32(&mut schema);
    schema
}

fn remove_int32(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("format").and_then(Value::as_str) == Some("int32") {
                map.remove("format");
            }
            map.iter_mut()
                .filter(|(name, _)| *name != "controlPlaneEndpoint")
                .for_each(|(_, part)| remove_int32(part));
        }
        Value::Array(parts) => parts.iter_mut().for_each(remove_int32),
        _ => {}
    }
}

/// Rewrites a schema in place, from the leaves up.
fn rewrite(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    for field in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = map.get_mut(field) {
            properties.values_mut().for_each(rewrite);
        }
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(field) {
            rewrite(inner);
        }
    }
    for field in ["anyOf", "oneOf", "allOf"] {
        if let Some(Value::Array(parts)) = map.get_mut(field) {
            parts.iter_mut().for_each(rewrite);
        }
    }
    unwrap_optional(map);
    fold_variants(map);
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.retain(|key, _| {
            matches!(key.as_str(), "x-kubernetes-int-or-string" | "description" | "default" | "pattern")
        });
        map.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    for noise in ["title", "$schema", "nullable", "examples", "const"] {
        map.remove(noise);
    }
    if matches!(map.get("format").and_then(Value::as_str), Some("uint32" | "uint64" | "micro-time")) {
        map.remove("format");
    }
    if map.get("additionalProperties") == Some(&Value::Bool(true))
        || map.get("additionalProperties") == Some(&Value::Bool(false))
    {
        map.remove("additionalProperties");
    }
    // A value of any shape.
    if map.is_empty() {
        map.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
    }
    if map.get("default") == Some(&Value::Null) {
        map.remove("default");
    }
}

/// Removes null from the schema of an `Option<T>`. On the wire, an unset field is absent.
fn unwrap_optional(map: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = map.get("type").cloned() {
        let kinds: Vec<Value> = kinds.into_iter().filter(|kind| kind != "null").collect();
        if let [kind] = kinds.as_slice() {
            map.insert("type".to_owned(), kind.clone());
        }
    }
    if let Some(Value::Array(allowed)) = map.get_mut("enum") {
        allowed.retain(|value| !value.is_null());
    }
    for field in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(parts)) = map.get(field).cloned() else { continue };
        let is_null = |part: &Value| {
            part.get("type") == Some(&json!("null"))
                || part.get("enum") == Some(&json!([null]))
                || part.get("enum") == Some(&json!([]))
        };
        let real: Vec<&Value> = parts.iter().filter(|part| !is_null(part)).collect();
        if let [Value::Object(part)] = real.as_slice() {
            map.remove(field);
            for (key, value) in part {
                map.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// Folds the schemas of documented variants into one `enum`. On the wire, the variants are one list of
/// strings.
fn fold_variants(map: &mut Map<String, Value>) {
    for field in ["oneOf", "anyOf"] {
        let Some(Value::Array(parts)) = map.get(field) else { continue };
        let words = |part: &Value| match (part.get("const"), part.get("enum").and_then(Value::as_array)) {
            (Some(word), _) => Some(vec![word.clone()]),
            (None, Some(words)) => Some(words.clone()),
            (None, None) => None,
        };
        let folded: Option<Vec<Vec<Value>>> = parts.iter().map(words).collect();
        if let Some(folded) = folded {
            map.remove(field);
            map.insert("type".to_owned(), json!("string"));
            map.insert("enum".to_owned(), folded.concat().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keywords of the server's structural schemas.
    const KNOWN: [&str; 24] = [
        "type",
        "description",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "default",
        "enum",
        "format",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "pattern",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    ];

    fn walk(schema: &Value, path: &str, errors: &mut Vec<String>) {
        let Some(map) = schema.as_object() else { return errors.push(format!("{path} is no schema")) };
        // Clients write null times in Events and in decisions about certificates; nothing else may be null.
        let kinds = ["Event.", "CertificateSigningRequest."];
        let null = |key: &str| key == "nullable" && kinds.iter().any(|kind| path.starts_with(kind));
        let either = |key: &str| key == "anyOf" && map.contains_key("x-kubernetes-int-or-string");
        errors.extend(
            map.keys()
                .filter(|key| !KNOWN.contains(&key.as_str()) && !null(key) && !either(key))
                .map(|key| format!("{path}: {key}")),
        );
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            walk(property, &format!("{path}.{name}"), errors);
        }
        for field in ["items", "additionalProperties"] {
            if let Some(inner) = map.get(field) {
                walk(inner, &format!("{path}[]"), errors);
            }
        }
    }

    #[test]
    fn every_schema_is_structural() {
        let mut errors = Vec::new();
        for descriptor in crate::DESCRIPTORS {
            walk(&crate::schema(descriptor).unwrap(), descriptor.kind, &mut errors);
        }
        assert_eq!(errors, Vec::<String>::new());
    }
}
