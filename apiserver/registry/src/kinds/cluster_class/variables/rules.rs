//! Validation rules in the schema of a variable.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::schema;
use serde_json::{Value, json};

use super::costs::Costs;
use super::location::Location;
use super::{field_path, samples, without_rules};
use crate::rules::json_fields::items;

/// Longest message of a rule. Unit: bytes.
const LONGEST_MESSAGE: usize = 2048;

/// Length of the part of a longer message that is shown. Unit: characters.
const SHOWN: usize = 10;

/// Kinds of the error of a violated rule.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

const FIELD: &str = "x-kubernetes-validations";

/// Adds the errors of the form of the rules, without parsing them.
pub(super) fn validate(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, rule) in items(schema, FIELD) {
        let path = path.child(FIELD).index(index);
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_blank = |field: &str| !text(field).is_empty() && text(field).trim().is_empty();
        validate_message(text("rule").trim(), text("message"), &path, errors);
        if is_blank("messageExpression") {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(path.child("messageExpression"), detail));
        }
        if let Some(reason) =
            rule.get("reason").filter(|reason| !REASONS.iter().any(|known| *reason == known))
        {
            errors.push(FieldError::not_supported(path.child("reason"), reason, &REASONS));
        }
        let location = text("fieldPath");
        let mut refuse = |detail: &str| {
            errors.push(FieldError::invalid(path.child("fieldPath"), &json!(location), detail));
        };
        if is_blank("fieldPath") {
            refuse("fieldPath must be non-empty if specified");
        }
        if has_line_breaks(location) {
            refuse("fieldPath must not contain line breaks");
        }
        if let (false, Err(problem)) = (location.is_empty(), field_path::check(location, schema)) {
            refuse(&format!("fieldPath must be a valid path: {problem}"));
        }
    }
}

fn validate_message(rule: &str, message: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let trimmed = message.trim();
    let at = path.child("message");
    let mut refuse = |shown: &str, detail: &str| {
        errors.push(FieldError::invalid(at.clone(), &json!(shown), detail));
    };
    if rule.is_empty() {
        errors.push(FieldError::required(path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && trimmed.is_empty() {
        refuse(message, "message must be non-empty if specified");
    } else if message.len() > LONGEST_MESSAGE {
        let shown: String = message.chars().take(SHOWN).collect();
        refuse(&format!("{shown}..."), "message must have a maximum length of 2048 characters");
    } else if has_line_breaks(trimmed) {
        refuse(message, "message must not contain line breaks");
    } else if has_line_breaks(rule) && trimmed.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(at, detail));
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Adds the errors of the rules, and of the schema's own values that violate them.
pub(super) fn try_out(
    schema: &Value,
    location: &Location<'_>,
    path: &FieldPath,
    costs: &mut Costs,
    errors: &mut Vec<FieldError>,
) {
    if schema.get(FIELD).is_none() {
        return;
    }
    let before = errors.len();
    let Ok(bare) = schema::compile(&without_rules(schema)) else { return };
    // Upstream takes the whole value for a Kubernetes object, and cannot type a list.
    if location.is_root && schema.get("type").is_some_and(|kind| kind == "array") {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        errors.push(FieldError::internal(path.child(FIELD), detail));
        return;
    }
    // As often as the enclosing schemas allow, or else as often as a request can hold it.
    let times = location.times.unwrap_or_else(|| bare.most_in_a_request());
    for (index, rule) in items(schema, FIELD) {
        let at = path.child(FIELD).index(index);
        let analysis = bare.analyze(rule);
        match analysis.rule {
            Err(problem) => {
                let problem = costs.reported(&problem);
                errors.push(FieldError::invalid(at.child("rule"), rule, problem));
            }
            Ok(once) => {
                costs.add("estimated rule cost", at.child("rule"), once.saturating_mul(times), errors)
            }
        }
        match analysis.message {
            Some(Err(problem)) => {
                let problem = costs.reported(&problem);
                errors.push(FieldError::invalid(at.child("messageExpression"), rule, problem));
            }
            Some(Ok(once)) => {
                costs.add("estimated messageExpression cost", at.child("messageExpression"), once, errors);
            }
            None => {}
        }
        if let Some(list) = location.in_list.as_ref().filter(|_| analysis.is_transition) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            let text = rule.get("rule").unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(at.child("rule"), text, &detail));
        }
    }
    if errors.len() > before {
        return;
    }
    let Ok(compiled) = schema::compile(schema) else { return };
    for (at, value) in samples(schema, path) {
        let broken = compiled.rule_errors(value, None);
        errors.extend(broken.into_iter().map(|error| error.within(at.as_str())));
    }
}
