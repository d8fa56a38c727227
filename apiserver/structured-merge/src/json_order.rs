//! Total order of JSON values, which compares numbers by value and not by notation.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use serde_json::{Number, Value};

/// JSON value that can be a key: ordered, and equal to values of the same meaning.
#[derive(Debug, Clone)]
pub struct Item(Value);

impl Item {
    /// Creates an item. A float without a fraction becomes an integer, so that it is written as one.
    pub fn new(value: Value) -> Self {
        let whole = value.as_f64().filter(|_| value.is_f64()).and_then(whole);
        Self(whole.map_or(value, Value::from))
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Item {}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal numbers may have several notations, and values other than strings are seldom keys.
        match &self.0 {
            Value::String(text) => text.hash(state),
            other => rank(other).hash(state),
        }
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        order(&self.0, &other.0)
    }
}

/// Returns the integer value of a float, if it has one and is small enough to be exact.
fn whole(number: f64) -> Option<i64> {
    const SURE: f64 = 9_007_199_254_740_992.0;
    let small = number.abs() <= SURE && number.fract() == 0.0;
    // Printed without a fraction, it is parsed back as the same integer; there is no checked cast from floats.
    if small { format!("{number:.0}").parse().ok() } else { None }
}

/// Compares two values: numbers, strings, booleans, lists, maps, null; each kind within itself.
pub(crate) fn order(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left.iter().zip(right).map(|(left, right)| order(left, right));
            first.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            let first = pairs.map(|((a, x), (b, y))| a.cmp(b).then_with(|| order(x, y)));
            first.fold(Ordering::Equal, Ordering::then).then(left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Returns true if two values are equal by meaning: `1` equals `1.0`.
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

fn numbers(left: &Number, right: &Number) -> Ordering {
    let integer =
        |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(left).total_cmp(&float(right))
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
