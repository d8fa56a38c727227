//! Controller of one operation, from its creation until its finalizer is removed.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Machine, MachineOperation, OperationPhase};
use controllers_infrastructure::Cloud;
use controllers_runtime::{ReconcileError, Recorder, Requeue, Severity};
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;

use crate::core::claim;
use crate::core::context::OperationContext;
use crate::core::decision::Outcome;
use crate::core::run::CONTROLLER;
use crate::core::target::{self, Behind, Target};
use crate::core::volatile_state::Memory;
use crate::core::{queue, rejoin, report, restored, retention};
use crate::procedures::procedure;

/// Finalizer that keeps an operation until it is over, so that a deletion is a request to cancel.
const FINALIZER: &str = "capstan.dev/operation";

/// Label by which the operations of a Machine are found.
const MACHINE_LABEL: &str = "capstan.dev/machine";

/// Interval of an operation that waits for another object; a watch reports most changes sooner.
const WAITING: Duration = Duration::from_secs(15);

/// Controller that makes passes over operations.
#[derive(Debug)]
pub struct Controller {
    context: OperationContext,
    memory: Arc<Memory>,
    events: Recorder,
    /// Time of the last restore of the store, if there was one.
    restore: Option<Timestamp>,
    /// Held while an operation checks that it is first.
    start: Mutex<()>,
}

impl Controller {
    /// Creates a controller without memory of earlier passes.
    pub fn new(context: OperationContext) -> Self {
        let events = Recorder::new(context.client.clone(), CONTROLLER.identity);
        Self { context, memory: Arc::default(), events, restore: None, start: Mutex::default() }
    }

    /// Carries out no more changes of operations that are older than the last restore of the store.
    #[must_use]
    pub fn with_restore(self, restore: Option<Timestamp>) -> Self {
        Self { restore, ..self }
    }

    /// Returns the rest of the interval after a failure.
    pub(crate) fn remaining(&self, operation: &MachineOperation) -> Option<Duration> {
        let uid = operation.metadata.uid.as_deref().unwrap_or_default();
        self.memory.remaining(uid).filter(|_| !target::is_cancelled(operation))
    }

    /// Makes one pass over one operation: at most one effect in the cloud, and its record.
    ///
    /// # Errors
    /// The API's own failure. A conflict means that another client changed the operation: make another
    /// pass.
    pub async fn pass(&self, namespace: &str, name: &str) -> Result<Requeue, kube::Error> {
        let Some(operation) = self.operations(namespace).get_opt(name).await? else {
            return Ok(Requeue::OnChange);
        };
        if report::is_finished(&operation) {
            return self.retire(&operation).await;
        }
        let machine = self.machine(&operation).await?;
        if self.adopt(&operation, machine.as_ref()).await? {
            return Ok(Requeue::Now);
        }
        if !report::is_running(&operation) {
            return self.begin(&operation, machine).await;
        }
        // Boxed: the future of a pass is large, and most passes are short.
        Box::pin(self.proceed(operation, machine)).await
    }

    fn operations(&self, namespace: &str) -> Api<MachineOperation> {
        Api::namespaced(self.context.client.clone(), namespace)
    }

    /// Reads the Machine of an operation. A later one of the same name is not its Machine.
    async fn machine(&self, operation: &MachineOperation) -> Result<Option<Machine>, kube::Error> {
        let namespace = operation.namespace().unwrap_or_default();
        let machines: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let found = machines.get_opt(&operation.spec.machine_name).await?;
        Ok(found.filter(|machine| !is_of_an_earlier(operation, machine)))
    }

    /// Adds label, owner and finalizer to an operation. Returns true if any was missing.
    async fn adopt(
        &self,
        operation: &MachineOperation,
        machine: Option<&Machine>,
    ) -> Result<bool, kube::Error> {
        let deleting = operation.metadata.deletion_timestamp.is_some();
        let mut finalizers = operation.finalizers().to_vec();
        if !deleting && !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        let mut owners = operation.owner_references().to_vec();
        if let Some(mut owner) = machine.and_then(|machine| machine.owner_ref(&()))
            && !owners.iter().any(|known| known.uid == owner.uid)
        {
            owner.block_owner_deletion = Some(false);
            owners.push(owner);
        }
        // A name may be longer than a label's value; the name in the spec is authoritative.
        let label = Some(&operation.spec.machine_name).filter(|name| name.len() <= 63);
        let labelled = label.is_none_or(|name| operation.labels().get(MACHINE_LABEL) == Some(name));
        if finalizers == operation.finalizers() && owners == operation.owner_references() && labelled {
            return Ok(false);
        }
        let mut patch = json!({"metadata": {"resourceVersion": operation.resource_version(),
            "finalizers": finalizers, "ownerReferences": owners}});
        // A null would remove the labels of the user.
        if let Some(name) = label {
            patch["metadata"]["labels"] = json!({MACHINE_LABEL: name});
        }
        self.patch(operation, &patch).await?;
        Ok(true)
    }

    async fn patch(
        &self,
        operation: &MachineOperation,
        patch: &serde_json::Value,
    ) -> Result<(), kube::Error> {
        let api = self.operations(&operation.namespace().unwrap_or_default());
        api.patch(&operation.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Begins an operation when it is first and its server exists.
    async fn begin(
        &self,
        operation: &MachineOperation,
        machine: Option<Machine>,
    ) -> Result<Requeue, kube::Error> {
        let now = self.context.clock.now();
        if target::is_cancelled(operation) {
            let outcome = Outcome::cancelled("cancelled before it began; nothing was done");
            report::finish(&self.context, operation, &outcome, now).await?;
            return Ok(Requeue::Now);
        }
        if restored::is_older(operation, self.restore) {
            report::finish(&self.context, operation, &restored::not_begun(), now).await?;
            return Ok(Requeue::Now);
        }
        let name = &operation.spec.machine_name;
        let Some(machine) = machine else {
            return self.pend(operation, "MachineMissing", &format!("waiting for Machine {name:?}")).await;
        };
        if machine.metadata.deletion_timestamp.is_some() {
            let message = format!("Machine {name:?} is being deleted; nothing was done");
            let outcome = Outcome { reason: "MachineDeleting", ..Outcome::cancelled(message) };
            report::finish(&self.context, operation, &outcome, now).await?;
            return Ok(Requeue::Now);
        }
        match target::behind(&self.context, &machine).await {
            Ok(behind) => self.start_if_first(operation, &machine, &behind).await,
            Err(ReconcileError::Api(error)) => Err(error),
            Err(other) => self.pend(operation, "NotReady", &other.to_string()).await,
        }
    }

    /// Begins an operation if no other one is before it.
    async fn start_if_first(
        &self,
        operation: &MachineOperation,
        machine: &Machine,
        behind: &Behind,
    ) -> Result<Requeue, kube::Error> {
        let name = &operation.spec.machine_name;
        // Two that check at the same time would both find that none has begun.
        let _start = self.start.lock().await;
        if let Some(first) = queue::ahead(operation, &self.of_machine(operation).await?) {
            let message = format!(
                "waiting for machine operation {:?}, which is first on Machine {name:?}",
                first.name_any()
            );
            return self.pend(operation, "AnotherIsFirst", &message).await;
        }
        if let Some(why) = &behind.paused {
            return self.pend(operation, "Paused", why).await;
        }
        let action = procedure(operation.spec.action);
        if action.needs_server() && target::server_id(&behind.infrastructure).is_none() {
            let message = format!("waiting for Machine {name:?} to have a server");
            return self.pend(operation, "NoServer", &message).await;
        }
        let plan = action.plan(operation, machine);
        report::begin(&self.context, operation, plan, self.context.clock.now()).await?;
        Ok(Requeue::Now)
    }

    /// Lists all operations of the same Machine, and perhaps others.
    async fn of_machine(&self, operation: &MachineOperation) -> Result<Vec<MachineOperation>, kube::Error> {
        let name = &operation.spec.machine_name;
        // The server labels every operation whose Machine's name can be a label.
        let params = match name.len() {
            ..=63 => ListParams::default().labels(&format!("{MACHINE_LABEL}={name}")),
            _ => ListParams::default(),
        };
        let namespace = operation.namespace().unwrap_or_default();
        Ok(self.operations(&namespace).list(&params).await?.items)
    }

    async fn pend(
        &self,
        operation: &MachineOperation,
        reason: &str,
        message: &str,
    ) -> Result<Requeue, kube::Error> {
        report::pend(&self.context, operation, reason, message, self.context.clock.now()).await?;
        Ok(Requeue::After(WAITING))
    }

    /// Makes one pass over an operation that has begun.
    async fn proceed(
        &self,
        operation: MachineOperation,
        machine: Option<Machine>,
    ) -> Result<Requeue, kube::Error> {
        let now = self.context.clock.now();
        let Some(machine) = machine else {
            let outcome = procedure(operation.spec.action).without_machine(&operation);
            let outcome = outcome.unwrap_or_else(|| machine_deleted(&operation));
            report::finish(&self.context, &operation, &outcome, now).await?;
            return Ok(Requeue::Now);
        };
        let (behind, cloud) = match self.reach(&machine).await {
            Ok(found) => found,
            Err(ReconcileError::Api(error)) => return Err(error),
            Err(error) => {
                if let ReconcileError::Cloud(error) = &error {
                    let event = format!("machine operation {}: {error}", operation.name_any());
                    self.events.record(&machine, Severity::Warning, error.class.reason(), &event).await;
                }
                return self.out_of_reach(&operation, &error).await;
            }
        };
        let target = Target {
            is_restored: restored::is_older(&operation, self.restore),
            context: self.context.clone(),
            memory: Arc::clone(&self.memory),
            events: self.events.clone(),
            operation,
            machine,
            infrastructure: behind.infrastructure,
            cloud,
            omits_zone: behind.omits_zone,
            paused: behind.paused,
            now,
            elapsed: self.context.clock.elapsed(),
        };
        procedure(target.operation.spec.action).pass(&target).await
    }

    /// Reads the objects behind a Machine, and connects to its cloud.
    async fn reach(&self, machine: &Machine) -> Result<(Behind, Arc<dyn Cloud>), ReconcileError> {
        let behind = target::behind(&self.context, machine).await?;
        let cloud = target::connect(&self.context, machine, &behind).await?;
        Ok((behind, cloud))
    }

    /// Reports why the cloud cannot be reached, and retries after an interval.
    async fn out_of_reach(
        &self,
        operation: &MachineOperation,
        error: &ReconcileError,
    ) -> Result<Requeue, kube::Error> {
        let uid = operation.uid().unwrap_or_default();
        let message = format!("{error}; retrying");
        report::note_on(&self.context, operation, None, &message, self.context.clock.now()).await?;
        let pause = self.memory.failed(&uid, Duration::ZERO);
        Ok(if matches!(error, ReconcileError::Waiting { .. }) {
            Requeue::After(pause)
        } else {
            Requeue::Retry(pause)
        })
    }

    /// Removes the finalizer of a finished operation, and deletes operations that are too many or too old.
    async fn retire(&self, operation: &MachineOperation) -> Result<Requeue, kube::Error> {
        self.memory.forget(&operation.uid().unwrap_or_default());
        let finalizers = operation.finalizers();
        if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            if procedure(operation.spec.action).claims_server() {
                let machine = self.machine(operation).await?;
                claim::release(&self.context, operation, machine.as_ref()).await?;
                rejoin::release(&self.context, operation, machine.as_ref()).await?;
            }
            let left: Vec<_> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            let patch =
                json!({"metadata": {"resourceVersion": operation.resource_version(), "finalizers": left}});
            self.patch(operation, &patch).await?;
            return Ok(Requeue::Now);
        }
        let api = self.operations(&operation.namespace().unwrap_or_default());
        let all = self.of_machine(operation).await?;
        let now = self.context.clock.now();
        let (surplus, again) = retention::surplus(&operation.spec.machine_name, all, now);
        for gone in surplus {
            let only_this = Preconditions { uid: gone.uid(), resource_version: None };
            match api.delete(&gone.name_any(), &DeleteParams::default().preconditions(only_this)).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Requeue::After(again.max(WAITING)))
    }
}

/// Reports whether an operation belongs to an earlier Machine of the same name, which is its first owner. A naming template
/// with an index gives the name of a deleted Machine to a new one.
fn is_of_an_earlier(operation: &MachineOperation, machine: &Machine) -> bool {
    let first = operation.owner_references().iter().find(|owner| owner.kind == "Machine");
    first.is_some_and(|owner| Some(&owner.uid) != machine.metadata.uid.as_ref())
}

/// Returns the end of an operation whose Machine does not exist any more.
fn machine_deleted(operation: &MachineOperation) -> Outcome {
    let name = &operation.spec.machine_name;
    let message = format!("Machine {name:?} was deleted before the operation had ended");
    let (phase, reason) = (OperationPhase::Failed, "MachineDeleted");
    Outcome { phase, reason, ..Outcome::cancelled(message) }
}
