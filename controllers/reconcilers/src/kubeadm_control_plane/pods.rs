//! Conditions of the static pods of a control plane Node.

use apiserver_types::ConditionStatus;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::machine_conditions::Verdict;

/// Returns the name of the static pod that a condition of a Machine is about.
pub(super) fn name(kind: &str, node: &str) -> String {
    let component = match kind {
        "APIServerPodHealthy" => "kube-apiserver",
        "ControllerManagerPodHealthy" => "kube-controller-manager",
        "SchedulerPodHealthy" => "kube-scheduler",
        _ => "etcd",
    };
    format!("{component}-{node}")
}

/// Returns the verdict on a pod that was read, that does not exist, or whose read failed.
pub(super) fn verdict(name: &str, outcome: &Result<Option<Pod>, String>) -> Verdict {
    match outcome {
        Err(error) => {
            (ConditionStatus::Unknown, "InspectionFailed", format!("Failed to get Pod {name}: {error}"))
        }
        Ok(None) => (ConditionStatus::False, "DoesNotExist", format!("Pod {name} does not exist")),
        Ok(Some(pod)) => of_phase(pod),
    }
}

fn of_phase(pod: &Pod) -> Verdict {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_ready =
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    match phase {
        "Pending" => provisioning("Waiting to be scheduled and started".to_owned()),
        "Running" if is_ready => (ConditionStatus::True, "Running", String::new()),
        "Running" => of_containers(pod),
        "Succeeded" | "Failed" => failed("All the containers have been terminated".to_owned()),
        other => {
            let message =
                format!("Pod is reporting {} status", if other.is_empty() { "Unknown" } else { other });
            (ConditionStatus::Unknown, "InspectionFailed", message)
        }
    }
}

fn provisioning(message: String) -> Verdict {
    (ConditionStatus::False, "Provisioning", message)
}

fn failed(message: String) -> Verdict {
    (ConditionStatus::False, "Failed", message)
}

/// Returns the verdict on a pod that runs but is not ready.
fn of_containers(pod: &Pod) -> Verdict {
    let containers =
        pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    for container in containers {
        let state = container.state.as_ref();
        if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
            let reason = waiting.reason.clone().unwrap_or_default();
            return if exited_with_error(container) { failed(reason) } else { provisioning(reason) };
        }
        if let Some(terminated) = state.and_then(|state| state.terminated.as_ref()) {
            return failed(terminated.reason.clone().unwrap_or_else(|| "Terminated".to_owned()));
        }
    }
    provisioning("Waiting for startup or readiness probes".to_owned())
}

fn exited_with_error(container: &ContainerStatus) -> bool {
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    last.is_some_and(|last| last.exit_code != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_state_of_a_static_pod_gives_status_and_reason() {
        use ConditionStatus::{False, True, Unknown};
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let container = |state: &Value, last: Value| {
            json!([{
                "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last,
            }])
        };
        let crashed = json!({"terminated": {"exitCode": 1}});
        let table = [
            (json!({"phase": "Pending"}), False, "Provisioning"),
            (json!({"phase": "Running", "conditions": ready("True")}), True, "Running"),
            (json!({"phase": "Running", "conditions": ready("False")}), False, "Provisioning"),
            (
                json!({"phase": "Running", "containerStatuses": container(&waiting, json!({}))}),
                False,
                "Provisioning",
            ),
            (
                json!({"phase": "Running", "containerStatuses": container(&waiting, crashed.clone())}),
                False,
                "Failed",
            ),
            (
                json!({"phase": "Running", "containerStatuses": container(&crashed, json!({}))}),
                False,
                "Failed",
            ),
            (json!({"phase": "Succeeded"}), False, "Failed"),
            (json!({"phase": "Failed"}), False, "Failed"),
            (json!({"phase": "Unknown"}), Unknown, "InspectionFailed"),
            (json!({}), Unknown, "InspectionFailed"),
        ];
        for (status, expected, reason) in table {
            let pod: Pod = serde_json::from_value(json!({"status": status})).unwrap();
            let found = verdict("p", &Ok(Some(pod)));
            assert_eq!((found.0, found.1), (expected, reason), "{status}");
        }
        assert_eq!(verdict("p", &Ok(None)).1, "DoesNotExist");
        assert_eq!(verdict("p", &Err("no".to_owned())).1, "InspectionFailed");
    }
}
