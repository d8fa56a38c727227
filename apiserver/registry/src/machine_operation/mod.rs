//! MachineOperation.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

use crate::{immutable, version};

/// MachineOperation's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineOperationStrategy;

impl Strategy for MachineOperationStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        let path = FieldPath::new("spec");
        let action = new.pointer("/spec/action").and_then(Value::as_str).unwrap_or_default();
        for (field, owner) in [("reboot", "Reboot"), ("upgrade", "Upgrade")] {
            let present = new.pointer(&format!("/spec/{field}")).is_some();
            if present && action != owner {
                faults.push(FieldError::forbidden(path.child(field), &format!("only for action {owner}")));
            }
        }
        if action == "Upgrade" && new.pointer("/spec/upgrade").is_none() {
            faults.push(FieldError::required(path.child("upgrade"), "says to which version"));
        }
        if let Some(wanted) = new.pointer("/spec/upgrade/version")
            && wanted.as_str().and_then(version::parse).is_none()
        {
            let detail = "must be a valid semantic version with a leading v, e.g. v1.30.2";
            faults.push(FieldError::invalid(path.child("upgrade").child("version"), wanted, detail));
        }
        if let Some(old) = old {
            faults.extend(immutable::spec(new, old, |now, before| {
                for value in [now, before] {
                    immutable::forget(value, "cancelRequested");
                }
            }));
            let cancelled = |object: &Value| object.pointer("/spec/cancelRequested") == Some(&json!(true));
            if cancelled(old) && !cancelled(new) {
                faults.push(FieldError::forbidden(
                    path.child("cancelRequested"),
                    "a cancellation cannot be taken back",
                ));
            }
        }
        faults
    }
}
