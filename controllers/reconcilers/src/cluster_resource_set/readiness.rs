//! Readiness of objects in a workload cluster, for sets whose resources wait for each other. Pure.

use serde_json::Value;

/// Returns true if objects of this kind become ready some time after they were created.
pub(super) fn matters(kind: &str) -> bool {
    matches!(kind, "CustomResourceDefinition" | "Deployment" | "DaemonSet")
}

/// Returns true if an object with this content is ready. `generation` is that of its spec: a status that observed an
/// earlier one says nothing about the present spec.
pub(super) fn is_ready(kind: &str, generation: Option<i64>, object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    let observed = number("/status/observedGeneration");
    if observed.zip(generation).is_some_and(|(observed, generation)| observed < generation) {
        return false;
    }
    match kind {
        "CustomResourceDefinition" => holds(object, "Established"),
        "Deployment" => holds(object, "Available"),
        // No condition says so. A cluster without matching nodes has nothing to wait for.
        "DaemonSet" => number("/status/desiredNumberScheduled")
            .is_some_and(|desired| number("/status/numberReady").unwrap_or(0) >= desired),
        _ => true,
    }
}

fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| it["type"] == kind && it["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_that_is_older_than_the_spec_is_not_ready() {
        let available = json!([{"type": "Available", "status": "True"}]);
        let deployment = json!({"status": {"observedGeneration": 1, "conditions": available}});
        let daemons =
            json!({"status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "numberReady": 1}});
        for (kind, object) in [("Deployment", deployment), ("DaemonSet", daemons)] {
            assert!(is_ready(kind, Some(1), &object), "{kind}");
            assert!(!is_ready(kind, Some(2), &object), "{kind}");
            assert!(is_ready(kind, None, &object), "{kind} without a generation");
        }
    }

    #[test]
    fn definitions_deployments_and_daemon_sets_become_ready_and_others_are() {
        let with =
            |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert!(is_ready("CustomResourceDefinition", None, &with("Established", "True")));
        assert!(!is_ready("CustomResourceDefinition", None, &with("Established", "False")));
        assert!(is_ready("Deployment", None, &with("Available", "True")));
        assert!(!is_ready("Deployment", None, &json!({})));
        let pods = |desired: i64, ready: i64| json!({"status": {"desiredNumberScheduled": desired, "numberReady": ready}});
        assert!(is_ready("DaemonSet", None, &pods(0, 0)) && is_ready("DaemonSet", None, &pods(2, 2)));
        assert!(!is_ready("DaemonSet", None, &pods(2, 1)) && !is_ready("DaemonSet", None, &json!({})));
        assert!(is_ready("ConfigMap", None, &json!({})) && !matters("ConfigMap") && matters("Deployment"));
    }
}
