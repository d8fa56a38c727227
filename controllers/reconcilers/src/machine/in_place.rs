//! Update of a Machine in place by an extension server.
//!
//! The owner of the Machine has brought it and its objects to what they are to be, and has marked them. The server makes the
//! change, and is called until it says that it is done. Then the marks are removed: the Machine's own first, and its pending
//! hook last, so that a pass which was interrupted is continued.

use std::fmt::Debug;
use std::time::Duration;

use apiserver_types::{KubeadmConfig, Machine, OpenStackMachine};
use controllers_extensions::{
    AnswerCache, Call, ExtensionServers, Extensions, Hook, HookResponse as _, MachineObjects, NO_SETTINGS,
    RetryResponse, UpdateMachineRequest, desired_part, wait_key,
};
use controllers_runtime::{Backoff, ControllerContext, ReconcileError, Severity};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::act::Actor;
use super::decide::Step;
use super::observe::{Observed, is_bootstrapped};
use crate::in_place::{self, Answered, PENDING_HOOKS, answered, only_handler};
use crate::machine_labels::UPDATING;

/// State of an update, as the server has last reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Update {
    /// The server works on it: its message, which may be empty, and the time until the next call.
    Running(String, Duration),
    /// The server failed or refused: a text for people, and the time until the next call.
    Failed(String, Duration),
    /// The server has made the change.
    Done,
}

/// Extension servers that update Machines, with what they have last said.
#[derive(Debug, Default)]
pub(super) struct Updaters {
    servers: ExtensionServers,
    /// Until its end, a server is not called again for the same Machine.
    waits: AnswerCache<Update>,
    failures: Backoff,
}

/// Returns the next step of an update; `None` if there is none, or if its owner has not begun it yet. Pure.
pub(super) fn next_step(machine: &Machine, observed: &Observed) -> Option<Step> {
    if !in_place::is_pending(machine) {
        return None;
    }
    if !machine.annotations().contains_key(UPDATING) {
        return Some(Step::EndUpdate);
    }
    match &observed.in_place {
        Some(Update::Done) => Some(Step::EndUpdate),
        Some(Update::Running(_, wait) | Update::Failed(_, wait)) => Some(Step::AwaitUpdate(*wait)),
        None => is_ready(machine, observed).then_some(Step::CallUpdate),
    }
}

/// Returns what keeps the server from being called, until a person changes something. Pure.
pub(super) fn obstacle(machine: &Machine, observed: &Observed) -> Option<String> {
    let missing = || format!("OpenStackMachine {} does not exist", machine.spec.infrastructure_ref.name);
    let text = || observed.obstacle.clone().unwrap_or_else(missing);
    let is_staying = machine.metadata.deletion_timestamp.is_none();
    (is_staying && in_place::is_pending(machine) && observed.infrastructure.is_none()).then(text)
}

/// Returns true if the Machine works, its objects are marked, and no MachineOperation updates it.
fn is_ready(machine: &Machine, observed: &Observed) -> bool {
    let status = machine.status.as_ref();
    let initialization = status.and_then(|status| status.initialization.as_ref());
    let was_provisioned = initialization.and_then(|it| it.infrastructure_provisioned) == Some(true);
    let is_marked = |it: &OpenStackMachine| it.annotations().contains_key(UPDATING);
    (was_provisioned || observed.provisioned())
        && is_bootstrapped(machine)
        && status.is_some_and(|status| status.node_ref.is_some())
        && observed.infrastructure.as_ref().is_some_and(is_marked)
        && observed.bootstrap.as_ref().is_none_or(|it| it.annotations().contains_key(UPDATING))
        && observed.update.is_none()
}

impl Updaters {
    /// Returns what a server has said about a Machine, while it is not to be called again.
    pub(super) fn known(&self, machine: &Machine) -> Option<Update> {
        let (update, rest) = self.waits.get(&wait_key(machine, Hook::UpdateMachine))?;
        Some(match update {
            Update::Running(message, _) => Update::Running(message, rest),
            Update::Failed(text, _) => Update::Failed(text, rest),
            Update::Done => Update::Done,
        })
    }

    /// Forgets what a server has said about a Machine.
    pub(super) fn forget(&self, machine: &Machine) {
        self.waits.forget(&wait_key(machine, Hook::UpdateMachine));
        self.failures.reset(&machine.uid().unwrap_or_default());
    }

    async fn call(
        &self,
        context: &ControllerContext,
        machine: &Machine,
        observed: &Observed,
    ) -> Result<Update, ReconcileError> {
        let uid = machine.uid().unwrap_or_default();
        let (update, wait) = match self.answer(context, machine, observed).await? {
            Ok(answer) => {
                self.failures.reset(&uid);
                let Some(wait) = answer.retry_after() else { return Ok(Update::Done) };
                (Update::Running(answer.message, wait), wait)
            }
            Err(text) => {
                let wait = self.failures.failed(&uid, Duration::ZERO);
                (Update::Failed(text, wait), wait)
            }
        };
        self.waits.keep(wait_key(machine, Hook::UpdateMachine), update.clone(), wait);
        Ok(update)
    }

    async fn answer(
        &self,
        context: &ControllerContext,
        machine: &Machine,
        observed: &Observed,
    ) -> Answered<RetryResponse> {
        let extensions = Extensions::read(context, &self.servers).await?;
        let namespace = machine.namespace().unwrap_or_default();
        let handler = match only_handler(&extensions, Hook::UpdateMachine, &namespace).await? {
            Ok(Some(handler)) => handler,
            Ok(None) => {
                return Ok(Err(format!(
                    "no extension server serves the hook UpdateMachine in namespace {namespace}. Create its \
                     ExtensionConfig, or delete the Machine"
                )));
            }
            Err(text) => return Ok(Err(text)),
        };
        let desired = MachineObjects {
            machine: desired_part(machine),
            infrastructure_machine: observed.infrastructure.as_ref().map(desired_part).unwrap_or_default(),
            bootstrap_config: observed.bootstrap.as_ref().map(desired_part),
        };
        let call = Call { handler: &handler, namespace: &namespace, settings: &NO_SETTINGS };
        let answer = answered(extensions.call(&call, &UpdateMachineRequest { desired }).await)?;
        let is_given = |answer: &RetryResponse| !answer.status().is_empty();
        Ok(match answer {
            Ok(answer) if !is_given(&answer) => Err(format!(
                "extension handler {handler} does not answer. Its failurePolicy Ignore does not count for the hook \
                 UpdateMachine, because the change would be missing"
            )),
            other => other,
        })
    }
}

impl Actor<'_> {
    /// Has the server make the change. A failure is kept for the report.
    pub(super) async fn call_update(
        &self,
        machine: &Machine,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let update = self.updaters.call(self.context, machine, observed).await?;
        if let Update::Failed(text, _) = &update {
            let message = format!("The update in place failed: {text}");
            self.context.events.record(machine, Severity::Warning, "FailedInPlaceUpdate", &message).await;
        }
        observed.in_place = Some(update);
        Ok(())
    }

    /// Removes the marks of an update that has ended.
    pub(super) async fn end_update(
        &self,
        machine: &mut Machine,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        if machine.annotations().contains_key(UPDATING) {
            self.change(machine, json!({"metadata": {"annotations": {UPDATING: null}}})).await?;
        }
        if let Some(server) = &observed.infrastructure {
            unmark(&self.namespaced::<OpenStackMachine>(machine), server).await?;
        }
        if let Some(config) = &observed.bootstrap {
            unmark(&self.namespaced::<KubeadmConfig>(machine), config).await?;
        }
        let hooks = in_place::without_hook(machine);
        self.change(machine, json!({"metadata": {"annotations": {PENDING_HOOKS: hooks}}})).await?;
        self.updaters.forget(machine);
        observed.in_place = None;
        let (reason, message) = ("SuccessfulInPlaceUpdate", "The update in place is complete");
        self.context.events.record(machine, Severity::Normal, reason, message).await;
        Ok(())
    }
}

/// Removes the mark of an update from an object.
async fn unmark<K>(api: &Api<K>, object: &K) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    if object.annotations().contains_key(UPDATING) {
        let change = json!({"metadata": {"uid": object.uid(), "annotations": {UPDATING: null}}});
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "in_place_tests.rs"]
mod tests;
