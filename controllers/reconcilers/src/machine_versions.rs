//! Kubernetes versions of Machines: their number per version in the status of an owner.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use apiserver_types::{Machine, StatusVersion};
use semver::Version;

/// Returns the number of Machines per version. The version of the running kubelet takes precedence.
pub(crate) fn of_machines<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Option<Vec<StatusVersion>> {
    let versions = machines.into_iter().filter_map(|machine| {
        let node = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
        let running = node.map(|node| node.kubelet_version.clone()).filter(|version| !version.is_empty());
        Some((running.or_else(|| machine.spec.version.clone())?, 1))
    });
    counted(versions)
}

/// Returns the sums of several lists.
pub(crate) fn sum<'a>(lists: impl IntoIterator<Item = &'a [StatusVersion]>) -> Option<Vec<StatusVersion>> {
    let versions = lists.into_iter().flatten();
    counted(versions.map(|it| (it.version.clone(), it.replicas.unwrap_or_default())))
}

/// Parses a Kubernetes version.
pub(crate) fn parse(text: &str) -> Option<Version> {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

fn counted(versions: impl Iterator<Item = (String, i32)>) -> Option<Vec<StatusVersion>> {
    let mut counts: BTreeMap<String, i32> = BTreeMap::new();
    for (version, count) in versions {
        let known = counts.entry(version).or_default();
        *known = known.saturating_add(count);
    }
    let mut versions: Vec<StatusVersion> = counts
        .into_iter()
        .map(|(version, replicas)| StatusVersion { version, replicas: Some(replicas) })
        .collect();
    versions.sort_by(|a, b| order(&a.version, &b.version));
    (!versions.is_empty()).then_some(versions)
}

/// Compares versions. Texts that are no versions come last.
fn order(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;

    use super::*;

    #[test]
    fn versions_are_counted_in_semantic_order() {
        let versions = ["x", "v1.34.0-rc.1", "v1.33.1+a", "v1.33.1", "v1.9.0", "v1.33.1"];
        let machines = versions.map(|version| {
            let version = Some(version.to_owned());
            Machine::new("m", MachineSpec { version, ..MachineSpec::default() })
        });
        let counted = of_machines(&machines).unwrap();
        let flat: Vec<(&str, i32)> =
            counted.iter().map(|it| (it.version.as_str(), it.replicas.unwrap())).collect();
        let expected = [("v1.9.0", 1), ("v1.33.1", 2), ("v1.33.1+a", 1), ("v1.34.0-rc.1", 1), ("x", 1)];
        assert_eq!(flat, expected);
        assert_eq!(sum([counted.as_slice(), &counted[..1]]).unwrap()[0].replicas, Some(2));
        assert_eq!(of_machines(&[]), None);
    }
}
