//! OpenAPI v2 document in protobuf, as `openapi.v2.Document` of the gnostic models. kubectl requests it for its own
//! validation and merges.
//!
//! Values without a fixed type (defaults, extensions) are in it as YAML, of which JSON is a subset.

use serde_json::{Map, Value};

use crate::protobuf::Writer;

/// Encodes the v2 document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, document, "swagger");
    if let Some(info) = document.get("info") {
        let mut inner = Writer::default();
        text(&mut inner, 1, info, "title");
        text(&mut inner, 2, info, "version");
        out.bytes(2, &inner.finish());
    }
    let mut paths = Writer::default();
    for (name, item) in entries(document, "paths") {
        paths.bytes(2, &named(name, &path_item(item)));
    }
    out.bytes(8, &paths.finish());
    let mut definitions = Writer::default();
    for (name, definition) in entries(document, "definitions") {
        definitions.bytes(1, &named(name, &schema(definition)));
    }
    out.bytes(9, &definitions.finish());
    out.finish()
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(one) = item.get(method) {
            out.bytes(number, &operation(one));
        }
    }
    items(item, "parameters").for_each(|one| out.bytes(9, &parameter(one)));
    extensions(&mut out, 10, item);
    out.finish()
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    texts(&mut out, 1, operation, "tags");
    text(&mut out, 3, operation, "description");
    text(&mut out, 5, operation, "operationId");
    texts(&mut out, 6, operation, "produces");
    texts(&mut out, 7, operation, "consumes");
    items(operation, "parameters").for_each(|one| out.bytes(8, &parameter(one)));
    let mut responses = Writer::default();
    for (code, answer) in entries(operation, "responses") {
        let mut response = Writer::default();
        text(&mut response, 1, answer, "description");
        if let Some(body) = answer.get("schema") {
            response.bytes(2, &wrapped(1, &schema(body)));
        }
        responses.bytes(1, &named(code, &wrapped(1, &response.finish())));
    }
    out.bytes(9, &responses.finish());
    texts(&mut out, 10, operation, "schemes");
    extensions(&mut out, 13, operation);
    out.finish()
}

/// `ParametersItem{parameter: {body | {query | path}}}`.
fn parameter(parameter: &Value) -> Vec<u8> {
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    let mut out = Writer::default();
    if place == "body" {
        text(&mut out, 1, parameter, "description");
        text(&mut out, 2, parameter, "name");
        text(&mut out, 3, parameter, "in");
        flag(&mut out, 4, parameter, "required");
        if let Some(body) = parameter.get("schema") {
            out.bytes(5, &schema(body));
        }
        return wrapped(1, &wrapped(1, &out.finish()));
    }
    flag(&mut out, 1, parameter, "required");
    text(&mut out, 2, parameter, "in");
    text(&mut out, 3, parameter, "description");
    text(&mut out, 4, parameter, "name");
    let (kind, of_place) = if place == "path" { (5, 4) } else { (6, 3) };
    text(&mut out, kind, parameter, "type");
    text(&mut out, kind + 1, parameter, "format");
    wrapped(1, &wrapped(2, &wrapped(of_place, &out.finish())))
}

fn schema(schema: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, schema, "$ref");
    text(&mut out, 2, schema, "format");
    text(&mut out, 3, schema, "title");
    text(&mut out, 4, schema, "description");
    schema.get("default").into_iter().for_each(|value| out.bytes(5, &any(value)));
    for (number, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        schema.get(name).and_then(Value::as_f64).into_iter().for_each(|value| out.double(number, value));
    }
    flag(&mut out, 8, schema, "exclusiveMaximum");
    flag(&mut out, 10, schema, "exclusiveMinimum");
    for (number, name) in [(11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")] {
        count(&mut out, number, schema, name);
    }
    text(&mut out, 13, schema, "pattern");
    flag(&mut out, 16, schema, "uniqueItems");
    count(&mut out, 17, schema, "maxProperties");
    count(&mut out, 18, schema, "minProperties");
    texts(&mut out, 19, schema, "required");
    items(schema, "enum").for_each(|value| out.bytes(20, &any(value)));
    structure(&mut out, schema);
    extensions(&mut out, 31, schema);
    out.finish()
}

/// Writes the type of a schema, and the schemas in it.
fn structure(out: &mut Writer, schema: &Value) {
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut inner = Writer::default();
            inner.number(2, u64::from(*allowed));
            out.bytes(21, &inner.finish());
        }
        Some(inner) => out.bytes(21, &wrapped(1, &self::schema(inner))),
        None => {}
    }
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        out.bytes(22, &wrapped(1, kind.as_bytes()));
    }
    if let Some(inner) = schema.get("items") {
        out.bytes(23, &wrapped(1, &self::schema(inner)));
    }
    items(schema, "allOf").for_each(|inner| out.bytes(24, &self::schema(inner)));
    let mut properties = Writer::default();
    for (name, inner) in entries(schema, "properties") {
        properties.bytes(1, &named(name, &self::schema(inner)));
    }
    let properties = properties.finish();
    if !properties.is_empty() {
        out.bytes(25, &properties);
    }
}

/// Writes everything that begins with `x-`, as `NamedAny`.
pub(super) fn extensions(out: &mut Writer, number: u64, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        out.bytes(number, &named(name, &any(value)));
    }
}

pub(super) fn any(value: &Value) -> Vec<u8> {
    wrapped(2, format!("{value}\n").as_bytes())
}

pub(super) fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(1, name.as_bytes());
    out.bytes(2, value);
    out.finish()
}

/// Returns a message with this one field.
pub(super) fn wrapped(number: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(number, value);
    out.finish()
}

pub(super) fn entries<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(name).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

pub(super) fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn text(out: &mut Writer, number: u64, value: &Value, name: &str) {
    if let Some(text) = value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()) {
        out.bytes(number, text.as_bytes());
    }
}

pub(super) fn texts(out: &mut Writer, number: u64, value: &Value, name: &str) {
    items(value, name).filter_map(Value::as_str).for_each(|text| out.bytes(number, text.as_bytes()));
}

pub(super) fn flag(out: &mut Writer, number: u64, value: &Value, name: &str) {
    if value.get(name).and_then(Value::as_bool) == Some(true) {
        out.number(number, 1);
    }
}

pub(super) fn count(out: &mut Writer, number: u64, value: &Value, name: &str) {
    if let Some(count) = value.get(name).and_then(Value::as_u64) {
        out.number(number, count);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `protoc --decode=openapi.v2.Document` reads these bytes back as this document.
    #[test]
    fn a_document_has_the_field_numbers_of_its_message() {
        let value = json!({"swagger": "2.0", "info": {"title": "T", "version": "1"},
            "paths": {"/p": {"get": {"operationId": "o", "parameters": [{"name": "q", "in": "query", "type": "string"}]}}},
            "definitions": {"a": {"type": "string", "minimum": 1.0, "x-k": true}}});
        let expected: [&[u8]; 4] = [
            b"\x0a\x032.0\x12\x06\x0a\x01T\x12\x011",
            b"\x42\x29\x12\x27\x0a\x02/p\x12\x21\x12\x1f\x2a\x01o",
            b"\x42\x18\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string\x4a\0",
            b"\x4a\x2c\x0a\x2a\x0a\x01a\x12\x25\x49\0\0\0\0\0\0\xf0\x3f\xb2\x01\x08\x0a\x06string\xfa\x01\x0e\x0a\x03x-k\x12\x07\x12\x05true\n",
        ];
        assert_eq!(document(&value), expected.concat());
    }
}
