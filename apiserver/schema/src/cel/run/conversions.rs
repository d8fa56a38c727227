//! Conversions between types, and parts of timestamps.

use std::sync::Arc;

use chrono::{DateTime, Duration, FixedOffset, SecondsFormat, Utc};
use kube_cel::cel::Value as Cel;

use super::{Failure, Outcome};
use crate::cel::value::go_duration;

const NANOSECONDS: i64 = 1_000_000_000;

/// Converts a value to another type where the engine differs from upstream.
pub(super) fn converted(name: &str, value: &Cel) -> Option<Outcome> {
    Some(match (name, value) {
        ("bool", Cel::Bool(_)) | ("bytes", Cel::Bytes(_)) | ("timestamp", Cel::Timestamp(_)) => {
            Ok(value.clone())
        }
        ("duration", Cel::Duration(_)) => Ok(value.clone()),
        ("string", Cel::String(_)) | ("int", Cel::Int(_)) => Ok(value.clone()),
        ("bool", Cel::String(text)) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Cel::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Cel::Bool(false)),
            _ => no_conversion("bool"),
        },
        ("int", Cel::String(text)) => {
            text.parse().map_or_else(|_| no_conversion("int"), |read| Ok(Cel::Int(read)))
        }
        ("uint", Cel::String(text)) => {
            text.parse().map_or_else(|_| no_conversion("uint"), |read| Ok(Cel::UInt(read)))
        }
        ("double", Cel::String(text)) => {
            text.parse().map_or_else(|_| no_conversion("double"), |read| Ok(Cel::Float(read)))
        }
        ("int", Cel::Timestamp(time)) => Ok(Cel::Int(time.timestamp())),
        ("int", Cel::Duration(span)) => {
            let whole = span.num_nanoseconds().ok_or_else(|| Failure::Error("integer overflow".to_owned()));
            whole.map(Cel::Int)
        }
        ("timestamp", Cel::Int(seconds)) => DateTime::from_timestamp(*seconds, 0).map_or_else(
            || Err(Failure::Error("timestamp overflow".to_owned())),
            |time| Ok(Cel::Timestamp(time.fixed_offset())),
        ),
        ("duration", Cel::String(text)) => go_duration(text).map_or_else(
            || no_conversion("google.protobuf.Duration"),
            |nanoseconds| Ok(Cel::Duration(Duration::nanoseconds(nanoseconds))),
        ),
        ("string", Cel::Float(value)) => Ok(text(shortest(*value))),
        ("string", Cel::Bool(value)) => Ok(text(value.to_string())),
        ("string", Cel::Timestamp(time)) => {
            Ok(text(time.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::AutoSi, true)))
        }
        ("string", Cel::Duration(span)) => Ok(text(in_seconds(span))),
        _ => return None,
    })
}

fn text(value: String) -> Cel {
    Cel::String(Arc::new(value))
}

fn no_conversion(to: &str) -> Outcome {
    Err(Failure::Error(format!("type conversion error from 'string' to '{to}'")))
}

/// Returns the shortest text of a number in Go's form (`%g`): with an exponent below -4, and from 6 on.
fn shortest(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => value.to_string(),
    }
}

/// Returns a duration in seconds with its fraction.
fn in_seconds(span: &Duration) -> String {
    let nanoseconds = span.num_nanoseconds().unwrap_or(i64::MAX);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, rest) =
        ((nanoseconds / NANOSECONDS).unsigned_abs(), (nanoseconds % NANOSECONDS).unsigned_abs());
    let fraction = format!(".{rest:09}");
    format!("{sign}{whole}{}s", fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns a timestamp in the zone in which its parts are requested. The default is UTC.
pub(super) fn in_zone(time: &DateTime<FixedOffset>, zone: Option<&str>) -> Result<Cel, Failure> {
    let offset = match zone {
        None | Some("UTC" | "Z" | "") => Some(FixedOffset::east_opt(0)),
        Some(zone) => hours_and_minutes(zone).or_else(|| named(zone, time)).map(FixedOffset::east_opt),
    };
    match offset.flatten() {
        Some(offset) => Ok(Cel::Timestamp(time.with_timezone(&offset))),
        None => Err(Failure::Error(format!("unknown time zone {}", zone.unwrap_or_default()))),
    }
}

/// Returns the seconds of an offset such as `-02:30`.
fn hours_and_minutes(zone: &str) -> Option<i32> {
    let (hours, minutes) = zone.split_once(':')?;
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours.parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    hours.checked_mul(3600)?.checked_add(sign * minutes.checked_mul(60)?)
}

/// Returns the offset of a zone at a time, in seconds, if the system knows the zone.
fn named(zone: &str, time: &DateTime<FixedOffset>) -> Option<i32> {
    let zone = jiff::tz::TimeZone::get(zone).ok()?;
    let time = jiff::Timestamp::from_second(time.timestamp()).ok()?;
    Some(zone.to_offset(time).seconds())
}

/// Reports whether a function returns a part of a timestamp.
pub(super) fn is_part(name: &str) -> bool {
    matches!(
        name,
        "getFullYear"
            | "getMonth"
            | "getDayOfYear"
            | "getDayOfMonth"
            | "getDate"
            | "getDayOfWeek"
            | "getHours"
            | "getMinutes"
            | "getSeconds"
            | "getMilliseconds"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_text_of_go() {
        for (value, expected) in [
            (7.0, "7"),
            (-7.5, "-7.5"),
            (0.0, "0"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (1e6, "1e+06"),
            (12_345_678_901_234_567_890.0, "1.2345678901234567e+19"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e100, "1e+100"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(shortest(value), expected);
        }
    }
}
