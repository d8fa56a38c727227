//! Validation of the parts that webhook configurations and policies share: rules, selectors and match conditions.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{AdmissionExpression, Declared, Wanted};
use serde_json::{Value, json};

use super::{names, path_segment};

/// Suffix of the names that only files can use.
const STATIC: &str = ".static.capstan.dev";

/// Largest number of match conditions: upstream's.
const MOST_CONDITIONS: usize = 64;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Returns the errors of an object's name: a DNS subdomain, which does not end like the names in files.
pub(crate) fn name_errors(name: &str) -> Vec<String> {
    let mut errors = apiserver_machinery::metadata::subdomain_errors(name);
    if name.ends_with(STATIC) {
        errors.push(format!(
            "must not end with {STATIC:?}, which is reserved for the files in admission.manifestsDirectory"
        ));
    }
    errors
}

pub(crate) fn entries<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Adds an error if a field with a default has another value than these.
pub(crate) fn one_of(
    value: &Value,
    field: &str,
    allowed: &[&str],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    if let Some(given) =
        value.get(field).filter(|given| !given.as_str().is_some_and(|it| allowed.contains(&it)))
    {
        errors.push(FieldError::not_supported(path.child(field), given, allowed));
    }
}

/// Validates a rule of a webhook.
pub(crate) fn validate_rule(rule: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_list(rule, "operations", "operations", path, errors);
    for (index, operation) in entries(rule, "operations").iter().enumerate() {
        if !operation.as_str().is_some_and(|it| OPERATIONS.contains(&it)) {
            let at = path.child("operations").index(index);
            errors.push(FieldError::not_supported(at, operation, &OPERATIONS));
        }
    }
    validate_list(rule, "apiGroups", "API groups", path, errors);
    validate_list(rule, "apiVersions", "API versions", path, errors);
    for (index, version) in entries(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(path.child("apiVersions").index(index), ""));
        }
    }
    validate_resources(entries(rule, "resources"), &path.child("resources"), errors);
    one_of(rule, "scope", &SCOPES, path, errors);
}

/// Validates a rule of a policy, which can have names of objects.
pub(crate) fn validate_named_rule(rule: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let names = entries(rule, "resourceNames");
    for (index, name) in names.iter().enumerate() {
        let at = || path.child("resourceNames").index(index);
        let wrong = path_segment::errors(name.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(at(), name, why)));
        if names.iter().take(index).any(|before| before == name) {
            errors.push(FieldError::duplicate(at(), name));
        }
    }
    validate_rule(rule, path, errors);
}

/// Validates a list that is not empty, and in which `*` stands alone.
fn validate_list(rule: &Value, field: &str, what: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let list = entries(rule, field);
    if list.is_empty() {
        errors.push(FieldError::required(path.child(field), ""));
    }
    if list.len() > 1 && list.iter().any(|entry| entry == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path.child(field), &json!(list), &detail));
    }
}

fn validate_resources(resources: &[Value], path: &FieldPath, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(path.clone(), ""));
    }
    let texts: Vec<&str> = resources.iter().map(|entry| entry.as_str().unwrap_or_default()).collect();
    for (index, text) in texts.iter().enumerate() {
        if text.is_empty() {
            errors.push(FieldError::required(path.index(index), ""));
        }
        let Some((resource, part)) = text.split_once('/') else { continue };
        let before = || texts.iter().take(index);
        let value = json!(text);
        if before().any(|other| *other == format!("{resource}/*")) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            errors.push(FieldError::invalid(path.index(index), &value, &detail));
        }
        if before().any(|other| *other == format!("*/{part}")) {
            let detail = format!("if '*/{part}' is present, must not specify {text}");
            errors.push(FieldError::invalid(path.index(index), &value, &detail));
        }
    }
    let all = json!(texts);
    if texts.len() > 1 && texts.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path.clone(), &all, detail));
    }
    // As upstream, which looks at the last of them.
    let last_whole = texts.iter().rfind(|text| !text.is_empty() && !text.contains('/'));
    if texts.contains(&"*") && last_whole.is_some_and(|text| *text != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path.clone(), &all, detail));
    }
}

/// Validates a label selector in a field, with upstream's paths.
pub(crate) fn validate_selector(value: &Value, field: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(selector) = value.get(field) else { return };
    let path = path.child(field);
    let labels = path.child("matchLabels");
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        errors.extend(
            names::label_key(key).iter().map(|why| FieldError::invalid(labels.clone(), &json!(key), why)),
        );
        let wrong = names::label_value(value.as_str().unwrap_or_default());
        errors.extend(wrong.iter().map(|why| FieldError::invalid(labels.clone(), value, why)));
    }
    for (index, term) in entries(selector, "matchExpressions").iter().enumerate() {
        validate_term(term, &path.child("matchExpressions").index(index), errors);
    }
}

fn validate_term(term: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let (operator, values) = (text(term, "operator"), entries(term, "values"));
    let at = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(at, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(path.child("operator"), &json!(other), detail));
        }
    }
    let key = text(term, "key");
    let wrong = names::label_key(key);
    errors.extend(wrong.iter().map(|why| FieldError::invalid(path.child("key"), &json!(key), why)));
    for (index, value) in values.iter().enumerate() {
        let wrong = names::label_value(value.as_str().unwrap_or_default());
        let error = |why: &String| FieldError::invalid(path.child("values").index(index), value, why);
        errors.extend(wrong.iter().map(error));
    }
}

/// Validates match conditions. `params` says whether they can read the parameters of a policy.
pub(crate) fn validate_conditions(
    value: &Value,
    params: bool,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let path = path.child("matchConditions");
    let conditions = entries(value, "matchConditions");
    if conditions.len() > MOST_CONDITIONS {
        errors.push(FieldError::too_many(path.clone(), conditions.len(), 64));
    }
    let declared = Declared { params, authorizer: true, ..Declared::default() };
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let source = text(condition, "expression").trim();
        validate_expression(source, &declared, Wanted::Bool, &at.child("expression"), "", errors);
        let name = text(condition, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        let wrong = if name.is_empty() { Vec::new() } else { names::label_key(name) };
        errors.extend(wrong.iter().map(|why| FieldError::invalid(at.child("name"), &json!(name), why)));
        if !name.is_empty() && conditions.iter().take(index).any(|before| text(before, "name") == name) {
            errors.push(FieldError::duplicate(at.child("name"), &json!(name)));
        }
    }
}

/// Compiles an expression, and adds its error. `missing` is the detail of an absent expression.
pub(crate) fn validate_expression(
    source: &str,
    declared: &Declared,
    wanted: Wanted,
    path: &FieldPath,
    missing: &str,
    errors: &mut Vec<FieldError>,
) -> Option<AdmissionExpression> {
    if source.trim().is_empty() {
        errors.push(FieldError::required(path.clone(), missing));
        return None;
    }
    let compiled = AdmissionExpression::compile(source, declared, wanted);
    compiled.map_err(|why| errors.push(FieldError::invalid(path.clone(), &json!(source), &why))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_rule(rule, &FieldPath::new("rules[0]"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn rule(resources: &[&str]) -> Value {
        json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": resources})
    }

    #[test]
    fn a_rule_names_operations_groups_versions_and_resources() {
        assert_eq!(found(&rule(&["*", "a/b", "*/scale"])), Vec::<String>::new());
        let at: Vec<String> =
            found(&json!({})).iter().map(|it| it.split(": ").next().unwrap_or_default().to_owned()).collect();
        assert_eq!(
            at,
            ["operations", "apiGroups", "apiVersions", "resources"].map(|it| format!("rules[0].{it}"))
        );
        for (resources, expected) in [
            (&["*/*", "a"][..], "rules[0].resources: Invalid value: [\"*/*\",\"a\"]: if '*/*' is present"),
            (&["*", "a"], "rules[0].resources: Invalid value: [\"*\",\"a\"]: if '*' is present"),
            (&["a/*", "a/b"], "rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present"),
            (&["*/b", "a/b"], "rules[0].resources[1]: Invalid value: \"a/b\": if '*/b' is present"),
            (&[""], "rules[0].resources[0]: Required value"),
        ] {
            let errors = found(&rule(resources));
            assert!(errors.len() == 1 && errors[0].starts_with(expected), "{resources:?}: {errors:?}");
        }
        let mut wrong = rule(&["a"]);
        wrong["operations"] = json!(["*", "READ"]);
        wrong["scope"] = json!("Namespace");
        let errors = found(&wrong);
        assert!(errors[0].contains("must not specify other operations") && errors.len() == 3, "{errors:?}");
        assert!(errors[1].starts_with("rules[0].operations[1]: Unsupported value: \"READ\""), "{errors:?}");
    }

    #[test]
    fn a_condition_has_a_unique_name_and_compiles() {
        let conditions = json!({"matchConditions": [
            {"name": "a", "expression": "object.x == 1"}, {"name": "a", "expression": "true"},
            {"name": "-", "expression": "1"}, {"expression": ""}, {"name": "b", "expression": "authorizer.x().allowed()"},
            {"name": "c", "expression": "params.x == 1"}]});
        let mut errors = Vec::new();
        validate_conditions(&conditions, false, &FieldPath::new("w"), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        for (index, expected) in [
            (0, "w.matchConditions[1].name: Duplicate value: \"a\""),
            (1, "w.matchConditions[2].expression: Invalid value: \"1\": must evaluate to bool but got int"),
            (2, "w.matchConditions[2].name: Invalid value"),
            (3, "w.matchConditions[3].expression: Required value"),
            (4, "w.matchConditions[3].name: Required value"),
            (5, "w.matchConditions[4].expression: Invalid value"),
            (6, "w.matchConditions[5].expression: Invalid value"),
        ] {
            assert!(errors.get(index).is_some_and(|it| it.starts_with(expected)), "{index}: {errors:#?}");
        }
        assert!(errors[6].contains("undeclared reference to 'params'"), "{}", errors[6]);
    }
}
