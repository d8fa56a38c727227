//! Tests of structural schemas: pruning, defaulting, validation and ratcheting.

use serde_json::{Value, json};

use super::{MetadataRules, Schema};
use crate::field_errors::{FieldError, FieldPath};

fn gadget() -> Schema {
    Schema::compile(&json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1.0, "maximum": 9.0},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "maxLength": 3, "pattern": "^[a-z]*$"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "minProperties": 1, "maxProperties": 2,
                "additionalProperties": {"type": "string"}},
            "words": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "step": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 10,
                "exclusiveMaximum": true, "multipleOf": 2},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
            "kept": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {
                "type": "object", "properties": {"known": {"type": "object", "properties": {}}}}},
            "maybe": {"type": "string", "nullable": true},
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
    .with_metadata_rules(&TestMetadata)
}

/// Metadata rules of the tests: labels are known, and metadata is an object.
#[derive(Debug)]
pub(super) struct TestMetadata;

impl MetadataRules for TestMetadata {
    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {
            "name": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}})
    }

    fn wrong_type(&self, metadata: &Value) -> Option<String> {
        (!metadata.is_object()).then(|| "not an object".to_owned())
    }

    fn validate_embedded(&self, _: &Value, _: &FieldPath, _: &mut Vec<FieldError>) {}
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
#[allow(clippy::too_many_lines, reason = "one table")]
fn each_broken_rule_names_its_field() {
    let table = [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"size": 3_000_000_000_u64}),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size; spec.size: Invalid value: 3000000000: spec.size in body should be less than or equal to 9",
        ),
        (
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 1.5}),
            "spec.size: Invalid value: \"float64\": spec.size in body must be of type int32: \"float64\"; <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size",
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
            json!({"size": 5.5e0}),
            "spec.size: Invalid value: \"float64\": spec.size in body must be of type int32: \"float64\"; <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.size",
        ),
        (
            json!({"size": 1, "name": null}),
            "spec.name: Invalid value: \"null\": spec.name in body must be of type string: \"null\"",
        ),
        (
            json!({"size": 1, "step": 5}),
            "spec.step: Invalid value: 5: spec.step in body should be a multiple of 2",
        ),
        (
            json!({"size": 1, "step": 0}),
            "spec.step: Invalid value: 0: spec.step in body should be greater than 0",
        ),
        (
            json!({"size": 1, "step": 10}),
            "spec.step: Invalid value: 10: spec.step in body should be less than 10",
        ),
        (
            json!({"size": 1, "labels": {"a": "b", "c": "d", "e": "f"}}),
            "spec.labels: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"size": 1, "labels": {}}),
            "spec.labels: Invalid value: 0: spec.labels in body should have at least 1 properties",
        ),
        (
            json!({"size": 1, "inner": {"kind": "", "metadata": 1}}),
            "spec.inner.apiVersion: Required value; spec.inner.kind: Invalid value: \"\": must not be empty; spec.inner.metadata: Invalid value: 1: not an object",
        ),
        (json!({"size": 1, "words": ["a", "b", "a", "a"]}), "spec.words[2]: Duplicate value: \"a\""),
        (
            json!({"size": 1, "parts": [{"id": "0"}, {"id": "1"}, {"id": "2"}, {"id": "3"}]}),
            "spec.parts: Too many: 4: must have at most 3 items",
        ),
    ];
    for (value, expected) in table {
        let errors = gadget().validate(&value, None, &FieldPath::new("spec"));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.join("; "), expected, "{value}");
    }
}

#[test]
fn pruning_also_visits_preserved_fields() {
    let mut value = json!({"size": 1,
        "inner": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}, "free": 1},
        "kept": [{"known": {"gone": 1}, "free": {"x": 1}}]});
    let unknown = gadget().prune(&mut value, &FieldPath::new("spec"));
    assert_eq!(unknown, ["spec.kept[0].known.gone"]);
    let expected = json!({"size": 1,
        "inner": {"apiVersion": "v1", "kind": "A", "metadata": {"x": 1}, "free": 1},
        "kept": [{"known": {}, "free": {"x": 1}}]});
    assert_eq!(value, expected);
}

#[test]
fn null_is_kept_only_in_nullable_fields() {
    let mut value = json!({"size": 1, "maybe": null, "name": null, "labels": {"a": null, "b": "c"}});
    gadget().fill_in(&mut value);
    assert_eq!(value, json!({"size": 1, "maybe": null, "colour": "red", "labels": {"b": "c"}}));
    assert_eq!(gadget().validate(&value, None, &FieldPath::new("spec")), []);
}

#[test]
fn unchanged_invalid_values_do_not_fail_an_update() {
    let old = json!({"size": 99, "colour": "red"});
    let new = json!({"size": 99, "colour": "blue"});
    assert_eq!(gadget().validate(&new, Some(&old), &FieldPath::new("spec")), []);
    let worse = json!({"size": 98, "colour": "blue"});
    assert_eq!(gadget().validate(&worse, Some(&old), &FieldPath::new("spec")).len(), 1);
}

/// Entries of a list are identified by their keys, not by their index.
#[test]
fn list_entries_ratchet_by_their_keys() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {
        "named": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "properties": {
                "id": {"type": "string"}, "word": {"type": "string", "maxLength": 1}}}},
        "plain": {"type": "array", "items": {"type": "string", "maxLength": 1}}}}))
    .unwrap();
    let errors = |new, old| {
        let errors = schema.validate(&new, Some(&old), &FieldPath::default());
        errors.iter().map(|error| error.field.to_string()).collect::<Vec<_>>()
    };
    let old = json!({"named": [{"id": "a", "word": "long"}], "plain": ["long", "b"]});
    let new = json!({"named": [{"id": "b"}, {"id": "a", "word": "long"}], "plain": ["long", "b"]});
    assert_eq!(errors(new, old.clone()), Vec::<String>::new());
    assert_eq!(errors(json!({"plain": ["long", "c"]}), old), ["plain[0]"]);
    let twice = json!({"named": [{"id": "a"}, {"id": "a"}]});
    let more = json!({"named": [{"id": "a"}, {"id": "a"}, {"id": "b"}, {"id": "b"}]});
    assert_eq!(errors(more.clone(), twice), Vec::<String>::new());
    assert_eq!(errors(more, json!({"named": [{"id": "a"}]})), ["named[1]", "named[3]"]);
}

#[test]
fn formats_are_those_of_custom_resource_definitions() {
    let table: [(&str, &[&str], &[&str]); 14] = [
        (
            "date-time",
            &["2026-11-21T06:00:00Z", "2026-11-21T06:00:00.123+01:00"],
            &[
                "2026-11-21t06:00:00Z",
                "2026-11-21T06:00:00z",
                "2026-11-21",
                "2026-11-21T24:00:00Z",
                "2026-11-21T06:00:00",
                "2026-13-01T00:00:00Z",
            ],
        ),
        ("date", &["2026-02-28"], &["2026-02-30", "2026-2-1", "today"]),
        ("duration", &["1h30m", "22 ns", "3 days", "-5s", "0"], &["", "5", "an hour"]),
        (
            "uuid",
            &["7a3c1d52-0f5e-4f0d-9d6a-2a4a3f1c9b10", "7A3C1D520F5E4F0D9D6A2A4A3F1C9B10"],
            &["7a3c1d52", "7a3c1d52-0f5e-4f0d-9d6a-2a4a3f1c9b1g", "7a3c1d5-20f5e-4f0d-9d6a-2a4a3f1c9b10"],
        ),
        ("uuid4", &["7a3c1d52-0f5e-4f0d-9d6a-2a4a3f1c9b10"], &["7a3c1d52-0f5e-3f0d-9d6a-2a4a3f1c9b10"]),
        ("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "10.0.0.256"]),
        ("ipv6", &["::1", "fd00::1"], &["10.0.0.1", ":::"]),
        ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"]),
        ("uri", &["https://example.com/a?b", "/path"], &["example", "a b:c"]),
        ("hostname", &["example.com", "host-1"], &["-a.com", "a..com", "a.c"]),
        ("byte", &["aGVsbG8="], &["a", "aGVsbG8"]),
        ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23:45", "01:23:45:67:89:zz"]),
        ("email", &["a@example.com", "A <a@example.com>"], &["a", "a@", "a b@c"]),
        ("k8s-short-name", &["a-1"], &["A", "-a", ""]),
    ];
    for (format, good, bad) in table {
        let schema = Schema::compile(&json!({"type": "string", "format": format})).unwrap();
        for (text, expected) in good.iter().map(|text| (text, 0)).chain(bad.iter().map(|text| (text, 1))) {
            let errors = schema.validate(&json!(text), None, &FieldPath::new("spec"));
            assert_eq!(errors.len(), expected, "{format}: {text:?}");
        }
    }
    let unknown = Schema::compile(&json!({"type": "string", "format": "nonsense"})).unwrap();
    assert_eq!(unknown.validate(&json!("anything"), None, &FieldPath::new("spec")), []);
}

/// The expected errors are from a real server, for a field of one schema, without the path before it.
#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn errors_for_wrong_types_match_upstream() {
    let number = |format: &str| json!({"type": "integer", "format": format, "minimum": 3});
    let time = json!({"type": "string", "format": "date-time"});
    let word = json!({"type": "string", "enum": ["A", "B"]});
    let whole = |schema: &Value, value: Value| {
        let schema = Schema::compile(&json!({"type": "object", "properties": {"f": schema}})).unwrap();
        let errors = schema.validate(&json!({"f": value}), None, &FieldPath::default());
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let wrong = |found: &str, wanted: &str| {
        format!("f: Invalid value: \"{found}\": f in body must be of type {wanted}: \"{found}\"")
    };
    let unsupported = |value: &str| format!("f: Unsupported value: {value}: supported values: \"A\", \"B\"");
    let checked = |width: &str| {
        format!("<nil>: Invalid value: \"\": Checked value must be of type integer {width} in f")
    };
    let least =
        |value: &str| format!("f: Invalid value: {value}: f in body should be greater than or equal to 3");
    for (schema, value, expected) in [
        (&word, json!(7), vec![wrong("integer", "string"), unsupported("7")]),
        (&word, json!(["a"]), vec![wrong("array", "string"), unsupported("[\"a\"]")]),
        (&word, json!({}), vec![wrong("object", "string"), unsupported("{}")]),
        (&word, json!("C".repeat(300)), vec![unsupported(&format!("\"{}\"", "C".repeat(300)))]),
        (
            &json!({"type": "string", "enum": ["A", "B"], "nullable": true}),
            json!(null),
            vec![unsupported("null")],
        ),
        (&number("int32"), json!(true), vec![wrong("", "int32")]),
        (&number("int32"), json!({"a": 1}), vec![wrong("", "int32")]),
        (&number("int32"), json!([]), vec![wrong("array", "integer")]),
        (&number("int32"), json!("x"), vec![wrong("string", "integer")]),
        (
            &number("int32"),
            json!(1.5),
            vec![wrong("float64", "int32"), checked("with format int32"), least("1.5")],
        ),
        (&number("int32"), json!(1_000_000_000_000_i64), vec![checked("with format int32")]),
        (&number("int64"), json!(1e30), vec![wrong("float64", "int64"), checked("with format int64")]),
        (
            &json!({"type": "integer", "minimum": 3}),
            json!(1.5),
            vec![wrong("number", "integer"), checked("(default format)"), least("1.5")],
        ),
        (&json!({"type": "number", "format": "float"}), json!(true), vec![wrong("", "float")]),
        (&json!({"type": "number", "format": "double"}), json!("x"), vec![wrong("string", "number")]),
        (&time, json!(3), vec![wrong("int64", "date-time")]),
        (&time, json!(1.5), vec![wrong("float64", "date-time")]),
        (&time, json!({}), vec![wrong("", "date-time")]),
        (
            &json!({"type": "string", "minLength": 2, "pattern": "^a+$"}),
            json!("b"),
            vec!["f: Invalid value: \"b\": f in body should be at least 2 chars long".to_owned()],
        ),
    ] {
        assert_eq!(whole(schema, value.clone()), expected, "{value} for {schema}");
    }
}

#[test]
fn combined_schemas_match_upstream() {
    let said = |what: &str| format!("<nil>: Invalid value: \"\": \"f\" {what}");
    let required = || "f.p: Required value".to_owned();
    let of_object = |name: &str, parts: Value| {
        json!({"type": "object", name: parts,
        "properties": {"p": {"type": "integer"}, "q": {"type": "string"}}})
    };
    let of_text = |name: &str, parts: Value| json!({"type": "string", name: parts});
    let either = json!([{"required": ["p"]}, {"required": ["q"]}]);
    let all = json!([{"required": ["p"]}, {"properties": {"p": {"minimum": 3}}}]);
    let words = json!([{"pattern": "^a"}, {"maxLength": 2}]);
    let (none, any) = (
        said("must validate one and only one schema (oneOf). Found none valid"),
        said("must validate at least one schema (anyOf)"),
    );
    let shape = || "f: Invalid value: \"bbb\": f in body should match '^a'".to_owned();
    for (schema, value, expected) in [
        (of_object("anyOf", either.clone()), json!({}), vec![any.clone(), required()]),
        (of_object("anyOf", either.clone()), json!({"q": "x"}), vec![]),
        (of_object("oneOf", either.clone()), json!({}), vec![none.clone(), required()]),
        (
            of_object("oneOf", either),
            json!({"p": 1, "q": "x"}),
            vec![said("must validate one and only one schema (oneOf). Found 2 valid alternatives")],
        ),
        (
            of_object("allOf", all.clone()),
            json!({}),
            vec![required(), said("must validate all the schemas (allOf)")],
        ),
        (
            of_object("allOf", all.clone()),
            json!({"p": 1}),
            vec![
                "f.p: Invalid value: 1: f.p in body should be greater than or equal to 3".to_owned(),
                said("must validate all the schemas (allOf)"),
            ],
        ),
        (of_object("allOf", all), json!({"p": 3}), vec![]),
        (
            of_object("not", json!({"required": ["p"]})),
            json!({"p": 1}),
            vec![said("must not validate the schema (not)")],
        ),
        (of_object("not", json!({"required": ["p"]})), json!({}), vec![]),
        (of_text("anyOf", words.clone()), json!("bbb"), vec![any, shape()]),
        (of_text("oneOf", words.clone()), json!("bbb"), vec![none, shape()]),
        (
            of_text("allOf", words.clone()),
            json!("bbb"),
            vec![
                shape(),
                "f: Too long: may not be more than 2 bytes".to_owned(),
                said("must validate all the schemas (allOf). None validated"),
            ],
        ),
        (
            of_text("allOf", words),
            json!(7),
            vec!["f: Invalid value: \"integer\": f in body must be of type string: \"integer\"".to_owned()],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!(true),
            vec![
                "f: Invalid value: \"boolean\": f in body must be of type integer,string: \"boolean\""
                    .to_owned(),
                said("must validate at least one schema (anyOf)"),
                "f: Invalid value: \"boolean\": f in body must be of type integer: \"boolean\"".to_owned(),
            ],
        ),
    ] {
        let whole = Schema::compile(&json!({"type": "object", "properties": {"f": schema}})).unwrap();
        let errors = whole.validate(&json!({"f": value}), None, &FieldPath::default());
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected, "{value} for {schema}");
    }
}
