//! Times and durations. None reads the clock.

use std::rc::Rc;

use super::super::times::{self, Time};
use super::super::value::{Context, Outcome, Value, Width};
use super::Parameter::{Any, Text, Time as TimeParameter};
use super::{Function, any, function, owned, text, time};

pub(super) const FUNCTIONS: &[Function] = &[
    function("toDate", &[Text, Text], |context, arguments| {
        let parsed = parsed(context, arguments)?;
        Ok(value(parsed.unwrap_or_else(|_| Time::zero())))
    }),
    function("mustToDate", &[Text, Text], |context, arguments| Ok(value(parsed(context, arguments)??))),
    function("mustDateModify", &[Text, TimeParameter], modify),
    function("must_date_modify", &[Text, TimeParameter], modify),
    function("unixEpoch", &[TimeParameter], |_, arguments| {
        owned(time(arguments, 0)?.unix_seconds().to_string())
    }),
    function("durationRound", &[Any], duration_round),
];

fn value(time: Time) -> Value {
    Value::Time(Rc::new(time))
}

/// Parses a time. The outer error is that the template takes too much work, and the inner one that of the text.
fn parsed(context: &Context, arguments: &[Value]) -> Outcome<Outcome<Time>> {
    let (layout, text) = (text(arguments, 0), text(arguments, 1));
    times::charge(context, layout)?;
    times::charge(context, text)?;
    Ok(times::parse(layout, text))
}

fn modify(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let duration = text(arguments, 0);
    times::charge(context, duration)?;
    Ok(value(time(arguments, 1)?.later(times::parse_duration(duration)?)?))
}

/// Rounds a duration. Only a text, and an `int64` of nanoseconds, are read.
fn duration_round(context: &Context, arguments: &[Value]) -> Outcome<Value> {
    let nanoseconds = match any(arguments, 0) {
        Value::Text(text) => {
            times::charge(context, text)?;
            times::parse_duration(text).unwrap_or_default()
        }
        Value::Integer(nanoseconds, Width::Int64) => *nanoseconds,
        Value::Time(_) => {
            return Err("the time since another one changes at each pass: give a duration".to_owned());
        }
        _ => 0,
    };
    owned(times::rounded(nanoseconds))
}
