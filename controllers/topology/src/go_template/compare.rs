//! Comparison of values.

use std::cmp::Ordering;

use super::value::{Context, DEEPEST, Outcome, Value, type_name};

const NOT_COMPARABLE: &str = "invalid type for comparison";

/// Reports whether two values are equal, as `eq` compares them.
pub(super) fn equal(left: &Value, right: &Value, context: &Context) -> Outcome<bool> {
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Integer(left, _), Value::Integer(right, _)) => left == right,
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::Text(left), Value::Text(right)) => left == right,
        (left, right) if left.is_nil() || right.is_nil() => left.is_nil() && right.is_nil(),
        (Value::List(_) | Value::Map(_), Value::List(_) | Value::Map(_)) => {
            return Err(format!("non-comparable type: {}", type_name(right, context)));
        }
        (Value::Version(left), Value::Version(right)) => std::rc::Rc::ptr_eq(left, right),
        (Value::Time(left), Value::Time(right)) => left.is_identical(right),
        (Value::Certificate(left), Value::Certificate(right)) => left == right,
        (left, right) => return Err(incompatible(left, right, context)),
    })
}

fn incompatible(left: &Value, right: &Value, context: &Context) -> String {
    let (left, right) = (type_name(left, context), type_name(right, context));
    format!("incompatible types for comparison: {left} and {right}")
}

/// Reports whether the first value is less, as `lt` compares them.
pub(super) fn less(left: &Value, right: &Value, context: &Context) -> Outcome<bool> {
    let is_basic = |value: &Value| {
        matches!(value, Value::Bool(_) | Value::Integer(..) | Value::Float(_) | Value::Text(_))
    };
    match (left, right) {
        (Value::Integer(left, _), Value::Integer(right, _)) => Ok(left < right),
        (Value::Float(left), Value::Float(right)) => Ok(left.partial_cmp(right) == Some(Ordering::Less)),
        (Value::Text(left), Value::Text(right)) => Ok(left < right),
        (Value::Bool(_), Value::Bool(_)) => Err(NOT_COMPARABLE.to_owned()),
        (left, right) if is_basic(left) && is_basic(right) => Err(incompatible(left, right, context)),
        _ => Err(NOT_COMPARABLE.to_owned()),
    }
}

/// Reports whether two values have the same type and content, at every level.
pub(super) fn deeply_equal(left: &Value, right: &Value, context: &Context, depth: usize) -> Outcome<bool> {
    context.charge_value(left)?;
    if depth > DEEPEST {
        return Err(format!("values are nested deeper than {DEEPEST} levels"));
    }
    let depth = depth + 1;
    Ok(match (left, right) {
        (Value::List(left), Value::List(right)) => {
            if left.kind != right.kind || left.items.len() != right.items.len() {
                return Ok(false);
            }
            for (left, right) in left.items.iter().zip(&right.items) {
                if !deeply_equal(left, right, context, depth)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if context.is_of_texts(*left) != context.is_of_texts(*right)
                || context.len(*left) != context.len(*right)
            {
                return Ok(false);
            }
            for (name, left) in context.entries(*left)? {
                match context.get(*right, &name) {
                    Some(right) if deeply_equal(&left, &right, context, depth)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Integer(left, one), Value::Integer(right, other)) => left == right && one == other,
        (Value::Version(left), Value::Version(right)) => left == right,
        (Value::Time(left), Value::Time(right)) => left.is_deeply_equal(right),
        (left, right) if left.is_nil() || right.is_nil() => left.is_nil() && right.is_nil(),
        (left, right) if type_name(left, context) == type_name(right, context) => {
            equal(left, right, context)?
        }
        _ => false,
    })
}
