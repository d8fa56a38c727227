//! Checks of the rules for claims and for users.

use std::collections::HashSet;

use apiserver_schema::Expression;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::json;

use super::expressions::{claim_rule, user_rule};
use super::{ClaimValidationRule, UserValidationRule};

/// Compiles the rules for claims that are expressions.
pub(super) fn of_claims(
    rules: &[ClaimValidationRule],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<(Expression, String)> {
    let (mut claims, mut expressions, mut found) = (HashSet::new(), HashSet::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (true, true) => errors.push(FieldError::required(at, "claim or expression is required")),
            (false, false) => {
                let detail = "claim and expression can't both be set";
                errors.push(FieldError::invalid(at, &json!(rule.claim), detail));
            }
            (false, true) => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    errors.push(FieldError::invalid(at.child("message"), &json!(rule.message), detail));
                }
                if !claims.insert(rule.claim.as_str()) {
                    errors.push(FieldError::duplicate(at.child("claim"), &json!(rule.claim)));
                }
            }
            (true, false) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    let at = at.child("requiredValue");
                    errors.push(FieldError::invalid(at, &json!(rule.required_value), detail));
                }
                let at = at.child("expression");
                if expressions.insert(rule.expression.as_str()) {
                    let compiled = claim_rule(&rule.expression, at, errors);
                    found.extend(compiled.map(|compiled| (compiled, rule.message.clone())));
                } else {
                    errors.push(FieldError::duplicate(at, &json!(rule.expression)));
                }
            }
        }
    }
    found
}

/// Compiles the rules for users.
pub(super) fn of_user(
    rules: &[UserValidationRule],
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Vec<(Expression, String)> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index).child("expression");
        if rule.expression.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if seen.insert(rule.expression.as_str()) {
            let compiled = user_rule(&rule.expression, at, errors);
            found.extend(compiled.map(|compiled| (compiled, rule.message.clone())));
        } else {
            errors.push(FieldError::duplicate(at, &json!(rule.expression)));
        }
    }
    found
}
