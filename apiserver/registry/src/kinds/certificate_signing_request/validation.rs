//! Validation of certificate signing requests, in upstream's words.

use std::collections::BTreeSet;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::{DECISIONS, conditions, pkcs10, text};

/// Shortest lifetime of a certificate. Unit: seconds.
const SHORTEST: i64 = 600;

/// Longest name of a signer: a domain and a path of upstream's lengths.
const LONGEST: usize = 571;

/// Usages that a certificate can have.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Checks the request itself.
pub(super) fn of_spec(new: &Value, errors: &mut Vec<FieldError>) {
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let path = |field: &str| FieldPath::new("spec").child(field);
    if let Err(why) = pkcs10::organizations(text(spec, "request")) {
        let detail = format!("unable to parse csr: {why}");
        errors.push(FieldError::invalid_unshown(path("request"), &detail));
    }
    let usages: Vec<&str> = spec
        .get("usages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if usages.is_empty() {
        errors.push(FieldError::required(path("usages"), ""));
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(path("usages").index(index), &json!(usage), &USAGES));
        } else if !seen.insert(usage) {
            errors.push(FieldError::duplicate(path("usages").index(index), &json!(usage)));
        }
    }
    of_signer(text(spec, "signerName"), path("signerName"), errors);
    let lifetime = spec.get("expirationSeconds").and_then(Value::as_i64);
    if let Some(lifetime) = lifetime.filter(|lifetime| *lifetime < SHORTEST) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(path("expirationSeconds"), &json!(lifetime), detail));
    }
}

fn of_signer(signer: &str, path: FieldPath, errors: &mut Vec<FieldError>) {
    if signer.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if signer == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(path, &json!(signer), detail));
    } else if signer.len() > LONGEST || !is_path(signer) {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid(path, &json!(signer), detail));
    }
}

fn is_path(signer: &str) -> bool {
    let is_name = apiserver_machinery::metadata::is_subdomain;
    signer
        .split_once('/')
        .is_some_and(|(domain, path)| domain.contains('.') && is_name(domain) && is_name(path))
}

/// Checks the decisions.
pub(super) fn of_conditions(new: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("status").child("conditions");
    let all = conditions(new);
    for (index, condition) in all.iter().enumerate() {
        let path = path.clone().index(index);
        let (kind, status) = (text(condition, "type"), text(condition, "status"));
        if kind.is_empty() {
            errors.push(FieldError::required(path.child("type"), ""));
        } else if (DECISIONS.contains(&kind) || kind == "Failed") && status != "True" {
            let field = path.child("status");
            errors.push(match status {
                "" => FieldError::required(field, ""),
                _ => FieldError::not_supported(field, &json!(status), &["True"]),
            });
        } else if all.iter().take(index).any(|other| text(other, "type") == kind) {
            errors.push(FieldError::duplicate(path.child("type"), &json!(kind)));
        }
    }
    let has = |kind: &str| all.iter().any(|condition| text(condition, "type") == kind);
    if has("Approved") && has("Denied") {
        let detail = "Approved and Denied conditions are mutually exclusive";
        errors.push(FieldError::invalid_unshown(path, detail));
    }
}

/// Checks that an update takes nothing back.
pub(super) fn of_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = |field: &str| FieldPath::new("status").child(field);
    for kind in ["Approved", "Denied", "Failed"] {
        let has = |object: &Value| conditions(object).iter().any(|condition| text(condition, "type") == kind);
        if has(old) && !has(new) {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(path("conditions"), &detail));
        }
    }
    let certificate = |object: &Value| object.pointer("/status/certificate").cloned();
    if certificate(old).is_some_and(|it| it != "") && certificate(old) != certificate(new) {
        let detail = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden(path("certificate"), detail));
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn errors(spec: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        of_spec(&json!({"spec": spec}), &mut errors);
        errors.iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn a_request_has_a_signer_a_usage_and_a_lifetime_of_ten_minutes() {
        let request = STANDARD.encode(pkcs10::tests::ALICE);
        let good = json!({"request": request, "usages": ["client auth"], "signerName": "a.b/c", "expirationSeconds": 600});
        assert_eq!(errors(&good), Vec::<String>::new());
        for (field, value, expected) in [
            ("request", json!("AAAA"), "unable to parse csr: PEM block type must be"),
            ("usages", json!([]), "spec.usages: Required value"),
            ("usages", json!(["x"]), "spec.usages[0]: Unsupported value"),
            ("usages", json!(["any", "any"]), "spec.usages[1]: Duplicate value"),
            ("signerName", json!("c"), "fully qualified domain"),
            ("signerName", json!(""), "spec.signerName: Required value"),
            ("signerName", json!("kubernetes.io/legacy-unknown"), "the legacy signerName"),
            ("expirationSeconds", json!(599), "less than 600 seconds"),
        ] {
            let mut spec = good.clone();
            spec[field] = value.clone();
            let found = errors(&spec).join("; ");
            assert!(found.contains(expected), "{field} {value}: {found}");
        }
    }

    #[test]
    fn a_request_is_approved_or_denied_and_decisions_are_true() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        for (conditions, expected) in [
            (json!([condition("Approved", "True"), condition("Failed", "True")]), ""),
            (json!([condition("Approved", "True"), condition("Denied", "True")]), "mutually exclusive"),
            (json!([condition("Denied", "False")]), "Unsupported value"),
            (json!([condition("", "True")]), "Required value"),
            (json!([condition("x", "True"), condition("x", "True")]), "Duplicate value"),
        ] {
            let mut errors = Vec::new();
            of_conditions(&json!({"status": {"conditions": conditions}}), &mut errors);
            let found = errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; ");
            assert!(
                found.contains(expected) && found.is_empty() == expected.is_empty(),
                "{conditions}: {found}"
            );
        }
    }
}
