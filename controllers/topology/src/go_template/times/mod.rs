//! Times of templates, as Go's `time.Time`. None reads a clock: each comes from a text.

mod duration;
mod format;
mod layout;
mod parse;
mod read;

use std::cmp::Ordering;
use std::rc::Rc;

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Span};

use super::value::{Context, Outcome, Value, Width};

pub(super) use duration::{parse as parse_duration, rounded};
pub(super) use parse::parse;

/// Names of the months. A short name is the first three letters.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Names of the days of the week. A short name is the first three letters.
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Layout of the text that `print` writes.
const PRINTED: &str = "2006-01-02 15:04:05.999999999 -0700 MST";

/// Layout of JSON: RFC 3339 with nanoseconds.
const JSON: &str = "2006-01-02T15:04:05.999999999Z07:00";

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const ZERO: DateTime = DateTime::constant(1, 1, 1, 0, 0, 0, 0);

const OUT_OF_RANGE: &str = "the year of the time is before -9999 or after 9999";

/// Methods that templates can call. Those of Go that return other types do not exist here.
const METHODS: &str = "AddDate, After, Before, Compare, Day, Equal, Format, Hour, IsDST, IsZero, Local, \
    Minute, Nanosecond, Second, String, UTC, Unix, UnixMicro, UnixMilli, UnixNano, Year and YearDay";

/// Work for each byte of a layout or of a text, in bytes: each is compared with many elements.
const WORK: usize = 32;

/// Point in time, with the zone in which it is written.
#[derive(Debug, Clone)]
pub(super) struct Time {
    /// Date and time of day in the zone.
    civil: DateTime,
    zone: Zone,
}

/// Zone of a time.
#[derive(Debug, Clone)]
enum Zone {
    Utc,
    /// Zone of the process. It is UTC, as in upstream's image, but Go's functions tell both apart.
    Local,
    Fixed(Rc<FixedZone>),
}

/// Zone with one difference from UTC.
#[derive(Debug, PartialEq, Eq)]
struct FixedZone {
    /// Abbreviation. It is empty if the text of the time had only a difference.
    name: String,
    /// Seconds east of UTC.
    offset: i32,
}

impl Zone {
    /// Reports whether `==` of Go is true. It compares the addresses of zones, and only nameless ones of whole hours from
    /// -12 to 14 have one address each.
    fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Utc, Self::Utc) | (Self::Local, Self::Local) => true,
            (Self::Fixed(one), Self::Fixed(two)) => {
                let hours = one.offset / 3600;
                let is_shared = one.name.is_empty() && one.offset % 3600 == 0 && (-12..=14).contains(&hours);
                Rc::ptr_eq(one, two) || (is_shared && one == two)
            }
            _ => false,
        }
    }
}

impl Time {
    /// Returns Go's zero value: the start of the year 1.
    pub(super) const fn zero() -> Self {
        Self { civil: ZERO, zone: Zone::Utc }
    }

    /// Returns the seconds east of UTC.
    fn offset(&self) -> i32 {
        if let Zone::Fixed(zone) = &self.zone { zone.offset } else { 0 }
    }

    fn zone_name(&self) -> &str {
        if let Zone::Fixed(zone) = &self.zone { &zone.name } else { "UTC" }
    }

    /// Returns the whole seconds since 1970, and the nanoseconds after them.
    fn unix(&self) -> (i64, i32) {
        let since = self.civil.duration_since(EPOCH);
        let seconds = since.as_secs() - i64::from(self.offset());
        match since.subsec_nanos() {
            nanoseconds if nanoseconds < 0 => (seconds - 1, nanoseconds + 1_000_000_000),
            nanoseconds => (seconds, nanoseconds),
        }
    }

    /// Returns the whole seconds since 1970.
    pub(super) fn unix_seconds(&self) -> i64 {
        self.unix().0
    }

    /// Returns the time that is later by a duration.
    pub(super) fn later(&self, nanoseconds: i64) -> Outcome<Self> {
        let civil = self.civil.checked_add(SignedDuration::from_nanos(nanoseconds));
        Ok(Self { civil: civil.map_err(|_| OUT_OF_RANGE)?, zone: self.zone.clone() })
    }

    /// Adds to the parts of the date. A day that the month does not have is one of the next month.
    fn with_date_added(&self, years: i64, months: i64, days: i64) -> Outcome<Self> {
        let date = self.civil.date();
        let month = i64::from(date.year())
            .saturating_add(years)
            .saturating_mul(12)
            .saturating_add(i64::from(date.month()) - 1)
            .saturating_add(months);
        let year = i16::try_from(month.div_euclid(12)).map_err(|_| OUT_OF_RANGE)?;
        let month = i8::try_from(month.rem_euclid(12) + 1).map_err(|_| OUT_OF_RANGE)?;
        let first = Date::new(year, month, 1).map_err(|_| OUT_OF_RANGE)?;
        let days = Span::new().try_days(days.saturating_add(i64::from(date.day()) - 1));
        let date = days.and_then(|days| first.checked_add(days)).map_err(|_| OUT_OF_RANGE)?;
        Ok(Self { civil: DateTime::from_parts(date, self.civil.time()), zone: self.zone.clone() })
    }

    /// Returns the same time in UTC, or in the zone of the process.
    fn converted(&self, zone: Zone) -> Outcome<Self> {
        let civil = self.civil.checked_add(SignedDuration::from_secs(-i64::from(self.offset())));
        Ok(Self { civil: civil.map_err(|_| OUT_OF_RANGE)?, zone })
    }

    /// Returns the text that `print` writes.
    pub(super) fn text(&self) -> Outcome<String> {
        format::formatted(self, PRINTED)
    }

    /// Returns the text in JSON, without quotes.
    pub(super) fn json(&self) -> Outcome<String> {
        if self.civil.year() < 0 {
            return Err("json: a time before the year 0 has no form".to_owned());
        }
        if self.offset().abs() >= 24 * 3600 {
            return Err("json: a time 24 hours or more from UTC has no form".to_owned());
        }
        format::formatted(self, JSON)
    }

    /// Reports whether `eq` calls both times equal: they are the same instant, in the same zone.
    pub(super) fn is_identical(&self, other: &Self) -> bool {
        self.unix() == other.unix() && self.zone.is_identical(&other.zone)
    }

    /// Reports whether `deepEqual` calls both times equal.
    pub(super) fn is_deeply_equal(&self, other: &Self) -> bool {
        let is_same_zone = match (&self.zone, &other.zone) {
            (Zone::Fixed(one), Zone::Fixed(two)) => one == two,
            (one, two) => one.is_identical(two),
        };
        self.unix() == other.unix() && is_same_zone
    }
}

/// Counts the work for a layout, or for a text of a time or a duration.
pub(super) fn charge(context: &Context, text: &str) -> Outcome<()> {
    context.charge(text.len().saturating_mul(WORK))
}

/// Calls a method of a time.
pub(super) fn method(time: &Time, name: &str, arguments: &[Value], context: &Context) -> Outcome<Value> {
    let other = || match arguments {
        [Value::Time(other)] => Ok(time.unix().cmp(&other.unix())),
        _ => Err(format!("wrong arguments for {name}: want one time.Time")),
    };
    Ok(match name {
        "After" => Value::Bool(other()? == Ordering::Greater),
        "Before" => Value::Bool(other()? == Ordering::Less),
        "Equal" => Value::Bool(other()? == Ordering::Equal),
        "Compare" => integer(match other()? {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }),
        "Format" => match arguments {
            [Value::Text(layout)] => {
                charge(context, layout)?;
                Value::text(&format::formatted(time, layout)?)
            }
            _ => return Err("wrong arguments for Format: want one string".to_owned()),
        },
        "AddDate" => add_date(time, arguments)?,
        _ if arguments.is_empty() => part(time, name)?,
        _ => return Err(format!("wrong number of args for {name}: want 0 got {}", arguments.len())),
    })
}

fn add_date(time: &Time, arguments: &[Value]) -> Outcome<Value> {
    let number = |value: &Value| match value {
        Value::Integer(number, Width::Int) => Some(*number),
        _ => None,
    };
    let numbers: Option<Vec<i64>> = arguments.iter().map(number).collect();
    let Some([years, months, days]) = numbers.as_deref() else {
        return Err("wrong arguments for AddDate: want three int".to_owned());
    };
    Ok(Value::Time(Rc::new(time.with_date_added(*years, *months, *days)?)))
}

/// Calls a method without arguments.
fn part(time: &Time, name: &str) -> Outcome<Value> {
    let civil = time.civil;
    let (seconds, nanoseconds) = time.unix();
    let since = |units: i64, nanoseconds_of_unit: i32| {
        let parts = i64::from(nanoseconds / nanoseconds_of_unit);
        Value::Integer(seconds.wrapping_mul(units).wrapping_add(parts), Width::Int64)
    };
    Ok(match name {
        "Year" => integer(civil.year()),
        "YearDay" => integer(civil.day_of_year()),
        "Day" => integer(civil.day()),
        "Hour" => integer(civil.hour()),
        "Minute" => integer(civil.minute()),
        "Second" => integer(civil.second()),
        "Nanosecond" => integer(nanoseconds),
        "Unix" => Value::Integer(seconds, Width::Int64),
        "UnixMilli" => since(1000, 1_000_000),
        "UnixMicro" => since(1_000_000, 1000),
        "UnixNano" => since(1_000_000_000, 1),
        "IsZero" => Value::Bool(time.unix() == Time::zero().unix()),
        "IsDST" => Value::Bool(false),
        "String" => Value::text(&time.text()?),
        "UTC" => Value::Time(Rc::new(time.converted(Zone::Utc)?)),
        "Local" => Value::Time(Rc::new(time.converted(Zone::Local)?)),
        _ => {
            return Err(format!("can't evaluate field {name} in type time.Time: its methods are {METHODS}"));
        }
    })
}

fn integer(value: impl Into<i64>) -> Value {
    Value::Integer(value.into(), Width::Int)
}
