//! Condition `Paused`.

use apiserver_types::{Cluster, Condition, ConditionStatus, Time};
use kube::Resource;

/// Returns the condition `Paused`, as upstream has it: always set, with all its causes.
pub(crate) fn condition<K: Resource<DynamicType = ()>>(
    object: &K,
    cluster: Option<&Cluster>,
    now: &Time,
) -> Condition {
    let by_cluster = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
    let by_annotation = controllers_runtime::paused(object, None);
    let causes: Vec<String> = [
        by_cluster.then(|| "Cluster spec.paused is set to true".to_owned()),
        by_annotation.then(|| format!("{} has the cluster.x-k8s.io/paused annotation", K::kind(&()))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (status, reason) = match causes.is_empty() {
        true => (ConditionStatus::False, "NotPaused"),
        false => (ConditionStatus::True, "Paused"),
    };
    Condition::new("Paused", status, reason, &causes.join(", "), now.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Machine, MachineSpec};
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn every_cause_of_a_pause_is_named() {
        let annotation = "Machine has the cluster.x-k8s.io/paused annotation";
        let spec = "Cluster spec.paused is set to true";
        let both = format!("{spec}, {annotation}");
        for (cluster, machine, expected) in
            [(false, false, ""), (true, false, spec), (false, true, annotation), (true, true, &both)]
        {
            let paused = ClusterSpec { paused: Some(cluster), ..ClusterSpec::default() };
            let cluster = Cluster::new("c", paused);
            let mut object = Machine::new("m", MachineSpec::default());
            if machine {
                object.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), "false".to_owned());
            }
            let found = condition(&object, Some(&cluster), &Time::default());
            assert_eq!((found.message.as_str(), found.holds()), (expected, !expected.is_empty()));
        }
    }
}
