//! Kubernetes versions: parsing, comparison, the limits of an upgrade, and names with a version.

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

/// Returns `name`, for example that of an image, with version `to` in place of `from`; `None` if `from` is not in it. The `v`
/// is optional in a name, and is kept.
pub fn renamed(name: &str, from: &str, to: &str) -> Option<String> {
    let (from, to) = (from.trim_start_matches('v'), to.trim_start_matches('v'));
    let is_part = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
    let mut found = name.match_indices(from).filter(|(at, _)| {
        let before = name.get(..*at).unwrap_or_default();
        let after = name.get(at + from.len()..).unwrap_or_default();
        // 1.29.1 is not in 1.29.10, nor in 11.29.1.
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    });
    let (at, _) = found.next()?;
    Some(format!("{}{to}{}", name.get(..at)?, name.get(at + from.len()..)?))
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

    #[test]
    fn the_new_version_replaces_the_old_one_in_a_name() {
        let table = [
            ("ubuntu-2204-kube-v1.29.1", Some("ubuntu-2204-kube-v1.30.0")),
            ("ubuntu-2204-kube-1.29.1-2026", Some("ubuntu-2204-kube-1.30.0-2026")),
            ("kube-v1.29.10", None),
            ("kube-v11.29.1", None),
            ("kube-v1.29.10-not-1.29.1", Some("kube-v1.29.10-not-1.30.0")),
            ("ubuntu", None),
        ];
        for (name, expected) in table {
            assert_eq!(renamed(name, "v1.29.1", "v1.30.0").as_deref(), expected, "{name}");
        }
    }
}
