//! The toy kind Widget of group `lab.example.io`: every way a schema can say how lists and maps merge.

use std::sync::Arc;

use apiserver_machinery::conversion::{Conversion, ConversionError};
use apiserver_machinery::metadata;
use apiserver_machinery::resource::{Resource, Scale};
use apiserver_machinery::schema::Schema;
use apiserver_machinery::strategy::Plain;
use serde_json::{Value, json};

const GROUP: &str = "lab.example.io";

/// Widget in both versions, the stored one first.
pub(crate) fn resources() -> anyhow::Result<Vec<Resource>> {
    let old = Resource {
        conversion: Some(Arc::new(SameSchema)),
        deprecation: Some(
            "lab.example.io/v1beta1 Widget is deprecated; use lab.example.io/v1 Widget".to_owned(),
        ),
        ..resource("v1beta1")?
    };
    Ok(vec![resource("v1")?, old])
}

/// Both versions have one schema: only the name of the version changes.
#[derive(Debug)]
struct SameSchema;

impl Conversion for SameSchema {
    fn stored(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(renamed(object, "v1"))
    }

    fn served(&self, object: Value) -> Result<Value, ConversionError> {
        Ok(renamed(object, "v1beta1"))
    }
}

fn renamed(mut object: Value, version: &str) -> Value {
    if let Some(root) = object.as_object_mut() {
        root.insert("apiVersion".to_owned(), json!(format!("{GROUP}/{version}")));
    }
    object
}

fn resource(version: &str) -> anyhow::Result<Resource> {
    let open_api = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": spec()}, "status": {"type": "object", "properties": status()}}});
    let mut whole = open_api.clone();
    whole["properties"]["metadata"] = metadata::schema();
    Ok(Resource {
        group: GROUP.to_owned(),
        version: version.to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
        singular: "widget".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status_subresource: true,
        scale: Some(Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: Some(".status.selector".to_owned()),
        }),
        deprecation: None,
        conversion: None,
        generation: true,
        hosted: true,
        columns: Vec::new(),
        selectable: Vec::new(),
        schema: Schema::compile(&whole)?,
        open_api,
        strategy: Arc::new(Plain),
        verbs: Vec::new(),
    })
}

fn spec() -> Value {
    let text = json!({"type": "string"});
    let map = json!({"type": "object", "additionalProperties": text});
    let list = json!({"type": "array", "items": text});
    let with = |base: &Value, key: &str, value: &str| {
        let mut schema = base.clone();
        schema[key] = json!(value);
        schema
    };
    let letters = json!({"type": "object", "properties": {"a": text, "b": text}});
    json!({
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "paused": {"type": "boolean"},
        "name": {"type": "string", "maxLength": 20},
        "note": {"type": "string", "nullable": true},
        "defaulted": {"type": "string", "default": "dflt"},
        "immut": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf"}]},
        "labelsMap": map,
        "atomicMap": with(&map, "x-kubernetes-map-type", "atomic"),
        "atomicList": list,
        "setList": with(&list, "x-kubernetes-list-type", "set"),
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer", "format": "int32"},
                "protocol": {"type": "string", "default": "TCP"}, "name": text}}},
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": text, "value": text, "extra": letters}}},
        "nested": {"type": "object", "properties": {"a": text, "b": text,
            "deep": {"type": "object", "properties": {"x": text, "y": text}}}},
        "nestedAtomic": with(&letters, "x-kubernetes-map-type", "atomic"),
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "intOrStr": {"x-kubernetes-int-or-string": true},
        "color": {"type": "string", "enum": ["red", "blue"]}
    })
}

fn status() -> Value {
    let text = json!({"type": "string"});
    json!({
        "phase": text,
        "replicas": {"type": "integer", "format": "int32"},
        "selector": text,
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": text, "status": text, "reason": text}}}
    })
}
