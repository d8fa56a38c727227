//! Times of entries: whole seconds, in UTC.

const DAY: i64 = 86_400;

/// Parses an RFC 3339 time into seconds since 1970; fractions are cut off.
pub(crate) fn read(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at_checked(at)?;
    let clock = clock.split_once('.').map_or(clock, |(whole, _)| whole);
    let mut parts = clock.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let right = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..10_000).contains(&year);
    let local = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    right.then(|| offset(zone).map(|offset| local - offset))?
}

fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    Some(if sign == "-" { -seconds } else { seconds })
}

/// Length of a formatted time. Unit: bytes.
const PRINTED: usize = 20;

/// Formats a time as `metav1.Time` does. Each write formats two or three: two digits at a time, since the standard
/// formatting takes ten times as long.
pub(crate) fn write(seconds: i64) -> String {
    let (days, clock) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    if !(0..10_000).contains(&year) {
        return format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    }
    let mut text = String::with_capacity(PRINTED);
    let (century, of_century) = (year / 100, year % 100);
    let parts = [
        (century, ""),
        (of_century, "-"),
        (month, "-"),
        (day, "T"),
        (hour, ":"),
        (minute, ":"),
        (second, "Z"),
    ];
    for (number, after) in parts {
        let digit = |number: i64| char::from(u8::try_from(number).map_or(b'0', |number| b'0' + number));
        text.extend([digit(number / 10), digit(number % 10)]);
        text.push_str(after);
    }
    text
}

/// Returns the days since 1970-01-01. Years begin in March here, so that the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns the date of a day since 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_and_formatted() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-21T10:35:54Z", 1_795_257_354),
            ("1969-12-31T23:59:59Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(read(text), Some(seconds), "{text}");
            assert_eq!(write(seconds), text);
        }
        assert_eq!(read("2000-02-29T23:59:59.75+01:00"), Some(951_868_799 - 3600));
        for text in
            ["", "now", "2000-02-29", "2000-13-01T00:00:00Z", "2000-01-01T00:00Z", "2000-01-01T00:00:00"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
