//! Checks of the mappings of claims to a user.

use std::collections::HashSet;

use apiserver_machinery::metadata::subdomain_errors;
use apiserver_schema::Expression;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::json;

use super::expressions::{Expressions, mapping};
use super::{ClaimMappings, ExtraMapping, PrefixedClaimOrExpression};

/// Characters of the path in a key, apart from letters and digits.
const OF_PATH: &str = "/-._~%!$&'()*+,;=:";

/// Error of a mapping with both forms.
const BOTH: &str = "claim and expression can't both be set";

/// Error of a user name that may be an address of another person.
const UNVERIFIED: &str = "claims.email_verified must be used in claimMappings.username.expression or \
     claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
     claimMappings.username.expression";

/// Compiles the expressions of the mappings into `found`.
pub(super) fn compile(
    from: &ClaimMappings,
    path: &FieldPath,
    found: &mut Expressions,
    errors: &mut Vec<FieldError>,
) {
    let username = path.child("username");
    if from.username.claim.is_empty() && from.username.expression.is_empty() {
        errors.push(FieldError::required(username.clone(), "claim or expression is required"));
    }
    found.username = prefixed(&from.username, &username, errors);
    found.groups = prefixed(&from.groups, &path.child("groups"), errors);
    found.uid = match (from.uid.claim.as_str(), from.uid.expression.as_str()) {
        (_, "") => None,
        ("", source) => mapping(source, path.child("uid").child("expression"), errors),
        _ => {
            errors.push(FieldError::invalid(path.child("uid"), &json!(""), BOTH));
            None
        }
    };
    found.extra = extra(&from.extra, &path.child("extra"), errors);
    let reads_email = found.username.as_ref().is_some_and(|it| it.selects("email"));
    if reads_email && !found.reads_email_verified() {
        let at = username.child("expression");
        errors.push(FieldError::invalid(at, &json!(from.username.expression), UNVERIFIED));
    }
}

fn prefixed(
    from: &PrefixedClaimOrExpression,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Expression> {
    match (from.claim.is_empty(), from.expression.is_empty()) {
        (false, false) => errors.push(FieldError::invalid(path.clone(), &json!(""), BOTH)),
        (true, true) => {}
        (false, true) => {
            if from.prefix.is_none() {
                let detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(path.child("prefix"), detail));
            }
        }
        (true, false) => {
            if let Some(prefix) = &from.prefix {
                let detail = "may not be specified when expression is set";
                errors.push(FieldError::invalid(path.child("prefix"), &json!(prefix), detail));
            }
            let compiled = mapping(&from.expression, path.child("expression"), errors);
            // With an error, the use of an address is not checked, as in kube-apiserver.
            return compiled.filter(|_| from.prefix.is_none());
        }
    }
    None
}

fn extra(from: &[ExtraMapping], path: &FieldPath, errors: &mut Vec<FieldError>) -> Vec<(String, Expression)> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for (index, entry) in from.iter().enumerate() {
        let at = path.index(index);
        key(&entry.key, &at.child("key"), errors);
        if !seen.insert(entry.key.as_str()) {
            errors.push(FieldError::duplicate(at.child("key"), &json!(entry.key)));
            continue;
        }
        if entry.value_expression.is_empty() {
            errors.push(FieldError::required(at.child("valueExpression"), ""));
            continue;
        }
        let value = mapping(&entry.value_expression, at.child("valueExpression"), errors);
        found.extend(value.map(|value| (entry.key.clone(), value)));
    }
    found
}

/// Checks the key of an extra: a lower-case path after a domain that is not one of Kubernetes or of this server.
fn key(key: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut refuse = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(path.clone(), &json!(value), detail));
    };
    if key.is_empty() {
        return errors.push(FieldError::required(path.clone(), ""));
    }
    let (domain, rest) = key.split_once('/').unwrap_or((key, ""));
    if domain.is_empty() || rest.is_empty() {
        refuse(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    } else {
        subdomain_errors(domain).iter().for_each(|error| refuse(domain, error));
        if !rest.chars().all(|c| c.is_ascii_alphanumeric() || OF_PATH.contains(c)) {
            refuse(rest, r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')");
        }
    }
    if key.to_lowercase() != key {
        refuse(key, "must be lowercase");
    }
    let is_below =
        |of: &str| domain.strip_suffix(of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if key.contains('/') && (is_below("k8s.io") || is_below("kubernetes.io")) {
        refuse(key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use");
    }
    if key.contains('/') && is_below("capstan.dev") {
        refuse(key, "capstan.dev and its subdomains are reserved for this server");
    }
}
