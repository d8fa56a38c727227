//! Tests of validation rules: values, updates, errors and cost limits.

use serde_json::{Value, json};

use crate::Schema;
use crate::field_errors::FieldPath;

fn errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::compile(schema).unwrap();
    schema.validate(new, old, &FieldPath::new("spec")).iter().map(ToString::to_string).collect()
}

/// Schema of an object with one rule and a few fields.
fn object(rule: &Value) -> Value {
    json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {
        "least": {"type": "integer"}, "most": {"type": "integer"}, "name": {"type": "string"},
        "share": {"type": "number"}, "in": {"type": "string"}, "a-b": {"type": "string"},
        "wait": {"type": "string", "format": "duration"}, "since": {"type": "string", "format": "date-time"},
        "any": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {"type": "array", "items": {"type": "string"}}}})
}

#[test]
fn a_failed_rule_reports_its_message() {
    let value = json!({"least": 3, "most": 2, "labels": {"a.b": "c"}});
    let table = [
        (
            json!({"rule": "self.least <= self.most"}),
            "spec: Invalid value: failed rule: self.least <= self.most",
        ),
        (
            json!({"rule": "self.least <= self.most", "message": " too small "}),
            "spec: Invalid value: too small",
        ),
        (
            json!({"rule": "self.least <= self.most", "messageExpression": "'at least ' + string(self.least)"}),
            "spec: Invalid value: at least 3",
        ),
        (
            json!({"rule": "self.least <= self.most", "message": "plain", "messageExpression": "self.name"}),
            "spec: Invalid value: plain",
        ),
        (
            json!({"rule": "false", "message": "m", "reason": "FieldValueForbidden", "fieldPath": ".least"}),
            "spec.least: Forbidden: m",
        ),
        (
            json!({"rule": "false", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".name"}),
            "spec.name: Required value: m",
        ),
        (
            json!({"rule": "false", "message": "m", "fieldPath": ".labels['a.b']"}),
            "spec.labels[a.b]: Invalid value: m",
        ),
    ];
    for (rule, expected) in table {
        assert_eq!(errors(&object(&rule), &value, None), [expected], "{rule}");
    }
}

#[test]
fn values_have_the_types_of_their_schema() {
    let value = json!({"least": 1, "share": 1, "in": "x", "a-b": "y", "wait": "1h", "any": 5,
        "since": "2026-11-21T06:00:00Z", "labels": {"a-b": "c", "in": "d"}, "tags": ["b", "a"]});
    let rules = [
        "self.share == 1.0",
        "self.__in__ == 'x' && self.a__dash__b == 'y'",
        "self.labels['a-b'] == 'c' && self.labels['in'] == 'd'",
        "self.wait > duration('59m')",
        "self.since < timestamp('2027-01-01T00:00:00Z')",
        "self.any == 5",
        "!has(self.name) && has(self.tags)",
        "self.tags.all(tag, tag in ['a', 'b'])",
        "self.tags.exists_one(tag, tag == 'a')",
        "!self.tags.isSorted()",
        "self.tags.map(tag, tag + '!').filter(tag, tag.startsWith('a')).size() == 1",
        "self.labels.all(key, key.matches('^[a-z-]+$'))",
        "'10.0.0.0/8' == string(cidr('10.0.0.0/8'))",
        "quantity('1Gi').isGreaterThan(quantity('1M'))",
        "self.?name.orValue('none') == 'none' && self.?__in__.orValue('none') == 'x' && self.?tags[?0].orValue('') == 'b'",
    ];
    for rule in rules {
        assert_eq!(errors(&object(&json!({"rule": rule})), &value, None), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn transition_rules_run_only_on_updates() {
    let region = json!({"rule": "(!has(self.name) && !has(oldSelf.name)) || self.name == oldSelf.name",
        "message": "name is immutable"});
    let (a, b) = (json!({"name": "a"}), json!({"name": "b"}));
    assert_eq!(errors(&object(&region), &a, None), Vec::<String>::new());
    assert_eq!(errors(&object(&region), &a, Some(&a)), Vec::<String>::new());
    assert_eq!(errors(&object(&region), &b, Some(&a)), ["spec: Invalid value: name is immutable"]);
    let once =
        json!({"rule": "oldSelf.hasValue() || self.name == 'a'", "optionalOldSelf": true, "message": "m"});
    assert_eq!(errors(&object(&once), &b, None), ["spec: Invalid value: m"]);
    assert_eq!(errors(&object(&once), &b, Some(&b)), Vec::<String>::new());
    assert_eq!(errors(&object(&once), &a, None), Vec::<String>::new());
}

#[test]
fn unchanged_invalid_values_do_not_fail_an_update() {
    let rule = json!({"rule": "self.least <= self.most", "message": "m"});
    let schema =
        json!({"type": "object", "properties": {"inner": object(&rule), "other": {"type": "string"}}});
    let old = json!({"inner": {"least": 3, "most": 2}, "other": "a"});
    let mut new = json!({"inner": {"least": 3, "most": 2}, "other": "b"});
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new());
    new["inner"]["name"] = json!("changed");
    assert_eq!(errors(&schema, &new, Some(&old)), ["spec.inner: Invalid value: m"]);
}

#[test]
fn list_items_have_old_values_only_in_map_lists() {
    let item = json!({"type": "object",
        "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "may not shrink"}],
        "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}});
    let mut schema = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"]});
    let old = json!([{"id": "a", "size": 5}, {"id": "b", "size": 1}]);
    let new = json!([{"id": "b", "size": 2}, {"id": "c", "size": 0}, {"id": "a", "size": 4}]);
    assert_eq!(errors(&schema, &new, Some(&old)), ["spec[2]: Invalid value: may not shrink"]);
    schema["x-kubernetes-list-type"] = json!("atomic");
    assert_eq!(errors(&schema, &new, Some(&old)), Vec::<String>::new());
}

#[test]
fn rules_are_skipped_if_types_are_wrong() {
    let schema = object(&json!({"rule": "self.least <= self.most", "message": "m"}));
    let expected = [
        "spec.name: Invalid value: \"integer\": spec.name in body must be of type string: \"integer\"",
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    ];
    assert_eq!(errors(&schema, &json!({"least": 3, "most": 2, "name": 1}), None), expected);
}

#[test]
fn a_rule_with_an_evaluation_error_refuses() {
    let schema = object(&json!({"rule": "self.least / self.most > 0", "message": "m"}));
    let found = errors(&schema, &json!({"least": 1, "most": 0}), None);
    assert_eq!(found.len(), 1);
    let text = found.first().unwrap();
    assert!(
        text.starts_with("spec: Invalid value: \"object\": ") && text.ends_with(" evaluating rule: m"),
        "{text}"
    );
}

#[test]
fn a_huge_list_does_not_stall_the_server() {
    let schema = object(&json!({"rule": "self.tags.all(a, self.tags.all(b, self.tags.all(c, a + b != c)))"}));
    let tags: Vec<String> = (0..5000).map(|number| number.to_string()).collect();
    let started = std::time::Instant::now();
    let expected = "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.tags.all(a, self.tags.all(b, self.tags.all(c, a + b != c)))";
    assert_eq!(errors(&schema, &json!({"tags": tags}), None), [expected]);
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    assert_eq!(errors(&schema, &json!({"tags": ["a", "b"]}), None), Vec::<String>::new());
}

/// Each rule is below its limit, and all of them together exceed the limit of an object.
#[test]
fn rules_of_one_object_share_a_cost_budget() {
    let rule = json!({"rule": "self.all(a, self.all(b, a != b || a == b))"});
    let list = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [rule]});
    let names: Vec<String> = (0..30).map(|number| format!("l{number}")).collect();
    let lists: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), list.clone())).collect();
    let value = |length: usize| {
        let items: Vec<String> = (0..length).map(|number| number.to_string()).collect();
        Value::Object(names.iter().map(|name| (name.clone(), json!(items))).collect())
    };
    let schema = json!({"type": "object", "properties": lists});
    assert_eq!(errors(&schema, &value(150), None), Vec::<String>::new());
    let found = errors(&schema, &value(250), None);
    assert_eq!(found.len(), 1);
    let expected = "Invalid value: \"array\": validation failed due to running out of cost budget, no further validation rules will be run";
    assert!(found.first().unwrap().ends_with(expected), "{found:?}");
}

#[test]
fn a_malformed_rule_is_an_error_of_the_schema() {
    let error = Schema::compile(
        &json!({"type": "object", "properties": {"a": object(&json!({"rule": "self. ==="}))}}),
    );
    assert!(error.unwrap_err().to_string().contains("self. ==="));
}

/// Returns the error of a rule when its schema is compiled.
fn refused(rule: &Value) -> String {
    Schema::compile(&object(rule)).map_or_else(|problem| problem.to_string(), |_| String::new())
}

#[test]
fn a_rule_with_a_type_error_is_refused_at_compile_time() {
    let table = [
        ("self.lest > 1", "undefined field 'lest'"),
        ("self.least.most > 1", "type 'int' does not support field selection"),
        ("selff.least > 1", "undeclared reference to 'selff' (in container '')"),
        ("self.name.lenght() > 1", "undeclared reference to 'lenght' (in container '')"),
        ("size(self.least) > 1", "found no matching overload for 'size' applied to '(int)'"),
        ("self.name.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("self.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.name == null", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("self.least", "cel expression must evaluate to a bool"),
        ("self.tags.all(tag, tag > 1)", "found no matching overload for '_>_' applied to '(string, int)'"),
        (
            "self.name.all(letter, true)",
            "expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("has(self.nothing)", "undefined field 'nothing'"),
        ("self.labels['a'] == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.?least.orValue('a') == 1", "found no matching overload for 'orValue' applied to"),
        ("ip(self.name).prefixLength() == 1", "applied to 'net.IP.()'"),
        ("self.least > oldSelf.name", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.__in__ == 1", "'(string, int)'"),
    ];
    for (rule, expected) in table {
        let found = refused(&json!({"rule": rule}));
        assert!(found.contains(expected), "{rule}: {found}");
    }
    let found = refused(&json!({"rule": "true", "messageExpression": "self.least"}));
    assert!(found.contains("messageExpression must evaluate to a string"), "{found}");
    let found = refused(&json!({"rule": "oldSelf.least == 1", "optionalOldSelf": true}));
    assert!(
        found.contains("type 'optional_type(int)'") || found.contains("'(optional_type(int), int)'"),
        "{found}"
    );
}

#[test]
fn dynamic_types_are_checked_at_run_time() {
    let rules = [
        "self.any == 5 || self.any == 'a'",
        "self.share > 1",
        "type(self.any) == string || type(self.any) == int",
        "self.any.anything == self.any[0]",
        "dyn(self.name) == 1",
        "[[], ['a']].size() == 2 && {'a': 1}.size() == 1 && [] == [] && '%s'.format([1, 'a']) == ''",
        "self.tags.map(tag, [tag, 'a']).size() == 0",
        "format.dns1123Label().validate(self.name).hasValue() || format.named('uuid').hasValue()",
        "optional.of(self.least).orValue(3) == 3 && self.?name.hasValue()",
        "self.since + self.wait > self.since && self.wait.getHours() == 1",
        "(self.least > 1 ? self.name : 'b') == 'b'",
        "quantity(self.name).add(1).compareTo(quantity('1')) == 0 && semver('1.0.0').major() == 1",
        "self.labels.exists(key, self.labels[key] == 'a') && 'a' in self.labels && self.tags[0] in self.tags",
    ];
    for rule in rules {
        assert_eq!(refused(&json!({"rule": rule})), "", "{rule}");
    }
}

/// A rule of a few hundred bytes must not cost as much as a body of megabytes.
#[test]
fn the_cost_of_checking_nested_rules_is_bounded() {
    let mut maps = "true".to_owned();
    let mut lists = "true".to_owned();
    for level in (0..30).rev() {
        let around = if level == 0 { "self".to_owned() } else { format!("x{}", level - 1) };
        maps = format!("[{{{around}: {around}}}].all(x{level}, {maps})");
        lists = format!("[[{around}, {around}]].all(x{level}, {lists})");
    }
    for rule in [maps, lists] {
        let found = refused(&json!({"rule": rule}));
        assert!(found.is_empty() || found.contains("more than"), "{found}");
    }
}

/// The server's threads have 2 MiB of stack, and so has this one.
#[test]
fn a_chain_of_too_many_operators_is_refused() {
    for (rule, expected) in [
        (format!("{} == 1", vec!["self.least"; 190].join(" + ")), ""),
        (format!("self.any{} == 1", ".a".repeat(390)), ""),
        (format!("{}true", "!".repeat(390)), ""),
        (format!("{} == 1", vec!["1"; 1000].join("+")), "more than 400 operators"),
        (format!("self.any{} == 1", ".a".repeat(1000)), "more than 400 operators"),
        (format!("self.name == '{}'", "...".repeat(1000)), ""),
        (format!("self.name == '{}'", "a".repeat(4096)), "longer than 4096 bytes"),
    ] {
        let found = refused(&json!({"rule": rule}));
        assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{rule}: {found}");
        let _ = Schema::compile(&object(&json!({"rule": rule}))).map(|schema| {
            schema.validate(&json!({"any": 1, "least": 1, "name": "a"}), None, &FieldPath::new("spec"))
        });
    }
}

/// `optMap` repeats its receiver.
#[test]
fn the_expansion_of_chained_macros_is_bounded() {
    let chain = |length| format!("self.?name{}.hasValue()", ".optMap(x, x)".repeat(length));
    assert_eq!(refused(&json!({"rule": chain(8)})), "");
    let found = refused(&json!({"rule": chain(60)}));
    assert!(found.contains("too long with what its macros stand for"), "{found}");
}

/// Each error shows its line. Without a limit, a rule of 4 KB could cause a response of 12 MB.
#[test]
fn at_most_a_hundred_errors_are_reported() {
    let schema =
        Schema::compile(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).unwrap();
    let found = schema.analyze(&json!({"rule": format!("[{}].size() > 0", vec!["a"; 2000].join(","))})).rule;
    let found = found.unwrap_err();
    assert_eq!(found.matches("undeclared reference").count(), 100);
    assert!(found.ends_with("\n1900 more errors were truncated"), "{}", &found[found.len() - 100..]);
}

/// Facts about a schema are computed once for all names in a rule. Without the cache, two thousand names of entries
/// with forty thousand fields took half a minute.
#[test]
fn many_names_of_a_large_type_are_analyzed_quickly() {
    let names: Vec<String> = (0..40_000).map(|number| format!("f{number}")).collect();
    let fields: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({"type": "boolean"}))).collect();
    let entry =
        json!({"type": "array", "items": {"type": "object", "properties": fields, "required": names}});
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": entry}}});
    let schema = Schema::compile(&schema).unwrap();
    let rule = format!("self.l.all(x, [{}].size() > 0)", vec!["x"; 2000].join(","));
    let started = std::time::Instant::now();
    for _ in 0..20 {
        schema.analyze(&json!({"rule": rule})).rule.unwrap();
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

/// Errors of Cluster API 1.14.2 for this schema: an expression, and its error or nothing.
const ERRORS: &str = include_str!("type_errors.jsonl");

#[test]
fn compilation_errors_match_upstream() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"},
        "d": {"x-kubernetes-int-or-string": true}, "l": {"type": "array", "items": {"type": "string"}},
        "e": {"type": "object"}, "p": {"x-kubernetes-preserve-unknown-fields": true}}});
    let schema = Schema::compile(&schema).unwrap();
    let mut wrong = Vec::new();
    for line in ERRORS.lines() {
        let (rule, expected): (String, String) = serde_json::from_str(line).unwrap();
        let found = schema.analyze(&json!({"rule": rule})).rule.err().unwrap_or_default();
        if found != expected {
            wrong.push(format!("{rule}\nexpected {expected}\nfound    {found}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
