//! Merge of an applied configuration into the live object.

use serde_json::{Map, Value};

use crate::list_order::{Items, Source, merged_order, values};
use crate::schema::{ListType, MapType, Type, View};

/// Merges `applied` into `live`: applied leaves win, maps are merged by their keys, lists by the names of their
/// items.
pub fn merge(of: &Type, live: &Value, applied: &Value) -> Value {
    // Most of the object is not applied, and one copy of all costs less than field by field.
    let mut merged = live.clone();
    lay_over(of, &mut merged, applied);
    merged
}

fn lay_over(of: &Type, live: &mut Value, applied: &Value) {
    match (of.view(applied), live, applied) {
        (View::Map(map), Value::Object(live), Value::Object(applied)) => maps(map, live, applied),
        // A null where a map or list is expected is an empty one.
        (View::Map(_), Value::Object(live), _) if !live.is_empty() => {}
        (View::List(list), Value::Array(live), _) if !live.is_empty() => {
            *live = lists(list, live, values(applied.as_array()));
        }
        (_, live, _) => *live = applied.clone(),
    }
}

fn maps(map: &MapType, live: &mut Map<String, Value>, applied: &Map<String, Value>) {
    for (name, value) in applied {
        match live.get_mut(name) {
            Some(live) => lay_over(map.field(name), live, value),
            None => drop(live.insert(name.clone(), value.clone())),
        }
    }
}

fn lists(list: &ListType, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let (before, given) = (Items::of(list, live), Items::of(list, applied));
    let order = merged_order(&before.names, &given.names);
    let item = |source: Source| match source {
        Source::Live(at) => live.get(at).cloned(),
        Source::Applied(at) => {
            let name = given.names.get(at)?;
            let value = applied.get(at)?;
            // A duplicate in the live list has no counterpart to merge with: it is replaced.
            Some(before.single(name).map_or_else(|| value.clone(), |live| merge(&list.element, live, value)))
        }
    };
    order.into_iter().filter_map(item).collect()
}
