//! Semantic versions as Cluster API parses and orders them: the `semver` crate, a tolerant form, and an order of
//! builds.

use std::cmp::Ordering;
use std::fmt;

use semver::Version;

/// Semantic version, such as `1.30.2-rc.1+x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Semver {
    /// Major, minor and patch number.
    pub(crate) numbers: (u64, u64, u64),
    version: Version,
}

impl Semver {
    /// Parses `1.30.2-rc.1+x`, without a leading v.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let version = Version::parse(text).ok()?;
        // The crate accepts pre-release numbers of any length, upstream only those of 64 bits.
        let fits = |part: &str| !is_number(part) || part.parse::<u64>().is_ok();
        let numbers = (version.major, version.minor, version.patch);
        version.pre.split('.').all(fits).then_some(Self { numbers, version })
    }

    /// Parses a version that can have spaces around it, a leading v, leading zeros, and fewer than three numbers.
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

    /// Compares two versions, and their builds if they differ in nothing else. Returns `None` if the builds have no
    /// order.
    pub(crate) fn compare_with_builds(&self, other: &Self) -> Option<Ordering> {
        let order = self.version.cmp_precedence(&other.version);
        if order != Ordering::Equal {
            return Some(order);
        }
        let (own, its) = (self.builds(), other.builds());
        let pairs = own.iter().zip(&its);
        let differing =
            pairs.map(|(own, its)| compare_build(own, its)).find(|order| *order != Some(Ordering::Equal));
        differing.unwrap_or_else(|| Some(own.len().cmp(&its.len())))
    }

    fn builds(&self) -> Vec<&str> {
        self.version.build.split('.').filter(|build| !build.is_empty()).collect()
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.version.fmt(f)
    }
}

/// Compares two identifiers of a build. Numbers are less than words. Words that differ may be hashes and have no order;
/// the library orders them.
fn compare_build(own: &str, other: &str) -> Option<Ordering> {
    match (is_number(own), is_number(other)) {
        (true, true) => Some(own.parse::<u64>().unwrap_or(0).cmp(&other.parse().unwrap_or(0))),
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (false, false) => (own == other).then_some(Ordering::Equal),
    }
}

fn is_number(text: &str) -> bool {
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
    fn versions_are_parsed_strictly_or_tolerantly() {
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
            ("1.30.0-99999999999999999999", None, None),
            ("1.+30.0", None, None),
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
    fn versions_are_ordered_and_alphabetic_builds_are_not() {
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
