//! Durations as Go writes them: `30s`, `5m0s`, `24h0m0s`.

use jiff::SignedDuration;

/// Parses a duration of hours, minutes and seconds.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let mut total = 0_i64;
    let mut number = String::new();
    for character in text.chars() {
        if character.is_ascii_digit() {
            number.push(character);
            continue;
        }
        let unit = match character {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(invalid()),
        };
        let count: i64 = number.parse().map_err(|_| invalid())?;
        number.clear();
        total = total.checked_add(count.checked_mul(unit).ok_or_else(invalid)?).ok_or_else(invalid)?;
    }
    if text.is_empty() || !number.is_empty() { Err(invalid()) } else { Ok(SignedDuration::from_secs(total)) }
}
