//! Condition `Paused`.

use apiserver_types::{Cluster, Condition, ConditionStatus, Time};
use kube::Resource;
use serde_json::Value;

/// Annotation of an object that is paused, as a path in the fields of a field manager.
const ANNOTATION: [&str; 3] = ["f:metadata", "f:annotations", "f:cluster.x-k8s.io/paused"];

/// Field of a Cluster that is paused, as a path in the fields of a field manager.
const FIELD: [&str; 2] = ["f:spec", "f:paused"];

/// Words about an object with the annotation, after its kind.
const BY_ANNOTATION: &str = "has the cluster.x-k8s.io/paused annotation";

/// Returns the condition `Paused`, as upstream has it: always set, with all its causes. It also names the client that set
/// each: a pause that a failed move left holds up everything, deletions included.
pub(crate) fn condition<K: Resource<DynamicType = ()>>(
    object: &K,
    cluster: Option<&Cluster>,
    now: &Time,
) -> Condition {
    let by_cluster = cluster.is_some_and(|cluster| cluster.spec.paused == Some(true));
    let by_annotation = controllers_runtime::paused(object, None);
    let causes: Vec<String> = [
        cluster
            .filter(|_| by_cluster)
            .map(|cluster| format!("Cluster spec.paused is set to true{}", author(cluster, &FIELD))),
        by_annotation.then(|| {
            let author = author(object, &ANNOTATION);
            format!("{} {BY_ANNOTATION}{author}", K::kind(&()))
        }),
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

/// Reports whether a condition `Paused` says that its own annotation pauses the object.
pub(crate) fn is_by_annotation(condition: &Condition) -> bool {
    condition.holds() && condition.message.contains(BY_ANNOTATION)
}

/// Returns the field manager that wrote a field last, in brackets; nothing if it is not known.
fn author<K: Resource>(object: &K, path: &[&str]) -> String {
    let owns = |fields: &Value| path.iter().try_fold(fields, |fields, key| fields.get(key)).is_some();
    let entries = object.meta().managed_fields.iter().flatten();
    let owners = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| owns(&fields.0)));
    let newest = owners.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    let name = newest.and_then(|entry| entry.manager.as_deref());
    name.map(|name| format!(" (set by {name})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Machine, MachineSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
    use kube::ResourceExt;
    use serde_json::json;

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
            assert_eq!(is_by_annotation(&found), machine);
        }
    }

    #[test]
    fn the_client_that_set_a_pause_last_is_named() {
        let entry = |manager: &str, fields: Value, time: &str| -> ManagedFieldsEntry {
            let entry = json!({"manager": manager, "time": time, "fieldsV1": fields});
            serde_json::from_value(entry).unwrap()
        };
        let (early, late) = ("2026-11-27T05:00:00Z", "2026-11-27T06:00:00Z");
        let annotation = json!({"f:metadata": {"f:annotations": {"f:cluster.x-k8s.io/paused": {}}}});
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        machine.metadata.managed_fields = Some(vec![
            entry("kubectl-annotate", annotation.clone(), late),
            entry("argocd", annotation, early),
            entry("machine-controller", json!({"f:status": {}}), "2026-11-27T07:00:00Z"),
        ]);
        let paused = ClusterSpec { paused: Some(true), ..ClusterSpec::default() };
        let mut cluster = Cluster::new("c", paused);
        let field = json!({"f:spec": {"f:paused": {}}});
        cluster.metadata.managed_fields = Some(vec![entry("clusterctl", field, early)]);
        let found = condition(&machine, Some(&cluster), &Time::default());
        assert_eq!(
            found.message,
            "Cluster spec.paused is set to true (set by clusterctl), \
             Machine has the cluster.x-k8s.io/paused annotation (set by kubectl-annotate)"
        );
    }
}
