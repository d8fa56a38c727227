//! Kubernetes versions of the Machines of a control plane.

use std::collections::BTreeMap;

use apiserver_types::StatusVersion;
use semver::Version;

use super::config;
use super::replica::Replica;

/// Order of versions: by precedence, then by build metadata; texts that are no version come last.
type Order = (bool, Option<Version>, String);

/// Returns each version with the number of its Machines, the lowest first; `None` without Machines.
pub(super) fn of(replicas: &[Replica]) -> Option<Vec<StatusVersion>> {
    let mut counts: BTreeMap<Order, i32> = BTreeMap::new();
    for version in replicas.iter().filter_map(of_one) {
        let parsed = config::parse(version);
        let count = counts.entry((parsed.is_none(), parsed, version.to_owned())).or_default();
        *count = count.saturating_add(1);
    }
    let versions: Vec<StatusVersion> = counts
        .into_iter()
        .map(|((.., version), count)| StatusVersion { version, replicas: Some(count) })
        .collect();
    (!versions.is_empty()).then_some(versions)
}

/// Returns the version that a Machine runs, or else is to run.
fn of_one(replica: &Replica) -> Option<&str> {
    let info = replica.machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = info.map(|info| info.kubelet_version.as_str()).filter(|version| !version.is_empty());
    kubelet.or(replica.machine.spec.version.as_deref())
}

#[cfg(test)]
mod tests {
    use apiserver_types::NodeSystemInfo;

    use super::super::replica::examples::replica;
    use super::*;

    #[test]
    fn versions_are_counted_from_the_lowest_and_the_kubelet_knows_best() {
        let machine = |wished: &str, kubelet: Option<&str>| {
            let mut replica = replica("m", 1);
            replica.machine.spec.version = Some(wished.to_owned());
            let info = kubelet.map(|kubelet| NodeSystemInfo {
                kubelet_version: kubelet.to_owned(),
                ..NodeSystemInfo::default()
            });
            replica.machine.status.get_or_insert_default().node_info = info;
            replica
        };
        let replicas = [
            machine("v1.33.0", Some("v1.32.9")),
            machine("v1.33.0", None),
            machine("v1.33.0", Some("v1.33.0")),
            machine("latest", None),
            machine("v1.4.0", None),
        ];
        let found: Vec<(String, Option<i32>)> =
            of(&replicas).unwrap().into_iter().map(|it| (it.version, it.replicas)).collect();
        let expected = [("v1.4.0", 1), ("v1.32.9", 1), ("v1.33.0", 2), ("latest", 1)];
        assert_eq!(found, expected.map(|(version, count)| (version.to_owned(), Some(count))));
        assert_eq!(of(&[]), None);
    }
}
