//! Kubernetes versions: parsing, comparison and the limits of an upgrade.

use std::cmp::Ordering;

use semver::Version;

/// Returns the reason that forbids an upgrade of a machine from `current` to `wanted`, or `None` if it is
/// allowed.
///
/// A machine goes up by at most one minor version, and never down or to the same version. Kubernetes
/// guarantees no more for the kubelet and the API server. A machine with an unknown version can go to any
/// version. With `another_image`, it can go to its current version again.
pub fn skew(current: Option<&str>, wanted: &str, another_image: bool) -> Option<String> {
    let Some(to) = parse(wanted) else {
        return Some(format!("version {wanted:?} is not a semantic version with a leading v, e.g. v1.30.2"));
    };
    let current = current?;
    let from = parse(current)?;
    if wanted == current && !another_image {
        return Some(format!(
            "the machine is at version {current} already; name another image to bring it there again"
        ));
    }
    if to.cmp_precedence(&from) == Ordering::Less {
        return Some(format!("{wanted} is older than {current}, the machine's version; versions only go up"));
    }
    if to.major != from.major || to.minor > from.minor.saturating_add(1) {
        return Some(format!(
            "{wanted} is more than one minor version above {current}, the machine's version; go one minor version at a time"
        ));
    }
    None
}

fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v')?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_upgraded_one_minor_version_at_a_time() {
        let table = [
            (Some("v1.29.0"), "v1.29.0", Some("already")),
            (Some("v1.29.0"), "v1.29.1", None),
            (Some("v1.29.0"), "v1.30.7", None),
            (Some("v1.29.0"), "v1.31.0", Some("more than one minor")),
            (Some("v1.29.0"), "v2.0.0", Some("more than one minor")),
            (Some("v1.29.3"), "v1.29.2", Some("older")),
            (Some("v1.29.3"), "v1.28.9", Some("older")),
            (Some("v1.30.0-rc.1"), "v1.30.0", None),
            (Some("v1.30.0-rc.2"), "v1.30.0-rc.10", None),
            (Some("v1.30.0-rc.2"), "v1.30.0-rc.1", Some("older")),
            (Some("v1.30.0"), "v1.30.0-rc.1", Some("older")),
            (Some("v1.30.0+a"), "v1.30.0+b", None),
            (None, "v1.30.0", None),
            (Some("v1.29.0"), "1.30.0", Some("leading v")),
            (None, "v1.30", Some("leading v")),
            (None, "v1.+30.0", Some("leading v")),
        ];
        for (current, wanted, expected) in table {
            let found = skew(current, wanted, false);
            let matches = match (&found, expected) {
                (None, None) => true,
                (Some(found), Some(expected)) => found.contains(expected),
                _ => false,
            };
            assert!(matches, "{current:?} to {wanted}: {found:?}");
        }
    }
}
