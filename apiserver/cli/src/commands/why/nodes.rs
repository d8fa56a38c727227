//! Last known Nodes of a workload cluster that does not answer, as text.

use jiff::Timestamp;
use serde_json::Value;

use super::view::{aged, word};
use crate::output::columns;

/// Number of Nodes that are shown: the control plane is among them, and the first cause above stays in sight.
const SHOWN: usize = 20;

/// Titles of the columns.
const TITLES: [&str; 5] = ["NODE", "READY", "VERSION", "ADDRESS", "CONTROL PLANE"];

/// Returns the table of the Nodes.
pub(super) fn text(last_known: &Value, now: Timestamp) -> String {
    let nodes = last_known["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(nodes.iter().take(SHOWN).map(row));
    let since = aged(word(last_known, "since"), now);
    let mut text =
        format!("Last known Nodes. The workload API has not answered since {since}:\n{}", columns(&rows));
    let hidden = nodes.len().saturating_sub(SHOWN);
    if hidden > 0 {
        text.push_str(&format!("{hidden} more Nodes: see lastKnown.nodes in the output of -o json\n"));
    }
    text
}

fn row(node: &Value) -> [String; 5] {
    let conditions = node["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ready = conditions.iter().find(|it| word(it, "type") == "NodeReady");
    let ready = ready.map(|it| word(it, "status")).unwrap_or_default();
    let mut addresses = node["addresses"].as_array().into_iter().flatten();
    let address = addresses.find(|it| word(it, "type") == "InternalIP");
    let address = address.map(|it| word(it, "address")).unwrap_or_default();
    let is_control_plane = node["controlPlane"] == true;
    let components = if is_control_plane { components(conditions) } else { String::new() };
    [word(node, "name"), ready, word(node, "version"), address, components.as_str()].map(str::to_owned)
}

/// Returns the components that were not healthy, or that all were.
fn components(conditions: &[Value]) -> String {
    let components = conditions.iter().filter(|it| !word(it, "type").starts_with("Node"));
    let states: Vec<(&str, &str)> = components.map(|it| (word(it, "type"), word(it, "status"))).collect();
    let other: Vec<String> = states
        .iter()
        .filter(|(_, status)| *status != "True")
        .map(|(kind, status)| format!("{kind} {status}"))
        .collect();
    match (states.is_empty(), other.is_empty()) {
        (true, _) => "not known".to_owned(),
        (false, true) => "healthy".to_owned(),
        (false, false) => other.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status})
    }

    #[test]
    fn the_nodes_are_a_table_with_the_age_of_what_is_known() {
        let address = |text: &str| json!([{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": text}]);
        let api = |status: &str| state("APIServerPodHealthy", status);
        let nodes = json!([
            {"name": "cp-0", "version": "v1.34.2", "controlPlane": true, "addresses": address("10.0.0.5"),
                "conditions": [state("NodeReady", "True"), state("NodeHealthy", "True"), api("True")]},
            {"name": "cp-1", "version": "v1.34.2", "controlPlane": true, "addresses": address("10.0.0.6"),
                "conditions": [state("NodeReady", "False"), api("Unknown"), state("EtcdPodHealthy", "False")]},
            {"name": "cp-2", "controlPlane": true, "conditions": []},
            {"name": "w", "controlPlane": false, "conditions": [state("NodeReady", "True")]},
        ]);
        let section = json!({"since": "2026-11-30T08:00:00Z", "nodes": nodes});
        let expected = "Last known Nodes. The workload API has not answered since 2026-11-30T08:00:00Z (2h ago):\n\
            NODE  READY  VERSION  ADDRESS   CONTROL PLANE\n\
            cp-0  True   v1.34.2  10.0.0.5  healthy\n\
            cp-1  False  v1.34.2  10.0.0.6  APIServerPodHealthy Unknown, EtcdPodHealthy False\n\
            cp-2                            not known\n\
            w     True\n";
        assert_eq!(text(&section, "2026-11-30T10:05:00Z".parse().unwrap()), expected);
    }

    #[test]
    fn a_long_list_ends_with_the_number_of_the_other_nodes() {
        let nodes = vec![json!({"name": "w", "controlPlane": false, "conditions": []}); SHOWN + 3];
        let text = text(&json!({"since": "", "nodes": nodes}), Timestamp::UNIX_EPOCH);
        assert_eq!(text.lines().count(), 1 + 1 + SHOWN + 1);
        assert!(text.ends_with("3 more Nodes: see lastKnown.nodes in the output of -o json\n"), "{text}");
    }
}
