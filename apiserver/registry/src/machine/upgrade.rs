//! `machines/upgrade`: gives a Machine another Kubernetes version.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::verb::{Verb, VerbAnswer, VerbCall};
use apiserver_types::{MachineUpgrade, structural};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::operation::{self, OPERATION_KIND, Wish};
use crate::version;

/// The verb.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upgrade;

#[async_trait]
impl Verb for Upgrade {
    fn name(&self) -> &'static str {
        "upgrade"
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        ("capstan.dev", "v1alpha1", "MachineUpgrade")
    }

    fn request_schema(&self) -> Value {
        structural::<MachineUpgrade>()
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        OPERATION_KIND
    }

    async fn invoke(&self, call: VerbCall<'_>) -> ApiResult<VerbAnswer> {
        let machine = operation::machine(&call).await?;
        let wish = Wish::new("Upgrade", self.name(), &call.body);
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (wanted, current) = (text(&call.body, "/version"), text(&machine, "/spec/version"));
        let check = || match fault(&wanted, &current) {
            None => Ok(()),
            Some(detail) => {
                let fault = FieldError::invalid(FieldPath::new("version"), &json!(wanted), &detail);
                Err(ApiError::invalid_kind("MachineUpgrade.capstan.dev", object::name(&machine), &[fault]))
            }
        };
        operation::begin(&call, &machine, &wish, check).await
    }
}

/// What speaks against going from `current` (may be unknown) to `wanted`. Kubernetes is upgraded
/// one minor version at a time, and never back.
fn fault(wanted: &str, current: &str) -> Option<String> {
    let Some(to) = version::parse(wanted) else {
        return Some("must be a valid semantic version with a leading v, e.g. v1.30.2".to_owned());
    };
    let from = version::parse(current)?;
    if to < from {
        return Some(format!("must not be older than the machine's version {current}"));
    }
    let ((major, minor, _), (from_major, from_minor, _)) = (to, from);
    if major != from_major || minor > from_minor + 1 {
        return Some(format!("must be at most one minor version newer than the machine's version {current}"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_up_one_minor_at_a_time() {
        let table = [
            ("v1.30.2", "v1.30.1", ""),
            ("v1.31.0", "v1.30.9", ""),
            ("v1.30.2", "v1.30.2", ""),
            ("v1.30.2", "", ""),
            ("v1.30.2", "v1.30.3", "must not be older than the machine's version v1.30.3"),
            ("v1.29.9", "v1.30.0", "must not be older"),
            ("v1.32.0", "v1.30.9", "must be at most one minor version newer"),
            ("v2.31.0", "v1.30.9", "must be at most one minor version newer"),
            ("1.31.0", "v1.30.9", "must be a valid semantic version"),
            ("v1.31", "", "must be a valid semantic version"),
        ];
        for (wanted, current, expected) in table {
            let found = fault(wanted, current).unwrap_or_default();
            assert_eq!(found.is_empty(), expected.is_empty(), "{current} to {wanted}: {found}");
            assert!(found.starts_with(expected), "{current} to {wanted}: {found}");
        }
    }
}
