//! Maintenance window: the times at which controllers may replace Machines. An annotation of a Cluster, a
//! MachineDeployment or a KubeadmControlPlane.
//!
//! The server validates it, and the controllers read it with the same functions. Time zones are those of the system, or
//! those that the program contains.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::cron::Cron;

/// Annotation with the maintenance window: a cron expression for its start, its duration, and a time zone, e.g.
/// `0 2 * * 6 4h Europe/Berlin`. Absent: Machines are replaced at any time.
pub const MAINTENANCE_WINDOW: &str = "capstan.dev/maintenance-window";

/// Beginning of each text about a wrong window.
const FORM: &str = "must be a cron expression for the start, a duration and a time zone, such as \"0 2 * * 6 4h \
                    Europe/Berlin\"";

/// Shortest window.
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// Longest window.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Days in which a window that is open now has begun: today, those of the longest one, and one for a change of the clocks.
const DAYS_BACK: usize = 9;

/// Days in which the next window begins. A 29 February comes within eight years.
const DAYS_AHEAD: usize = 3000;

/// Maintenance window that repeats.
#[derive(Debug, Clone)]
pub struct MaintenanceWindow {
    start: Cron,
    duration: SignedDuration,
    zone: TimeZone,
}

impl MaintenanceWindow {
    /// Parses the value of [`MAINTENANCE_WINDOW`]: minute, hour, day of the month, month and day of the week of the
    /// start, the duration from `1m` to `168h`, and the IANA name of a time zone.
    ///
    /// # Errors
    /// The value cannot be used, or the window never begins. The text is for people and begins with "must be".
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |cause: String| format!("{FORM}: {cause}");
        let parts: Vec<&str> = text.split_whitespace().collect();
        let &[minute, hour, day, month, weekday, duration, zone] = parts.as_slice() else {
            return Err(wrong(format!("it has {} parts, and 7 are required", parts.len())));
        };
        let start = Cron::parse([minute, hour, day, month, weekday]).map_err(wrong)?;
        let length: Option<SignedDuration> = duration.parse().ok();
        let Some(length) = length.filter(|it| (SHORTEST..=LONGEST).contains(it)) else {
            return Err(wrong(format!("{duration:?} is not a duration from 1m to 168h")));
        };
        let zone = TimeZone::get(zone).map_err(|_| wrong(format!("{zone:?} is not a known time zone")))?;
        let window = Self { start, duration: length, zone };
        match window.next_start(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(window),
            None => Err(wrong("the window never begins".to_owned())),
        }
    }

    /// Returns true if a window is open at this time. Its end is outside.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> bool {
        let is_within = |start: Timestamp| {
            let age = now.duration_since(start);
            !age.is_negative() && age < self.duration
        };
        let today = Some(self.zone.to_datetime(now).date());
        let days = std::iter::successors(today, |day| day.yesterday().ok()).take(DAYS_BACK);
        days.flat_map(|day| self.starts(day)).any(is_within)
    }

    /// Returns when the next window begins after this time; `None` if that is more than eight years ahead.
    #[must_use]
    pub fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        let today = Some(self.zone.to_datetime(now).date());
        let mut days = std::iter::successors(today, |day| day.tomorrow().ok()).take(DAYS_AHEAD);
        days.find_map(|day| self.starts(day).filter(|start| *start > now).min())
    }

    /// Returns a time for people, as the clocks of the time zone show it.
    #[must_use]
    pub fn local_time(&self, time: Timestamp) -> String {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        format!("{} {zone}", time.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M"))
    }

    /// Returns the starts on a day. A time that the clocks skip begins an hour later, and one that they repeat begins
    /// at the first.
    fn starts(&self, day: Date) -> impl Iterator<Item = Timestamp> {
        let times = self.start.has_day(day).then(|| self.start.times());
        let start = move |(hour, minute): (i8, i8)| {
            self.zone.to_ambiguous_timestamp(day.at(hour, minute, 0, 0)).compatible().ok()
        };
        times.into_iter().flatten().filter_map(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_window_is_open_from_its_start_to_its_end_in_its_time_zone() {
        let window = MaintenanceWindow::parse("0 2 * * 6 4h Europe/Berlin").unwrap();
        // Saturday, 2 May 2026, is in summer: two hours before UTC.
        let table = [
            ("2026-05-01T23:59:59Z", false),
            ("2026-05-02T00:00:00Z", true),
            ("2026-05-02T03:59:59Z", true),
            ("2026-05-02T04:00:00Z", false),
            ("2026-05-03T01:00:00Z", false),
            ("2026-01-03T00:30:00Z", false),
            ("2026-01-03T01:00:00Z", true),
        ];
        for (time, expected) in table {
            assert_eq!(window.is_open(at(time)), expected, "{time}");
        }
        let next = window.next_start(at("2026-05-02T00:00:00Z")).unwrap();
        assert_eq!(next, at("2026-05-09T00:00:00Z"));
        assert_eq!(window.local_time(next), "2026-05-09 02:00 Europe/Berlin");
    }

    #[test]
    fn a_long_window_reaches_over_days_and_one_can_be_always_open() {
        let long = MaintenanceWindow::parse("0 18 * * fri 60h America/New_York").unwrap();
        assert!(long.is_open(at("2026-05-04T09:59:00Z")));
        assert!(!long.is_open(at("2026-05-04T10:00:00Z")));
        // The clocks went from 2:00 to 3:00 on 29 March 2026, so the window ends on the eighth day after its start.
        let longest = MaintenanceWindow::parse("30 23 24 3 * 168h Europe/Berlin").unwrap();
        assert!(longest.is_open(at("2026-03-31T22:29:00Z")));
        assert!(!longest.is_open(at("2026-03-31T22:30:00Z")));
        let whole = MaintenanceWindow::parse("0 0 1 * * 168h UTC").unwrap();
        assert!(whole.is_open(at("2026-05-07T23:59:59Z")));
        assert!(!whole.is_open(at("2026-05-08T00:00:00Z")));
        let always = MaintenanceWindow::parse("* * * * * 1h UTC").unwrap();
        assert!(["2026-05-04T00:00:00Z", "2026-05-04T13:37:59Z"].iter().all(|time| always.is_open(at(time))));
    }

    #[test]
    fn a_time_that_the_clocks_skip_or_repeat_begins_one_window() {
        let window = MaintenanceWindow::parse("30 2 * * * 30m Europe/Berlin").unwrap();
        // On 29 March 2026, the clocks go from 2:00 to 3:00. On 25 October, from 3:00 to 2:00.
        let skipped = window.next_start(at("2026-03-28T12:00:00Z"));
        assert_eq!(skipped, Some(at("2026-03-29T01:30:00Z")));
        let repeated = window.next_start(at("2026-10-24T12:00:00Z"));
        assert_eq!(repeated, Some(at("2026-10-25T00:30:00Z")));
        assert!(!window.is_open(at("2026-10-25T01:30:00Z")));
    }

    #[test]
    fn a_wrong_value_is_explained() {
        let table = [
            ("", "it has 0 parts"),
            ("0 2 * * 6 Europe/Berlin", "it has 6 parts"),
            ("0 25 * * 6 4h UTC", "hour \"25\""),
            ("0 2 * * 6 4 UTC", "\"4\" is not a duration"),
            ("0 2 * * 6 0s UTC", "\"0s\" is not a duration"),
            ("0 2 * * 6 169h UTC", "\"169h\" is not a duration"),
            ("0 2 * * 6 4h Europe/Berlni", "\"Europe/Berlni\" is not a known time zone"),
            ("0 2 30 2 * 4h UTC", "never begins"),
        ];
        for (text, expected) in table {
            let error = MaintenanceWindow::parse(text).unwrap_err();
            assert!(error.starts_with("must be") && error.contains(expected), "{text}: {error}");
        }
        assert!(MaintenanceWindow::parse("0 2 29 2 * 4h UTC").is_ok());
    }
}
