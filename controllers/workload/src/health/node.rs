//! Conditions `NodeReady` and `NodeHealthy` of a Machine whose Node exists.

use apiserver_types::ConditionStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{reported, status};

/// Condition of a Machine that reports on its Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    /// Status.
    pub status: ConditionStatus,
    /// Reason.
    pub reason: &'static str,
    /// Message, empty if the status is True.
    pub message: String,
    /// Time of the last transition of the Node's own condition, if there is exactly one.
    pub transition: Option<Timestamp>,
}

/// Text for a condition without a message.
const NOT_REPORTED: &str = "Condition not yet reported";

/// Conditions of a Node that make it healthy, with their wanted status.
const HEALTHY: [(&str, ConditionStatus); 4] = [
    ("Ready", ConditionStatus::True),
    ("MemoryPressure", ConditionStatus::False),
    ("DiskPressure", ConditionStatus::False),
    ("PIDPressure", ConditionStatus::False),
];

/// Returns the condition `NodeReady`.
pub fn node_ready(node: &Node) -> NodeCondition {
    let ready = reported(node, "Ready");
    let status = ready.map_or(ConditionStatus::Unknown, |ready| status(&ready.status));
    let reason = match status {
        ConditionStatus::True => "NodeReady",
        ConditionStatus::False => "NodeNotReady",
        ConditionStatus::Unknown => "NodeReadyUnknown",
    };
    let message = match status {
        ConditionStatus::True => String::new(),
        ConditionStatus::False | ConditionStatus::Unknown => {
            format!("* Node.Ready: {}", message(node, "Ready"))
        }
    };
    let transition = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    NodeCondition { status, reason, message, transition }
}

/// Returns the condition `NodeHealthy`.
pub fn node_healthy(node: &Node) -> NodeCondition {
    let found = |kind| reported(node, kind).map_or(ConditionStatus::Unknown, |found| status(&found.status));
    let bad: Vec<(&str, ConditionStatus)> = HEALTHY
        .into_iter()
        .filter(|(kind, wanted)| found(kind) != *wanted)
        .map(|(kind, _)| (kind, found(kind)))
        .collect();
    let (status, reason) = if bad.is_empty() {
        (ConditionStatus::True, "NodeHealthy")
    } else if bad.iter().any(|(_, status)| *status != ConditionStatus::Unknown) {
        (ConditionStatus::False, "NodeNotHealthy")
    } else {
        (ConditionStatus::Unknown, "NodeHealthyUnknown")
    };
    NodeCondition { status, reason, message: lines(node, &bad), transition: None }
}

/// Returns one line per condition, or one for all if they say the same.
fn lines(node: &Node, bad: &[(&str, ConditionStatus)]) -> String {
    let texts: Vec<String> = bad.iter().map(|(kind, _)| message(node, kind)).collect();
    if let Some(first) = texts.first()
        && texts.len() == HEALTHY.len()
        && texts.iter().all(|text| text == first)
    {
        return format!("* Node.AllConditions: {first}");
    }
    let lines = bad.iter().zip(texts).map(|((kind, _), text)| format!("* Node.{kind}: {text}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn message(node: &Node, kind: &str) -> String {
    let Some(found) = reported(node, kind) else { return NOT_REPORTED.to_owned() };
    let message = found.message.clone().filter(|message| !message.is_empty());
    message.unwrap_or_else(|| format!("Condition is {}", found.status))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Statuses of Ready and of the three pressures; empty is not reported.
    fn node(statuses: [&str; 4], message: &str) -> Node {
        let conditions: Vec<Value> = HEALTHY
            .iter()
            .zip(statuses)
            .filter(|(_, status)| !status.is_empty())
            .map(|((kind, _), status)| {
                json!({ "type": kind, "status": status, "message": message,
                        "lastTransitionTime": "2026-01-01T00:00:00Z" })
            })
            .collect();
        serde_json::from_value(json!({ "status": { "conditions": conditions } })).unwrap()
    }

    #[test]
    fn conditions_of_a_node_become_conditions_of_its_machine() {
        use ConditionStatus::{False, True, Unknown};
        let good = ["True", "False", "False", "False"];
        let cases = [
            (node(good, "fine"), (True, "NodeReady", ""), (True, "NodeHealthy", "")),
            (
                node(["False", "False", "False", "False"], "no network"),
                (False, "NodeNotReady", "* Node.Ready: no network"),
                (False, "NodeNotHealthy", "* Node.Ready: no network"),
            ),
            (
                node(["True", "True", "False", "Unknown"], "full"),
                (True, "NodeReady", ""),
                (False, "NodeNotHealthy", "* Node.MemoryPressure: full\n* Node.PIDPressure: full"),
            ),
            (
                node(["Unknown"; 4], "Kubelet stopped posting node status."),
                (Unknown, "NodeReadyUnknown", "* Node.Ready: Kubelet stopped posting node status."),
                (Unknown, "NodeHealthyUnknown", "* Node.AllConditions: Kubelet stopped posting node status."),
            ),
            (
                node(["False", "False", "False", "False"], ""),
                (False, "NodeNotReady", "* Node.Ready: Condition is False"),
                (False, "NodeNotHealthy", "* Node.Ready: Condition is False"),
            ),
            (
                node(["", "False", "False", "False"], "fine"),
                (Unknown, "NodeReadyUnknown", "* Node.Ready: Condition not yet reported"),
                (Unknown, "NodeHealthyUnknown", "* Node.Ready: Condition not yet reported"),
            ),
        ];
        for (node, ready, healthy) in cases {
            let found = node_ready(&node);
            assert_eq!((found.status, found.reason, found.message.as_str()), ready);
            let found = node_healthy(&node);
            assert_eq!((found.status, found.reason, found.message.as_str()), healthy);
        }
        let transition = node_ready(&node(good, "fine")).transition;
        assert_eq!(transition, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }
}
