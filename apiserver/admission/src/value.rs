//! Fields of configurations, as JSON, and their texts.

use serde_json::Value;

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn entries<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn texts(value: &Value, field: &str) -> Vec<String> {
    entries(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the beginning of a text, of at most so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
