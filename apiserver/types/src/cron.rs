//! Cron expressions of five fields: minute, hour, day of the month, month, day of the week. Pure.

use jiff::civil::Date;

/// Field of an expression.
struct Field {
    name: &'static str,
    lowest: u32,
    highest: u32,
    /// Names of the values, from the lowest one.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", lowest: 0, highest: 59, names: &[] };
const HOUR: Field = Field { name: "hour", lowest: 0, highest: 23, names: &[] };
const DAY: Field = Field { name: "day of the month", lowest: 1, highest: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    lowest: 1,
    highest: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field = Field {
    name: "day of the week",
    lowest: 0,
    highest: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// Number of Sunday that is an alias of 0.
const SUNDAY: u32 = 7;

/// Cron expression. Each field is a set of bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both fields of days are restricted, so that a day of either one counts.
    has_either_day: bool,
}

impl Cron {
    /// Parses an expression.
    ///
    /// # Errors
    /// A field cannot be used. For people.
    pub(crate) fn parse([minute, hour, day, month, weekday]: [&str; 5]) -> Result<Self, String> {
        let weekdays = set(&WEEKDAY, weekday)?;
        let sunday = if contains(weekdays, SUNDAY) { bit(0) } else { 0 };
        Ok(Self {
            minutes: set(&MINUTE, minute)?,
            hours: set(&HOUR, hour)?,
            days: set(&DAY, day)?,
            months: set(&MONTH, month)?,
            weekdays: weekdays | sunday,
            has_either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        })
    }

    /// Returns true if the expression has a time on this day.
    pub(crate) fn has_day(&self, date: Date) -> bool {
        let is_in = |set: u64, value: i8| u32::try_from(value).is_ok_and(|value| contains(set, value));
        let day = is_in(self.days, date.day());
        let weekday = is_in(self.weekdays, date.weekday().to_sunday_zero_offset());
        let is_day = if self.has_either_day { day || weekday } else { day && weekday };
        is_in(self.months, date.month()) && is_day
    }

    /// Returns the times of a day, each as hour and minute, the earliest first.
    pub(crate) fn times(&self) -> impl Iterator<Item = (i8, i8)> {
        let (hours, minutes) = (self.hours, self.minutes);
        let values = |set: u64, count: i8| {
            (0..count).filter(move |value| u32::try_from(*value).is_ok_and(|value| contains(set, value)))
        };
        values(hours, 24).flat_map(move |hour| values(minutes, 60).map(move |minute| (hour, minute)))
    }
}

fn bit(value: u32) -> u64 {
    1_u64.checked_shl(value).unwrap_or_default()
}

fn contains(set: u64, value: u32) -> bool {
    set & bit(value) != 0
}

/// Returns the values of a field.
fn set(field: &Field, text: &str) -> Result<u64, String> {
    let mut found = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match (range, range.split_once('-')) {
            ("*", _) => (field.lowest, field.highest),
            (_, Some((first, last))) => (value(field, first)?, value(field, last)?),
            (_, None) => {
                let only = value(field, range)?;
                (only, if step.is_some() { field.highest } else { only })
            }
        };
        if first > last {
            return Err(format!("{} {part:?} is empty: {first} is more than {last}", field.name));
        }
        let step = match step {
            Some(step) => number(step)
                .filter(|step| *step > 0)
                .ok_or_else(|| format!("{} {part:?} has no step of at least 1", field.name))?,
            None => 1,
        };
        let values = (first..=last).filter(|value| (value - first).is_multiple_of(step));
        found |= values.fold(0, |set, value| set | bit(value));
    }
    Ok(found)
}

/// Returns a value, as a number or by its name.
fn value(field: &Field, text: &str) -> Result<u32, String> {
    let names = (field.lowest..).zip(field.names);
    let named = names.filter(|(_, name)| name.eq_ignore_ascii_case(text)).map(|(value, _)| value).next();
    let found = named.or_else(|| number(text));
    found
        .filter(|found| (field.lowest..=field.highest).contains(found))
        .ok_or_else(|| format!("{} {text:?} is not within {} to {}", field.name, field.lowest, field.highest))
}

/// Returns a number without a sign.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn cron(text: &str) -> Result<Cron, String> {
        let parts: Vec<&str> = text.split_whitespace().collect();
        Cron::parse(parts.try_into().unwrap())
    }

    #[test]
    fn ranges_lists_steps_and_names_select_times() {
        let times = |text: &str| cron(text).unwrap().times().collect::<Vec<_>>();
        assert_eq!(times("30 2 * * *"), [(2, 30)]);
        assert_eq!(times("0,30 2-3 * * *"), [(2, 0), (2, 30), (3, 0), (3, 30)]);
        assert_eq!(times("*/20 23 * * *"), [(23, 0), (23, 20), (23, 40)]);
        assert_eq!(times("50/5 0-5/5 * * *"), [(0, 50), (0, 55), (5, 50), (5, 55)]);
        assert_eq!(times("* * * * *").len(), 24 * 60);
    }

    #[test]
    fn days_count_by_month_and_by_either_field_if_both_are_restricted() {
        // A Saturday.
        let saturday = date(2026, 5, 2);
        let table = [
            ("0 0 * * *", saturday, true),
            ("0 0 * * 6", saturday, true),
            ("0 0 * * SAT", saturday, true),
            ("0 0 * * mon-fri", saturday, false),
            ("0 0 * * 7", date(2026, 5, 3), true),
            ("0 0 * * sun", date(2026, 5, 3), true),
            ("0 0 2 may *", saturday, true),
            ("0 0 2 6 *", saturday, false),
            ("0 0 9 * 6", saturday, true),
            ("0 0 9 * 6", date(2026, 5, 9), true),
            ("0 0 9 * 6", date(2026, 5, 4), false),
            ("0 0 */2 * 6", saturday, false),
            ("0 0 1-7 * *", date(2026, 5, 8), false),
        ];
        for (text, date, expected) in table {
            assert_eq!(cron(text).unwrap().has_day(date), expected, "{text} on {date}");
        }
    }

    #[test]
    fn a_field_that_cannot_be_used_is_named() {
        let table = [
            ("60 0 * * *", "minute \"60\" is not within 0 to 59"),
            ("0 +2 * * *", "hour \"+2\" is not within 0 to 23"),
            ("0 0 0 * *", "day of the month \"0\" is not within 1 to 31"),
            ("0 0 * foo *", "month \"foo\" is not within 1 to 12"),
            ("0 0 * * 8", "day of the week \"8\" is not within 0 to 7"),
            ("0 5-3 * * *", "hour \"5-3\" is empty: 5 is more than 3"),
            ("*/0 0 * * *", "minute \"*/0\" has no step of at least 1"),
            ("1, 0 * * *", "minute \"\" is not within 0 to 59"),
        ];
        for (text, expected) in table {
            assert_eq!(cron(text).unwrap_err(), expected, "{text}");
        }
    }
}
