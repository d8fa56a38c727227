//! Readiness of objects in a workload cluster, for sets whose resources wait for each other. Pure.

use serde_json::Value;

/// Returns true if objects of this kind become ready some time after they were created.
pub(super) fn matters(kind: &str) -> bool {
    matches!(kind, "CustomResourceDefinition" | "Deployment" | "DaemonSet")
}

/// Returns true if an object with this content is ready.
pub(super) fn is_ready(kind: &str, object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
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
    fn definitions_deployments_and_daemon_sets_become_ready_and_others_are() {
        let with =
            |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert!(is_ready("CustomResourceDefinition", &with("Established", "True")));
        assert!(!is_ready("CustomResourceDefinition", &with("Established", "False")));
        assert!(is_ready("Deployment", &with("Available", "True")));
        assert!(!is_ready("Deployment", &json!({})));
        let pods = |desired: i64, ready: i64| json!({"status": {"desiredNumberScheduled": desired, "numberReady": ready}});
        assert!(is_ready("DaemonSet", &pods(0, 0)) && is_ready("DaemonSet", &pods(2, 2)));
        assert!(!is_ready("DaemonSet", &pods(2, 1)) && !is_ready("DaemonSet", &json!({})));
        assert!(is_ready("ConfigMap", &json!({})) && !matters("ConfigMap") && matters("Deployment"));
    }
}
