//! Generators of objects, maps and lists.

use std::collections::HashSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{Width, conventions, value};

pub(super) fn object(schema: &Value, width: Width) -> BoxedStrategy<Value> {
    let least = schema["minProperties"].as_u64().unwrap_or(0);
    if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
        let least = usize::try_from(least).unwrap().max(usize::from(width == Width::Usual));
        let fields = btree_map("[a-z]{1,4}([.][a-z]{1,3})?", value(inner, "", width), least..least + 3);
        return fields.prop_map(|fields| Value::from(Map::from_iter(fields))).boxed();
    }
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty())
    else {
        return btree_map("[a-z]{1,4}", "[a-z]{0,4}", 0..3)
            .prop_map(|fields| {
                Value::from(fields.into_iter().map(|(name, text)| (name, text.into())).collect::<Map<_, _>>())
            })
            .boxed();
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let always = |name: &String| {
        required.iter().any(|required| required == name)
            || width == Width::Usual && conventions::ALWAYS.contains(&name.as_str())
    };
    let names: Vec<(String, bool)> = properties.keys().map(|name| (name.clone(), always(name))).collect();
    let values: Vec<BoxedStrategy<Value>> =
        properties.iter().map(|(name, inner)| value(inner, name, width)).collect();
    let count = names.len();
    let one = least > 0 || width == Width::Usual;
    // If only some of the alternatives are allowed, the chosen one must exist.
    let few = schema["maxProperties"].as_u64().is_some_and(|most| most < u64::try_from(count).unwrap());
    (values, vec(any::<bool>(), count), 0..count)
        .prop_map(move |(values, chosen, forced)| {
            let mut object = Map::new();
            for (index, (value, chosen)) in values.into_iter().zip(chosen).enumerate() {
                let (name, always) = &names[index];
                if *always || (chosen && !few) || (one || few) && index == forced {
                    object.insert(name.clone(), value);
                }
            }
            Value::Object(object)
        })
        .boxed()
}

pub(super) fn list(schema: &Value, name: &str, width: Width) -> BoxedStrategy<Value> {
    let bound = |keyword: &str| schema[keyword].as_u64().map(|bound| usize::try_from(bound).unwrap());
    let least = bound("minItems").unwrap_or(0).max(usize::from(width == Width::Usual));
    let most = bound("maxItems").unwrap_or(usize::MAX).min(least + 2);
    let keys: Vec<String> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|key| key.as_str().map(str::to_owned))
        .collect();
    // Users do not repeat enumerated words.
    let is_set = schema["x-kubernetes-list-type"] == "set"
        || schema.get("x-kubernetes-validations").is_some()
        || width == Width::Usual && schema["items"].get("enum").is_some();
    vec(value(&schema["items"], name, width), least..=most)
        .prop_map(move |mut items| {
            let mut seen = HashSet::new();
            let identity = |item: &Value| match keys.as_slice() {
                [] => item.to_string(),
                keys => keys.iter().map(|key| item[key].to_string()).collect::<Vec<_>>().join(" "),
            };
            if is_set || !keys.is_empty() {
                items.retain(|item| seen.insert(identity(item)));
            }
            Value::Array(items)
        })
        .boxed()
}
