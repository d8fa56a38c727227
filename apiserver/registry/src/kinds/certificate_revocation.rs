//! CertificateRevocation: strategy and validation.

use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use jiff::Timestamp;
use serde_json::Value;

use crate::rules::json_fields::get;

/// Fields that select certificates.
const SELECTORS: [&str; 4] = ["fingerprint", "group", "serialNumber", "user"];

/// Strategy of CertificateRevocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CertificateRevocationStrategy;

impl Strategy for CertificateRevocationStrategy {
    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let is_set = |field: &str| get(new, &format!("spec.{field}")).is_some();
        let path = |field: &str| FieldPath::new("spec").child(field);
        let set: Vec<&str> = SELECTORS.into_iter().filter(|field| is_set(field)).collect();
        let mut errors = Vec::new();
        match set.as_slice() {
            [] => {
                let detail = "one of fingerprint, group, serialNumber and user must be set";
                errors.push(FieldError::required(FieldPath::new("spec"), detail));
            }
            [first, others @ ..] => {
                let detail = format!("must not be set together with {first}");
                errors.extend(others.iter().map(|field| FieldError::forbidden(path(field), &detail)));
            }
        }
        let [by_serial, by_subject] = [["serialNumber"].as_slice(), ["group", "user"].as_slice()]
            .map(|some| some.iter().any(|it| is_set(it)));
        if by_serial && !is_set("issuer") {
            errors
                .push(FieldError::required(path("issuer"), "a serial number is unique for one issuer only"));
        }
        if is_set("issuer") && !by_serial {
            errors.push(FieldError::forbidden(path("issuer"), "only with serialNumber"));
        }
        if is_set("issuedBefore") && !by_subject {
            errors.push(FieldError::forbidden(path("issuedBefore"), "only with group or user"));
        }
        // The format of the schema allows offsets that no time has.
        let is_unreadable =
            |time: &&Value| time.as_str().is_some_and(|time| time.parse::<Timestamp>().is_err());
        if let Some(time) = get(new, "spec.issuedBefore").filter(is_unreadable) {
            let detail = "must be a time in RFC 3339, such as 2026-11-27T12:00:00Z";
            errors.push(FieldError::invalid(path("issuedBefore"), time, detail));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_selection_is_required_with_the_fields_that_belong_to_it() {
        for (spec, expected) in [
            (json!({"user": "alice", "issuedBefore": "2026-11-27T12:00:00Z"}), vec![]),
            (json!({"group": "ops"}), vec![]),
            (json!({"serialNumber": "1f", "issuer": "capstan-ca"}), vec![]),
            (json!({"fingerprint": "a".repeat(64)}), vec![]),
            (json!({"reason": "left"}), vec!["spec"]),
            (json!({"user": "alice", "group": "ops"}), vec!["spec.user"]),
            (json!({"serialNumber": "1f"}), vec!["spec.issuer"]),
            (json!({"user": "alice", "issuer": "capstan-ca"}), vec!["spec.issuer"]),
            (
                json!({"serialNumber": "1f", "issuer": "c", "issuedBefore": "2026-11-27T12:00:00Z"}),
                vec!["spec.issuedBefore"],
            ),
            (
                json!({"user": "alice", "issuedBefore": "2026-11-27T12:00:00+99:00"}),
                vec!["spec.issuedBefore"],
            ),
        ] {
            let errors = CertificateRevocationStrategy.validate(&json!({"spec": spec}), None);
            let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
            assert_eq!(fields, expected, "{spec}");
        }
    }
}
