//! Semantic versions, read and ordered as Cluster API does.

use std::cmp::Ordering;
use std::fmt;

/// A version such as `1.30.2-rc.1+x`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Semver {
    /// Major, minor, patch.
    pub(crate) numbers: (u64, u64, u64),
    pre: Vec<String>,
    build: Vec<String>,
}

impl Semver {
    /// Reads `1.30.2-rc.1+x`, without a leading v.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, build) = match text.split_once('+') {
            Some((text, build)) => (text, identifiers(build, false)?),
            None => (text, Vec::new()),
        };
        let (text, pre) = match text.split_once('-') {
            Some((text, pre)) => (text, identifiers(pre, true)?),
            None => (text, Vec::new()),
        };
        let mut parts = text.split('.').map(number);
        let numbers = (parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(Self { numbers, pre, build })
    }

    /// Reads what may have spaces around it, a v, zeros before numbers, and fewer of those.
    pub(crate) fn parse_tolerant(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return None;
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    /// The order of versions; where only the builds differ, that of those, and `None` when they have none.
    pub(crate) fn compare_with_builds(&self, other: &Self) -> Option<Ordering> {
        let order = self.numbers.cmp(&other.numbers).then_with(|| self.compare_pre(other));
        if order != Ordering::Equal {
            return Some(order);
        }
        let pairs = self.build.iter().zip(&other.build);
        let differing =
            pairs.map(|(own, its)| compare_build(own, its)).find(|order| *order != Some(Ordering::Equal));
        differing.unwrap_or_else(|| Some(self.build.len().cmp(&other.build.len())))
    }

    /// A version before a release is less than it.
    fn compare_pre(&self, other: &Self) -> Ordering {
        match (self.pre.as_slice(), other.pre.as_slice()) {
            ([], []) => Ordering::Equal,
            ([], _) => Ordering::Greater,
            (_, []) => Ordering::Less,
            (own, its) => {
                let orders =
                    own.iter().zip(its).map(|(own, its)| match (own.parse::<u64>(), its.parse::<u64>()) {
                        (Ok(own), Ok(its)) => own.cmp(&its),
                        (Ok(_), Err(_)) => Ordering::Less,
                        (Err(_), Ok(_)) => Ordering::Greater,
                        (Err(_), Err(_)) => own.cmp(its),
                    });
                orders.fold(Ordering::Equal, Ordering::then).then(own.len().cmp(&its.len()))
            }
        }
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, patch) = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (mark, identifiers) in [('-', &self.pre), ('+', &self.build)] {
            if !identifiers.is_empty() {
                write!(f, "{mark}{}", identifiers.join("."))?;
            }
        }
        Ok(())
    }
}

/// Numbers go before words; words that differ have no order, they may be hashes.
fn compare_build(own: &str, other: &str) -> Option<Ordering> {
    match (digits(own), digits(other)) {
        (true, true) => Some(own.parse::<u64>().unwrap_or(0).cmp(&other.parse().unwrap_or(0))),
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (false, false) => (own == other).then_some(Ordering::Equal),
    }
}

fn identifiers(text: &str, canonical: bool) -> Option<Vec<String>> {
    let is_one = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !(canonical && digits(part) && number(part).is_none())
    };
    text.split('.').map(|part| is_one(part).then(|| part.to_owned())).collect()
}

/// A number without zeros before it.
fn number(text: &str) -> Option<u64> {
    let is_canonical = digits(text) && (text == "0" || !text.starts_with('0'));
    is_canonical.then(|| text.parse().ok()).flatten()
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

fn without_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    if part.len() > 1 && !rest.starts_with(|c: char| c.is_ascii_digit()) {
        format!("0{rest}")
    } else if part.len() > 1 {
        rest.to_owned()
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_strictly_and_tolerantly() {
        for (text, strict, tolerant) in [
            ("1.30.2", Some("1.30.2"), Some("1.30.2")),
            ("1.30.2-rc.1+x.01", Some("1.30.2-rc.1+x.01"), Some("1.30.2-rc.1+x.01")),
            ("1.30.0+x-y", Some("1.30.0+x-y"), Some("1.30.0+x-y")),
            ("v1.30.2", None, Some("1.30.2")),
            (" 1.030", None, Some("1.30.0")),
            ("1.30.00-rc", None, Some("1.30.0-rc")),
            ("1.30-rc", None, None),
            ("1.30.2.1", None, None),
            ("1.30.0foo", None, None),
            ("1.30.0-01", None, None),
            ("1.30.0-", None, None),
            ("", None, None),
            ("latest", None, None),
        ] {
            let shown = |found: Option<Semver>| found.map(|found| found.to_string());
            assert_eq!(shown(Semver::parse(text)).as_deref(), strict, "{text}");
            assert_eq!(shown(Semver::parse_tolerant(text)).as_deref(), tolerant, "{text}");
        }
    }

    #[test]
    fn versions_have_an_order_and_builds_not_always() {
        use Ordering::{Equal, Greater, Less};
        for (one, other, expected) in [
            ("1.30.0", "1.30.0", Some(Equal)),
            ("1.31.0", "1.30.9", Some(Greater)),
            ("1.30.0-rc.1", "1.30.0", Some(Less)),
            ("1.30.0-rc.2", "1.30.0-rc.10", Some(Less)),
            ("1.30.0-rc", "1.30.0-1", Some(Greater)),
            ("1.30.0+1", "1.30.0+2", Some(Less)),
            ("1.30.0+a.1", "1.30.0+a", Some(Greater)),
            ("1.30.0+1", "1.30.0+a", Some(Less)),
            ("1.30.0+a", "1.30.0+b", None),
        ] {
            let [one, other] = [one, other].map(|text| Semver::parse(text).unwrap());
            assert_eq!(one.compare_with_builds(&other), expected, "{one} {other}");
        }
    }
}
