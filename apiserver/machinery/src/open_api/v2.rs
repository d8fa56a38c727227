//! OpenAPI v2 form of a v3 document.

use serde_json::{Map, Value, json};

use super::operations::FORMS;

/// Rewrites references, parameters, bodies and responses of a v3 document in place.
pub(super) fn rewrite(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/definitions/");
            }
            // v2 does not have these keywords.
            for word in ["nullable", "oneOf", "anyOf", "not"] {
                if !map.get(word).is_some_and(|value| value.is_object() && value.get("type").is_some()) {
                    map.remove(word);
                }
            }
            flatten_parameter(map);
            if map.contains_key("responses") {
                rewrite_operation(map);
            }
            map.values_mut().for_each(rewrite);
        }
        _ => {}
    }
}

/// Moves the type of a path or query parameter out of its schema.
fn flatten_parameter(map: &mut Map<String, Value>) {
    let location = map.get("in").and_then(Value::as_str);
    if matches!(location, Some("path" | "query")) {
        let kind = map.remove("schema").and_then(|schema| schema.get("type").cloned());
        map.extend(kind.map(|kind| ("type".to_owned(), kind)));
    }
}

/// Rewrites one operation.
fn rewrite_operation(operation: &mut Map<String, Value>) {
    let json_forms = json!(FORMS);
    operation.insert("produces".to_owned(), json_forms.clone());
    let mut parameters =
        operation.remove("parameters").and_then(|list| list.as_array().cloned()).unwrap_or_default();
    if let Some(body) = operation.remove("requestBody") {
        let content = body.get("content").and_then(Value::as_object).cloned().unwrap_or_default();
        operation.insert("consumes".to_owned(), content.keys().cloned().collect::<Vec<_>>().into());
        let schema = content.values().next().and_then(|form| form.get("schema")).cloned().unwrap_or_default();
        let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
        if let Some(required) = body.get("required") {
            parameter["required"] = required.clone();
        }
        parameters.push(parameter);
    } else {
        operation.insert("consumes".to_owned(), json_forms);
    }
    operation.insert("parameters".to_owned(), parameters.into());
    operation.insert("schemes".to_owned(), json!(["https"]));
    for response in operation
        .get_mut("responses")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|map| map.values_mut())
    {
        let schema = response.pointer("/content/application~1json/schema").cloned();
        if let Some(response) = response.as_object_mut() {
            response.remove("content");
            if let Some(schema) = schema {
                response.insert("schema".to_owned(), schema);
            }
        }
    }
}
