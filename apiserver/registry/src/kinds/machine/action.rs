//! Handler of the actions on a Machine: one for each entry of the table in `apiserver-types`.

use std::sync::Arc;

use apiserver_machinery::action::{ActionCall, ActionHandler, ActionResponse};
use apiserver_machinery::status::ApiResult;
use apiserver_schema::KindSchema;
use apiserver_types::{ACTIONS, ActionDescriptor, Described, MachineAction, MachineOperation};
use async_trait::async_trait;

use super::operation::{self, OperationRequest};
use super::upgrade;
use crate::schemas;

/// Handler of one action.
#[derive(Debug)]
struct MachineActionHandler {
    action: &'static ActionDescriptor,
    /// Schema of the body, compiled at the first call.
    body: KindSchema,
}

/// Returns the handlers of all actions.
pub(super) fn handlers() -> Vec<Arc<dyn ActionHandler>> {
    let handler = |action: &'static ActionDescriptor| -> Arc<dyn ActionHandler> {
        let body = KindSchema::of_body(move || schemas::body(action.body_kind));
        Arc::new(MachineActionHandler { action, body })
    };
    ACTIONS.iter().map(handler).collect()
}

#[async_trait]
impl ActionHandler for MachineActionHandler {
    #[expect(clippy::misnamed_getters, reason = "the handler's name is the subresource in the path")]
    fn name(&self) -> &'static str {
        self.action.subresource
    }

    fn deletes(&self) -> bool {
        self.action.action == MachineAction::Retire
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        let operation = MachineOperation::DESCRIPTOR;
        (operation.group, operation.version, self.action.body_kind)
    }

    fn request_schema(&self) -> &KindSchema {
        &self.body
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        let operation = MachineOperation::DESCRIPTOR;
        (operation.group, operation.version, operation.kind)
    }

    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse> {
        let machine = operation::machine(&call).await?;
        let request = OperationRequest::new(self.action, &call.body);
        let check = || match self.action.action {
            MachineAction::Upgrade => upgrade::check(self.request_kind(), &call.body, &machine),
            _ => Ok(()),
        };
        operation::begin(&call, &machine, &request, check).await
    }
}
