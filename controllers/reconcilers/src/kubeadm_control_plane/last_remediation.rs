//! Last remediation of a control plane, which annotations record. Objects that come from another management cluster have
//! them.

use apiserver_types::{KubeadmControlPlane, LastRemediationStatus, Time};
use kube::ResourceExt;
use serde::Deserialize;

use super::outdated::timestamp;
use super::replica::Replica;

/// Annotation of a control plane whose Machine was deleted, and not replaced yet.
const IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";

/// Annotation of a Machine that replaced another one.
const FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";

/// Content of both annotations.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    machine: String,
    timestamp: Time,
    retry_count: i32,
}

/// Returns the remediation in progress, or else the newest one that a Machine records.
pub(super) fn find(
    control_plane: &KubeadmControlPlane,
    replicas: &[Replica],
) -> Option<LastRemediationStatus> {
    let in_progress = control_plane.annotations().get(IN_PROGRESS).and_then(|text| read(text));
    in_progress.or_else(|| {
        let records = replicas.iter().filter_map(|it| read(it.machine.annotations().get(FOR)?));
        records.max_by_key(|record| timestamp(&record.time))
    })
}

/// Reads an annotation. What is no record counts as absent: nothing depends on it.
fn read(text: &str) -> Option<LastRemediationStatus> {
    let Record { machine, timestamp, retry_count } = serde_json::from_str(text).ok()?;
    Some(LastRemediationStatus { machine, retry_count, time: timestamp })
}

#[cfg(test)]
mod tests {
    use super::super::replica::examples::replica;
    use super::*;

    #[test]
    fn the_remediation_in_progress_comes_before_the_newest_one_that_is_over() {
        let record = |machine: &str, hour: u8| {
            format!(r#"{{"machine":"{machine}","timestamp":"2026-11-26T{hour:02}:00:00Z","retryCount":1}}"#)
        };
        let replaced = |name: &str, text: String| {
            let mut replica = replica(name, 1);
            replica.machine.annotations_mut().insert(FOR.to_owned(), text);
            replica
        };
        let mut control_plane = KubeadmControlPlane::default();
        assert_eq!(find(&control_plane, &[replica("a", 1)]), None);
        let replicas = [
            replaced("a", record("old", 9)),
            replaced("b", record("new", 11)),
            replaced("c", "no record".to_owned()),
        ];
        let found = find(&control_plane, &replicas).unwrap();
        assert_eq!((found.machine.as_str(), found.retry_count), ("new", 1));
        control_plane.annotations_mut().insert(IN_PROGRESS.to_owned(), record("now", 10));
        assert_eq!(find(&control_plane, &replicas).unwrap().machine, "now");
    }
}
