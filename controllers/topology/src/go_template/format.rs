//! Texts of values, as Go's `fmt` writes them without a format.

use super::value::{Context, DEEPEST, Outcome, Value};

/// Appends a value as `%v` writes it.
pub(super) fn write(value: &Value, context: &Context, to: &mut String, depth: usize) -> Outcome<()> {
    if depth > DEEPEST {
        return Err(format!("values are nested deeper than {DEEPEST} levels"));
    }
    let before = to.len();
    match value {
        Value::Missing | Value::Null => to.push_str("<nil>"),
        Value::Bool(value) => to.push_str(if *value { "true" } else { "false" }),
        Value::Integer(value, _) => to.push_str(&value.to_string()),
        Value::Float(value) => to.push_str(&float(*value)),
        Value::Text(text) => to.push_str(text),
        Value::List(list) => {
            to.push('[');
            for (index, item) in list.items.iter().enumerate() {
                if index > 0 {
                    to.push(' ');
                }
                write(item, context, to, depth + 1)?;
            }
            to.push(']');
        }
        Value::Map(map) => {
            to.push_str("map[");
            for (index, (name, item)) in context.entries(*map)?.into_iter().enumerate() {
                if index > 0 {
                    to.push(' ');
                }
                to.push_str(&name);
                to.push(':');
                write(&item, context, to, depth + 1)?;
            }
            to.push(']');
        }
        Value::Version(version) => to.push_str(&version.to_string()),
        Value::Time(time) => to.push_str(&time.text()?),
        Value::Certificate(certificate) => {
            to.push_str(&format!("{{{} {}}}", certificate.certificate, certificate.key));
        }
    }
    if depth == 0 || to.len().saturating_sub(before) > 1024 {
        context.check_length(to.len())?;
    }
    Ok(())
}

/// Returns a value as `%v` writes it.
pub(super) fn text(value: &Value, context: &Context) -> Outcome<String> {
    let mut text = String::new();
    write(value, context, &mut text, 0)?;
    Ok(text)
}

/// Returns a float as `%v` writes it: with an exponent below -4, and from 6 on.
pub(super) fn float(value: f64) -> String {
    general(value, None, 6)
}

/// Returns a float in the shorter of two forms. `precision` is the number of significant digits, and `limit` the
/// exponent from which the form with an exponent is used.
pub(super) fn general(value: f64, precision: Option<usize>, limit: i32) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    let written = match precision {
        None => format!("{value:e}"),
        Some(digits) => format!("{value:.*e}", digits.max(1) - 1),
    };
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mantissa = if precision.is_some() && mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    if exponent < -4 || exponent >= limit {
        return format!("{mantissa}{}", exponent_text(exponent));
    }
    match precision {
        None => value.to_string(),
        Some(digits) => {
            let after = i32::try_from(digits.max(1)).unwrap_or(i32::MAX).saturating_sub(1 + exponent);
            let text = format!("{value:.*}", usize::try_from(after).unwrap_or_default());
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        }
    }
}

/// Returns an exponent with a sign and at least two digits.
pub(super) fn exponent_text(exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the text of an infinite number or of no number.
pub(super) fn not_finite(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value > 0.0 {
        "+Inf".to_owned()
    } else {
        "-Inf".to_owned()
    }
}

/// Returns a text in quotes, with Go's escapes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            letter if u32::from(letter) < 0x20 || u32::from(letter) == 0x7f => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            letter if !is_printable(letter) => {
                let code = u32::from(letter);
                let escape = if code < 0x10000 { format!("\\u{code:04x}") } else { format!("\\U{code:08x}") };
                quoted.push_str(&escape);
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Reports whether Go writes a letter unchanged.
fn is_printable(letter: char) -> bool {
    letter == ' '
        || !(letter.is_control()
            || letter.is_whitespace()
            || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}'))
}
