//! Durations, in nanoseconds.

use super::super::format::quoted;
use super::super::number::{to_float, truncated};
use super::super::value::Outcome;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Units of texts. The second and the third one are the micro sign and the Greek letter.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("\u{b5}s", 1000),
    ("\u{3bc}s", 1000),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];

/// Units of rounded durations, the largest first.
const ROUNDED: [(&str, u64); 6] =
    [("y", 365 * DAY), ("mo", 30 * DAY), ("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)];

/// Size of the largest duration: that of the smallest `i64`.
const LARGEST: u64 = 1 << 63;

/// Parses a duration, such as `-1h30.5m`.
pub(in crate::go_template) fn parse(text: &str) -> Outcome<i64> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if unsigned == "0" {
        return Ok(0);
    }
    let (mut rest, mut total) = (unsigned, 0);
    loop {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len());
        let (name, after) = after.split_at_checked(end).ok_or_else(invalid)?;
        if name.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, unit)) = UNITS.iter().find(|(known, _)| *known == name) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(name), quoted(text)));
        };
        total = sum(total, amount(whole, fraction, *unit)).ok_or_else(invalid)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let size = i128::from(total);
    i64::try_from(if is_negative { -size } else { size }).map_err(|_| invalid())
}

/// Splits the digits off the start of a text.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()))
}

fn sum(total: u64, amount: Option<u64>) -> Option<u64> {
    total.checked_add(amount?).filter(|total| *total <= LARGEST)
}

/// Returns a number of units. The part after the point is calculated with floats, as Go does.
fn amount(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let (mut parts, mut scale) = (0_i64, 1.0);
    for digit in fraction.chars().filter_map(|digit| digit.to_digit(10)) {
        // Digits that do not fit have no effect.
        let longer = parts.checked_mul(10).and_then(|longer| longer.checked_add(digit.into()));
        let Some(longer) = longer else { break };
        parts = longer;
        scale *= 10.0;
    }
    let part = truncated(to_float(parts) * (to_float(i64::try_from(unit).ok()?) / scale));
    sum(whole.checked_mul(unit)?, u64::try_from(part).ok())
}

/// Returns the largest unit that fits into a duration more than once, and its number. Less than a second is `0s`, and
/// the sign is not written.
pub(in crate::go_template) fn rounded(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    match ROUNDED.iter().find(|(_, unit)| size > *unit) {
        Some((name, unit)) => format!("{}{name}", size / unit),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_numbers_with_units() {
        for (text, expected) in [
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("-1.5h", -5_400_000_000_000),
            ("1h2m3.004s", 3_723_004_000_000),
            ("1ns2us3\u{b5}s4\u{3bc}s5ms", 5_009_001),
            (".5m", 30_000_000_000),
            ("1.s", 1_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_duration_is_refused_with_the_reason() {
        for (text, expected) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("1", "time: missing unit in duration \"1\""),
            ("1h 2m", "time: unknown unit \"h \" in duration \"1h 2m\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("3000000h", "time: invalid duration \"3000000h\""),
        ] {
            assert_eq!(parse(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_rounded_duration_has_one_unit_that_fits_more_than_once() {
        for (text, expected) in [
            ("0", "0s"),
            ("1s", "0s"),
            ("1.5s", "1s"),
            ("-61s", "1m"),
            ("24h", "24h"),
            ("24.1h", "1d"),
            ("800h", "1mo"),
            ("8761h", "1y"),
        ] {
            assert_eq!(rounded(parse(text).unwrap()), expected, "{text}");
        }
    }
}
