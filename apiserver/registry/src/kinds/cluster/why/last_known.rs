//! Last known state of a workload cluster whose API does not answer: its Nodes and the components of its control plane,
//! from the stored Machines. Pure.

use apiserver_machinery::object;
use apiserver_types::last_known::{LAST_KNOWN_CONTROL_PLANE, LAST_KNOWN_NODE, is_unread, last_known};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::chain::{Objects, age_seconds};
use super::conditions::condition;
use crate::rules::json_fields::{annotation, text};

/// Condition of a Cluster with the result of the probes of its workload API.
const PROBE: &str = "RemoteConnectionProbe";

/// Label of control plane Machines. Its value has no meaning.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Conditions of a Machine that report on its Node.
const NODE: [&str; 2] = ["NodeReady", "NodeHealthy"];

/// Conditions of a Machine that report on the components of the control plane.
const COMPONENTS: [&str; 5] = [
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
];

/// Returns the Nodes of the Machines, those of the control plane first. `None` while the workload API answers, and for a
/// Cluster without a known Node.
pub(super) fn section(objects: &Objects, now: Timestamp) -> Option<Value> {
    let probe = condition(&objects.cluster, PROBE).filter(|it| text(it, "status") != Some("True"))?;
    let mut machines: Vec<&Value> = objects.machines.iter().collect();
    machines.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let nodes: Vec<Value> = machines.into_iter().filter_map(shown).collect();
    if nodes.is_empty() {
        return None;
    }
    let [since, message] = ["lastTransitionTime", "message"].map(|it| text(probe, it).unwrap_or_default());
    let mut section = json!({"since": since, "message": message, "nodes": nodes});
    if let Some(seconds) = age_seconds(since, now) {
        section["ageSeconds"] = json!(seconds);
    }
    Some(section)
}

fn is_control_plane(machine: &Value) -> bool {
    object::labels(machine).is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL))
}

fn rank(machine: &Value) -> (bool, &str) {
    (!is_control_plane(machine), object::name(machine))
}

/// Returns the Node of a Machine. `None` if it never had one.
fn shown(machine: &Value) -> Option<Value> {
    let name = text(machine, "status.nodeRef.name")?;
    let is_control_plane = is_control_plane(machine);
    let of_node = NODE.into_iter().filter_map(|kind| state(machine, kind, LAST_KNOWN_NODE));
    let components = COMPONENTS.into_iter().filter(|_| is_control_plane);
    let components = components.filter_map(|kind| state(machine, kind, LAST_KNOWN_CONTROL_PLANE));
    let conditions: Vec<Value> = of_node.chain(components).collect();
    let mut node = json!({
        "name": name, "machine": object::name(machine), "controlPlane": is_control_plane, "conditions": conditions,
    });
    if let Some(version) = text(machine, "status.nodeInfo.kubeletVersion") {
        node["version"] = json!(version);
    }
    if let Some(addresses) = object::at(machine, "status.addresses") {
        node["addresses"] = addresses.clone();
    }
    Some(node)
}

/// Returns a condition of a Machine. If it is unread now, its last known state comes from the annotation, and `until` is
/// the time at which the controllers gave it up.
fn state(machine: &Value, kind: &str, kept_in: &str) -> Option<Value> {
    let now = condition(machine, kind)?;
    let [status, reason, since] =
        ["status", "reason", "lastTransitionTime"].map(|field| text(now, field).unwrap_or_default());
    let kept = last_known(annotation(machine, kept_in)).remove(kind).filter(|_| is_unread(reason));
    Some(match kept {
        Some(kept) => json!({"type": kind, "status": kept.status, "reason": kept.reason, "until": since}),
        None => json!({"type": kind, "status": status, "reason": reason, "since": since}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTIL: &str = "2026-11-30T08:05:00Z";

    fn with(conditions: &[(&str, &str, &str)]) -> Value {
        let conditions = conditions.iter().map(|(kind, status, reason)| {
            json!({"type": kind, "status": status, "reason": reason, "message": "down", "lastTransitionTime": UNTIL})
        });
        json!({"conditions": conditions.collect::<Vec<_>>()})
    }

    /// Returns a Machine whose annotation has this state.
    fn machine(name: &str, conditions: &[(&str, &str, &str)], key: &str, kept: &str) -> Value {
        let mut status = with(conditions);
        status["nodeRef"] = json!({"name": format!("node-{name}")});
        json!({"metadata": {"name": name, "annotations": {key: kept}}, "status": status})
    }

    #[test]
    fn the_last_known_nodes_of_a_silent_cluster_are_shown_with_their_age() {
        let kept = r#"{"NodeReady":{"status":"True","reason":"NodeReady"}}"#;
        let down = ("NodeReady", "Unknown", "ConnectionDown");
        let mut worker =
            machine("a", &[down, ("APIServerPodHealthy", "True", "Running")], LAST_KNOWN_NODE, kept);
        worker["status"]["nodeInfo"] = json!({"kubeletVersion": "v1.34.2"});
        worker["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.0.0.5"}]);
        let kept = r#"{"EtcdPodHealthy":{"status":"False","reason":"Failed"},"NodeReady":{"status":"True","reason":"x"}}"#;
        let conditions = [
            ("NodeReady", "False", "NodeNotReady"),
            ("APIServerPodHealthy", "Unknown", "InspectionFailed"),
            ("EtcdPodHealthy", "Unknown", "InspectionFailed"),
        ];
        let mut control_plane = machine("z", &conditions, LAST_KNOWN_CONTROL_PLANE, kept);
        control_plane["metadata"]["labels"] = json!({CONTROL_PLANE_LABEL: ""});
        let new = json!({"metadata": {"name": "new"}, "status": {}});
        let cluster = json!({"status": with(&[(PROBE, "False", "ProbeFailed")])});
        let objects = Objects { cluster, machines: vec![worker, control_plane, new], ..Objects::default() };
        let found = section(&objects, "2026-11-30T08:06:00Z".parse().unwrap()).unwrap();
        let expected = json!({
            "since": UNTIL, "ageSeconds": 60, "message": "down",
            "nodes": [
                {"name": "node-z", "machine": "z", "controlPlane": true, "conditions": [
                    {"type": "NodeReady", "status": "False", "reason": "NodeNotReady", "since": UNTIL},
                    {"type": "APIServerPodHealthy", "status": "Unknown", "reason": "InspectionFailed", "since": UNTIL},
                    {"type": "EtcdPodHealthy", "status": "False", "reason": "Failed", "until": UNTIL},
                ]},
                {"name": "node-a", "machine": "a", "controlPlane": false, "version": "v1.34.2",
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
                    "conditions": [{"type": "NodeReady", "status": "True", "reason": "NodeReady", "until": UNTIL}]},
            ],
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_cluster_that_answers_or_never_had_a_node_has_no_last_known_state() {
        let known = machine("a", &[("NodeReady", "True", "NodeReady")], LAST_KNOWN_NODE, "{}");
        let cluster = |status| json!({"status": with(&[(PROBE, status, "Reason")])});
        let of = |cluster, machines| {
            section(&Objects { cluster, machines, ..Objects::default() }, Timestamp::UNIX_EPOCH)
        };
        assert_eq!(of(cluster("True"), vec![known.clone()]), None);
        assert_eq!(of(cluster("False"), Vec::new()), None);
        assert_eq!(of(json!({}), vec![known.clone()]), None);
        assert!(of(cluster("False"), vec![known]).is_some());
    }
}
