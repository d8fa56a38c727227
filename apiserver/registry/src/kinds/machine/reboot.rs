//! `machines/reboot`: restarts the server of a Machine.

use apiserver_machinery::action::{ActionCall, ActionHandler, ActionResponse};
use apiserver_machinery::status::ApiResult;
use async_trait::async_trait;
use serde_json::Value;

use super::operation::{self, OPERATION_KIND, Wish};
use crate::schemas;

/// The verb.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reboot;

#[async_trait]
impl ActionHandler for Reboot {
    fn name(&self) -> &'static str {
        "reboot"
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        ("capstan.dev", "v1alpha1", "MachineReboot")
    }

    fn request_schema(&self) -> Value {
        schemas::body("MachineReboot")
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        OPERATION_KIND
    }

    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse> {
        let machine = operation::machine(&call).await?;
        let wish = Wish::new("Reboot", self.name(), &call.body);
        operation::begin(&call, &machine, &wish, || Ok(())).await
    }
}
