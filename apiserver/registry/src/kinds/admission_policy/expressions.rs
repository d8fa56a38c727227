//! Validation of the expressions of a policy: variables, validations and audit annotations.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{Declared, DeclaredVariables, RESERVED_WORDS, Wanted};
use serde_json::{Value, json};

use crate::rules::admission_rules::{entries, one_of, text, validate_expression};
use crate::rules::names;

/// Largest number of audit annotations: upstream's.
const MOST_ANNOTATIONS: usize = 20;

/// Longest expression of an audit annotation: upstream's. Unit: bytes.
const LONGEST_VALUE: usize = 5 * 1024;

/// Reasons of a refusal.
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// Validates the variables, and declares each for those that follow.
pub(super) fn validate_variables(
    spec: &Value,
    declared: &mut Declared,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let variables = entries(spec, "variables");
    if variables.is_empty() {
        return;
    }
    let path = path.child("variables");
    declared.variables = Some(DeclaredVariables::default());
    for (index, variable) in variables.iter().enumerate() {
        let (at, name) = (path.index(index), text(variable, "name"));
        if name.trim().is_empty() {
            errors.push(FieldError::required(at.child("name"), "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(FieldError::invalid(
                at.child("name"),
                &json!(name),
                "must be a valid CEL identifier",
            ));
        }
        let (source, missing) = (text(variable, "expression"), "expression is not specified");
        let at = at.child("expression");
        let compiled = validate_expression(source, declared, Wanted::Any, &at, missing, errors);
        if let Some(known) = &mut declared.variables {
            known.declare(name, compiled.as_ref());
        }
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !RESERVED_WORDS.contains(&name)
}

/// Validates the validations and the audit annotations.
pub(super) fn validate(
    name: &str,
    spec: &Value,
    declared: &Declared,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (validations, annotations) = (entries(spec, "validations"), entries(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required(path.child("validations"), detail));
        errors.push(FieldError::required(path.child("auditAnnotations"), detail));
    }
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(validation, declared, &path.child("validations").index(index), errors);
    }
    let path = path.child("auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let detail = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(path.clone(), &json!(annotations), &detail));
    }
    for (index, annotation) in annotations.iter().enumerate() {
        let (at, key) = (path.index(index), text(annotation, "key"));
        let whole = format!("{name}/{key}");
        let wrong = names::label_key(&whole);
        errors.extend(wrong.iter().map(|why| FieldError::invalid(at.child("key"), &json!(whole), why)));
        validate_value(text(annotation, "valueExpression"), declared, &at.child("valueExpression"), errors);
        if annotations.iter().take(index).any(|before| text(before, "key") == key) {
            errors.push(FieldError::duplicate(at.child("key"), &json!(key)));
        }
    }
}

fn validate_value(source: &str, declared: &Declared, path: &FieldPath, errors: &mut Vec<FieldError>) {
    if source.trim().len() > LONGEST_VALUE {
        let detail = format!("must not exceed {LONGEST_VALUE} bytes in length");
        return errors.push(FieldError::required(path.clone(), &detail));
    }
    let missing = "valueExpression is not specified";
    validate_expression(source, declared, Wanted::TextOrNull, path, missing, errors);
}

fn validate_validation(
    validation: &Value,
    declared: &Declared,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let (source, missing) = (text(validation, "expression"), "expression is not specified");
    validate_expression(source, declared, Wanted::Bool, &path.child("expression"), missing, errors);
    let (of_message, message) = (text(validation, "messageExpression"), text(validation, "message"));
    let empty = "must be non-empty if specified";
    if !of_message.is_empty() {
        let at = path.child("messageExpression");
        match of_message.trim() {
            "" => errors.push(FieldError::invalid(at, &json!(of_message), empty)),
            _ => {
                // As in upstream, a message needs no permissions.
                let declared = Declared { authorizer: false, ..declared.clone() };
                validate_expression(of_message, &declared, Wanted::Text, &at, "", errors);
            }
        }
    }
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(path.child("message"), &json!(message), empty));
    } else if message.trim().contains(['\n', '\r']) {
        let detail = "must not contain line breaks";
        errors.push(FieldError::invalid(path.child("message"), &json!(message), detail));
    }
    one_of(validation, "reason", &REASONS, path, errors);
}
