//! Names of scheduled backups, and the decision which of them expire. It is pure.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::config::Keep;

/// Ending of the names of files.
pub(super) const ENDING: &str = ".capstan-backup";

/// Form of the time in a name, in UTC.
const TIME: &str = "%Y%m%dT%H%M%SZ";

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Days from the Monday before the first day of the era to that day.
const FIRST_DAY: i64 = 3;

/// Largest time by which a backup may be from the future: the clocks of two replicas differ. A later one is of a clock that
/// was wrong.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Returns the name of the file of a backup.
pub(super) fn file_name(name: &str, time: Timestamp) -> String {
    format!("{name}-{}{ENDING}", time.strftime(TIME))
}

/// Returns the time in the name of a file, if it is a backup of this installation.
pub(super) fn time_of(name: &str, file: &str) -> Option<Timestamp> {
    let time = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(ENDING)?;
    let time = DateTime::strptime(TIME, time).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Returns the time of the newest backup. One of a clock that was wrong does not count: no other would be written until its
/// time comes.
pub(super) fn newest(times: &BTreeSet<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    times.range(..=latest(now)).next_back().copied()
}

/// Returns the latest time that a backup can have.
fn latest(now: Timestamp) -> Timestamp {
    now.checked_add(SKEW).unwrap_or(now)
}

/// Returns the backups that are not kept. The newest one of each period is kept, and the newest one of all. Those from the
/// future take the place of no other, and stay until their time comes.
pub(super) fn expired(times: &BTreeSet<Timestamp>, keep: Keep, now: Timestamp) -> Vec<Timestamp> {
    let times: BTreeSet<Timestamp> = times.range(..=latest(now)).copied().collect();
    let hour = |second: i64| second.div_euclid(HOUR);
    let day = |second: i64| second.div_euclid(DAY);
    let week = |second: i64| (day(second) + FIRST_DAY).div_euclid(7);
    let mut kept: BTreeSet<Timestamp> = times.last().copied().into_iter().collect();
    let rules: [(usize, &dyn Fn(i64) -> i64); 3] =
        [(keep.hourly, &hour), (keep.daily, &day), (keep.weekly, &week)];
    for (count, period) in rules {
        let mut periods = BTreeSet::new();
        for time in times.iter().rev() {
            let is_new = periods.insert(period(time.as_second()));
            if periods.len() > count {
                break;
            }
            if is_new {
                kept.insert(*time);
            }
        }
    }
    times.difference(&kept).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_name_of_a_file_has_its_time_and_names_of_others_are_left_alone() {
        let at = time("2026-11-27T20:15:09Z");
        let name = file_name("prod", at);
        assert_eq!(name, "prod-20261127T201509Z.capstan-backup");
        assert_eq!(time_of("prod", &name), Some(at));
        for other in [
            "prod-20261127T201509Z.capstan-backup.partial",
            "prod-eu-20261127T201509Z.capstan-backup",
            "prod-before-upgrade.capstan-backup",
            "notes.txt",
        ] {
            assert_eq!(time_of("prod", other), None, "{other}");
        }
    }

    #[test]
    fn bk_02_the_newest_of_each_hour_day_and_week_is_kept() {
        let first = time("2026-11-01T00:30:00Z");
        let half_hours = (0..28 * 48).map(|count| first + SignedDuration::from_mins(30 * count));
        let times: BTreeSet<Timestamp> = half_hours.collect();
        let keep = Keep { hourly: 3, daily: 2, weekly: 2 };
        let now = time("2026-11-29T00:10:00Z");
        let expired: BTreeSet<Timestamp> = expired(&times, keep, now).into_iter().collect();
        let kept: Vec<String> = times.difference(&expired).map(ToString::to_string).collect();
        // The 29th of November is a Sunday: the week before ended on the 22nd.
        let expected =
            ["2026-11-22T23:30:00Z", "2026-11-28T22:30:00Z", "2026-11-28T23:30:00Z", "2026-11-29T00:00:00Z"];
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_newest_backup_is_kept_whatever_the_rules_are() {
        let times = BTreeSet::from(["2026-11-01T00:30:00Z", "2026-11-02T00:30:00Z"].map(time));
        let (keep, now) = (Keep { hourly: 0, daily: 0, weekly: 0 }, time("2026-11-02T00:30:00Z"));
        assert_eq!(expired(&times, keep, now), [time("2026-11-01T00:30:00Z")]);
        assert!(expired(&BTreeSet::new(), keep, now).is_empty());
        assert!(expired(&times, Keep::default(), now).is_empty());
    }

    #[test]
    fn bk_02_a_backup_of_a_clock_that_was_ahead_is_not_the_newest_and_displaces_none() {
        let [old, last, ahead] =
            ["2026-11-01T00:30:00Z", "2026-11-02T00:34:00Z", "2027-11-02T00:30:00Z"].map(time);
        let (times, keep) = (BTreeSet::from([old, last, ahead]), Keep { hourly: 1, daily: 0, weekly: 0 });
        // The clock of the replica that wrote the last one is four minutes ahead.
        let now = time("2026-11-02T00:30:00Z");
        assert_eq!((newest(&times, now), expired(&times, keep, now)), (Some(last), vec![old]));
        assert_eq!(newest(&BTreeSet::from([ahead]), now), None);
        assert_eq!(expired(&times, keep, ahead), [old, last]);
    }
}
