//! Lease: strategy and protobuf form.

use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// Strategy of Lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseStrategy;

impl Strategy for LeaseStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = FieldPath::new("spec");
        let text = |field: &str| {
            let found = new.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_str);
            found.filter(|text| !text.is_empty())
        };
        for (field, least, detail) in [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ] {
            let found = new.get("spec").and_then(|spec| spec.get(field));
            if let Some(value) = found.filter(|value| value.as_i64().is_some_and(|number| number < least)) {
                errors.push(FieldError::invalid(path.child(field), value, detail));
            }
        }
        if text("preferredHolder").is_some() && text("strategy").is_none() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(path.child("preferredHolder"), detail));
        }
        errors
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// Protobuf message.
const MESSAGE: &[Field] = &[METADATA, Field::new(2, "spec", Shape::Message(SPEC))];

const SPEC: &[Field] = &[
    Field::pointer(1, "holderIdentity", Shape::Text),
    Field::pointer(2, "leaseDurationSeconds", Shape::Integer),
    Field::new(3, "acquireTime", Shape::MicroTime),
    Field::new(4, "renewTime", Shape::MicroTime),
    Field::pointer(5, "leaseTransitions", Shape::Integer),
    Field::pointer(6, "strategy", Shape::Text),
    Field::pointer(7, "preferredHolder", Shape::Text),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_transitions_and_preferred_holders_are_validated() {
        let table = [
            (json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0}), vec![]),
            (json!({"leaseDurationSeconds": 0}), vec!["spec.leaseDurationSeconds"]),
            (json!({"leaseTransitions": -1}), vec!["spec.leaseTransitions"]),
            (json!({"preferredHolder": "b"}), vec!["spec.preferredHolder"]),
            (json!({"preferredHolder": "b", "strategy": "OldestEmulationVersion"}), vec![]),
        ];
        for (spec, expected) in table {
            let errors = LeaseStrategy.validate(&json!({"spec": spec}), None);
            let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
            assert_eq!(fields, expected, "{spec}");
        }
    }
}
