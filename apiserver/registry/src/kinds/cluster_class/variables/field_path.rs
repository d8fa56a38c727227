//! Field path of a rule, such as `.spec['a.b'].c`.

use serde_json::Value;

const UNKNOWN: &str = "does not refer to a valid field";
const UNFINISHED: &str = "unexpected end of JSON path";

/// Checks that the schema has the field. The error is the text for the user.
pub(super) fn check(path: &str, schema: &Value) -> Result<(), String> {
    let mut rest = path;
    let mut at = schema;
    while let Some(mark) = token(&mut rest) {
        match mark {
            "." => {
                let name = token(&mut rest).ok_or(UNFINISHED)?;
                at = inner(at, name).ok_or(UNKNOWN)?;
            }
            "[" => {
                let quoted = token(&mut rest).ok_or(UNFINISHED)?;
                let name = quoted.strip_prefix('\'').and_then(|name| name.strip_suffix('\''));
                let name = name.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                at = inner(at, &name.replace("\\'", "'").replace("\\\\", "\\")).ok_or(UNKNOWN)?;
                match token(&mut rest).ok_or(UNFINISHED)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(())
}

/// Returns the schema of a field, or of the values of a map.
fn inner<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    match schema.get("properties").filter(|properties| **properties != Value::Null) {
        Some(properties) => properties.get(name),
        None => schema.get("additionalProperties"),
    }
}

/// Takes the next separator, quoted text, or text up to a separator.
fn token<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = *rest;
    let first = text.chars().next()?;
    let end = match first {
        '.' | '[' | ']' => 1,
        '\'' => {
            let mut before = first;
            let close = text.char_indices().skip(1).find(|(_, c)| {
                let closes = *c == '\'' && before != '\\';
                before = *c;
                closes
            });
            close.map_or(text.len(), |(index, _)| index.saturating_add(1))
        }
        _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
    };
    let (token, after) = text.split_at_checked(end)?;
    *rest = after;
    Some(token)
}
