//! Ages of objects, in the format of kubectl.

use jiff::Timestamp;

/// Returns the time between an RFC 3339 time and `now`: `3m7s`, `5d`, `<invalid>`.
pub fn age(text: &str, now: Timestamp) -> String {
    // The two texts of zero.
    if matches!(text, "" | "null" | "0001-01-01T00:00:00Z") {
        return "<unknown>".to_owned();
    }
    let Ok(then) = text.parse::<Timestamp>() else { return "<invalid>".to_owned() };
    let seconds = now.as_second() - then.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    human(seconds.max(0))
}

/// Returns a period in the format of kubectl.
pub fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{rest}{small}") }
    };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_like_in_kubectl() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (187, "3m7s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 120, "3h2m"),
            (30 * 3600, "30h"),
            (50 * 3600, "2d2h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
        let now = Timestamp::from_second(1000).unwrap();
        assert_eq!(age("1970-01-01T00:20:00Z", now), "<invalid>");
        assert_eq!(age("yesterday", now), "<invalid>");
        assert_eq!(age("", now), "<unknown>");
        assert_eq!(age("0001-01-01T00:00:00Z", now), "<unknown>");
    }
}
