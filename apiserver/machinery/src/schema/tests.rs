use serde_json::json;

use super::Schema;
use crate::field_errors::FieldPath;

fn gadget() -> Schema {
    Schema::compile(&json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1.0, "maximum": 9.0},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "percent": {"x-kubernetes-int-or-string": true},
            "since": {"type": "string", "format": "date-time"},
            "parts": {
                "type": "array", "maxItems": 3, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
                "items": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string"}, "on": {"type": "boolean", "default": true}}}
            }
        },
        "required": ["size"]
    }))
    .unwrap()
}

#[test]
fn unknown_fields_are_dropped_and_named_unless_preserved() {
    let mut value = json!({"size": 1, "nope": 1, "free": {"x": 1}, "labels": {"a": "b"}, "parts": [{"id": "a", "zz": 1}]});
    let unknown = gadget().prune(&mut value, &FieldPath::new("spec"));
    assert_eq!(unknown, ["spec.nope", "spec.parts[0].zz"]);
    assert_eq!(value, json!({"size": 1, "free": {"x": 1}, "labels": {"a": "b"}, "parts": [{"id": "a"}]}));
}

#[test]
fn defaults_fill_absent_fields_and_forbidden_nulls() {
    let mut value = json!({"size": null, "colour": null, "parts": [{"id": "a"}]});
    gadget().fill_in(&mut value);
    assert_eq!(value, json!({"colour": "red", "parts": [{"id": "a", "on": true}]}));
}

#[test]
fn each_broken_rule_names_its_field() {
    let table = [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 3_000_000_000_u64}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size",
        ),
        (
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 1, "colour": "green"}),
            "spec.colour: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
        ),
        (json!({"size": 1, "name": "abcd"}), "spec.name: Too long: may not be more than 3 bytes"),
        (
            json!({"size": 1, "name": "A"}),
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]*$'",
        ),
        (
            json!({"size": 1, "labels": {"a": 1}}),
            "spec.labels.a: Invalid value: \"integer\": spec.labels.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"size": 1, "percent": true}),
            "spec.percent: Invalid value: \"boolean\": spec.percent in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"size": 1, "since": "today"}),
            "spec.since: Invalid value: \"today\": spec.since in body must be of type date-time: \"today\"",
        ),
        (
            json!({"size": 1, "parts": [{"id": "a"}, {"id": "a"}]}),
            "spec.parts[1]: Duplicate value: {\"id\":\"a\"}",
        ),
        (
            json!({"size": 1, "parts": [{}, {"id": "1"}, {"id": "2"}, {"id": "3"}]}),
            "spec.parts: Too many: 4: must have at most 3 items",
        ),
    ];
    for (value, expected) in table {
        let faults = gadget().validate(&value, None, &FieldPath::new("spec"));
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected], "{value}");
    }
    let broken = gadget().validate(&json!({"size": 1.5}), None, &FieldPath::new("spec"));
    assert_eq!(broken.len(), 2, "as an int32, and as an integer");
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let old = json!({"size": 99, "colour": "red"});
    let new = json!({"size": 99, "colour": "blue"});
    assert_eq!(gadget().validate(&new, Some(&old), &FieldPath::new("spec")), []);
    let worse = json!({"size": 98, "colour": "blue"});
    assert_eq!(gadget().validate(&worse, Some(&old), &FieldPath::new("spec")).len(), 1);
}
