//! Times from texts.

use std::rc::Rc;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};

use super::super::format::quoted;
use super::super::value::Outcome;
use super::layout::{self, Element, Fraction, Padding, Part};
use super::read::{
    Problem, Read, difference, limited, name, nanoseconds, number, short_year, some, unpadded, zone_length,
};
use super::{FixedZone, MONTHS, OUT_OF_RANGE, Time, WEEKDAYS, Zone};

/// Parts of a time, as the text has them.
#[derive(Debug, Default)]
struct Parts<'a> {
    year: i16,
    month: Option<i8>,
    day: Option<i8>,
    day_of_year: Option<i16>,
    hour: i8,
    is_morning: bool,
    is_afternoon: bool,
    minute: i8,
    second: i8,
    nanosecond: i32,
    is_utc: bool,
    /// Seconds east of UTC.
    offset: Option<i32>,
    zone_name: &'a str,
}

/// Parses a time in a layout. Without a zone in the text, it is in that of the process.
pub(in crate::go_template) fn parse(layout: &str, text: &str) -> Outcome<Time> {
    let failed = |reason: &str| format!("parsing time {}{reason}", quoted(text));
    let unfit = |element: &str, rest: &str| {
        let (layout, rest, element) = (quoted(layout), quoted(rest), quoted(element));
        failed(&format!(" as {layout}: cannot parse {rest} as {element}"))
    };
    let mut parts = Parts::default();
    let (mut rest, mut later) = (text, layout);
    while let Some(Part { before, text: element_text, element, after }) = layout::next(later) {
        let start = skipped(rest, before).map_err(|rest| unfit(before, rest))?;
        rest = parts.read(element, start, after).map_err(|problem| match problem {
            Problem::Form => unfit(element_text, start),
            Problem::Range(what) => failed(&format!(": {what} out of range")),
        })?;
        later = after;
    }
    rest = skipped(rest, later).map_err(|rest| unfit(later, rest))?;
    if !rest.is_empty() {
        return Err(failed(&format!(": extra text: {}", quoted(rest))));
    }
    parts.time().map_err(|reason| failed(&format!(": {reason}")))
}

/// Removes the text between two elements. A number of spaces fits any number of spaces. The error is the rest that differs.
fn skipped<'a>(text: &'a str, expected: &str) -> Result<&'a str, &'a str> {
    let (mut text, mut expected) = (text, expected);
    while let Some(letter) = expected.chars().next() {
        if letter == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return Err(text);
            }
            text = text.trim_start_matches(' ');
            expected = expected.trim_start_matches(' ');
        } else {
            text = text.strip_prefix(letter).ok_or(text)?;
            expected = expected.strip_prefix(letter).unwrap_or_default();
        }
    }
    Ok(text)
}

impl<'a> Parts<'a> {
    /// Reads an element at the start of a text, and returns the rest. `later` is the layout after the element.
    fn read(&mut self, element: Element, text: &'a str, later: &str) -> Read<&'a str> {
        let rest;
        match element {
            Element::Year => (self.year, rest) = number(text, 4, Padding::Zero)?,
            Element::ShortYear => (self.year, rest) = short_year(text)?,
            Element::MonthName { is_long } => (self.month, rest) = some(name(&MONTHS, text, is_long)?),
            Element::Month(padding) => (self.month, rest) = some(limited(text, padding, (1, 12), "month")?),
            Element::Weekday { is_long } => (_, rest) = name(&WEEKDAYS, text, is_long)?,
            Element::Day(padding) => {
                (self.day, rest) = some(number(unpadded(text, padding, 1), 2, padding)?);
            }
            Element::DayOfYear(padding) => {
                (self.day_of_year, rest) = some(number(unpadded(text, padding, 2), 3, padding)?);
            }
            Element::Hour => (self.hour, rest) = limited(text, Padding::None, (0, 23), "hour")?,
            Element::HalfHour(padding) => (self.hour, rest) = limited(text, padding, (0, 12), "hour")?,
            Element::Minute(padding) => (self.minute, rest) = limited(text, padding, (0, 59), "minute")?,
            Element::Second(padding) => {
                (self.second, rest) = limited(text, padding, (0, 59), "second")?;
                return self.unannounced_fraction(rest, later);
            }
            Element::Half { is_upper } => rest = self.half(text, is_upper)?,
            Element::ZoneName => rest = self.zone_name(text)?,
            Element::Offset(form) if form.has_z && text.starts_with('Z') => {
                self.is_utc = true;
                rest = text.strip_prefix('Z').unwrap_or_default();
            }
            Element::Offset(form) => (self.offset, rest) = some(difference(text, form)?),
            Element::Fraction(form) => rest = self.fraction(text, form)?,
        }
        Ok(rest)
    }

    /// Reads the fraction after the seconds that the layout does not have.
    fn unannounced_fraction(&mut self, text: &'a str, later: &str) -> Read<&'a str> {
        let next = layout::next(later).map(|part| part.element);
        let is_announced = matches!(next, Some(Element::Fraction(_)));
        if is_announced { Ok(text) } else { self.optional_fraction(text) }
    }

    /// Reads a point or a comma with all digits after it, if there are any.
    fn optional_fraction(&mut self, text: &'a str) -> Read<&'a str> {
        let digits = text.strip_prefix(['.', ',']).unwrap_or_default();
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let Some((digits, rest)) = digits.split_at_checked(count).filter(|_| count > 0) else {
            return Ok(text);
        };
        self.nanosecond = nanoseconds(digits)?;
        Ok(rest)
    }

    fn fraction(&mut self, text: &'a str, form: Fraction) -> Read<&'a str> {
        if !form.is_exact {
            return self.optional_fraction(text);
        }
        let digits = text.strip_prefix(['.', ',']).ok_or(Problem::Form)?;
        let (digits, rest) = digits.split_at_checked(form.digits).ok_or(Problem::Form)?;
        self.nanosecond = nanoseconds(digits)?;
        Ok(rest)
    }

    fn half(&mut self, text: &'a str, is_upper: bool) -> Read<&'a str> {
        let (half, rest) = text.split_at_checked(2).ok_or(Problem::Form)?;
        match (half, is_upper) {
            ("AM", true) | ("am", false) => self.is_morning = true,
            ("PM", true) | ("pm", false) => self.is_afternoon = true,
            _ => return Err(Problem::Form),
        }
        Ok(rest)
    }

    fn zone_name(&mut self, text: &'a str) -> Read<&'a str> {
        if let Some(rest) = text.strip_prefix("UTC") {
            self.is_utc = true;
            return Ok(rest);
        }
        let length = zone_length(text).ok_or(Problem::Form)?;
        let (name, rest) = text.split_at_checked(length).ok_or(Problem::Form)?;
        self.zone_name = name;
        Ok(rest)
    }

    fn time(&self) -> Result<Time, &'static str> {
        let hour = match self.hour {
            hour if self.is_afternoon && hour < 12 => hour + 12,
            12 if self.is_morning => 0,
            hour => hour,
        };
        let date = self.date()?;
        let (year, month, day) = (date.year(), date.month(), date.day());
        let civil = DateTime::new(year, month, day, hour, self.minute, self.second, self.nanosecond);
        let civil = civil.map_err(|_| OUT_OF_RANGE)?;
        let fixed = |offset| Zone::Fixed(Rc::new(FixedZone { name: self.zone_name.to_owned(), offset }));
        Ok(match self.offset {
            _ if self.is_utc => Time { civil, zone: Zone::Utc },
            Some(0) if self.zone_name.is_empty() => Time { civil, zone: Zone::Local },
            Some(offset) => Time { civil, zone: fixed(offset) },
            None if self.zone_name.is_empty() => Time { civil, zone: Zone::Local },
            None => {
                // The name says nothing about the instant: it is that of UTC. Of `GMT+3`, the date and time are moved.
                let hours = self.zone_name.strip_prefix("GMT").and_then(|hours| hours.parse::<i32>().ok());
                let offset = hours.unwrap_or_default() * 3600;
                let civil = civil.checked_add(SignedDuration::from_secs(offset.into()));
                Time { civil: civil.map_err(|_| OUT_OF_RANGE)?, zone: fixed(offset) }
            }
        })
    }

    fn date(&self) -> Result<Date, &'static str> {
        let Some(day_of_year) = self.day_of_year else {
            let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
            return Date::new(self.year, month, day).map_err(|_| "day out of range");
        };
        let first = Date::new(self.year, 1, 1).map_err(|_| OUT_OF_RANGE)?;
        let date = first.with().day_of_year(day_of_year).build();
        let date = date.map_err(|_| "day-of-year out of range")?;
        if self.month.is_some_and(|month| month != date.month()) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|day| day != date.day()) {
            return Err("day-of-year does not match day");
        }
        Ok(date)
    }
}
