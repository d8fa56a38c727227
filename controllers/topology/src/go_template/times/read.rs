//! Readers of the parts of a time in a text. Each returns the rest of the text, too.

use std::str::FromStr;

use super::layout::{Offset, Padding, Smallest};

/// Reason why a text does not fit an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// The text has another form.
    Form,
    /// The number is too small or too large.
    Range(&'static str),
}

pub(super) type Read<T> = Result<T, Problem>;

/// Marks a value as present.
pub(super) fn some<T>((value, rest): (T, &str)) -> (Option<T>, &str) {
    (Some(value), rest)
}

/// Reads a number of at most `most` digits; of exactly as many, if it is padded with zeros.
pub(super) fn number<T: FromStr>(text: &str, most: usize, padding: Padding) -> Read<(T, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if padding == Padding::Zero && count < most {
        return Err(Problem::Form);
    }
    let (digits, rest) = text.split_at_checked(count).ok_or(Problem::Form)?;
    Ok((digits.parse().map_err(|_| Problem::Form)?, rest))
}

/// Reads a number of one or two digits that has limits.
pub(super) fn limited<'a>(
    text: &'a str,
    padding: Padding,
    (least, most): (i8, i8),
    what: &'static str,
) -> Read<(i8, &'a str)> {
    let (value, rest) = number::<i8>(text, 2, padding)?;
    if value < least || value > most { Err(Problem::Range(what)) } else { Ok((value, rest)) }
}

/// Reads a year of two characters: from 69 on, it is one of the last century. Go accepts a sign.
pub(super) fn short_year(text: &str) -> Read<(i16, &str)> {
    let (year, rest) = text.split_at_checked(2).ok_or(Problem::Form)?;
    let year: i16 = year.parse().map_err(|_| Problem::Form)?;
    Ok((year + if year >= 69 { 1900 } else { 2000 }, rest))
}

/// Reads one of the names, in any case, and returns its number. The first one is 1.
pub(super) fn name<'a>(names: &[&str], text: &'a str, is_long: bool) -> Read<(i8, &'a str)> {
    let found = names.iter().zip(1..).find_map(|(name, number)| {
        let (start, rest) = text.split_at_checked(if is_long { name.len() } else { 3 })?;
        name.get(..start.len())?.eq_ignore_ascii_case(start).then_some((number, rest))
    });
    found.ok_or(Problem::Form)
}

/// Removes at most `most` spaces from the start, if the element is padded with spaces.
pub(super) fn unpadded(text: &str, padding: Padding, most: usize) -> &str {
    let spaces = text.bytes().take(most).take_while(|byte| *byte == b' ').count();
    text.get(spaces..).filter(|_| padding == Padding::Space).unwrap_or(text)
}

/// Returns the nanoseconds of the digits after the point. Digits after the ninth have no effect.
pub(super) fn nanoseconds(digits: &str) -> Read<i32> {
    let counted = digits.get(..digits.len().min(9)).ok_or(Problem::Form)?;
    let value: i32 = counted.parse().map_err(|_| Problem::Form)?;
    if value < 0 {
        return Err(Problem::Range("fractional second"));
    }
    let missing = u32::try_from(9 - counted.len()).map_err(|_| Problem::Form)?;
    value.checked_mul(10_i32.pow(missing)).ok_or(Problem::Form)
}

/// Reads a difference from UTC. Go accepts 24 hours and 60 minutes.
pub(super) fn difference(text: &str, form: Offset) -> Read<(i32, &str)> {
    let (is_negative, rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err(Problem::Form),
    };
    let (hours, mut rest) = offset_part(rest, 24, "time zone offset hour")?;
    let mut seconds = hours * 3600;
    if form.smallest != Smallest::Hour {
        let (minutes, after) = further_part(rest, form, "time zone offset minute")?;
        (seconds, rest) = (seconds + minutes * 60, after);
    }
    if form.smallest == Smallest::Second {
        let (more, after) = further_part(rest, form, "time zone offset second")?;
        (seconds, rest) = (seconds + more, after);
    }
    Ok((if is_negative { -seconds } else { seconds }, rest))
}

fn offset_part<'a>(text: &'a str, most: i32, what: &'static str) -> Read<(i32, &'a str)> {
    let (value, rest) = number::<i32>(text, 2, Padding::Zero)?;
    if value > most { Err(Problem::Range(what)) } else { Ok((value, rest)) }
}

/// Reads the minutes or the seconds of a difference from UTC.
fn further_part<'a>(text: &'a str, form: Offset, what: &'static str) -> Read<(i32, &'a str)> {
    let text = if form.has_colons { text.strip_prefix(':').ok_or(Problem::Form)? } else { text };
    offset_part(text, 60, what)
}

/// Returns the length of the name of a zone at the start of a text: three to five capital letters, of which four or five
/// end with T, or a difference in hours. Some names are exceptions.
pub(super) fn zone_length(text: &str) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if let Some(hours) = text.strip_prefix("GMT") {
        return Some(3 + hours_length(hours));
    }
    if text.starts_with(['+', '-']) {
        return Some(hours_length(text)).filter(|length| *length > 0);
    }
    let capitals = text.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    let ends_with_t = || text.get(..capitals).is_some_and(|name| name.ends_with('T'));
    match capitals {
        3 => Some(3),
        4 if ends_with_t() || text.starts_with("WITA") => Some(4),
        5 if ends_with_t() => Some(5),
        _ => None,
    }
}

/// Returns the length of a sign and at most 23 hours, or 0.
fn hours_length(text: &str) -> usize {
    let Some(hours) = text.strip_prefix(['+', '-']) else { return 0 };
    let count = hours.bytes().take_while(u8::is_ascii_digit).count();
    let hours = hours.get(..count).and_then(|hours| hours.parse::<u64>().ok());
    if hours.is_some_and(|hours| hours <= 23) { 1 + count } else { 0 }
}
