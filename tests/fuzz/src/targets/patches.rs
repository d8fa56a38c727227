//! Targets for patches alone: they limit the size and depth of the result, and a second merge changes
//! nothing.

use apiserver_machinery::patch::Patch;
use apiserver_machinery::status::ApiError;
use apiserver_machinery::store::FieldValidation;
use serde_json::{Value, json};

use crate::finding::{Verdict, demand};

/// Deepest result, in levels: deeper objects could not be decoded again.
const DEEPEST: usize = 120;

/// Bytes that a patch may add beyond its own size: copies, up to the size of a body.
const MOST_ADDED: usize = 4 * 1024 * 1024;

fn objects() -> [Value; 2] {
    let small = json!({"kind": "K", "a": {"b": [1, 2, {"c": null}]}, "l": [],
        "metadata": {"name": "x", "labels": {"k": "v"}}});
    [small, json!({"kind": "K"})]
}

/// Parses the input; invalid JSON is the subject of another target.
fn document(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

pub(super) fn json(input: &[u8]) -> Verdict {
    let Some(document) = document(input) else { return Ok(()) };
    for validation in [FieldValidation::Warn, FieldValidation::Ignore] {
        check_patch(input, &Patch::json(document.clone(), &[], validation))?;
    }
    Ok(())
}

pub(super) fn merge(input: &[u8]) -> Verdict {
    let Some(document) = document(input) else { return Ok(()) };
    check_patch(input, &Patch::strategic(document.clone(), &[], FieldValidation::Warn))?;
    let patch = Patch::merge(document, &[], FieldValidation::Warn);
    for object in objects() {
        let once = patch.apply(&object);
        let twice = once.as_ref().map(|once| patch.apply(once));
        demand(twice == once.as_ref().map(|once| Ok(once.clone())), || {
            format!("merged once it is {once:?}, merged twice {twice:?}")
        })?;
    }
    check_patch(input, &patch)
}

fn check_patch(input: &[u8], patch: &Patch) -> Verdict {
    for object in objects() {
        match patch.apply(&object) {
            Ok(patched) => check(input, &patched)?,
            Err(refusal) => refused(&refusal)?,
        }
    }
    Ok(())
}

fn check(input: &[u8], patched: &Value) -> Verdict {
    let deep = depth(patched);
    demand(deep <= DEEPEST, || format!("{} bytes of patch make an object {deep} deep", input.len()))?;
    let size = patched.to_string().len();
    let most = MOST_ADDED + 8 * input.len();
    demand(size <= most, || format!("{} bytes of patch make an object of {size} bytes", input.len()))
}

fn refused(refusal: &ApiError) -> Verdict {
    let has_message = matches!(refusal.code, 400 | 413 | 422) && !refusal.message.is_empty();
    demand(has_message, || format!("refused with {refusal:?}"))
}

/// Returns the depth, computed without recursion: the value may be too deep for the stack.
fn depth(value: &Value) -> usize {
    let (mut level, mut deep) = (vec![value], 0);
    loop {
        let below = |value: &&Value| matches!(value, Value::Array(_) | Value::Object(_));
        level.retain(below);
        if level.is_empty() {
            return deep;
        }
        deep += 1;
        level = level
            .into_iter()
            .flat_map(|value| -> Box<dyn Iterator<Item = &Value>> {
                match value {
                    Value::Array(items) => Box::new(items.iter()),
                    Value::Object(map) => Box::new(map.values()),
                    _ => Box::new(std::iter::empty()),
                }
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_in_containers() {
        for (value, expected) in [(json!(1), 0), (json!({}), 1), (json!({"a": [1, [2]], "b": 1}), 3)] {
            assert_eq!(depth(&value), expected, "{value}");
        }
    }
}
