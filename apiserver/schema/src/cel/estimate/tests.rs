//! Tests of estimated costs. Those in `costs.tsv` are computed by `k8s.io/apiserver` 0.36.3 with cel-go 0.29, as
//! Cluster API 1.14.2 contains it. The columns are the name of a schema, the cost, and the expression.

use serde_json::{Value, json};

use crate::Schema;

const COSTS: &str = include_str!("costs.tsv");

/// Upstream computes larger numbers with fractions that do not hold every digit.
const EXACT: u64 = 1 << 53;

/// Schema with bounds.
pub(in crate::cel) fn small() -> Value {
    json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 10}, "long": {"type": "string"},
        "word": {"type": "string", "enum": ["a", "bcd", "é"]},
        "count": {"type": "integer"}, "share": {"type": "number"}, "on": {"type": "boolean"},
        "wait": {"type": "string", "format": "duration"}, "since": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"}, "raw": {"type": "string", "format": "byte", "maxLength": 20},
        "mix": {"x-kubernetes-int-or-string": true},
        "tags": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 4}},
        "numbers": {"type": "array", "maxItems": 7, "items": {"type": "integer"}},
        "labels": {"type": "object", "maxProperties": 6, "additionalProperties": {"type": "string", "maxLength": 3}},
        "rules": {"type": "array", "maxItems": 3, "items": {"type": "object", "required": ["id"], "properties": {
            "id": {"type": "string", "maxLength": 5},
            "to": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": 8}}}}}}})
}

/// Schema without bounds.
pub(in crate::cel) fn large() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "rules": {"type": "array", "items": {"type": "object", "required": ["id", "on"], "properties": {
            "id": {"type": "string"}, "on": {"type": "boolean"},
            "to": {"type": "array", "items": {"type": "string"}}}}}}})
}

#[test]
fn estimated_costs_match_upstream() {
    let text = json!({"type": "string", "maxLength": 25});
    let schema = |schema: &Value| Schema::compile(schema).unwrap();
    let (small, large, text) = (schema(&small()), schema(&large()), schema(&text));
    let mut wrong = Vec::new();
    for line in COSTS.lines() {
        let [name, cost, expression] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let schema = match name {
            "small" => &small,
            "large" => &large,
            _ => &text,
        };
        let cost: u64 = cost.parse().unwrap();
        match schema.analyze(&json!({"rule": expression})).rule {
            Ok(found) if found == cost || found.min(cost) > EXACT => {}
            found => wrong.push(format!("{name} {expression}: {cost}, not {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_maximum_number_of_values_in_a_request_follows_the_schema() {
    for (schema, expected) in [
        (small(), 241_979),
        (large(), 1_048_576),
        (json!({"type": "boolean"}), 629_145),
        (json!({"type": "string", "format": "date-time"}), 142_987),
    ] {
        assert_eq!(Schema::compile(&schema).unwrap().most_in_a_request(), expected, "{schema}");
    }
}
