//! Texts.

use super::super::format::{self, quoted};
use super::super::value::{Context, LONGEST, Outcome, Value};
use super::Parameter::{Any, Int, Text};
use super::{Function, any, function, integer, owned, text, variadic};

pub(super) const FUNCTIONS: &[Function] = &[
    function("trim", &[Text], |_, arguments| Ok(Value::text(text(arguments, 0).trim()))),
    function("upper", &[Text], |_, arguments| owned(cased(text(arguments, 0), char::to_uppercase))),
    function("lower", &[Text], |_, arguments| owned(cased(text(arguments, 0), char::to_lowercase))),
    function("trimall", &[Text, Text], trim_all),
    function("trimAll", &[Text, Text], trim_all),
    function("trimSuffix", &[Text, Text], |_, arguments| {
        let (end, whole) = (text(arguments, 0), text(arguments, 1));
        Ok(Value::text(whole.strip_suffix(end).unwrap_or(whole)))
    }),
    function("trimPrefix", &[Text, Text], |_, arguments| {
        let (start, whole) = (text(arguments, 0), text(arguments, 1));
        Ok(Value::text(whole.strip_prefix(start).unwrap_or(whole)))
    }),
    function("repeat", &[Int, Text], |_, arguments| repeat(integer(arguments, 0), text(arguments, 1))),
    function("contains", &[Text, Text], |_, arguments| {
        Ok(Value::Bool(text(arguments, 1).contains(text(arguments, 0))))
    }),
    function("hasPrefix", &[Text, Text], |_, arguments| {
        Ok(Value::Bool(text(arguments, 1).starts_with(text(arguments, 0))))
    }),
    function("hasSuffix", &[Text, Text], |_, arguments| {
        Ok(Value::Bool(text(arguments, 1).ends_with(text(arguments, 0))))
    }),
    variadic("quote", &[], Any, |context, arguments| {
        each(arguments, |value| Ok(quoted(&string(value, context)?)))
    }),
    variadic("squote", &[], Any, |context, arguments| {
        each(arguments, |value| Ok(format!("'{}'", string(value, context)?)))
    }),
    variadic("cat", &[], Any, |context, arguments| {
        let joined = each(arguments, |value| string(value, context))?;
        Ok(joined)
    }),
    function("indent", &[Int, Text], |context, arguments| {
        owned(indented(integer(arguments, 0), text(arguments, 1), context)?)
    }),
    function("nindent", &[Int, Text], |context, arguments| {
        owned(format!("\n{}", indented(integer(arguments, 0), text(arguments, 1), context)?))
    }),
    function("replace", &[Text, Text, Text], |context, arguments| {
        let (old, new, whole) = (text(arguments, 0), text(arguments, 1), text(arguments, 2));
        let count = whole.matches(old).count();
        context.check_length(whole.len().saturating_add(count.saturating_mul(new.len())))?;
        owned(whole.replace(old, new))
    }),
    function("toString", &[Any], |context, arguments| owned(string(any(arguments, 0), context)?)),
    function("trunc", &[Int, Text], |_, arguments| {
        owned(truncated(integer(arguments, 0), text(arguments, 1)))
    }),
    function("substr", &[Int, Int, Text], |_, arguments| {
        let whole = text(arguments, 2);
        let (start, end) = (integer(arguments, 0), integer(arguments, 1));
        let end = usize::try_from(end).ok();
        match usize::try_from(start) {
            Err(_) => bytes(whole, 0, end.ok_or("slice bounds out of range")?),
            Ok(start) => bytes(whole, start, end.unwrap_or(whole.len()).min(whole.len())),
        }
    }),
    function("splitList", &[Text, Text], |context, arguments| {
        context.texts(parts(text(arguments, 0), text(arguments, 1), usize::MAX))
    }),
    function("split", &[Text, Text], |context, arguments| {
        numbered(&parts(text(arguments, 0), text(arguments, 1), usize::MAX), context)
    }),
    function("splitn", &[Text, Int, Text], |context, arguments| {
        let most = integer(arguments, 1);
        let most = if most < 0 { usize::MAX } else { usize::try_from(most).unwrap_or_default() };
        numbered(&parts(text(arguments, 0), text(arguments, 2), most), context)
    }),
    function("nospace", &[Text], |_, arguments| {
        owned(text(arguments, 0).chars().filter(|letter| !letter.is_whitespace()).collect())
    }),
];

/// Returns the text of a value.
pub(super) fn string(value: &Value, context: &Context) -> Outcome<String> {
    format::text(value, context)
}

/// Returns the texts of a list without nil, or of a single value.
pub(super) fn strings(value: &Value, context: &Context) -> Outcome<Vec<String>> {
    match value {
        Value::List(list) => {
            let items = list.items.iter().filter(|item| !item.is_nil());
            items.map(|item| string(item, context)).collect()
        }
        other if other.is_nil() => Ok(Vec::new()),
        other => Ok(vec![string(other, context)?]),
    }
}

/// Joins the texts of the values with spaces, without nil.
fn each(values: &[Value], show: impl Fn(&Value) -> Outcome<String>) -> Outcome<Value> {
    let shown: Vec<String> =
        values.iter().filter(|value| !value.is_nil()).map(show).collect::<Outcome<_>>()?;
    owned(shown.join(" "))
}

fn trim_all(_: &Context, arguments: &[Value]) -> Outcome<Value> {
    let letters: Vec<char> = text(arguments, 0).chars().collect();
    Ok(Value::text(text(arguments, 1).trim_matches(letters.as_slice())))
}

fn repeat(count: i64, text: &str) -> Outcome<Value> {
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())?;
    if count.saturating_mul(text.len()) > LONGEST {
        return Err(format!("the result is longer than {LONGEST} bytes"));
    }
    owned(text.repeat(count))
}

fn indented(count: i64, text: &str, context: &Context) -> Outcome<String> {
    let count = usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())?;
    let lines = text.matches('\n').count() + 1;
    context.check_length(text.len().saturating_add(lines.saturating_mul(count)))?;
    let space = " ".repeat(count);
    Ok(format!("{space}{}", text.replace('\n', &format!("\n{space}"))))
}

/// Returns the bytes of a range as text.
pub(super) fn bytes(text: &str, start: usize, end: usize) -> Outcome<Value> {
    let part = text.as_bytes().get(start..end).ok_or("slice bounds out of range")?;
    owned(String::from_utf8_lossy(part).into_owned())
}

fn truncated(count: i64, text: &str) -> String {
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let part = match text.len().checked_sub(length) {
        Some(start) if count < 0 && start > 0 => text.as_bytes().get(start..),
        Some(_) if count >= 0 => text.as_bytes().get(..length),
        _ => Some(text.as_bytes()),
    };
    String::from_utf8_lossy(part.unwrap_or_default()).into_owned()
}

/// Splits a text. An empty separator splits it into letters.
fn parts(separator: &str, whole: &str, most: usize) -> Vec<String> {
    if most == 0 {
        return Vec::new();
    }
    if separator.is_empty() {
        let letters: Vec<char> = whole.chars().collect();
        let single = letters.len().min(most.saturating_sub(1));
        let mut found: Vec<String> = letters.iter().take(single).map(ToString::to_string).collect();
        if single < letters.len() {
            found.push(letters.iter().skip(single).collect());
        }
        return found;
    }
    whole.splitn(most, separator).map(ToOwned::to_owned).collect()
}

/// Returns parts as a map with the keys `_0`, `_1` and so on.
fn numbered(parts: &[String], context: &Context) -> Outcome<Value> {
    let entry = |(index, part): (usize, &String)| (format!("_{index}"), Value::text(part));
    context.map(parts.iter().enumerate().map(entry).collect(), true)
}

/// Changes the case of each letter. Go keeps a letter that would become several.
fn cased<I: Iterator<Item = char> + ExactSizeIterator>(text: &str, change: fn(char) -> I) -> String {
    let changed = |letter: char| {
        let mut letters = change(letter);
        if letters.len() == 1 { letters.next().unwrap_or(letter) } else { letter }
    };
    text.chars().map(changed).collect()
}
