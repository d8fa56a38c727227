//! Answer of the verb `why` as text.

use jiff::Timestamp;
use serde_json::Value;

use super::nodes;
use crate::output::age;

/// Indent of each object below the one above it. Unit: columns.
const INDENT: usize = 2;

/// Width of the titles of the lines about a cause. Unit: columns.
const TITLE: usize = 12;

/// Returns the chains, the most urgent one first, and the last known Nodes of a workload cluster that does not answer.
pub(super) fn text(answer: &Value, now: Timestamp) -> String {
    let chains = answer["chains"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut parts: Vec<String> = chains.iter().map(|it| chain(it, now)).collect();
    if parts.is_empty() {
        parts.push(format!("{}\n", word(answer, "message")));
    }
    parts.extend(answer.get("lastKnown").map(|it| nodes::text(it, now)));
    parts.join("\n")
}

/// Returns the objects of a chain, one below the other, and what is known about its cause.
fn chain(chain: &Value, now: Timestamp) -> String {
    let links = chain["links"].as_array().into_iter().flatten().enumerate();
    let mut lines: Vec<String> = links.map(|(depth, it)| link(it, depth.saturating_mul(INDENT))).collect();
    let cause = &chain["cause"];
    let aged = aged(word(cause, "since"), now);
    let reason = word(cause, "reason");
    let more =
        (!reason.is_empty() && cause["unblock"].is_string()).then(|| format!("capstan explain {reason}"));
    let others = chain["otherMachines"].as_u64().filter(|count| *count > 0);
    for (title, text) in [
        ("Cause", word(cause, "message").to_owned()),
        ("Since", aged),
        ("Also", others.map(|count| format!("{count} more Machines of the same owner")).unwrap_or_default()),
        ("Next try", word(cause, "nextTry").to_owned()),
        ("To unblock", word(cause, "unblock").to_owned()),
        ("More", more.unwrap_or_default()),
    ] {
        lines.extend(titled(title, &text));
    }
    lines.join("\n") + "\n"
}

fn link(link: &Value, indent: usize) -> String {
    let mut line = format!("{:indent$}{}/{}", "", word(link, "kind"), word(link, "name"));
    if link["condition"].is_string() {
        let [condition, status, reason] = ["condition", "status", "reason"].map(|field| word(link, field));
        line.push_str(&format!("  {condition} {status}, {reason}"));
    }
    line
}

/// Returns the lines of a text behind a title; none without a text.
fn titled(title: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let line = |(index, line): (usize, &str)| {
        let title = if index == 0 { format!("{title}:") } else { String::new() };
        format!("{title:TITLE$}{line}")
    };
    lines.map(line).collect()
}

/// Returns a time with its age; an empty text if it is no time.
pub(super) fn aged(since: &str, now: Timestamp) -> String {
    since.parse().map(|then| format!("{since} ({} ago)", age(then, now))).unwrap_or_default()
}

/// Returns a field that is a text; an empty text if it is absent.
pub(super) fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chain_is_a_path_with_its_cause_below() {
        let link = |kind: &str, condition: &str, reason: &str| json!({"kind": kind, "name": "blue", "condition": condition, "status": "False", "reason": reason});
        let cause = json!({"message": "no room\nin az1", "reason": "QuotaExceeded", "since": "2026-11-30T08:00:00Z",
            "unblock": "- Raise the quota.", "nextTry": "Within a minute."});
        let links = [
            link("Cluster", "Available", "NotAvailable"),
            json!({"kind": "MachineSet", "name": "ms"}),
            link("OpenStackMachine", "InstanceReady", "QuotaExceeded"),
        ];
        let answer = json!({"chains": [{"links": links, "cause": cause, "otherMachines": 2}]});
        let expected = "Cluster/blue  Available False, NotAvailable\n  MachineSet/ms\n    OpenStackMachine/blue  \
            InstanceReady False, QuotaExceeded\nCause:      no room\n            in az1\nSince:      \
            2026-11-30T08:00:00Z (5m ago)\nAlso:       2 more Machines of the same owner\nNext try:   Within a minute.\n\
            To unblock: - Raise the quota.\nMore:       capstan explain QuotaExceeded\n";
        assert_eq!(text(&answer, "2026-11-30T08:05:00Z".parse().unwrap()), expected);
    }

    #[test]
    fn without_a_chain_the_message_is_all() {
        let answer = json!({"message": "Nothing holds up Cluster c", "chains": []});
        assert_eq!(text(&answer, Timestamp::UNIX_EPOCH), "Nothing holds up Cluster c\n");
    }
}
