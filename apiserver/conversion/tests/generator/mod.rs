//! Generator of random valid objects of any kind, from its schema.
//!
//! The entry point is [`objects`]. [`words`] knows conventions that schemas do not contain, for example that a text is
//! a duration, or that a reference is complete. `Usual` objects follow these conventions, and `Schema` objects do not.

mod conventions;
mod object;
mod scalar;

use apiserver_types::Descriptor;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Variety of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Anything that the schema allows: empty lists and texts, negative numbers, words without meaning.
    Schema,
    /// Objects as users write them.
    Usual,
}

/// Namespace of every object and of its references.
pub(crate) const NAMESPACE: &str = "team-a";

/// Returns a generator of valid objects of a kind in one version.
pub(crate) fn objects(descriptor: &Descriptor, width: Width) -> BoxedStrategy<Value> {
    let schema = apiserver_types::schema(descriptor).unwrap();
    let mut parts = Map::new();
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            parts.insert(name.clone(), part.clone());
        }
    }
    let body = json!({"type": "object", "properties": parts, "required": schema["required"].clone()});
    let api_version = format!("{}/{}", descriptor.group, descriptor.version);
    let kind = descriptor.kind;
    (metadata(descriptor.namespaced), value(&body, "", width))
        .prop_map(move |(metadata, mut object)| {
            object["apiVersion"] = api_version.clone().into();
            object["kind"] = kind.into();
            object["metadata"] = metadata;
            object
        })
        .boxed()
}

/// Returns a generator of values of this schema, in the field of this name.
pub(crate) fn value(schema: &Value, name: &str, width: Width) -> BoxedStrategy<Value> {
    if let Some(known) = conventions::known(schema, name, width) {
        return known;
    }
    if let Some(allowed) = schema["enum"].as_array() {
        return proptest::sample::select(allowed.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        if schema.get("pattern").is_some() {
            return prop_oneof![(0..100_i32).prop_map(Value::from), "[0-9]{1,2}Gi".prop_map(Value::from)]
                .boxed();
        }
        return prop_oneof![(0..100_i32).prop_map(Value::from), "[0-9]{1,2}%".prop_map(Value::from)].boxed();
    }
    match schema["type"].as_str() {
        Some("string") => scalar::text(schema, width),
        Some("integer") => scalar::integer(schema, width),
        Some("number") => {
            (-1_000_000..1_000_000_i32).prop_map(|number| json!(f64::from(number) / 8.0)).boxed()
        }
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("array") => object::list(schema, name, width),
        Some("object") => object::object(schema, width),
        _ => anything(),
    }
}

/// Returns a generator of JSON without a schema.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z{}. ]{1,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,4}", inner, 0..3)
                .prop_map(|fields| Value::from(Map::from_iter(fields))),
        ]
    })
    .boxed()
}

fn metadata(namespaced: bool) -> BoxedStrategy<Value> {
    let words = || proptest::collection::btree_map("[a-z]{1,6}(/[a-z]{1,6})?", "[a-z0-9]{0,6}", 0..3);
    ("[a-z]([-a-z0-9]{0,10}[a-z0-9])?", words(), words())
        .prop_map(move |(name, labels, annotations)| {
            let mut metadata = json!({"name": name});
            if namespaced {
                metadata["namespace"] = NAMESPACE.into();
            }
            for (field, words) in [("labels", labels), ("annotations", annotations)] {
                if !words.is_empty() {
                    metadata[field] = json!(words);
                }
            }
            metadata
        })
        .boxed()
}
