//! Durations of options, such as `10m`.

use std::time::Duration;

/// Units with their seconds, the longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)];

/// Parses a duration, such as `30s`, `10m`, `2h` or `7d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a duration such as 30s, 10m, 2h or 7d");
    let parts = UNITS.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = parts.ok_or_else(error)?;
    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(error)
}

/// Returns the text of a duration, in the longest unit that needs no fraction.
pub(crate) fn text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let exact = UNITS.into_iter().find(|(_, unit)| seconds.is_multiple_of(*unit));
    let (unit, length) = exact.unwrap_or(('s', 1));
    format!("{}{unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_number_and_a_unit() {
        for (duration, seconds) in [("30s", 30), ("10m", 600), ("12h", 43_200), ("7d", 604_800)] {
            assert_eq!(parse(duration), Ok(Duration::from_secs(seconds)));
            assert_eq!(text(Duration::from_secs(seconds)), duration);
        }
        assert_eq!(text(Duration::from_secs(5400)), "90m");
        for bad in ["", "10", "m", "-1s", "1.5h", "10mm", "99999999999999999h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
