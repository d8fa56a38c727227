//! The live object with what somebody applies laid over it.

use serde_json::{Map, Value};

use crate::list_order::{Items, Source, merged_order, values};
use crate::schema::{ListType, MapType, Type, View};

/// Merges `applied` into `live`: applied leaves win, maps come together by their keys, lists by the
/// names of their items.
pub fn merge(of: &Type, live: &Value, applied: &Value) -> Value {
    match of.view(applied) {
        View::Leaf => applied.clone(),
        View::Map(map) => match (live.as_object(), applied.as_object()) {
            (None, _) if applied.as_object().is_none_or(Map::is_empty) => applied.clone(),
            (Some(live), None) if live.is_empty() => applied.clone(),
            (live, applied) => maps(map, live, applied),
        },
        View::List(list) => {
            let (live, given) = (live.as_array(), applied.as_array());
            if live.is_none_or(Vec::is_empty) && given.is_none_or(Vec::is_empty) {
                return applied.clone();
            }
            Value::Array(lists(list, values(live), values(given)))
        }
    }
}

fn maps(map: &MapType, live: Option<&Map<String, Value>>, applied: Option<&Map<String, Value>>) -> Value {
    let given = |name: &String| applied.and_then(|applied| applied.get(name));
    let both = live.into_iter().flatten().map(|(name, value)| {
        let merged = given(name).map_or_else(|| value.clone(), |given| merge(map.field(name), value, given));
        (name.clone(), merged)
    });
    let fresh = applied.into_iter().flatten();
    let fresh = fresh.filter(|(name, _)| live.is_none_or(|live| !live.contains_key(*name)));
    Value::Object(both.chain(fresh.map(|(name, value)| (name.clone(), value.clone()))).collect())
}

fn lists(list: &ListType, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let (before, given) = (Items::of(list, live), Items::of(list, applied));
    let order = merged_order(&before.names, &given.names);
    let item = |source: Source| match source {
        Source::Live(at) => live.get(at).cloned(),
        Source::Applied(at) => {
            let name = given.names.get(at)?;
            let value = applied.get(at)?;
            // What the live list has several times has nothing to merge with: it is replaced.
            Some(before.single(name).map_or_else(|| value.clone(), |live| merge(&list.element, live, value)))
        }
    };
    order.into_iter().filter_map(item).collect()
}
