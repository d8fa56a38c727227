//! Conversion of OpenStack's times to RFC 3339.

use jiff::{Timestamp, civil, tz::TimeZone};

/// Returns a time in RFC 3339 ending in `Z`. Nova and Neutron return some times without a zone; these are
/// in UTC. A time that cannot be parsed is returned unchanged: it is for people, and no decision uses it.
pub(crate) fn utc(printed: &str) -> String {
    if let Ok(timestamp) = printed.parse::<Timestamp>() {
        return timestamp.to_string();
    }
    printed
        .parse::<civil::DateTime>()
        .ok()
        .and_then(|time| TimeZone::UTC.to_timestamp(time).ok())
        .map_or_else(|| printed.to_owned(), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn every_time_format_is_normalized_to_utc() {
        let table = [
            ("2026-09-09T10:11:12Z", "2026-09-09T10:11:12Z"),
            ("2026-09-09T10:11:12.000000", "2026-09-09T10:11:12Z"),
            ("2026-09-09T10:11:12.250000", "2026-09-09T10:11:12.25Z"),
            ("2026-09-09T12:11:12+02:00", "2026-09-09T10:11:12Z"),
            ("2026-09-09 10:11:12", "2026-09-09T10:11:12Z"),
            ("yesterday", "yesterday"),
        ];
        for (printed, expected) in table {
            assert_eq!(utc(printed), expected, "{printed}");
        }
    }
}
