//! Table of Events for `kubectl get`.

use apiserver_machinery::age::age;
use apiserver_machinery::object;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Columns: when, what and to which object. The Event's own name is visible only with `-o wide`.
pub(super) const TABLE: OwnTable = OwnTable {
    columns: &[
        column("Last Seen", 0, "How long ago it happened last."),
        column("Type", 0, "Normal or Warning."),
        column("Reason", 0, "In one word, what happened."),
        column("Object", 0, "Kind and name of what it happened to."),
        column("Subobject", 1, "The part of the object that it happened to."),
        column("Source", 1, "Who says so."),
        column("Message", 0, "What happened, for people."),
        column("First Seen", 1, "How long ago it happened first."),
        column("Count", 1, "How often it happened."),
        OwnColumn { format: "name", ..column("Name", 1, "The name of the Event.") },
    ],
    cells,
};

const fn column(name: &'static str, priority: i32, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority, description }
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let first_of = |pointers: &[&str]| -> String {
        pointers
            .iter()
            .map(|pointer| text(pointer))
            .find(|found| !found.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let series = event.get("series").filter(|series| series.is_object());
    let first = first_of(&["/firstTimestamp", "/eventTime"]);
    let last = match series {
        Some(_) => text("/series/lastObservedTime").to_owned(),
        None => first_of(&["/lastTimestamp", "/firstTimestamp", "/eventTime"]),
    };
    let count = |of: &Value| of.get("count").and_then(Value::as_i64).unwrap_or_default();
    // An Event without a count has occurred once.
    let count = series.map_or_else(|| Some(count(event)).filter(|count| *count != 0).unwrap_or(1), count);
    vec![
        json!(age(&last, now)),
        json!(text("/type")),
        json!(text("/reason")),
        json!(joined([&text("/involvedObject/kind").to_lowercase(), text("/involvedObject/name")], "/")),
        json!(text("/involvedObject/fieldPath")),
        json!(joined(
            [
                &first_of(&["/source/component", "/reportingComponent"]),
                &first_of(&["/source/host", "/reportingInstance"])
            ],
            ", "
        )),
        json!(text("/message").trim()),
        json!(age(&first, now)),
        json!(count),
        json!(object::name(event)),
    ]
}

/// Returns the first text, followed by the second one if it is not empty.
fn joined([first, second]: [&str; 2], between: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first}{between}{second}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_events_matches_kube_apiserver() {
        let now = "2026-11-21T00:00:00Z".parse().unwrap();
        let old = json!({"metadata": {"name": "e1"}, "reason": "R", "message": " Msg\n", "type": "Normal",
            "involvedObject": {"kind": "Machine", "name": "m1", "fieldPath": "spec.x"},
            "source": {"component": "c", "host": "h"}, "count": 3,
            "firstTimestamp": "2026-11-19T00:00:00Z", "lastTimestamp": "2026-11-20T23:00:00Z"});
        let expected = json!(["60m", "Normal", "R", "machine/m1", "spec.x", "c, h", "Msg", "2d", 3, "e1"]);
        assert_eq!(Value::Array(cells(&old, now)), expected);
        let new = json!({"metadata": {"name": "e2"}, "reason": "R", "message": "M", "type": "Warning",
            "involvedObject": {"kind": "Machine", "name": "m1"}, "reportingComponent": "rc", "reportingInstance": "ri",
            "eventTime": "2026-11-19T00:00:00.000000Z", "firstTimestamp": null,
            "series": {"count": 7, "lastObservedTime": "2026-11-20T23:00:00.000000Z"}});
        let expected = json!(["60m", "Warning", "R", "machine/m1", "", "rc, ri", "M", "2d", 7, "e2"]);
        assert_eq!(Value::Array(cells(&new, now)), expected);
        let nothing = json!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "e3"]);
        assert_eq!(Value::Array(cells(&json!({"metadata": {"name": "e3"}}), now)), nothing);
    }
}
