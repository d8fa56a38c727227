//! Warnings about the types in the expressions of a policy, for the kinds that its rules name. Pure.
//!
//! The evaluation of a policy knows no types of objects. A policy with warnings is in force as any other.

use std::collections::BTreeMap;

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_schema::{CheckedParams, TypeCheck};
use serde_json::Value;

use super::compile::param_kind;
use super::params::is_of;
use crate::value::{cut, entries, text, texts};

/// Most kinds of a rule that are checked: upstream's. With that many, later rules are not checked, either.
const MOST_KINDS: usize = 10;

/// Largest size of all warnings. An expression can have a hundred errors of eight KiB for each kind, and no store accepts
/// an object with thousands of such expressions. Unit: bytes.
const MOST_BYTES: usize = 256 * 1024;

/// Warning about an expression of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// Path of the field with the expression, such as `spec.validations[0].expression`.
    pub field: String,
    /// Errors of the expression for each kind, in CEL's form. The kind precedes them: `apps/v1, Kind=Deployment: `.
    pub warning: String,
}

/// Checks the types in the validations and the message expressions of a ValidatingAdmissionPolicy, as upstream does.
///
/// It checks them for each kind that the rules in `matchConstraints` name. Rules with `*` as API group or version, and
/// resources with `*` or a subresource, name no kinds. Kinds that are not in the registry are left out.
pub fn type_warnings(policy: &Value, registry: &Registry) -> Vec<ExpressionWarning> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let params = params(spec, registry);
    let variables = || entries(spec, "variables").iter().map(|it| (text(it, "name"), text(it, "expression")));
    let checks = kinds(spec, registry).into_iter();
    let checks: Vec<_> =
        checks.map(|kind| (shown(kind), TypeCheck::new(&kind.schema, params, variables()))).collect();
    let (mut warnings, mut left) = (Vec::new(), MOST_BYTES);
    for (index, validation) in entries(spec, "validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            if left == 0 {
                return warnings;
            }
            let warning = warning(&checks, text(validation, field));
            let warning = cut(&warning, left);
            if !warning.is_empty() {
                left -= warning.len();
                let (field, warning) = (format!("spec.validations[{index}].{field}"), warning.to_owned());
                warnings.push(ExpressionWarning { field, warning });
            }
        }
    }
    warnings
}

/// Returns the errors of an expression for all kinds; empty if there are none.
fn warning(checks: &[(String, TypeCheck<'_>)], source: &str) -> String {
    if source.is_empty() {
        return String::new();
    }
    let errors =
        checks.iter().filter_map(|(kind, check)| Some(format!("{kind}: {}\n", check.errors(source)?)));
    errors.collect::<Vec<_>>().join("\n")
}

/// Returns the kinds that the rules name, sorted by group, version and kind.
fn kinds<'r>(spec: &Value, registry: &'r Registry) -> Vec<&'r Resource> {
    let mut found = BTreeMap::new();
    let constraints = spec.get("matchConstraints").unwrap_or(&Value::Null);
    for rule in entries(constraints, "resourceRules") {
        let of_rule = of_rule(rule, registry);
        let is_full = of_rule.len() == MOST_KINDS;
        found.extend(of_rule.into_iter().map(|it| ((&it.group, &it.version, &it.kind), it)));
        if is_full {
            break;
        }
    }
    found.into_values().collect()
}

/// Returns the kinds that a rule names, up to the limit.
fn of_rule<'r>(rule: &Value, registry: &'r Registry) -> Vec<&'r Resource> {
    let (groups, versions) = (texts(rule, "apiGroups"), texts(rule, "apiVersions"));
    if groups.iter().chain(&versions).any(|one| one.contains('*')) {
        return Vec::new();
    }
    // No plural is `*`, or has a slash. No write reaches a kind that is read-only, and its schema may be incomplete.
    let plurals = texts(rule, "resources");
    let is_named = |it: &&Resource| {
        let is_version = groups.contains(&it.group) && versions.contains(&it.version);
        is_version && plurals.contains(&it.plural) && !it.strategy.is_read_only()
    };
    let mut found: Vec<&Resource> = registry.resources().iter().map(AsRef::as_ref).filter(is_named).collect();
    found.sort_unstable_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
    found.truncate(MOST_KINDS);
    found
}

fn params<'r>(spec: &Value, registry: &'r Registry) -> CheckedParams<'r> {
    let Some(of) = param_kind(spec) else { return CheckedParams::Absent };
    let found = registry.resources().iter().find(|it| is_of(it, &of));
    found.map_or(CheckedParams::Unknown, |it| CheckedParams::Known(&it.schema))
}

/// Returns a kind as upstream writes it.
fn shown(kind: &Resource) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

#[cfg(test)]
mod tests {
    use apiserver_machinery::metadata;
    use apiserver_schema::KindSchema;
    use serde_json::json;

    use super::*;
    use crate::snapshot::tests::kind;

    fn registry() -> Registry {
        let schema = || {
            json!({"type": "object", "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"type": "object"}, "spec": {"type": "object", "properties": {
                    "replicas": {"type": "integer"}, "size": {"type": "string"}}}}})
        };
        let named = |version: &str, name: String| Resource {
            version: version.to_owned(),
            plural: format!("{}s", name.to_lowercase()),
            kind: name,
            schema: KindSchema::new(metadata::RULES, schema),
            ..kind(false)
        };
        let gadgets = ["v1", "v2"].map(|version| named(version, "Gadget".to_owned()));
        let toys = (10..30).map(|number| named("v1", format!("Toy{number}")));
        Registry::new(gadgets.into_iter().chain(toys).collect())
    }

    fn policy(rules: &Value, spec: &Value) -> Value {
        let mut policy = json!({"spec": {"matchConstraints": {"resourceRules": rules}}});
        policy["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        policy
    }

    fn rule(versions: &[&str], resources: &[&str]) -> Value {
        json!({"operations": ["*"], "apiGroups": ["toys.example.com"], "apiVersions": versions, "resources": resources})
    }

    fn found(rules: &Value, spec: &Value) -> Vec<(String, String)> {
        let warnings = type_warnings(&policy(rules, spec), &registry());
        warnings.into_iter().map(|it| (it.field, it.warning)).collect()
    }

    #[test]
    fn a_warning_has_the_field_the_kind_and_the_error() {
        let gadgets = json!([rule(&["v1"], &["gadgets"])]);
        let validations = json!([{"expression": "object.spec.replicas > 5"},
            {"expression": "object.spec.replica > 5", "messageExpression": "'at most ' + object.spec.replicas"}]);
        let error = |text: &str| format!("toys.example.com/v1, Kind=Gadget: ERROR: <input>:1:{text}\n");
        let expected = [
            (
                "spec.validations[1].expression".to_owned(),
                error("12: undefined field 'replica'\n | object.spec.replica > 5\n | ...........^"),
            ),
            (
                "spec.validations[1].messageExpression".to_owned(),
                error(
                    "12: found no matching overload for '_+_' applied to '(string, int)'\n | 'at most ' + \
                     object.spec.replicas\n | ...........^",
                ),
            ),
        ];
        assert_eq!(found(&gadgets, &json!({"validations": validations})), expected);
    }

    #[test]
    fn an_expression_is_checked_for_each_kind_that_the_rules_name() {
        let spec = json!({"validations": [{"expression": "object.none"}]});
        let names = |rules: Value| {
            let found = found(&rules, &spec);
            let text = found.first().map(|(_, warning)| warning.clone()).unwrap_or_default();
            let kinds = text.lines().filter_map(|line| line.split_once(": ERROR"));
            kinds.map(|(kind, _)| kind.replace("toys.example.com/", "")).collect::<Vec<_>>()
        };
        let both = ["v1, Kind=Gadget", "v2, Kind=Gadget"];
        assert_eq!(names(json!([rule(&["v2", "v1"], &["gadgets", "gadgets/status", "others"])])), both);
        assert_eq!(names(json!([rule(&["v2"], &["gadgets"]), rule(&["v1"], &["gadgets"])])), both);
        for skipped in [rule(&["*"], &["gadgets"]), rule(&["v1"], &["*"]), rule(&["v1"], &["gadgets/*"])] {
            assert_eq!(names(json!([skipped])), [""; 0], "{skipped}");
        }
        let mixed = json!([rule(&["*"], &["gadgets"]), rule(&["v1"], &["gadgets"])]);
        assert_eq!(names(mixed), ["v1, Kind=Gadget"]);
        let toys: Vec<String> = (10..30).map(|number| format!("toy{number}s")).collect();
        let toys: Vec<&str> = toys.iter().map(String::as_str).collect();
        let limited = names(json!([rule(&["v1"], &toys), rule(&["v1"], &["gadgets"])]));
        assert_eq!((limited.len(), limited[9].as_str()), (MOST_KINDS, "v1, Kind=Toy19"));
        let few = names(json!([rule(&["v1"], &["gadgets"]), rule(&["v1"], &toys[..9])]));
        assert_eq!(few.len(), 10, "the limit is that of one rule");
    }

    #[test]
    fn variables_and_parameters_have_types_and_no_warnings_of_their_own() {
        let gadgets = json!([rule(&["v1"], &["gadgets"])]);
        let with = |kind: &str, expression: &str| {
            json!({"paramKind": {"apiVersion": "toys.example.com/v1", "kind": kind},
                "variables": [{"name": "n", "expression": "object.spec.replicas"},
                    {"name": "bad", "expression": "object.none"}],
                "auditAnnotations": [{"key": "a", "valueExpression": "object.none"}],
                "matchConditions": [{"name": "c", "expression": "object.none"}],
                "validations": [{"expression": expression}]})
        };
        for (kind, expression, expected) in [
            ("Gadget", "variables.n == params.spec.replicas && variables.bad", None),
            ("Gadget", "variables.n == params.spec.size", Some("'(int, string)'")),
            ("Gadget", "variables.n == params.spec.none", Some("undefined field 'none'")),
            ("Unknown", "variables.n == params.spec.none", None),
            ("Gadget", "variables.n == 'a'", Some("'(int, string)'")),
        ] {
            let found = found(&gadgets, &with(kind, expression));
            let texts: Vec<&str> = found.iter().map(|(_, warning)| warning.as_str()).collect();
            match expected {
                None => assert!(texts.is_empty(), "{expression}: {texts:?}"),
                Some(text) => assert!(texts.len() == 1 && texts[0].contains(text), "{expression}: {texts:?}"),
            }
        }
    }

    #[test]
    fn warnings_have_a_limited_size() {
        let expression = format!("{}object.none", "object.none + ".repeat(100));
        let validations: Vec<Value> = (0..100).map(|_| json!({"expression": expression})).collect();
        let found = found(&json!([rule(&["v1"], &["gadgets"])]), &json!({"validations": validations}));
        let size: usize = found.iter().map(|(_, warning)| warning.len()).sum();
        assert_eq!(size, MOST_BYTES);
    }
}
