//! Ages, as tables show them.

use jiff::Timestamp;

/// Seconds up to which an age is shown in seconds, as kubectl does. A minute and a half reads as `90s`.
const SECONDS_UNTIL: i64 = 120;

/// Seconds up to which an age is shown in minutes: two hours, as kubectl does.
const MINUTES_UNTIL: i64 = 2 * 3600;

/// Seconds up to which an age is shown in hours: two days, as kubectl does.
const HOURS_UNTIL: i64 = 2 * 86_400;

/// Seconds up to which an age is shown in days: two years, as kubectl does.
const DAYS_UNTIL: i64 = 2 * 365 * 86_400;

/// Returns the time since `then` in its largest useful unit, e.g. `42s`, `4m`, `41d`. A time in the future gives `0s`:
/// clocks differ.
#[must_use]
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        _ if seconds < SECONDS_UNTIL => format!("{seconds}s"),
        _ if seconds < MINUTES_UNTIL => format!("{}m", seconds / 60),
        _ if seconds < HOURS_UNTIL => format!("{}h", seconds / 3600),
        _ if seconds < DAYS_UNTIL => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / (365 * 86_400)),
    }
}

/// Returns a number of seconds in its largest useful unit, as [`age`]; `-` if it is no time.
pub(crate) fn span(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| "-".to_owned(), |end| age(Timestamp::UNIX_EPOCH, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_shown_in_its_largest_useful_unit() {
        let then = Timestamp::from_second(1_000_000_000).unwrap();
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_800, "2d"),
            (3_542_400, "41d"),
            (63_072_000, "2y"),
        ] {
            let now = Timestamp::from_second(1_000_000_000 + seconds).unwrap();
            assert_eq!(age(then, now), expected);
            assert_eq!(span(seconds), expected);
        }
        assert_eq!(span(i64::MAX), "-");
    }
}
