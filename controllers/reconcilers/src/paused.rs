//! Condition `Paused`.

use apiserver_types::{Cluster, Condition, ConditionStatus, Time};
use kube::Resource;

/// Returns the condition `Paused`, as upstream has it: always set, with its cause.
pub(crate) fn condition<K: Resource>(object: &K, cluster: Option<&Cluster>, now: &Time) -> Condition {
    let (status, reason, message) = match cluster {
        Some(cluster) if cluster.spec.paused == Some(true) => {
            (ConditionStatus::True, "Paused", "Cluster spec.paused is set to true")
        }
        _ if controllers_runtime::paused(object, None) => {
            (ConditionStatus::True, "Paused", "the object has the annotation cluster.x-k8s.io/paused")
        }
        _ => (ConditionStatus::False, "NotPaused", ""),
    };
    Condition::new("Paused", status, reason, message, now.clone())
}
