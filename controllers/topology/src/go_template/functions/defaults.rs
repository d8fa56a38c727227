//! Defaults, conditions, JSON and reflection.

use super::super::json::{self, Style};
use super::super::value::{Context, Outcome, Value, is_true, kind_name, type_name};
use super::super::{compare, versions};
use super::Parameter::{Any, Bool, Text};
use super::{Function, any, function, owned, rest, text, variadic};

const COMPACT: Style = Style { is_pretty: false, escapes_html: true };
const PRETTY: Style = Style { is_pretty: true, escapes_html: true };
const RAW: Style = Style { is_pretty: false, escapes_html: false };

pub(super) const FUNCTIONS: &[Function] = &[
    function("hello", &[], |_, _| Ok(Value::text("Hello!"))),
    variadic("default", &[Any], Any, |context, arguments| {
        let given = any(arguments, 1);
        Ok(if is_true(given, context) { given } else { any(arguments, 0) }.clone())
    }),
    function("empty", &[Any], |context, arguments| Ok(Value::Bool(!is_true(any(arguments, 0), context)))),
    variadic("coalesce", &[], Any, |context, arguments| {
        Ok(arguments.iter().find(|value| is_true(value, context)).cloned().unwrap_or(Value::Null))
    }),
    variadic("all", &[], Any, |context, arguments| {
        Ok(Value::Bool(arguments.iter().all(|value| is_true(value, context))))
    }),
    variadic("any", &[], Any, |context, arguments| {
        Ok(Value::Bool(arguments.iter().any(|value| is_true(value, context))))
    }),
    function("ternary", &[Any, Any, Bool], |context, arguments| {
        Ok(any(arguments, if is_true(any(arguments, 2), context) { 0 } else { 1 }).clone())
    }),
    function("fail", &[Text], |_, arguments| Err(text(arguments, 0).to_owned())),
    function("fromJson", &[Text], |context, arguments| {
        Ok(json::parse(text(arguments, 0), context).unwrap_or(Value::Null))
    }),
    function("mustFromJson", &[Text], |context, arguments| json::parse(text(arguments, 0), context)),
    function("toJson", &[Any], |context, arguments| lenient(any(arguments, 0), COMPACT, context)),
    function("mustToJson", &[Any], |context, arguments| strict(any(arguments, 0), COMPACT, context)),
    function("toPrettyJson", &[Any], |context, arguments| lenient(any(arguments, 0), PRETTY, context)),
    function("mustToPrettyJson", &[Any], |context, arguments| strict(any(arguments, 0), PRETTY, context)),
    function("toRawJson", &[Any], |context, arguments| strict(any(arguments, 0), RAW, context)),
    function("mustToRawJson", &[Any], |context, arguments| strict(any(arguments, 0), RAW, context)),
    function("deepCopy", &[Any], |context, arguments| json::copy(any(arguments, 0), context, 0)),
    function("mustDeepCopy", &[Any], |context, arguments| json::copy(any(arguments, 0), context, 0)),
    function("typeOf", &[Any], |context, arguments| Ok(Value::text(type_name(any(arguments, 0), context)))),
    function("typeIs", &[Text, Any], |context, arguments| {
        Ok(Value::Bool(text(arguments, 0) == type_name(any(arguments, 1), context)))
    }),
    function("typeIsLike", &[Text, Any], |context, arguments| {
        let name = type_name(any(arguments, 1), context);
        let expected = text(arguments, 0);
        Ok(Value::Bool(name == expected || name.strip_prefix('*') == Some(expected)))
    }),
    function("kindOf", &[Any], |context, arguments| Ok(Value::text(kind_name(any(arguments, 0), context)))),
    function("kindIs", &[Text, Any], |context, arguments| {
        Ok(Value::Bool(text(arguments, 0) == kind_name(any(arguments, 1), context)))
    }),
    function("deepEqual", &[Any, Any], |context, arguments| {
        let is_equal = compare::deeply_equal(any(arguments, 0), any(arguments, 1), context, 0)?;
        Ok(Value::Bool(is_equal))
    }),
    function("semver", &[Text], |_, arguments| versions::parse_value(text(arguments, 0))),
    function("semverCompare", &[Text, Text], |_, arguments| {
        Ok(Value::Bool(versions::satisfies(text(arguments, 0), text(arguments, 1))?))
    }),
    variadic("dig", &[], Any, dig),
];

/// Returns JSON, or an empty text if the value has none.
fn lenient(value: &Value, style: Style, context: &Context) -> Outcome<Value> {
    owned(json::text(value, style, context).unwrap_or_default())
}

fn strict(value: &Value, style: Style, context: &Context) -> Outcome<Value> {
    owned(json::text(value, style, context)?)
}

/// Follows keys through maps. The last argument is the map, and the one before it the default.
fn dig(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let [keys @ .., default, holder] = arguments else {
        return Err("dig needs at least three arguments".to_owned());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".to_owned());
    }
    let mut value = holder.clone();
    for key in rest(keys, 0) {
        let (Value::Map(map), Value::Text(key)) = (&value, key) else {
            return Err("dig needs maps, and texts as keys".to_owned());
        };
        match context.get(*map, key) {
            Some(inner) => value = inner,
            None => return Ok(default.clone()),
        }
    }
    Ok(value)
}
