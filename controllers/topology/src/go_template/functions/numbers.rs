//! Numbers.

use super::super::number::{self, to_float, truncated};
use super::super::value::{Context, Outcome, Value, Width};
use super::Parameter::{Any, Float, Int, Text};
use super::lists::integers;
use super::{Function, any, function, integer, owned, rest, text, variadic};

/// Longest list of numbers, so that a template cannot fill the memory.
const LONGEST_LIST: usize = 100_000;

pub(super) const FUNCTIONS: &[Function] = &[
    function("atoi", &[Text], |_, arguments| {
        Ok(Value::Integer(text(arguments, 0).parse().unwrap_or_default(), Width::Int))
    }),
    function("int", &[Any], |_, arguments| Ok(Value::Integer(to_integer(any(arguments, 0)), Width::Int))),
    function("int64", &[Any], |_, arguments| long(to_integer(any(arguments, 0)))),
    function("float64", &[Any], |_, arguments| Ok(Value::Float(number_of(any(arguments, 0))))),
    function("toDecimal", &[Any], |context, arguments| {
        let text = super::super::format::text(any(arguments, 0), context)?;
        long(i64::from_str_radix(&text, 8).unwrap_or_default())
    }),
    function("add1", &[Any], |_, arguments| long(to_integer(any(arguments, 0)).wrapping_add(1))),
    variadic("add", &[], Any, |_, arguments| {
        long(arguments.iter().map(to_integer).fold(0, i64::wrapping_add))
    }),
    function("sub", &[Any, Any], |_, arguments| {
        long(to_integer(any(arguments, 0)).wrapping_sub(to_integer(any(arguments, 1))))
    }),
    variadic("mul", &[Any], Any, |_, arguments| {
        long(arguments.iter().map(to_integer).fold(1, i64::wrapping_mul))
    }),
    function("div", &[Any, Any], |_, arguments| {
        let divisor = to_integer(any(arguments, 1));
        if divisor == 0 {
            return Err("integer divide by zero".to_owned());
        }
        long(to_integer(any(arguments, 0)).wrapping_div(divisor))
    }),
    function("mod", &[Any, Any], |_, arguments| {
        let divisor = to_integer(any(arguments, 1));
        if divisor == 0 {
            return Err("integer divide by zero".to_owned());
        }
        long(to_integer(any(arguments, 0)).wrapping_rem(divisor))
    }),
    function("add1f", &[Any], |_, arguments| decimal(number_of(any(arguments, 0)) + 1.0)),
    variadic("addf", &[], Any, |_, arguments| decimal(arguments.iter().map(number_of).sum())),
    variadic("subf", &[Any], Any, |_, arguments| decimal(folded(arguments, |left, right| left - right))),
    variadic("mulf", &[Any], Any, |_, arguments| decimal(folded(arguments, |left, right| left * right))),
    variadic("divf", &[Any], Any, |_, arguments| {
        if rest(arguments, 1).iter().any(|value| number_of(value) == 0.0) {
            return Err("decimal division by 0".to_owned());
        }
        Ok(Value::Float(folded(arguments, |left, right| left / right)))
    }),
    variadic("max", &[Any], Any, |_, arguments| {
        long(arguments.iter().map(to_integer).max().unwrap_or_default())
    }),
    variadic("biggest", &[Any], Any, |_, arguments| {
        long(arguments.iter().map(to_integer).max().unwrap_or_default())
    }),
    variadic("min", &[Any], Any, |_, arguments| {
        long(arguments.iter().map(to_integer).min().unwrap_or_default())
    }),
    variadic("maxf", &[Any], Any, |_, arguments| Ok(Value::Float(folded(arguments, f64::max)))),
    variadic("minf", &[Any], Any, |_, arguments| Ok(Value::Float(folded(arguments, f64::min)))),
    function("ceil", &[Any], |_, arguments| Ok(Value::Float(number_of(any(arguments, 0)).ceil()))),
    function("floor", &[Any], |_, arguments| Ok(Value::Float(number_of(any(arguments, 0)).floor()))),
    variadic("round", &[Any, Int], Float, round),
    function("until", &[Int], |context, arguments| {
        let count = integer(arguments, 0);
        integers(&steps(0, count, if count < 0 { -1 } else { 1 })?, context)
    }),
    function("untilStep", &[Int, Int, Int], |context, arguments| {
        let [start, stop, step] = [0, 1, 2].map(|index| integer(arguments, index));
        integers(&steps(start, stop, step)?, context)
    }),
    variadic("seq", &[], Int, seq),
    function("duration", &[Any], |_, arguments| owned(duration(any(arguments, 0)))),
    function("plural", &[Text, Text, Int], |_, arguments| {
        Ok(any(arguments, if integer(arguments, 2) == 1 { 0 } else { 1 }).clone())
    }),
];

fn long(value: i64) -> Outcome<Value> {
    Ok(Value::Integer(value, Width::Int64))
}

/// Removes the error of binary floats, because Sprig calculates with decimals.
fn decimal(value: f64) -> Outcome<Value> {
    let rounded = format!("{value:.14e}").parse::<f64>().unwrap_or(value);
    Ok(Value::Float(rounded))
}

fn folded(arguments: &[Value], combine: fn(f64, f64) -> f64) -> f64 {
    arguments.iter().map(number_of).reduce(combine).unwrap_or_default()
}

/// Converts a value to an integer. Anything else than a number, a truth value or a text with a number is 0.
pub(super) fn to_integer(value: &Value) -> i64 {
    match value {
        Value::Integer(value, _) => *value,
        Value::Float(value) => truncated(*value),
        Value::Bool(value) => i64::from(*value),
        Value::Text(text) => {
            let whole = match text.split_once('.') {
                Some((whole, zeros)) if !zeros.is_empty() && zeros.chars().all(|digit| digit == '0') => whole,
                _ => text,
            };
            number::integer(whole).unwrap_or_default()
        }
        _ => 0,
    }
}

/// Converts a value to a float. Anything else than a number, a truth value or a text with a number is 0.
fn number_of(value: &Value) -> f64 {
    match value {
        Value::Integer(value, _) => to_float(*value),
        Value::Float(value) => *value,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Text(text) => text.parse().unwrap_or_default(),
        _ => 0.0,
    }
}

fn round(_: &Context, arguments: &[Value]) -> Outcome<Value> {
    let places = i32::try_from(integer(arguments, 1)).unwrap_or_default();
    let from = match any(arguments, 2) {
        Value::Float(from) => *from,
        _ => 0.5,
    };
    let power = 10.0_f64.powi(places);
    let digits = number_of(any(arguments, 0)) * power;
    let rounded = if digits.fract() >= from { digits.ceil() } else { digits.floor() };
    Ok(Value::Float(rounded / power))
}

/// Returns the numbers from `start` up to, but without, `stop`.
fn steps(start: i64, stop: i64, step: i64) -> Outcome<Vec<i64>> {
    let mut found = Vec::new();
    let mut value = start;
    while (step > 0 && value < stop) || (step < 0 && value > stop) {
        if found.len() == LONGEST_LIST {
            return Err(format!("the list is longer than {LONGEST_LIST} items"));
        }
        found.push(value);
        value = value.saturating_add(step);
    }
    Ok(found)
}

fn seq(_: &Context, arguments: &[Value]) -> Outcome<Value> {
    let value = |index: usize| integer(arguments, index);
    let (start, step, end) = match arguments.len() {
        1 => (1, if value(0) < 1 { -1 } else { 1 }, value(0)),
        2 => (value(0), if value(1) < value(0) { -1 } else { 1 }, value(1)),
        3 => (value(0), value(1), value(2)),
        _ => return owned(String::new()),
    };
    if arguments.len() == 3 && end < start && step > 0 {
        return owned(String::new());
    }
    let stop = if end < start { end.saturating_sub(1) } else { end.saturating_add(1) };
    let numbers: Vec<String> = steps(start, stop, step)?.iter().map(ToString::to_string).collect();
    owned(numbers.join(" "))
}

/// Returns seconds as hours, minutes and seconds. Only a text and an `int64` are read.
fn duration(value: &Value) -> String {
    let seconds = match value {
        Value::Text(text) => text.parse().unwrap_or_default(),
        Value::Integer(value, Width::Int64) => *value,
        _ => 0,
    };
    let size = seconds.unsigned_abs();
    let sign = if seconds < 0 { "-" } else { "" };
    let (hours, minutes, rest) = (size / 3600, size / 60 % 60, size % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}
