//! Number constants of Go.

/// Value of a constant, as far as it has one of each type.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Number {
    pub(super) integer: Option<i64>,
    pub(super) float: Option<f64>,
    /// Set if the constant is written with a fraction or an exponent.
    pub(super) is_float: bool,
}

impl Number {
    /// Creates an integer constant.
    pub(super) fn integer(value: i64) -> Self {
        Self { integer: Some(value), float: Some(to_float(value)), is_float: false }
    }
}

/// Parses an integer or a float. Returns `None` for anything else, and for an integer that is too large.
pub(super) fn parse(text: &str) -> Option<Number> {
    if let Some(value) = integer(text) {
        return Some(Number::integer(value));
    }
    if let Ok(value) = text.parse::<u64>() {
        // The constant is no `int`, but a parameter can be a float.
        return Some(Number { integer: None, float: value.to_string().parse().ok(), is_float: false });
    }
    let is_hexadecimal = text.to_lowercase().contains("0x");
    let marks: &[char] = if is_hexadecimal { &['.', 'p', 'P'] } else { &['.', 'e', 'E'] };
    if !text.contains(marks) || is_hexadecimal {
        return None;
    }
    let plain = digits(text)?;
    if !plain.starts_with(['+', '-', '.']) && !plain.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some(Number { integer: whole(value), float: Some(value), is_float: true })
}

/// Parses an integer with an optional sign and base prefix, as Go does for base 0.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = unsigned.to_ascii_lowercase();
    let prefixes = [("0x", 16), ("0b", 2), ("0o", 8)];
    let (radix, rest) = prefixes
        .iter()
        .find_map(|(prefix, radix)| Some((*radix, lower.strip_prefix(prefix)?)))
        .or_else(|| Some((8, lower.strip_prefix('0').filter(|rest| !rest.is_empty())?)))
        .unwrap_or((10, lower.as_str()));
    let rest = if radix == 10 { rest } else { rest.strip_prefix('_').unwrap_or(rest) };
    let plain = digits(rest)?;
    if plain.is_empty() || !plain.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(&plain, radix).ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}

/// Returns the number of a character constant.
pub(super) fn character(text: &str) -> Result<Number, String> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let value = super::escapes::unquote(inner, '\'');
    let mut letters = value.as_deref().unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(Number::integer(i64::from(u32::from(letter)))),
        _ => Err(format!("malformed character constant: {text}")),
    }
}

/// Removes underscores. Each must be between digits.
fn digits(text: &str) -> Option<String> {
    let is_wrong = text.starts_with('_') || text.ends_with('_') || text.contains("__");
    (!is_wrong).then(|| text.replace('_', ""))
}

/// Returns the integer of a float without a fraction.
pub(super) fn whole(value: f64) -> Option<i64> {
    let text = format!("{:.0}", value.trunc());
    let integer = text.parse::<i64>().ok()?;
    (value.fract() == 0.0).then_some(integer)
}

/// Returns the float that is nearest to an integer.
pub(super) fn to_float(value: i64) -> f64 {
    value.to_string().parse().unwrap_or_default()
}

/// Returns the integer part of a float, at most the largest integer.
pub(super) fn truncated(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MIN;
    }
    let text = format!("{:.0}", value.trunc());
    text.parse::<i64>().unwrap_or(i64::MIN)
}
