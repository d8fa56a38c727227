//! One row for each rule on a control plane Pod.

use ConditionStatus::{False, True, Unknown};
use serde_json::{Value, json};

use super::*;

fn node(spec: &Value, ready: &str) -> Node {
    let conditions = json!([{ "type": "Ready", "status": ready }]);
    serde_json::from_value(json!({ "spec": spec, "status": { "conditions": conditions } })).unwrap()
}

fn pod(phase: &str, ready: &str, state: &Value, last: &Value) -> Pod {
    let container = json!({ "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last });
    let conditions =
        json!([{ "type": "Ready", "status": ready }, { "type": "PodScheduled", "status": "True" }]);
    let status = json!({ "phase": phase, "conditions": conditions, "containerStatuses": [container] });
    serde_json::from_value(json!({ "status": status })).unwrap()
}

const MACHINE: MachineView<'_> =
    MachineView { deleting: false, provider_id: Some("id"), node_name: Some("n") };

type Row<'a> =
    (&'a str, MachineView<'a>, PodView<'a>, (ConditionStatus, &'a str), (ConditionStatus, &'a str, &'a str));

fn check(rows: &[Row<'_>]) {
    for (case, machine, view, expected, v1beta1) in rows {
        let found = pod_condition(Component::ApiServer, *machine, view);
        assert_eq!((found.status, found.reason), *expected, "{case}");
        let form = found.v1beta1;
        assert_eq!((form.status, form.reason, form.severity), *v1beta1, "{case}");
        assert_eq!(found.message.is_empty(), found.status == True, "{case}: {}", found.message);
    }
}

#[test]
fn a_pod_that_cannot_be_seen_is_reported_with_the_reason() {
    let good = node(&json!({}), "True");
    let silent = node(&json!({}), "Unknown");
    let taint = json!({ "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoExecute" }] });
    let tainted = node(&taint, "True");
    let deleting = MachineView { deleting: true, ..MACHINE };
    let without_id = MachineView { provider_id: None, node_name: None, ..MACHINE };
    let without_node = MachineView { node_name: None, ..MACHINE };
    let at = |node| PodView { node: Ok(Some(node)), pod: PodRead::Missing };
    let none = PodView { node: Ok(None), pod: PodRead::Missing };
    let not_listed = PodView { node: Err("timeout"), ..none };
    let not_read = PodView { pod: PodRead::Failed("timeout"), ..at(&good) };
    let (blind, old) = ((Unknown, "InspectionFailed"), (Unknown, "PodInspectionFailed", ""));
    check(&[
        ("Nodes not listable", deleting, not_listed, blind, old),
        ("deleting", deleting, at(&good), (False, "Deleting"), (False, "Deleting", "Info")),
        ("no provider id", without_id, none, blind, old),
        ("no Node reference", without_node, none, blind, old),
        ("Node gone", MACHINE, none, blind, (False, "PodFailed", "Error")),
        ("unreachable taint", MACHINE, at(&tainted), blind, old),
        ("Node does not report", MACHINE, at(&silent), blind, old),
        ("no Pod", MACHINE, at(&good), (False, "DoesNotExist"), (False, "PodMissing", "Error")),
        ("read error", MACHINE, not_read, blind, old),
    ]);
}

#[test]
fn a_pod_is_judged_by_its_phase_and_containers() {
    let node = node(&json!({}), "True");
    let (running, ended) = (json!({ "running": {} }), json!({ "terminated": { "exitCode": 1 } }));
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let clean = json!({ "terminated": { "exitCode": 0 } });
    let pods = [
        ("pending", pod("Pending", "False", &waiting, &json!({})), "Provisioning"),
        ("ready", pod("Running", "True", &running, &json!({})), "Running"),
        ("waiting after a failure", pod("Running", "False", &waiting, &ended), "Failed"),
        ("waiting after a clean end", pod("Running", "False", &waiting, &clean), "Provisioning"),
        ("waiting for the first time", pod("Running", "False", &waiting, &json!({})), "Provisioning"),
        ("terminated", pod("Running", "False", &ended, &json!({})), "Failed"),
        ("not ready yet", pod("Running", "False", &running, &json!({})), "Provisioning"),
        ("succeeded", pod("Succeeded", "False", &ended, &json!({})), "Failed"),
        ("failed", pod("Failed", "False", &ended, &json!({})), "Failed"),
        ("unknown", pod("Unknown", "False", &running, &json!({})), "InspectionFailed"),
    ];
    let rows: Vec<Row<'_>> = pods
        .iter()
        .map(|(case, pod, reason)| {
            let (status, v1beta1) = match *reason {
                "Provisioning" => (False, (False, "PodProvisioning", "Info")),
                "Running" => (True, (True, "", "")),
                "Failed" => (False, (False, "PodFailed", "Error")),
                _ => (Unknown, (Unknown, "PodInspectionFailed", "")),
            };
            (
                *case,
                MACHINE,
                PodView { node: Ok(Some(&node)), pod: PodRead::Found(pod) },
                (status, *reason),
                v1beta1,
            )
        })
        .collect();
    check(&rows);
}

#[test]
fn a_message_names_the_cause() {
    let node = node(&json!({}), "True");
    let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let pod = pod("Running", "False", &waiting, &json!({ "terminated": { "exitCode": 2 } }));
    let view = PodView { node: Ok(Some(&node)), pod: PodRead::Found(&pod) };
    let message = pod_condition(Component::Etcd, MACHINE, &view).message;
    assert_eq!(message, "CrashLoopBackOff, last exit code 2");
    let missing = PodView { pod: PodRead::Missing, ..view };
    assert_eq!(pod_condition(Component::Etcd, MACHINE, &missing).message, "Pod etcd-n does not exist");
}
