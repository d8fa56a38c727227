//! Texts of times.

use super::super::value::{LONGEST, Outcome};
use super::layout::{self, Element, Fraction, Offset, Padding, Smallest};
use super::{MONTHS, Time, WEEKDAYS};

/// Form of a difference from UTC in place of the name of a zone that has none.
const NAMELESS: Offset = Offset { has_z: false, has_colons: false, smallest: Smallest::Minute };

/// Returns a time in a layout.
pub(super) fn formatted(time: &Time, layout: &str) -> Outcome<String> {
    let mut output = String::new();
    let mut rest = layout;
    while let Some(part) = layout::next(rest) {
        output.push_str(part.before);
        output.push_str(&text(time, part.element));
        if output.len() > LONGEST {
            return Err(format!("the result is longer than {LONGEST} bytes"));
        }
        rest = part.after;
    }
    output.push_str(rest);
    Ok(output)
}

fn text(time: &Time, element: Element) -> String {
    let civil = time.civil;
    let year = civil.year();
    match element {
        Element::Year if year < 0 => format!("-{:04}", year.unsigned_abs()),
        Element::Year => format!("{year:04}"),
        Element::ShortYear => format!("{:02}", year.unsigned_abs() % 100),
        Element::MonthName { is_long } => name(&MONTHS, i16::from(civil.month()) - 1, is_long),
        Element::Month(padding) => padded(civil.month().into(), padding, 2),
        Element::Weekday { is_long } => {
            name(&WEEKDAYS, civil.weekday().to_sunday_zero_offset().into(), is_long)
        }
        Element::Day(padding) => padded(civil.day().into(), padding, 2),
        Element::DayOfYear(padding) => padded(civil.day_of_year(), padding, 3),
        Element::Hour => padded(civil.hour().into(), Padding::Zero, 2),
        Element::HalfHour(padding) => {
            let hour = i16::from(civil.hour() % 12);
            padded(if hour == 0 { 12 } else { hour }, padding, 2)
        }
        Element::Minute(padding) => padded(civil.minute().into(), padding, 2),
        Element::Second(padding) => padded(civil.second().into(), padding, 2),
        Element::Half { is_upper } => {
            let half = if civil.hour() < 12 { "AM" } else { "PM" };
            if is_upper { half.to_owned() } else { half.to_lowercase() }
        }
        Element::ZoneName if time.zone_name().is_empty() => difference(time.offset(), NAMELESS),
        Element::ZoneName => time.zone_name().to_owned(),
        Element::Offset(form) => difference(time.offset(), form),
        Element::Fraction(form) => fraction(civil.subsec_nanosecond(), form),
    }
}

fn name(names: &[&str], index: i16, is_long: bool) -> String {
    let name = usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default();
    let short = name.get(..3).unwrap_or_default();
    (if is_long { name } else { short }).to_owned()
}

fn padded(value: i16, padding: Padding, width: usize) -> String {
    match padding {
        Padding::None => value.to_string(),
        Padding::Space => format!("{value:width$}"),
        Padding::Zero => format!("{value:0width$}"),
    }
}

/// Returns a difference from UTC. Its seconds are cut off if the form has none.
fn difference(seconds: i32, form: Offset) -> String {
    if seconds == 0 && form.has_z {
        return "Z".to_owned();
    }
    let size = seconds.unsigned_abs();
    let sign = if seconds <= -60 { '-' } else { '+' };
    let colon = if form.has_colons { ":" } else { "" };
    let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
    match form.smallest {
        Smallest::Hour => format!("{sign}{hours:02}"),
        Smallest::Minute => format!("{sign}{hours:02}{colon}{minutes:02}"),
        Smallest::Second => format!("{sign}{hours:02}{colon}{minutes:02}{colon}{seconds:02}"),
    }
}

fn fraction(nanoseconds: i32, form: Fraction) -> String {
    let digits = format!("{nanoseconds:09}");
    let cut = digits.get(..form.digits.min(9)).unwrap_or_default();
    let kept = if form.is_exact { cut } else { cut.trim_end_matches('0') };
    if kept.is_empty() { String::new() } else { format!("{}{kept}", form.separator) }
}
