//! Objects as they are in requests.

use apiserver_types::Cluster;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Hook;

/// Annotations that are not sent: they hold the whole object once more.
const COPIES: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "cluster.x-k8s.io/conversion-data"];

/// Fields of the metadata that are sent with an object that is to be updated.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Returns a Cluster as requests have it, as upstream: without status, field managers, and annotations with copies of it.
pub fn without_state(cluster: &Cluster) -> Cluster {
    let mut cluster = Cluster { status: None, ..cluster.clone() };
    cluster.metadata.managed_fields = None;
    for copy in COPIES {
        cluster.annotations_mut().remove(copy);
    }
    if cluster.annotations().is_empty() {
        cluster.metadata.annotations = None;
    }
    cluster
}

/// Returns the part of an object that requests of updates have, as upstream: version, kind, name, namespace, labels,
/// annotations and spec.
pub fn desired_part<K: Serialize>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    let kept = METADATA.iter().filter_map(|field| Some(((*field).to_owned(), metadata.get(field)?.clone())));
    let metadata: Map<String, Value> = kept.collect();
    let mut part = |field: &str| object.get_mut(field).map(Value::take).unwrap_or_default();
    let (api_version, kind, spec) = (part("apiVersion"), part("kind"), part("spec"));
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
}

/// Returns the key of a wait for the next call of a hook for an object.
pub fn wait_key<K: Resource>(object: &K, hook: Hook) -> String {
    format!("{}/{hook}", object.meta().uid.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_sent_without_its_status_and_copies_of_itself() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {
                "name": "c", "uid": "u", "managedFields": [{"manager": "kubectl"}],
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "cluster.x-k8s.io/conversion-data": "{}",
                },
            },
            "spec": {"paused": true}, "status": {"phase": "Provisioned"},
        }))
        .unwrap();
        let sent = serde_json::to_value(without_state(&cluster)).unwrap();
        let metadata = json!({"name": "c", "uid": "u"});
        assert_eq!((&sent["metadata"], &sent["spec"]["paused"]), (&metadata, &json!(true)));
        assert!(sent.get("status").is_none());
        assert_eq!(wait_key(&cluster, Hook::BeforeClusterDelete), "u/BeforeClusterDelete");
    }

    #[test]
    fn an_update_names_the_object_and_what_is_wanted_of_it() {
        let object = json!({
            "apiVersion": "a/v1", "kind": "K", "spec": {"x": 1}, "status": {"y": 2},
            "metadata": {"name": "n", "uid": "u", "labels": {"l": "1"}, "generation": 3},
        });
        let metadata = json!({"name": "n", "labels": {"l": "1"}});
        let expected = json!({"apiVersion": "a/v1", "kind": "K", "metadata": metadata, "spec": {"x": 1}});
        assert_eq!(desired_part(&object), expected);
    }
}
