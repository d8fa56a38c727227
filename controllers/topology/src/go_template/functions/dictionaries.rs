//! Maps.

use std::collections::BTreeMap;

use super::super::format;
use super::super::value::{Context, Items, MapId, Outcome, Value, is_true};
use super::Parameter::{Any, Map, Text};
use super::{Function, any, function, rest, text, variadic};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("dict", &[], Any, dict),
    function("get", &[Map, Text], |context, arguments| {
        let found = map(arguments, 0).and_then(|map| context.get(map, text(arguments, 1)));
        Ok(found.unwrap_or_else(|| Value::text("")))
    }),
    function("set", &[Map, Text, Any], |context, arguments| {
        let map = map(arguments, 0).ok_or("assignment to entry in nil map")?;
        context.set(map, text(arguments, 1).to_owned(), Some(any(arguments, 2).clone()));
        Ok(Value::Map(map))
    }),
    function("unset", &[Map, Text], |context, arguments| {
        if let Some(map) = map(arguments, 0) {
            context.set(map, text(arguments, 1).to_owned(), None);
        }
        Ok(any(arguments, 0).clone())
    }),
    function("hasKey", &[Map, Text], |context, arguments| {
        let found = map(arguments, 0).and_then(|map| context.get(map, text(arguments, 1)));
        Ok(Value::Bool(found.is_some()))
    }),
    variadic("pluck", &[Text], Map, |context, arguments| {
        let maps = (1..arguments.len()).filter_map(|index| map(arguments, index));
        let found = maps.filter_map(|map| context.get(map, text(arguments, 0))).collect();
        context.list(found, Items::Any)
    }),
    variadic("keys", &[], Map, |context, arguments| {
        let mut keys = Vec::new();
        for map in (0..arguments.len()).filter_map(|index| map(arguments, index)) {
            keys.extend(context.entries(map)?.into_keys());
        }
        context.texts(keys)
    }),
    function("values", &[Map], |context, arguments| {
        let values = match map(arguments, 0) {
            Some(map) => context.entries(map)?.into_values().collect(),
            None => Vec::new(),
        };
        context.list(values, Items::Any)
    }),
    variadic("pick", &[Map], Text, |context, arguments| selected(context, arguments, true)),
    variadic("omit", &[Map], Text, |context, arguments| selected(context, arguments, false)),
    variadic("merge", &[Map], Map, |context, arguments| merge(context, arguments, false)),
    variadic("mustMerge", &[Map], Map, |context, arguments| merge(context, arguments, false)),
    variadic("mergeOverwrite", &[Map], Map, |context, arguments| merge(context, arguments, true)),
    variadic("mustMergeOverwrite", &[Map], Map, |context, arguments| merge(context, arguments, true)),
];

/// Returns the map of an argument. A nil map is `None`.
fn map(arguments: &[Value], index: usize) -> Option<MapId> {
    if let Value::Map(map) = any(arguments, index) { Some(*map) } else { None }
}

fn dict(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut entries = BTreeMap::new();
    for pair in arguments.chunks(2) {
        let key = format::text(any(pair, 0), context)?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| Value::text("")));
    }
    context.map(entries, false)
}

/// Returns a map with, or without, the given keys.
fn selected(context: &Context, arguments: &[Value], is_kept: bool) -> Outcome<Value> {
    let mut entries = match map(arguments, 0) {
        Some(map) => context.entries(map)?,
        None => BTreeMap::new(),
    };
    let keys: Vec<&str> = (1..arguments.len()).map(|index| text(arguments, index)).collect();
    context.charge(entries.len().saturating_mul(keys.len()).saturating_mul(16))?;
    entries.retain(|key, _| keys.contains(&key.as_str()) == is_kept);
    context.map(entries, false)
}

/// Merges maps into the first one.
fn merge(context: &Context, arguments: &[Value], overwrites: bool) -> Outcome<Value> {
    let Some(target) = map(arguments, 0) else { return Err("the first map is nil".to_owned()) };
    for source in rest(arguments, 1) {
        if let Value::Map(source) = source {
            merge_into(context, target, *source, overwrites, 0)?;
        }
    }
    Ok(Value::Map(target))
}

fn merge_into(
    context: &Context,
    target: MapId,
    source: MapId,
    overwrites: bool,
    depth: usize,
) -> Outcome<()> {
    if depth > super::super::value::DEEPEST {
        return Err("maps are nested too deeply".to_owned());
    }
    for (key, value) in context.entries(source)? {
        match (context.get(target, &key), &value) {
            (Some(Value::Map(held)), Value::Map(new)) if held != *new => {
                merge_into(context, held, *new, overwrites, depth + 1)?;
            }
            (Some(held), value) => {
                let is_new = overwrites || !is_true(&held, context);
                if is_new {
                    context.set(target, key, Some(value.clone()));
                }
            }
            (None, value) => context.set(target, key, Some(value.clone())),
        }
    }
    Ok(())
}
