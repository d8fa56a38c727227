//! JSON as Go writes it.

use super::format;
use super::value::{Context, DEEPEST, Items, Outcome, Value};

/// Style of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    /// Writes each field and each item on a line of its own.
    pub(super) is_pretty: bool,
    /// Escapes letters that have a meaning in HTML.
    pub(super) escapes_html: bool,
}

/// Returns a value as JSON.
pub(super) fn text(value: &Value, style: Style, context: &Context) -> Outcome<String> {
    let mut text = String::new();
    write(value, style, context, &mut text, 0)?;
    context.check_length(text.len())?;
    Ok(text)
}

fn write(value: &Value, style: Style, context: &Context, to: &mut String, depth: usize) -> Outcome<()> {
    if depth > DEEPEST {
        return Err(format!("values are nested deeper than {DEEPEST} levels"));
    }
    match value {
        Value::Missing | Value::Null => to.push_str("null"),
        Value::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
        Value::Integer(value, _) => to.push_str(&value.to_string()),
        Value::Float(value) => to.push_str(&float(*value)?),
        Value::Text(text) => string(text, style, to),
        Value::Version(version) => string(&version.to_string(), style, to),
        Value::Time(time) => string(&time.json()?, style, to),
        Value::Certificate(certificate) => {
            let fields = certificate.fields().map(|(name, field)| (Some(name.to_owned()), field));
            container(fields.into(), ('{', '}'), style, context, to, depth)?;
        }
        Value::List(list) => {
            let items = list.items.iter().map(|item| (None, item.clone())).collect();
            container(items, ('[', ']'), style, context, to, depth)?;
        }
        Value::Map(map) => {
            let fields = context.entries(*map)?;
            let fields = fields.into_iter().map(|(name, item)| (Some(name), item)).collect();
            container(fields, ('{', '}'), style, context, to, depth)?;
        }
    }
    Ok(())
}

fn container(
    items: Vec<(Option<String>, Value)>,
    (open, close): (char, char),
    style: Style,
    context: &Context,
    to: &mut String,
    depth: usize,
) -> Outcome<()> {
    context.check_length(to.len())?;
    let is_empty = items.is_empty();
    let line = |to: &mut String, depth: usize| {
        if style.is_pretty {
            to.push('\n');
            to.push_str(&"  ".repeat(depth));
        }
    };
    to.push(open);
    for (index, (name, item)) in items.into_iter().enumerate() {
        if index > 0 {
            to.push(',');
        }
        line(to, depth + 1);
        if let Some(name) = name {
            string(&name, style, to);
            to.push_str(if style.is_pretty { ": " } else { ":" });
        }
        write(&item, style, context, to, depth + 1)?;
    }
    if !is_empty {
        line(to, depth);
    }
    to.push(close);
    Ok(())
}

fn float(value: f64) -> Outcome<String> {
    if !value.is_finite() {
        return Err(format!("json: unsupported value: {}", format::not_finite(value)));
    }
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        return Ok(text.replace('e', "e+").replace("e+-", "e-"));
    }
    Ok(value.to_string())
}

fn string(text: &str, style: Style, to: &mut String) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            letter if u32::from(letter) < 0x20 || matches!(letter, '\u{2028}' | '\u{2029}') => {
                to.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            '<' | '>' | '&' if style.escapes_html => to.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => to.push(letter),
        }
    }
    to.push('"');
}

/// Parses JSON, with all numbers as floats.
pub(super) fn parse(text: &str, context: &Context) -> Outcome<Value> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    context.decoded(&json)
}

/// Returns a copy that shares no map with the original.
pub(super) fn copy(value: &Value, context: &Context, depth: usize) -> Outcome<Value> {
    if depth > DEEPEST {
        return Err(format!("values are nested deeper than {DEEPEST} levels"));
    }
    match value {
        Value::List(list) if list.kind == Items::Any => {
            let items = list.items.iter().map(|item| copy(item, context, depth + 1));
            context.list(items.collect::<Outcome<_>>()?, Items::Any)
        }
        Value::Map(map) => {
            let entries = context.entries(*map)?.into_iter();
            let entries = entries.map(|(name, item)| Ok((name, copy(&item, context, depth + 1)?)));
            context.map(entries.collect::<Outcome<_>>()?, context.is_of_texts(*map))
        }
        other => Ok(other.clone()),
    }
}
