//! Paths of variables: names with dots, and indices of lists.

use std::collections::BTreeMap;

use serde_json::Value;

/// Returns the value at a path like `network.subnets[0].name`.
pub(super) fn value<'a>(path: &str, variables: &'a BTreeMap<String, Value>) -> Result<&'a Value, String> {
    let mut segments = path.split('.');
    let (name, indices) = segment(segments.next().unwrap_or_default(), path)?;
    let first = variables.get(name).ok_or_else(|| format!("variable {name:?} has no value"))?;
    let mut value = at(first, &indices, path)?;
    for part in segments {
        let (name, indices) = segment(part, path)?;
        let fields = value
            .as_object()
            .ok_or_else(|| format!("variable {path:?}: the value before {name:?} is no object"))?;
        let inner =
            fields.get(name).ok_or_else(|| format!("variable {path:?} has no value: {name:?} is not set"))?;
        value = at(inner, &indices, path)?;
    }
    Ok(value)
}

/// Splits a part of a path into a name and indices.
fn segment<'a>(part: &'a str, path: &str) -> Result<(&'a str, Vec<usize>), String> {
    let wrong = || format!("variable path {path:?} is invalid: write name, name.field or name[0]");
    let (name, mut rest) = match part.split_once('[') {
        Some((name, rest)) => (name, Some(rest)),
        None => (part, None),
    };
    if name.is_empty() {
        return Err(wrong());
    }
    let mut indices = Vec::new();
    while let Some(text) = rest {
        let (index, after) = text.split_once(']').ok_or_else(wrong)?;
        indices.push(index.parse().map_err(|_| wrong())?);
        rest = match after {
            "" => None,
            after => Some(after.strip_prefix('[').ok_or_else(wrong)?),
        };
    }
    Ok((name, indices))
}

fn at<'a>(value: &'a Value, indices: &[usize], path: &str) -> Result<&'a Value, String> {
    let mut value = value;
    for index in indices {
        let items =
            value.as_array().ok_or_else(|| format!("variable {path:?}: the indexed value is no list"))?;
        value = items.get(*index).ok_or_else(|| {
            format!("variable {path:?}: index {index} is not below the length {}", items.len())
        })?;
    }
    Ok(value)
}
