//! Formats of Go's `fmt`.

use super::super::format;
use super::super::value::{Context, LONGEST, Outcome, Value, type_name};

/// Returns the values as `fmt.Sprint` writes them: with a space between two values that are no texts.
pub(super) fn print(values: &[Value], context: &Context) -> Outcome<String> {
    let mut text = String::new();
    let mut was_text = true;
    for (index, value) in values.iter().enumerate() {
        let is_text = matches!(value, Value::Text(_));
        if index > 0 && !is_text && !was_text {
            text.push(' ');
        }
        format::write(value, context, &mut text, 0)?;
        was_text = is_text;
    }
    Ok(text)
}

/// Returns the values as `fmt.Sprintln` writes them.
pub(super) fn println(values: &[Value], context: &Context) -> Outcome<String> {
    let mut text = String::new();
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        format::write(value, context, &mut text, 0)?;
    }
    text.push('\n');
    Ok(text)
}

/// Flags of one directive.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    has_zero: bool,
    has_sharp: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Rest of a format.
type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Returns the text that a format makes of values.
pub(super) fn printf(pattern: &str, values: &[Value], context: &Context) -> Outcome<String> {
    let mut output = String::new();
    let mut letters = pattern.chars().peekable();
    let mut used = 0;
    let mut is_reordered = false;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            output.push(letter);
            continue;
        }
        let mut directive = flags(&mut letters);
        if let Some(width) = number(&mut letters, values, &mut used, &mut output, "WIDTH") {
            directive.is_left |= width < 0;
            directive.width = usize::try_from(width.unsigned_abs()).ok();
        }
        if letters.peek() == Some(&'.') {
            letters.next();
            let precision = number(&mut letters, values, &mut used, &mut output, "PREC").unwrap_or_default();
            directive.precision = usize::try_from(precision).ok();
        }
        check_bounds(directive)?;
        if letters.peek() == Some(&'[') {
            letters.next();
            let position = count(&mut letters).and_then(|position| usize::try_from(position).ok());
            letters.next();
            used = position.unwrap_or_default().saturating_sub(1);
            is_reordered = true;
        }
        let Some(verb) = letters.next() else {
            output.push_str("%!(NOVERB)");
            break;
        };
        if verb == '%' {
            output.push('%');
            continue;
        }
        match values.get(used) {
            Some(value) => value_text(value, verb, directive, context, &mut output, 0)?,
            None => output.push_str(&format!("%!{verb}(MISSING)")),
        }
        used += 1;
        context.check_length(output.len())?;
    }
    if !is_reordered {
        extra(values.get(used..).unwrap_or_default(), context, &mut output)?;
    }
    Ok(output)
}

/// Reads the flags of a directive.
fn flags(letters: &mut Letters<'_>) -> Flags {
    let mut flags = Flags::default();
    while let Some(flag) = letters.peek().copied() {
        match flag {
            '-' => flags.is_left = true,
            '+' => flags.has_plus = true,
            ' ' => flags.has_space = true,
            '0' => flags.has_zero = true,
            '#' => flags.has_sharp = true,
            _ => break,
        }
        letters.next();
    }
    flags
}

/// Reads a width or a precision: a decimal number, or `*` for the next value.
fn number(
    letters: &mut Letters<'_>,
    values: &[Value],
    used: &mut usize,
    output: &mut String,
    what: &str,
) -> Option<i64> {
    if letters.peek() != Some(&'*') {
        return count(letters);
    }
    letters.next();
    let value = values.get(*used);
    *used += 1;
    match value {
        Some(Value::Integer(value, _)) if value.unsigned_abs() <= 1_000_000 => Some(*value),
        _ => {
            output.push_str(&format!("%!(BAD{what})"));
            None
        }
    }
}

fn check_bounds(flags: Flags) -> Outcome<()> {
    if flags.width.unwrap_or_default() > LONGEST || flags.precision.unwrap_or_default() > 1000 {
        return Err("width or precision of a format is too large".to_owned());
    }
    Ok(())
}

/// Reads a decimal number.
fn count(letters: &mut Letters<'_>) -> Option<i64> {
    let mut value: Option<i64> = None;
    while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
        letters.next();
        value = Some(value.unwrap_or_default().saturating_mul(10).saturating_add(i64::from(digit)));
    }
    value
}

/// Reports the values that the format does not use.
fn extra(values: &[Value], context: &Context, output: &mut String) -> Outcome<()> {
    if values.is_empty() {
        return Ok(());
    }
    output.push_str("%!(EXTRA ");
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            output.push_str(", ");
        }
        if value.is_nil() {
            output.push_str("<nil>");
        } else {
            output.push_str(&format!("{}={}", type_name(value, context), format::text(value, context)?));
        }
    }
    output.push(')');
    Ok(())
}

/// Appends one value in one format.
fn value_text(
    value: &Value,
    verb: char,
    flags: Flags,
    context: &Context,
    output: &mut String,
    depth: usize,
) -> Outcome<()> {
    if depth > super::super::value::DEEPEST {
        return Err("values are nested too deeply".to_owned());
    }
    let text = match (verb, value) {
        ('T', value) => type_name(value, context).to_owned(),
        ('v', Value::Missing | Value::Null) => "<nil>".to_owned(),
        (_, Value::Missing | Value::Null) if depth > 0 => "<nil>".to_owned(),
        ('v', Value::Text(text)) if flags.has_sharp => format::quoted(text),
        ('v' | 's', Value::Version(version)) => version.to_string(),
        ('q', Value::Version(version)) => format::quoted(&version.to_string()),
        ('v', Value::Time(_) | Value::Certificate(_)) if flags.has_sharp => {
            return Err(format!("%#v of {} is not supported: use %v", type_name(value, context)));
        }
        ('v' | 's' | 'q' | 'x' | 'X', Value::Time(time)) => string(&time.text()?, verb, flags),
        (_, Value::Certificate(_) | Value::List(_) | Value::Map(_)) => {
            return parts(value, verb, flags, context, output, depth);
        }
        ('v' | 't', Value::Bool(value)) => value.to_string(),
        ('v' | 's' | 'q' | 'x' | 'X', Value::Text(text)) => string(text, verb, flags),
        ('v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'q' | 'U', Value::Integer(value, _)) => {
            return integer(*value, verb, flags, output);
        }
        ('v' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Float(value)) => float(*value, verb, flags),
        _ => wrong(value, verb, context)?,
    };
    let flags = if matches!(value, Value::Float(_)) || !flags.has_zero {
        flags
    } else {
        Flags { has_zero: flags.has_zero && !flags.is_left, ..flags }
    };
    padded(&text, flags, output);
    Ok(())
}

/// Appends the parts of a value in one format: fields, items or entries.
fn parts(
    value: &Value,
    verb: char,
    flags: Flags,
    context: &Context,
    output: &mut String,
    depth: usize,
) -> Outcome<()> {
    match value {
        Value::Certificate(certificate) => {
            let mut before = '{';
            for (name, field) in certificate.fields() {
                output.push(before);
                if verb == 'v' && flags.has_plus {
                    output.push_str(&format!("{name}:"));
                }
                value_text(&field, verb, flags, context, output, depth + 1)?;
                before = ' ';
            }
            output.push('}');
        }
        Value::List(list) => {
            output.push('[');
            for (index, item) in list.items.iter().enumerate() {
                if index > 0 {
                    output.push(' ');
                }
                value_text(item, verb, flags, context, output, depth + 1)?;
            }
            output.push(']');
        }
        Value::Map(map) => {
            output.push_str("map[");
            for (index, (name, item)) in context.entries(*map)?.iter().enumerate() {
                if index > 0 {
                    output.push(' ');
                }
                value_text(&Value::text(name), verb, flags, context, output, depth + 1)?;
                output.push(':');
                value_text(item, verb, flags, context, output, depth + 1)?;
            }
            output.push(']');
        }
        _ => {}
    }
    Ok(())
}

/// Returns the text for a value that does not fit its verb.
fn wrong(value: &Value, verb: char, context: &Context) -> Outcome<String> {
    if value.is_nil() {
        return Ok(format!("%!{verb}(<nil>)"));
    }
    Ok(format!("%!{verb}({}={})", type_name(value, context), format::text(value, context)?))
}

fn string(text: &str, verb: char, flags: Flags) -> String {
    let cut: String = match flags.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_owned(),
    };
    let hex = |upper: bool| {
        let bytes = text.bytes().take(flags.precision.unwrap_or(usize::MAX));
        let digits = bytes.map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        digits.collect::<Vec<_>>().join(if flags.has_space { " " } else { "" })
    };
    match verb {
        'q' if flags.has_sharp && !cut.contains(['`', '\n']) => format!("`{cut}`"),
        'q' => format::quoted(&cut),
        'x' => hex(false),
        'X' => hex(true),
        _ => cut,
    }
}

fn integer(value: i64, verb: char, flags: Flags, output: &mut String) -> Outcome<()> {
    let letter = || u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let size = value.unsigned_abs();
    let digits = match verb {
        'c' => {
            padded(&letter().to_string(), flags, output);
            return Ok(());
        }
        'q' => {
            let inner = format::quoted(&letter().to_string());
            let inner = inner.trim_matches('"').replace('\'', "\\'");
            padded(&format!("'{inner}'"), flags, output);
            return Ok(());
        }
        'U' => {
            padded(&format!("U+{size:04X}"), flags, output);
            return Ok(());
        }
        'b' => format!("{size:b}"),
        'o' | 'O' => format!("{size:o}"),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        _ => size.to_string(),
    };
    let prefix = match verb {
        'O' => "0o",
        'x' if flags.has_sharp => "0x",
        'X' if flags.has_sharp => "0X",
        'o' if flags.has_sharp => "0",
        'b' if flags.has_sharp => "0b",
        _ => "",
    };
    let sign = sign(value < 0, flags);
    let mut least = flags.precision.unwrap_or_default();
    if flags.has_zero && !flags.is_left && flags.precision.is_none() {
        least = flags.width.unwrap_or_default().saturating_sub(sign.len());
    }
    let zeros = "0".repeat(least.saturating_sub(digits.len()));
    let flags = Flags { has_zero: false, ..flags };
    padded(&format!("{sign}{prefix}{zeros}{digits}"), flags, output);
    Ok(())
}

fn sign(is_negative: bool, flags: Flags) -> &'static str {
    if is_negative {
        "-"
    } else if flags.has_plus {
        "+"
    } else if flags.has_space {
        " "
    } else {
        ""
    }
}

fn float(value: f64, verb: char, flags: Flags) -> String {
    let size = value.abs();
    let text = match verb {
        _ if !value.is_finite() => format::not_finite(size).trim_start_matches('+').to_owned(),
        'e' | 'E' => {
            let text = format!("{size:.*e}", flags.precision.unwrap_or(6));
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{mantissa}{}", format::exponent_text(exponent.parse().unwrap_or_default()))
        }
        'f' | 'F' => format!("{size:.*}", flags.precision.unwrap_or(6)),
        _ => {
            let limit = flags.precision.map_or(6, |digits| i32::try_from(digits.max(1)).unwrap_or(i32::MAX));
            format::general(size, flags.precision, limit)
        }
    };
    let text = if matches!(verb, 'E' | 'G') { text.to_uppercase() } else { text };
    let sign = sign(value.is_sign_negative() && !value.is_nan(), flags);
    if flags.has_zero && !flags.is_left && value.is_finite() {
        let least = flags.width.unwrap_or_default().saturating_sub(sign.len());
        let zeros = "0".repeat(least.saturating_sub(text.len()));
        return format!("{sign}{zeros}{text}");
    }
    format!("{sign}{text}")
}

/// Appends a text with spaces, or zeros, up to the width.
fn padded(text: &str, flags: Flags, output: &mut String) {
    let missing = flags.width.unwrap_or_default().saturating_sub(text.chars().count());
    if flags.is_left {
        output.push_str(text);
        output.push_str(&" ".repeat(missing));
    } else {
        output.push_str(&(if flags.has_zero { "0" } else { " " }).repeat(missing));
        output.push_str(text);
    }
}
