//! Go's own functions of templates.

use super::super::compare::{equal, less};
use super::super::value::{Context, Outcome, Value, Width, is_true, type_name};
use super::Parameter::{Any, Reflect, Text};
use super::{Function, any, function, owned, printf, rest, text, variadic};

pub(super) const FUNCTIONS: &[Function] = &[
    // The evaluator calls these two itself.
    variadic("and", &[Reflect], Reflect, |_, arguments| Ok(any(arguments, 0).clone())),
    variadic("or", &[Reflect], Reflect, |_, arguments| Ok(any(arguments, 0).clone())),
    function("not", &[Reflect], |context, arguments| Ok(Value::Bool(!is_true(any(arguments, 0), context)))),
    variadic("eq", &[Reflect], Reflect, eq),
    function("ne", &[Reflect, Reflect], |context, arguments| {
        Ok(Value::Bool(!equal(any(arguments, 0), any(arguments, 1), context)?))
    }),
    function("lt", &[Reflect, Reflect], |context, arguments| {
        Ok(Value::Bool(less(any(arguments, 0), any(arguments, 1), context)?))
    }),
    function("le", &[Reflect, Reflect], |context, arguments| {
        Ok(Value::Bool(less_or_equal(arguments, context)?))
    }),
    function("gt", &[Reflect, Reflect], |context, arguments| {
        Ok(Value::Bool(!less_or_equal(arguments, context)?))
    }),
    function("ge", &[Reflect, Reflect], |context, arguments| {
        Ok(Value::Bool(!less(any(arguments, 0), any(arguments, 1), context)?))
    }),
    variadic("index", &[Reflect], Reflect, index),
    variadic("slice", &[Reflect], Reflect, slice),
    function("len", &[Reflect], length),
    variadic("print", &[], Any, |context, arguments| owned(printf::print(arguments, context)?)),
    variadic("println", &[], Any, |context, arguments| owned(printf::println(arguments, context)?)),
    variadic("printf", &[Text], Any, |context, arguments| {
        owned(printf::printf(text(arguments, 0), rest(arguments, 1), context)?)
    }),
    variadic("html", &[], Any, |context, arguments| owned(html(&joined(arguments, context)?))),
    variadic("js", &[], Any, |context, arguments| owned(js(&joined(arguments, context)?))),
    variadic("urlquery", &[], Any, |context, arguments| owned(url_query(&joined(arguments, context)?))),
    variadic("call", &[Reflect], Reflect, |context, arguments| {
        Err(format!("non-function of type {}", type_name(any(arguments, 0), context)))
    }),
];

fn eq(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    if arguments.len() < 2 {
        return Err("missing argument for comparison".to_owned());
    }
    for other in rest(arguments, 1) {
        if equal(any(arguments, 0), other, context)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn less_or_equal(arguments: &[Value], context: &Context) -> Outcome<bool> {
    let (left, right) = (any(arguments, 0), any(arguments, 1));
    Ok(less(left, right, context)? || equal(left, right, context)?)
}

fn index(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut item = any(arguments, 0).clone();
    if item.is_nil() {
        return Err("index of untyped nil".to_owned());
    }
    for key in rest(arguments, 1) {
        item = match (&item, key) {
            (Value::List(list), key) => {
                let position = position(key, list.items.len(), context)?;
                list.items.get(position).cloned().ok_or("reflect: slice index out of range")?
            }
            (Value::Text(text), key) => {
                let position = position(key, text.len(), context)?;
                let byte = text.as_bytes().get(position).ok_or("reflect: string index out of range")?;
                Value::Integer(i64::from(*byte), Width::Uint8)
            }
            (Value::Map(map), Value::Text(key)) => {
                let absent = if context.is_of_texts(*map) { Value::text("") } else { Value::Null };
                context.get(*map, key).unwrap_or(absent)
            }
            (Value::Map(_), key) if key.is_nil() => {
                return Err("value is nil; should be of type string".to_owned());
            }
            (Value::Map(_), key) => {
                return Err(format!("value has type {}; should be string", type_name(key, context)));
            }
            (item, _) if item.is_nil() => return Err("index of nil pointer".to_owned()),
            (item, _) => return Err(format!("can't index item of type {}", type_name(item, context))),
        };
    }
    Ok(item)
}

/// Returns a part of a text or of a list. Go also slices a list beyond its length, up to its capacity.
fn slice(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let (item, indices) = (any(arguments, 0), rest(arguments, 1));
    let length = match item {
        Value::Text(_) if indices.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        item if item.is_nil() => return Err("slice of untyped nil".to_owned()),
        item => return Err(format!("can't slice item of type {}", type_name(item, context))),
    };
    if indices.len() > 3 {
        return Err(format!("too many slice indexes: {}", indices.len()));
    }
    let bound = |index: usize, absent: usize| match indices.get(index) {
        Some(value) => position(value, length, context),
        None => Ok(absent),
    };
    let (start, end) = (bound(0, 0)?, bound(1, length)?);
    let most = bound(2, end)?;
    if let Some((low, high)) = [(start, end), (end, most)].into_iter().find(|(low, high)| low > high) {
        return Err(format!("invalid slice index: {low} > {high}"));
    }
    if let Value::List(list) = item {
        return context.list(list.items.get(start..end).unwrap_or_default().to_vec(), list.kind);
    }
    let part = if let Value::Text(whole) = item { whole.get(start..end) } else { None };
    owned(part.ok_or("the part begins or ends within a character")?.to_owned())
}

/// Returns the position that an index names.
fn position(index: &Value, length: usize, context: &Context) -> Outcome<usize> {
    match index {
        Value::Integer(index, _) => usize::try_from(*index)
            .ok()
            .filter(|position| *position <= length)
            .ok_or_else(|| format!("index out of range: {index}")),
        index if index.is_nil() => Err("cannot index slice/array with nil".to_owned()),
        index => Err(format!("cannot index slice/array with type {}", type_name(index, context))),
    }
}

fn length(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    Ok(Value::int(match any(arguments, 0) {
        Value::Text(text) => text.len(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => context.len(*map),
        item if item.is_nil() => return Err("len of nil pointer".to_owned()),
        item => return Err(format!("len of type {}", type_name(item, context))),
    }))
}

/// Returns the arguments as one text, as the escaping functions read them.
fn joined(arguments: &[Value], context: &Context) -> Outcome<String> {
    let shown: Vec<Value> = arguments
        .iter()
        .map(|value| if value.is_nil() { Value::text("<no value>") } else { value.clone() })
        .collect();
    printf::print(&shown, context)
}

fn html(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\0' => escaped.push('\u{fffd}'),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn js(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '\'' => escaped.push_str("\\'"),
            '"' => escaped.push_str("\\\""),
            '<' | '>' | '&' | '=' => escaped.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter if u32::from(letter) < 0x20 => {
                escaped.push_str(&format!("\\u{:04X}", u32::from(letter)));
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn url_query(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            b' ' => escaped.push('+'),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
