//! Lists.

use std::rc::Rc;

use super::super::compare::deeply_equal;
use super::super::value::{Context, Items, List, Outcome, Value, Width, is_true, kind_name};
use super::Parameter::{Any, Int, Text};
use super::numbers::to_integer;
use super::strings::{string, strings};
use super::{Function, any, function, integer, owned, rest, text, variadic};

pub(super) const FUNCTIONS: &[Function] = &[
    variadic("list", &[], Any, |context, arguments| context.list(arguments.to_vec(), Items::Any)),
    variadic("tuple", &[], Any, |context, arguments| context.list(arguments.to_vec(), Items::Any)),
    function("append", &[Any, Any], append),
    function("push", &[Any, Any], append),
    function("mustAppend", &[Any, Any], append),
    function("mustPush", &[Any, Any], append),
    function("prepend", &[Any, Any], prepend),
    function("mustPrepend", &[Any, Any], prepend),
    function("first", &[Any], |context, arguments| at(arguments, context, "first", false)),
    function("mustFirst", &[Any], |context, arguments| at(arguments, context, "first", false)),
    function("last", &[Any], |context, arguments| at(arguments, context, "last", true)),
    function("mustLast", &[Any], |context, arguments| at(arguments, context, "last", true)),
    function("rest", &[Any], |context, arguments| part(arguments, context, "rest", true)),
    function("mustRest", &[Any], |context, arguments| part(arguments, context, "rest", true)),
    function("initial", &[Any], |context, arguments| part(arguments, context, "initial", false)),
    function("mustInitial", &[Any], |context, arguments| part(arguments, context, "initial", false)),
    function("reverse", &[Any], reverse),
    function("mustReverse", &[Any], reverse),
    function("uniq", &[Any], uniq),
    function("mustUniq", &[Any], uniq),
    variadic("without", &[Any], Any, without),
    variadic("mustWithout", &[Any], Any, without),
    function("has", &[Any, Any], has),
    function("mustHas", &[Any, Any], has),
    function("compact", &[Any], compact),
    function("mustCompact", &[Any], compact),
    variadic("slice", &[Any], Any, slice),
    variadic("mustSlice", &[Any], Any, slice),
    variadic("concat", &[], Any, concat),
    function("chunk", &[Int, Any], chunk),
    function("mustChunk", &[Int, Any], chunk),
    function("join", &[Text, Any], |context, arguments| {
        owned(strings(any(arguments, 1), context)?.join(text(arguments, 0)))
    }),
    function("sortAlpha", &[Any], |context, arguments| {
        let mut texts = match any(arguments, 0) {
            Value::List(_) => strings(any(arguments, 0), context)?,
            other => vec![string(other, context)?],
        };
        texts.sort();
        context.texts(texts)
    }),
    function("toStrings", &[Any], |context, arguments| context.texts(strings(any(arguments, 0), context)?)),
];

/// Returns the list of an argument.
fn list(value: &Value, context: &Context, name: &str) -> Outcome<Rc<List>> {
    match value {
        Value::List(list) => Ok(Rc::clone(list)),
        other => Err(format!("Cannot find {name} on type {}", kind_name(other, context))),
    }
}

fn append(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut items = list(any(arguments, 0), context, "push")?.items.clone();
    items.push(any(arguments, 1).clone());
    context.list(items, Items::Any)
}

fn prepend(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut items = vec![any(arguments, 1).clone()];
    items.extend(list(any(arguments, 0), context, "prepend")?.items.iter().cloned());
    context.list(items, Items::Any)
}

fn at(arguments: &[Value], context: &Context, name: &str, is_last: bool) -> Outcome<Value> {
    let list = list(any(arguments, 0), context, name)?;
    let item = if is_last { list.items.last() } else { list.items.first() };
    Ok(item.cloned().unwrap_or(Value::Null))
}

/// Returns a list without its first, or its last, item.
fn part(arguments: &[Value], context: &Context, name: &str, is_end: bool) -> Outcome<Value> {
    let list = list(any(arguments, 0), context, name)?;
    let parts = if is_end {
        list.items.split_first().map(|(_, rest)| rest)
    } else {
        list.items.split_last().map(|(_, rest)| rest)
    };
    context.list(parts.unwrap_or_default().to_vec(), Items::Any)
}

fn reverse(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let list = list(any(arguments, 0), context, "reverse")?;
    context.list(list.items.iter().rev().cloned().collect(), Items::Any)
}

fn contains(items: &[Value], value: &Value, context: &Context) -> Outcome<bool> {
    for item in items {
        if deeply_equal(value, item, context, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut found: Vec<Value> = Vec::new();
    for item in &list(any(arguments, 0), context, "uniq")?.items {
        if !contains(&found, item, context)? {
            found.push(item.clone());
        }
    }
    context.list(found, Items::Any)
}

fn without(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut found = Vec::new();
    for item in &list(any(arguments, 0), context, "without")?.items {
        if !contains(rest(arguments, 1), item, context)? {
            found.push(item.clone());
        }
    }
    context.list(found, Items::Any)
}

fn has(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    if any(arguments, 1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let list = list(any(arguments, 1), context, "has")?;
    Ok(Value::Bool(contains(&list.items, any(arguments, 0), context)?))
}

fn compact(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let list = list(any(arguments, 0), context, "compact")?;
    context.list(list.items.iter().filter(|item| is_true(item, context)).cloned().collect(), Items::Any)
}

fn slice(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let list = list(any(arguments, 0), context, "slice")?;
    if list.items.is_empty() {
        return Ok(Value::Null);
    }
    let bound = |index: usize, absent: usize| match arguments.get(index) {
        Some(value) => usize::try_from(to_integer(value)).map_err(|_| "slice bounds out of range".to_owned()),
        None => Ok(absent),
    };
    let (start, end) = (bound(1, 0)?, bound(2, list.items.len())?);
    let items = list.items.get(start..end).ok_or("slice bounds out of range")?;
    context.list(items.to_vec(), list.kind)
}

fn concat(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let mut items = Vec::new();
    for value in arguments {
        items.extend(list(value, context, "concat")?.items.iter().cloned());
    }
    context.list(items, Items::Any)
}

fn chunk(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let list = list(any(arguments, 1), context, "chunk")?;
    let size = usize::try_from(integer(arguments, 0)).ok().filter(|size| *size > 0);
    let size = size.ok_or("the size of chunks must be positive")?;
    let chunks = list.items.chunks(size).map(|chunk| context.list(chunk.to_vec(), Items::Any));
    context.list(chunks.collect::<Outcome<_>>()?, Items::List)
}

/// Returns a list of integers.
pub(super) fn integers(values: &[i64], context: &Context) -> Outcome<Value> {
    context.list(values.iter().map(|value| Value::Integer(*value, Width::Int)).collect(), Items::Integer)
}
