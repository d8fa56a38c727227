//! Operators of CEL.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::common::ast::operators::{
    ADD, DIVIDE, EQUALS, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, LOGICAL_NOT, MODULO, MULTIPLY,
    NEGATE, NOT_EQUALS, SUBSTRACT,
};
use kube_cel::cel::objects::{Key, KeyRef, Map, OptionalValue};
use kube_cel::cel::{ExecutionError, Value as Cel};

use super::{Failure, Outcome, authorizer};

/// Returns the content of an optional; `None` for any other value.
pub(super) fn optional(value: &Cel) -> Option<Option<&Cel>> {
    match value {
        Cel::Opaque(inner) => inner.downcast_ref::<OptionalValue>().map(OptionalValue::value),
        _ => None,
    }
}

/// Reports whether a value is an optional without content.
pub(super) fn is_none(value: &Cel) -> bool {
    optional(value) == Some(None)
}

pub(super) fn none() -> Cel {
    Cel::Opaque(Arc::new(OptionalValue::none()))
}

pub(super) fn some(value: Cel) -> Cel {
    Cel::Opaque(Arc::new(OptionalValue::of(value)))
}

/// Returns a value as the key of a map.
pub(super) fn key(value: &Cel) -> Result<Key, Failure> {
    match value {
        Cel::Int(number) => Ok(Key::Int(*number)),
        Cel::UInt(number) => Ok(Key::Uint(*number)),
        Cel::Bool(value) => Ok(Key::Bool(*value)),
        Cel::String(text) => Ok(Key::String(Arc::clone(text))),
        Cel::Float(number) => {
            whole(*number).map(Key::Int).ok_or_else(|| Failure::no_key(&number.to_string()))
        }
        _ => Err(Failure::Error("unsupported key type".to_owned())),
    }
}

/// Returns a number without a fraction.
fn whole(number: f64) -> Option<i64> {
    // Through text, because no other conversion from a float is checked.
    (number.fract() == 0.0).then(|| format!("{number:.0}").parse().ok()).flatten()
}

pub(super) fn shown(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Bool(value) => value.to_string(),
        Key::String(text) => text.as_str().to_owned(),
    }
}

/// Returns a field of a value.
pub(super) fn field(on: &Cel, name: &str) -> Outcome {
    if let Some(inner) = optional(on) {
        let Some(Cel::Map(map)) = inner else {
            return inner.map_or_else(|| Ok(none()), |_| Err(Failure::no_overload()));
        };
        return Ok(map.get(&KeyRef::String(name)).map_or_else(none, |value| some(value.clone())));
    }
    match on {
        Cel::Map(map) => map.get(&KeyRef::String(name)).cloned().ok_or_else(|| Failure::no_key(name)),
        other => authorizer::field(other, name).ok_or_else(Failure::no_overload),
    }
}

/// Reports whether a field exists.
pub(super) fn has(on: &Cel, name: &str) -> Result<bool, Failure> {
    match (optional(on), on) {
        (Some(Some(inner)), _) => has(inner, name),
        (Some(None), _) => Ok(false),
        (None, Cel::Map(map)) => Ok(map.get(&KeyRef::String(name)).is_some()),
        (None, _) => Err(Failure::no_overload()),
    }
}

/// Returns an entry of a list or a map, as an optional if requested.
pub(super) fn entry(on: &Cel, at: &Cel, is_optional: bool) -> Outcome {
    if let Some(inner) = optional(on) {
        return inner.map_or_else(|| Ok(none()), |inner| entry(inner, at, true));
    }
    let found = match on {
        Cel::List(items) => item(items, at).map(|found| found.ok_or_else(|| out_of_bounds(at))),
        Cel::Map(map) => key(at).map(|key| map.get(&key).ok_or_else(|| Failure::no_key(&shown(&key)))),
        _ => Err(Failure::no_overload()),
    }?;
    match found {
        Ok(value) if is_optional => Ok(some(value.clone())),
        Ok(value) => Ok(value.clone()),
        Err(_) if is_optional => Ok(none()),
        Err(failure) => Err(failure),
    }
}

fn item<'a>(items: &'a [Cel], at: &Cel) -> Result<Option<&'a Cel>, Failure> {
    let index = match at {
        Cel::Int(index) => usize::try_from(*index).ok(),
        Cel::UInt(index) => usize::try_from(*index).ok(),
        Cel::Float(index) => whole(*index).and_then(|index| usize::try_from(index).ok()),
        _ => return Err(Failure::no_overload()),
    };
    Ok(index.and_then(|index| items.get(index)))
}

fn out_of_bounds(at: &Cel) -> Failure {
    let at = match at {
        Cel::UInt(at) => at.to_string(),
        Cel::Float(at) => at.to_string(),
        Cel::Int(at) => at.to_string(),
        _ => String::new(),
    };
    Failure::Error(format!("index out of bounds: {at}"))
}

/// Evaluates an operator; `None` if the function is another one.
pub(super) fn result(name: &str, given: &mut Vec<Cel>) -> Option<Outcome> {
    if !name.contains('_') && name != IN {
        return None;
    }
    match (name, given.as_slice()) {
        (LOGICAL_NOT, [Cel::Bool(value)]) => return Some(Ok(Cel::Bool(!value))),
        (NEGATE, [one]) => return Some(negated(one)),
        _ => {}
    }
    let [left, right] = <[Cel; 2]>::try_from(std::mem::take(given)).ok()?;
    Some(match name {
        EQUALS => Ok(Cel::Bool(left == right)),
        NOT_EQUALS => Ok(Cel::Bool(left != right)),
        LESS => compared(&left, &right).map(|order| Cel::Bool(order == Ordering::Less)),
        LESS_EQUALS => compared(&left, &right).map(|order| Cel::Bool(order != Ordering::Greater)),
        GREATER => compared(&left, &right).map(|order| Cel::Bool(order == Ordering::Greater)),
        GREATER_EQUALS => compared(&left, &right).map(|order| Cel::Bool(order != Ordering::Less)),
        IN => contains(&right, &left),
        ADD => sum(left, right),
        SUBSTRACT => (left - right).map_err(failure),
        MULTIPLY => (left * right).map_err(failure),
        DIVIDE => (left / right).map_err(failure),
        MODULO => (left % right).map_err(failure),
        _ => Err(Failure::no_overload()),
    })
}

fn negated(one: &Cel) -> Outcome {
    match one {
        Cel::Int(number) => {
            number.checked_neg().map(Cel::Int).ok_or_else(|| Failure::Error("integer overflow".to_owned()))
        }
        Cel::Float(number) => Ok(Cel::Float(-number)),
        _ => Err(Failure::no_overload()),
    }
}

pub(super) fn sum(left: Cel, right: Cel) -> Outcome {
    match (left, right) {
        (Cel::Bytes(left), Cel::Bytes(right)) => Ok(Cel::Bytes(Arc::new([left.as_slice(), &right].concat()))),
        (left, right) => (left + right).map_err(failure),
    }
}

/// Compares two values.
pub(super) fn compared(left: &Cel, right: &Cel) -> Result<Ordering, Failure> {
    let order = match (left, right) {
        (Cel::Bytes(left), Cel::Bytes(right)) => Some(left.cmp(right)),
        (Cel::Null, _) | (_, Cel::Null) => None,
        _ => left.partial_cmp(right),
    };
    order.ok_or_else(|| match (left, right) {
        (Cel::Float(_), _) | (_, Cel::Float(_)) => Failure::Error("NaN values cannot be ordered".to_owned()),
        _ => Failure::no_overload(),
    })
}

fn contains(within: &Cel, value: &Cel) -> Outcome {
    match within {
        Cel::List(items) => Ok(Cel::Bool(items.contains(value))),
        Cel::Map(Map { .. }) => match entry(within, value, true) {
            Ok(found) => Ok(Cel::Bool(!is_none(&found))),
            Err(_) => Ok(Cel::Bool(false)),
        },
        _ => Err(Failure::no_overload()),
    }
}

/// Returns an error of the engine in CEL's words.
pub(super) fn failure(error: ExecutionError) -> Failure {
    let of = |value: &Cel| match value {
        Cel::UInt(_) => "unsigned integer",
        Cel::Duration(_) => "duration",
        Cel::Timestamp(_) => "timestamp",
        _ => "integer",
    };
    Failure::Error(match error {
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, left, _) => format!("{} overflow", of(&left)),
        ExecutionError::FunctionError { message, .. } => message,
        ExecutionError::NoSuchOverload
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnexpectedType { .. } => "no such overload".to_owned(),
        other => other.to_string(),
    })
}
