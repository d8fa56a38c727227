//! OpenAPI v3 document in protobuf, as `openapi.v3.Document` of the gnostic models.

use serde_json::{Map, Value};

use super::gnostic::{any, count, entries, extensions, flag, items, named, text, texts, wrapped};
use crate::protobuf::Writer;

/// Encodes a v3 document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, document, "openapi");
    if let Some(info) = document.get("info") {
        let mut inner = Writer::default();
        text(&mut inner, 1, info, "title");
        text(&mut inner, 6, info, "version");
        out.bytes(2, &inner.finish());
    }
    let mut paths = Writer::default();
    for (name, item) in entries(document, "paths") {
        paths.bytes(1, &named(name, &path_item(item)));
    }
    out.bytes(4, &paths.finish());
    let components = document.get("components").and_then(|components| components.get("schemas"));
    let schemas = components.map(|schemas| wrapped(1, &named_schemas(schemas)));
    out.bytes(5, &schemas.unwrap_or_default());
    out.finish()
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    for (number, method) in [(4, "get"), (5, "put"), (6, "post"), (7, "delete"), (10, "patch")] {
        if let Some(one) = item.get(method) {
            out.bytes(number, &operation(one));
        }
    }
    items(item, "parameters").for_each(|one| out.bytes(13, &wrapped(1, &parameter(one))));
    extensions(&mut out, 14, item);
    out.finish()
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    texts(&mut out, 1, operation, "tags");
    text(&mut out, 3, operation, "description");
    text(&mut out, 5, operation, "operationId");
    items(operation, "parameters").for_each(|one| out.bytes(6, &wrapped(1, &parameter(one))));
    if let Some(body) = operation.get("requestBody") {
        let mut inner = Writer::default();
        text(&mut inner, 1, body, "description");
        inner.bytes(2, &media_types(body));
        flag(&mut inner, 3, body, "required");
        out.bytes(7, &wrapped(1, &inner.finish()));
    }
    let mut responses = Writer::default();
    for (code, answer) in entries(operation, "responses") {
        let mut response = Writer::default();
        text(&mut response, 1, answer, "description");
        if answer.get("content").is_some() {
            response.bytes(3, &media_types(answer));
        }
        responses.bytes(2, &named(code, &wrapped(1, &response.finish())));
    }
    out.bytes(8, &responses.finish());
    extensions(&mut out, 13, operation);
    out.finish()
}

fn parameter(parameter: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    text(&mut out, 1, parameter, "name");
    text(&mut out, 2, parameter, "in");
    text(&mut out, 3, parameter, "description");
    flag(&mut out, 4, parameter, "required");
    if let Some(inner) = parameter.get("schema") {
        out.bytes(10, &schema(inner));
    }
    out.finish()
}

fn media_types(value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    for (media, content) in entries(value, "content") {
        let shape = content.get("schema").map(|inner| wrapped(1, &schema(inner)));
        out.bytes(1, &named(media, &shape.unwrap_or_default()));
    }
    out.finish()
}

/// Writes `SchemasOrReferences`, which properties are, too.
fn named_schemas(schemas: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    for (name, inner) in schemas.as_object().into_iter().flat_map(Map::iter) {
        out.bytes(1, &named(name, &schema(inner)));
    }
    out.finish()
}

/// Writes a `SchemaOrReference`.
fn schema(schema: &Value) -> Vec<u8> {
    if schema.get("$ref").is_some() {
        let mut reference = Writer::default();
        text(&mut reference, 1, schema, "$ref");
        return wrapped(2, &reference.finish());
    }
    wrapped(1, &own_schema(schema))
}

fn own_schema(schema: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    flag(&mut out, 1, schema, "nullable");
    text(&mut out, 9, schema, "title");
    for (number, name) in [(10, "multipleOf"), (11, "maximum"), (13, "minimum")] {
        let bound = schema.get(name).and_then(Value::as_f64);
        bound.into_iter().for_each(|value| out.double(number, value));
        if number > 10 {
            flag(
                &mut out,
                number + 1,
                schema,
                if number == 11 { "exclusiveMaximum" } else { "exclusiveMinimum" },
            );
        }
    }
    count(&mut out, 15, schema, "maxLength");
    count(&mut out, 16, schema, "minLength");
    text(&mut out, 17, schema, "pattern");
    count(&mut out, 18, schema, "maxItems");
    count(&mut out, 19, schema, "minItems");
    flag(&mut out, 20, schema, "uniqueItems");
    count(&mut out, 21, schema, "maxProperties");
    count(&mut out, 22, schema, "minProperties");
    texts(&mut out, 23, schema, "required");
    items(schema, "enum").for_each(|value| out.bytes(24, &any(value)));
    text(&mut out, 25, schema, "type");
    structure(&mut out, schema);
    schema.get("default").into_iter().for_each(|value| out.bytes(33, &default(value)));
    text(&mut out, 34, schema, "description");
    text(&mut out, 35, schema, "format");
    extensions(&mut out, 36, schema);
    out.finish()
}

/// Writes the schemas in a schema.
fn structure(out: &mut Writer, schema: &Value) {
    for (number, name) in [(26, "allOf"), (27, "oneOf"), (28, "anyOf")] {
        items(schema, name).for_each(|inner| out.bytes(number, &self::schema(inner)));
    }
    if let Some(inner) = schema.get("not") {
        out.bytes(29, &own_schema(inner));
    }
    if let Some(inner) = schema.get("items") {
        out.bytes(30, &wrapped(1, &self::schema(inner)));
    }
    if let Some(properties) = schema.get("properties") {
        out.bytes(31, &named_schemas(properties));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut inner = Writer::default();
            inner.number(2, u64::from(*allowed));
            out.bytes(32, &inner.finish());
        }
        Some(inner) => out.bytes(32, &wrapped(1, &self::schema(inner))),
        None => {}
    }
}

/// Writes a `DefaultType`, which cannot express objects and lists.
fn default(value: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    match value {
        Value::Number(number) => out.double(1, number.as_f64().unwrap_or_default()),
        Value::Bool(truth) => out.number(2, u64::from(*truth)),
        Value::String(text) => out.bytes(3, text.as_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `protoc --decode=openapi.v3.Document` reads these bytes back as this document.
    #[test]
    fn a_document_has_the_field_numbers_of_its_message() {
        let value = json!({"openapi": "3.0.0", "info": {"title": "T", "version": "1"},
            "paths": {"/p": {"get": {"operationId": "o", "responses": {"200": {"description": "OK",
                "content": {"j": {"schema": {"$ref": "#/r"}}}}}}}},
            "components": {"schemas": {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}}}}}});
        let expected: [&[u8]; 3] = [
            b"\x0a\x053.0.0\x12\x06\x0a\x01T2\x011",
            b"\x220\x0a.\x0a\x02/p\x12(\x22&*\x01oB!\x12\x1f\x0a\x03200\x12\x18\x0a\x16\x0a\x02OK\x1a\x10\x0a\x0e\x0a\x01j\x12\x09\x0a\x07\x12\x05\x0a\x03#/r",
            b"*/\x0a-\x0a+\x0a\x01a\x12&\x0a$\xca\x01\x06object\xfa\x01\x18\x0a\x16\x0a\x01b\x12\x11\x0a\x0f\xca\x01\x06string\x8a\x02\x03\x1a\x01x",
        ];
        assert_eq!(document(&value), expected.concat());
    }
}
