//! `machines/upgrade`: gives a Machine another Kubernetes version.

use apiserver_machinery::action::{ActionCall, ActionHandler, ActionResponse};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::operation::{self, OPERATION_KIND, Wish};
use crate::schemas;

/// The verb.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upgrade;

#[async_trait]
impl ActionHandler for Upgrade {
    fn name(&self) -> &'static str {
        "upgrade"
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        ("capstan.dev", "v1alpha1", "MachineUpgrade")
    }

    fn request_schema(&self) -> Value {
        schemas::body("MachineUpgrade")
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        OPERATION_KIND
    }

    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse> {
        let machine = operation::machine(&call).await?;
        let wish = Wish::new("Upgrade", self.name(), &call.body);
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (wanted, current) = (text(&call.body, "/version"), text(&machine, "/spec/version"));
        let current = Some(current.as_str()).filter(|current| !current.is_empty());
        let another_image = call.body.get("image").is_some();
        let check = || match apiserver_types::version::skew(current, &wanted, another_image) {
            None => Ok(()),
            Some(detail) => {
                let error = FieldError::invalid(FieldPath::new("version"), &json!(wanted), &detail);
                Err(ApiError::invalid_kind("MachineUpgrade.capstan.dev", object::name(&machine), &[error]))
            }
        };
        operation::begin(&call, &machine, &wish, check).await
    }
}
