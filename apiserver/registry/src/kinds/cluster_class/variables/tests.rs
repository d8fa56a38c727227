//! Tests of the variables of a class: structural schemas, defaults and validation rules.

use super::*;

fn found(schema: &Value) -> Vec<String> {
    let class = json!({"spec": {"variables": [{"name": "v", "required": false, "schema": {"openAPIV3Schema": schema}}]}});
    let mut errors = Vec::new();
    validate(&class, &mut errors);
    let shown = errors.iter().map(ToString::to_string);
    shown.map(|error| error.replacen("spec.variables[v].schema.openAPIV3Schema", "", 1)).collect()
}

#[test]
fn valid_schemas_are_accepted() {
    for schema in [
        json!({"type": "string", "default": "ab", "minLength": 2, "enum": ["ab", "cd"], "example": "cd"}),
        json!({"type": "object", "default": {}, "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}}),
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"required": ["b"]},
            "x-kubernetes-validations": [{"rule": "self.a != oldSelf.a", "fieldPath": ".a", "reason": "FieldValueForbidden"}]}),
    ] {
        assert_eq!(found(&schema), Vec::<String>::new(), "{schema}");
    }
}

#[test]
fn schemas_must_be_structural() {
    for (schema, expected) in [
        (
            json!({"minLength": 1}),
            vec![".type: Required value: must not be empty for specified object fields"],
        ),
        (json!({"type": "array"}), vec![".items: Required value: must be specified"]),
        (
            json!({"type": "array", "items": {"maximum": 1}}),
            vec![".items.type: Required value: must not be empty for specified array items"],
        ),
        (
            json!({"type": "object", "anyOf": [{"type": "object", "default": {}}]}),
            vec![
                ".anyOf[0].default: Forbidden: must be undefined to be structural",
                ".anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            vec![
                ".x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}}}),
            vec![
                ".properties[a].type: Unsupported value: \"null\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec![": Forbidden: additionalProperties and properties are mutually exclusive"],
        ),
    ] {
        assert_eq!(found(&schema), expected, "{schema}");
    }
    assert!(
        found(&json!({"type": "string", "pattern": "("}))[0]
            .starts_with(".pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: ")
    );
}

#[test]
fn defaults_and_examples_must_match_their_schema() {
    for (schema, expected) in [
        (
            json!({"type": "string", "default": 1}),
            ".default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "default": {"b": 1}}}}),
            ".properties[a].default: Invalid value: {\"b\":1}: must not have unknown fields",
        ),
        (
            json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self >= 1"}]}),
            ".default: Invalid value: 0: failed rule: self >= 1",
        ),
        (
            json!({"type": "string", "maxLength": 6, "example": "1234567"}),
            ".example: Too long: may not be more than 6 bytes",
        ),
        (
            json!({"type": "integer", "enum": [0, 1], "x-kubernetes-validations": [{"rule": "self >= 1", "message": "low"}]}),
            ".enum[0]: Invalid value: 0: low",
        ),
    ] {
        assert_eq!(found(&schema), [expected], "{schema}");
    }
}

#[test]
fn incomplete_validation_rules_are_refused() {
    let with = |rule: &Value| {
        found(
            &json!({"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [rule]}),
        )
    };
    for (rule, expected) in [
        (json!({"rule": " "}), "rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": " "}),
            "message: Invalid value: \" \": message must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "message: Invalid value: \"a\\nb\": message must not contain line breaks",
        ),
        (
            json!({"rule": "true &&\ntrue"}),
            "message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "messageExpression": " "}),
            "messageExpression: Required value: messageExpression must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "reason": "X"}),
            "reason: Unsupported value: \"X\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".b"}),
            "fieldPath: Invalid value: \".b\": fieldPath must be a valid path: does not refer to a valid field",
        ),
        (
            json!({"rule": "true", "fieldPath": "."}),
            "fieldPath: Invalid value: \".\": fieldPath must be a valid path: unexpected end of JSON path",
        ),
        (
            json!({"rule": "true", "fieldPath": ".a[0]"}),
            "fieldPath: Invalid value: \".a[0]\": fieldPath must be a valid path: expected single quoted string but got 0",
        ),
        (
            json!({"rule": "true", "fieldPath": "a"}),
            "fieldPath: Invalid value: \"a\": fieldPath must be a valid path: expected [ or . but got: a",
        ),
    ] {
        assert_eq!(with(&rule), [format!(".x-kubernetes-validations[0].{expected}")], "{rule}");
    }
    let long = with(&json!({"rule": "true", "message": "a".repeat(2049)}));
    assert_eq!(
        long,
        [
            ".x-kubernetes-validations[0].message: Invalid value: \"aaaaaaaaaa...\": message must have a maximum length of 2048 characters"
        ]
    );
    let unread = with(&json!({"rule": "self."}));
    let said = ".x-kubernetes-validations[0].rule: Invalid value: {\"rule\":\"self.\"}: compilation failed: ";
    assert!(unread[0].starts_with(said), "{unread:?}");
}

#[test]
fn validation_rules_must_compile_against_their_schema() {
    let with = |rule: &str| {
        found(&json!({"type": "object", "properties": {"name": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": rule}]}))
    };
    assert_eq!(with("self.name.startsWith('a') && self.?name.hasValue()"), Vec::<String>::new());
    for (rule, expected) in [
        (
            "self.nam == 'a'",
            ": compilation failed: ERROR: <input>:1:5: undefined field 'nam'\n | self.nam == 'a'\n | ....^",
        ),
        (
            "self.name > 1",
            "ERROR: <input>:1:11: found no matching overload for '_>_' applied to '(string, int)'\n | self.name > 1\n | ..........^",
        ),
        ("self.name", "}: cel expression must evaluate to a bool"),
    ] {
        let reported = with(rule);
        assert!(reported.len() == 1 && reported[0].ends_with(expected), "{rule}: {reported:?}");
    }
}

/// Errors of Cluster API 1.14.2 in schemas of a variable. A line has the schema, and the kind, the field and the detail
/// of each error. Where the order depends on Go's maps, no error is recorded.
const EXPECTED: &str = include_str!("upstream_errors.jsonl");

#[test]
fn errors_of_validation_rules_match_upstream() {
    let mut wrong = Vec::new();
    for line in EXPECTED.lines() {
        let (schema, mut expected): (Value, Vec<[String; 3]>) = serde_json::from_str(line).unwrap();
        let class = json!({"spec": {"variables": [{"name": "v", "schema": {"openAPIV3Schema": schema}}]}});
        let mut errors = Vec::new();
        validate(&class, &mut errors);
        let mut reported: Vec<String> = errors.iter().map(ToString::to_string).collect();
        reported.sort();
        expected.sort_by_key(|[kind, field, detail]| format!("{field}: {kind}: {detail}"));
        let is_same = reported.len() == expected.len()
            && reported.iter().zip(&expected).all(|(reported, [kind, field, detail])| {
                reported.starts_with(&format!("{field}: {kind}: ")) && reported.ends_with(detail)
            });
        if !is_same {
            wrong.push(format!("{schema}\nexpected {expected:#?}\nfound {reported:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nested_keywords_must_have_the_right_types() {
    for (properties, expected) in [
        (json!(5), vec![".properties"]),
        (json!([]), vec![".properties"]),
        (json!({"a": {"type": "object", "properties": true}}), vec![".properties[a].properties"]),
        (json!({"a": true, "b": {"type": "string"}}), vec![".properties[a]"]),
        (
            json!({"a": {"type": "string", "minLength": "a", "pattern": 1, "anyOf": [7]}}),
            vec![".properties[a].pattern", ".properties[a].minLength", ".properties[a].anyOf[0]"],
        ),
        (
            json!({"a": {"type": "array", "items": {"type": "string", "required": [1]}}}),
            vec![".properties[a].items.required"],
        ),
        (json!({"a": {"type": "integer", "minimum": 1, "default": 2, "description": null}}), vec![]),
    ] {
        let reported = found(&json!({"type": "object", "properties": properties}));
        let fields: Vec<&str> = reported.iter().map(|error| error.split(':').next().unwrap()).collect();
        assert_eq!(fields, expected, "{reported:?}");
    }
}

#[test]
fn rules_of_list_items_cannot_use_old_self() {
    let item = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}});
    assert_eq!(
        found(&json!({"type": "array", "maxItems": 9, "items": item})),
        [
            ".items.properties[a].x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.variables[v].schema.openAPIV3Schema.items"
        ]
    );
    assert_eq!(found(&item), Vec::<String>::new());
}

#[test]
fn metadata_of_variables_is_validated() {
    let class = json!({"spec": {"variables": [{"name": "v", "deprecatedV1Beta1Metadata": {"labels": {".a": "b"}},
        "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"p": {"type": "string", "x-metadata": {"annotations": {".c": "d"}}}}}}}]}});
    let mut errors = Vec::new();
    validate(&class, &mut errors);
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    let at = "spec.variables[v].schema.openAPIV3Schema.properties[p].x-metadata.annotations";
    assert_eq!(fields, ["spec.variables[v].deprecatedV1Beta1Metadata.labels", at]);
}
