//! Records of remediations, in annotations: of the control plane while the replacement is missing, then of the
//! replacement. Objects that come from another management cluster have them, too.

use apiserver_types::{KubeadmControlPlane, LastRemediationStatus, Time};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::outdated::timestamp;
use super::replica::Replica;

/// Annotation of a control plane whose Machine is deleted for a remediation, and not replaced yet.
pub(super) const IN_PROGRESS: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";

/// Annotation of a Machine that replaced another one.
pub(super) const FOR: &str = "controlplane.cluster.x-k8s.io/remediation-for";

/// Content of both annotations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// Name of the Machine that is replaced.
    pub machine: String,
    /// Time of the decision, in whole seconds as the creation of objects.
    pub timestamp: Time,
    /// Number of replacements before this one that were not healthy for long enough.
    pub retry_count: i32,
}

impl Record {
    pub(super) fn new(machine: String, now: Timestamp, retry_count: i32) -> Self {
        let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Self { machine, timestamp: Time(second.to_string()), retry_count }
    }

    /// Returns the time of the decision. A record without a time counts as the oldest.
    pub(super) fn time(&self) -> Timestamp {
        timestamp(&self.timestamp).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Returns the content of the annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the remediation in progress. An annotation that is no record counts as absent.
pub(super) fn in_progress(control_plane: &KubeadmControlPlane) -> Option<Record> {
    read(control_plane.annotations().get(IN_PROGRESS)?)
}

/// Returns the remediation that a Machine was made for.
pub(super) fn of(replica: &Replica) -> Option<Record> {
    read(replica.machine.annotations().get(FOR)?)
}

fn read(text: &str) -> Option<Record> {
    serde_json::from_str(text).ok()
}

/// Returns the remediation in progress, or else the newest one that a Machine records.
pub(super) fn last(
    control_plane: &KubeadmControlPlane,
    replicas: &[Replica],
) -> Option<LastRemediationStatus> {
    let newest = || replicas.iter().filter_map(of).max_by_key(Record::time);
    let Record { machine, timestamp, retry_count } = in_progress(control_plane).or_else(newest)?;
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
        assert_eq!(last(&control_plane, &[replica("a", 1)]), None);
        let replicas = [
            replaced("a", record("old", 9)),
            replaced("b", record("new", 11)),
            replaced("c", "no record".to_owned()),
        ];
        let found = last(&control_plane, &replicas).unwrap();
        assert_eq!((found.machine.as_str(), found.retry_count), ("new", 1));
        control_plane.annotations_mut().insert(IN_PROGRESS.to_owned(), record("now", 10));
        assert_eq!(last(&control_plane, &replicas).unwrap().machine, "now");
    }

    #[test]
    fn a_record_is_written_as_upstream_writes_it() {
        let now: Timestamp = "2026-11-26T10:00:00.7Z".parse().unwrap();
        let record = Record::new("a".to_owned(), now, 2);
        assert_eq!(record.text(), r#"{"machine":"a","timestamp":"2026-11-26T10:00:00Z","retryCount":2}"#);
        assert_eq!(read(&record.text()), Some(record));
    }
}
