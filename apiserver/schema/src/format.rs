//! Formats of strings that CustomResourceDefinitions know. Unknown formats count as no format.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

/// Format: a name and a predicate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    name: &'static str,
    test: fn(&str) -> bool,
}

impl Format {
    /// Returns the format of this name. Upstream ignores dashes in names, so the list has both spellings of `date-time`.
    pub(super) fn named(name: &str) -> Option<Self> {
        FORMATS.iter().find(|format| format.name == name).copied()
    }

    /// Returns the name of the format.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Reports whether a text has this format.
    pub(super) fn matches(&self, text: &str) -> bool {
        (self.test)(text)
    }
}

/// Widths of numbers.
pub(super) const WIDTHS: [&str; 4] = ["double", "float", "int32", "int64"];

const FORMATS: [Format; 19] = [
    Format { name: "byte", test: |text| BASE64.as_ref().is_some_and(|pattern| pattern.is_match(text)) },
    Format { name: "cidr", test: is_cidr },
    Format { name: "date", test: is_date },
    Format { name: "date-time", test: is_date_time },
    Format { name: "datetime", test: is_date_time },
    Format { name: "duration", test: is_duration },
    Format { name: "email", test: is_email },
    Format { name: "hostname", test: is_hostname },
    Format { name: "ipv4", test: |text| text.parse::<Ipv4Addr>().is_ok() },
    Format { name: "ipv6", test: |text| text.parse::<Ipv6Addr>().is_ok() },
    Format { name: "k8s-long-name", test: |text| text.len() <= 253 && text.split('.').all(is_label) },
    Format { name: "k8s-short-name", test: |text| text.len() <= 63 && is_label(text) },
    Format { name: "mac", test: is_mac },
    Format { name: "password", test: |_| true },
    Format { name: "uri", test: is_uri },
    Format { name: "uuid", test: |text| is_uuid(text, None) },
    Format { name: "uuid3", test: |text| is_uuid(text, Some('3')) },
    Format { name: "uuid4", test: |text| is_uuid(text, Some('4')) },
    Format { name: "uuid5", test: |text| is_uuid(text, Some('5')) },
];

static BASE64: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$").ok()
});

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Reports whether a text is an RFC 3339 timestamp: date, time of day with seconds, and offset.
fn is_date_time(text: &str) -> bool {
    // Only capital letters, although CRD schemas accept lower case. Go's time parser rejects lower case, so typed
    // clients fail to read such an object.
    let Some((date, time)) = text.split_once('T') else { return false };
    let Some((clock, zone)) = time.find(['Z', '+', '-']).and_then(|at| time.split_at_checked(at)) else {
        return false;
    };
    let (clock, fraction) = clock.split_at_checked(8).unwrap_or((clock, ""));
    let fraction_is_good = fraction.is_empty()
        || (fraction.len() > 1
            && fraction.chars().next().is_some_and(|c| !c.is_ascii_digit())
            && fraction.bytes().skip(1).all(|byte| byte.is_ascii_digit()));
    let zone_is_good = zone == "Z"
        || (zone.len() == 6
            && zone.split_at_checked(1).is_some_and(|(_, zone)| are_numbers(zone, &[99, 99])));
    is_date(date) && are_numbers(clock, &[23, 59, 59]) && fraction_is_good && zone_is_good
}

/// Reports whether a text is pairs of digits, separated by colons, each below its limit.
fn are_numbers(text: &str, limits: &[u8]) -> bool {
    let is_good = |(part, limit): (&[u8], &u8)| match part {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            (tens - b'0') * 10 + (ones - b'0') <= *limit && matches!(rest, [] | [b':'])
        }
        _ => false,
    };
    // The last pair has no colon.
    text.len() + 1 == limits.len() * 3 && text.as_bytes().chunks(3).zip(limits).all(is_good)
}

/// Reports whether a text is a duration as Go prints it (`1h30m`) or in words (`3 days`).
fn is_duration(text: &str) -> bool {
    if super::cel::go_duration(text).is_some() {
        return true;
    }
    const WORDS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    const SHORT: [&str; 10] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w"];
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let Some((number, unit)) = text.split_at_checked(digits) else { return false };
    let unit = unit.trim().to_lowercase();
    !number.is_empty()
        && (SHORT.contains(&unit.as_str()) || unit == "wk" || WORDS.iter().any(|word| unit.starts_with(word)))
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').map_or(text, |(_, address)| address.trim_end_matches('>'));
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_plain =
        |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || "<>@,;".contains(c));
    is_plain(local) && is_plain(domain) && !domain.starts_with('.') && !domain.ends_with('.')
}

fn is_hostname(text: &str) -> bool {
    let is_part = |part: &str| {
        (1..=63).contains(&part.len())
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_alphanumeric() || c == '-')
    };
    let mut parts = text.split('.').collect::<Vec<_>>();
    let top = if parts.len() > 1 { parts.pop() } else { None };
    let top_is_good = top.is_none_or(|top| top.chars().count() >= 2 && top.chars().all(char::is_alphabetic));
    text.len() <= 255 && top_is_good && parts.into_iter().all(is_part)
}

/// Reports whether a text is a DNS label in lower case.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.find([':', '-', '.']).and_then(|at| text.split_at_checked(at)) {
        Some((first, rest)) if first.len() == 4 && rest.starts_with('.') => ('.', 4),
        Some((first, rest)) if first.len() == 2 && !rest.starts_with('.') => {
            (rest.chars().next().unwrap_or(':'), 2)
        }
        _ => return false,
    };
    let parts: Vec<&str> = text.split(separator).collect();
    let bytes = parts.len() * width / 2;
    let is_hex = |part: &&str| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    matches!(bytes, 6 | 8 | 20) && parts.iter().all(is_hex)
}

/// Reports whether a text is a request URI: an absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme && !rest.is_empty()
}

/// Reports whether a text is a UUID: hexadecimal digits in five groups, with or without dashes, of one version or any.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
    // Positions of the dashes, not counting earlier dashes.
    let are_placed = dashes.enumerate().all(|(before, at)| [8, 12, 16, 20].contains(&(at - before)));
    let nth = |index: usize| digits.chars().nth(index);
    let is_versioned = version.is_none_or(|version| nth(12) == Some(version));
    let has_variant = !matches!(version, Some('4' | '5')) || nth(16).is_some_and(|c| "89abAB".contains(c));
    digits.len() == 32
        && !text.contains("--")
        && are_placed
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && is_versioned
        && has_variant
}
