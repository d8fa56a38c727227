//! Effects of the steps of a Machine.

use std::fmt::Debug;
use std::time::Duration;

use apiserver_types::{KubeadmConfig, Machine, MachineDrainRule, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileError, Severity, now};
use controllers_workload::drain::{self, DrainProgress, VolumeProgress};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::FINALIZER;
use super::decide::{self, Stage, Step};
use super::deletion::{self, node_name};
use super::in_place::Updaters;
use super::node::{NodeObservation, cluster_key};
use super::node_metadata;
use super::node_writes::{self, Written};
use super::observe::{Observed, Outcome};
use super::turns::{Turn, Turns};
use crate::deprecated_conditions::{self, Old};
use crate::first_attempts::FirstAttempts;
use crate::{CLUSTER_NAME_LABEL, ownership};

/// Limit of the steps of one pass: more than there are, so that a step that has no effect does not repeat for ever.
const STEPS: usize = 12;

/// Duration of the attempts to delete a Node in one pass, and the pause between two of them. Upstream's.
const NODE_DELETIONS: Duration = Duration::from_secs(10);
const NODE_DELETION_PAUSE: Duration = Duration::from_secs(2);

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<Machine>,
    pub attempts: &'a FirstAttempts,
    pub turns: &'a Turns,
    pub updaters: &'a Updaters,
}

impl Actor<'_> {
    /// Decides and acts until a step ends the pass. Returns that step.
    pub(super) async fn work(
        &self,
        machine: &mut Machine,
        observed: &mut Observed,
    ) -> Result<Step, ReconcileError> {
        for _ in 0..STEPS {
            let step = decide::next_step(machine, observed);
            self.act(&step, machine, observed).await?;
            if step.ends_pass() {
                return Ok(step);
            }
        }
        Err(crate::endless())
    }

    async fn act(
        &self,
        step: &Step,
        machine: &mut Machine,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        let _turn = if step.calls_workload() { Some(self.turn(machine)?) } else { None };
        match step {
            Step::AddFinalizer => crate::finalizers::add(self.api, machine, FINALIZER).await,
            Step::Adopt(owned) => self.adopt(machine, observed, *owned).await,
            Step::AdoptInfrastructure => self.take(machine, observed.infrastructure.as_mut()).await,
            Step::AdoptBootstrap => self.take(machine, observed.bootstrap.as_mut()).await,
            Step::SetDataSecret(name) => {
                self.change(machine, json!({"spec": {"bootstrap": {"dataSecretName": name}}})).await
            }
            Step::SetProviderId(id) => self.change(machine, json!({"spec": {"providerID": id}})).await,
            Step::UpdateNode(patch) => self.update_node(machine, observed, patch).await,
            Step::CallUpdate => self.call_update(machine, observed).await,
            Step::EndUpdate => self.end_update(machine, observed).await,
            Step::Begin(stage) => self.begin(machine, *stage).await,
            Step::Drain => self.drain(machine, observed).await,
            Step::ReadServer => {
                self.read_server(machine, observed).await;
                Ok(())
            }
            Step::TakeOutOfService => self.take_out_of_service(machine, observed).await,
            Step::ReturnToService(reason) => self.return_to_service(machine, observed, reason).await,
            Step::DetachVolumes => {
                self.detach_volumes(machine, observed).await;
                Ok(())
            }
            Step::AwaitVolumes => self.await_volumes(machine, observed).await,
            Step::DeleteNode(name) => self.delete_node(machine, observed, name).await,
            Step::DeleteInfrastructure => match &observed.infrastructure {
                Some(it) => {
                    let api = self.namespaced::<OpenStackMachine>(machine);
                    ownership::delete(&api, &it.name_any(), it.uid()).await
                }
                None => Ok(()),
            },
            Step::DeleteBootstrap => match &observed.bootstrap {
                Some(it) => {
                    let api = self.namespaced::<KubeadmConfig>(machine);
                    ownership::delete(&api, &it.name_any(), it.uid()).await
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn turn(&self, machine: &Machine) -> Result<Turn<'_>, ReconcileError> {
        let key = cluster_key(machine);
        let message = format!("other Machines wait for the API of workload cluster {key}");
        self.turns.take(key).ok_or_else(|| ReconcileError::waiting(super::BUSY, message))
    }

    pub(super) fn namespaced<K>(&self, machine: &Machine) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &machine.namespace().unwrap_or_default())
    }

    /// Writes a merge patch to the Machine, guarded by its revision.
    pub(super) async fn change(
        &self,
        machine: &mut Machine,
        mut change: Value,
    ) -> Result<(), ReconcileError> {
        change["metadata"]["resourceVersion"] = json!(machine.resource_version());
        let (name, change) = (machine.name_any(), Patch::Merge(&change));
        *machine = self.api.patch(&name, &PatchParams::default(), &change).await?;
        Ok(())
    }

    async fn adopt(
        &self,
        machine: &mut Machine,
        observed: &Observed,
        owned: bool,
    ) -> Result<(), ReconcileError> {
        let Some(cluster) = &observed.cluster else { return Ok(()) };
        let name = cluster.name_any();
        if owned {
            return ownership::adopt(self.api, machine, ownership::reference(cluster, false), &name).await;
        }
        self.change(machine, json!({"metadata": {"labels": {CLUSTER_NAME_LABEL: name}}})).await
    }

    /// Makes the Machine the controller of one of its objects, in place of the owner that made the object.
    async fn take<K>(&self, machine: &Machine, object: Option<&mut K>) -> Result<(), ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let Some(object) = object else { return Ok(()) };
        let owner = ownership::reference(machine, true);
        let api = self.namespaced::<K>(machine);
        ownership::take_over(&api, object, owner, &machine.spec.cluster_name).await
    }

    /// Writes the start of a stage before its first effect, because the timeout counts from it.
    async fn begin(&self, machine: &mut Machine, stage: Stage) -> Result<(), ReconcileError> {
        let field = match stage {
            Stage::PreDrainHook => "waitForPreDrainHookStartTime",
            Stage::Drain => "nodeDrainStartTime",
            Stage::Volumes => "waitForNodeVolumeDetachStartTime",
            Stage::PreTerminateHook => "waitForPreTerminateHookStartTime",
        };
        let change = json!({
            "metadata": {"resourceVersion": machine.resource_version()},
            "status": {"deletion": {field: now()}},
        });
        let (name, change) = (machine.name_any(), Patch::Merge(&change));
        *machine = self.api.patch_status(&name, &PatchParams::default(), &change).await?;
        Ok(())
    }

    pub(super) fn workload(&self, machine: &Machine) -> Result<Client, String> {
        self.context.workloads.client(&cluster_key(machine)).map_err(|error| error.to_string())
    }

    /// Writes labels, annotations and taints of the Node. A conflict mostly says that the watch is behind, so the newest
    /// Node is read then, once in a pass. A failure is kept for the report.
    async fn update_node(
        &self,
        machine: &Machine,
        observed: &mut Observed,
        patch: &Value,
    ) -> Result<(), ReconcileError> {
        let Some(known) = observed.node.found().cloned() else { return Ok(()) };
        let name = known.name_any();
        let written = match self.workload(machine) {
            Ok(client) => node_writes::write(&Api::all(client), &known, patch, observed.node_is_newest).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(Written::Done(node)) => {
                if node_metadata::became_interruptible(&known, &node) {
                    let message = format!("Set the label for interruptible servers on Node {name:?}");
                    let (severity, reason) = (Severity::Normal, "SuccessfulSetInterruptibleNodeLabel");
                    self.context.events.record(machine, severity, reason, &message).await;
                }
                observed.node = NodeObservation::Found(node);
            }
            Ok(Written::Overtaken(node)) => {
                observed.node = NodeObservation::Found(node);
                observed.node_is_newest = true;
            }
            Err(error) => {
                tracing::debug!(%error, machine = machine.name_any(), node = name, "the Node was not updated");
                let message =
                    format!("labels, annotations and taints of Node {name} cannot be updated: {error}");
                observed.node_failure = Some(message);
            }
        }
        Ok(())
    }

    fn rules(&self, machine: &Machine, observed: &Observed) -> Result<Vec<MachineDrainRule>, String> {
        let cluster = observed.cluster.as_ref().map(ResourceExt::labels);
        let rules = drain::matching_rules(&observed.deletion.rules, Some(machine.labels()), cluster);
        rules.map_err(|error| error.to_string())
    }

    async fn drain(&self, machine: &Machine, observed: &mut Observed) -> Result<(), ReconcileError> {
        let name = node_name(machine, observed).unwrap_or_default();
        let started = deletion::started(machine, Stage::Drain).unwrap_or(observed.now);
        let outcome = match (self.workload(machine), self.rules(machine, observed)) {
            (Ok(client), Ok(rules)) => match drain::drain(&client, &name, &rules).await {
                Ok(DrainProgress::Done) => Outcome::Done,
                Ok(DrainProgress::Waiting(waiting)) => Outcome::Waiting(waiting.message(started)),
                Err(error) => Outcome::Failed(error.to_string()),
            },
            (Err(error), _) | (_, Err(error)) => Outcome::Failed(error),
        };
        let events = &self.context.events;
        match &outcome {
            Outcome::Done if reached(machine, "DrainingSucceeded") => {}
            Outcome::Done => {
                let message = format!("success draining Machine's node {name:?}");
                events.record(machine, Severity::Normal, "SuccessfulDrainNode", &message).await;
            }
            Outcome::Failed(error) => {
                let message = format!("error draining Machine's node {name:?}: {error}");
                events.record(machine, Severity::Warning, "FailedDrainNode", &message).await;
            }
            Outcome::Waiting(_) => {}
        }
        observed.deletion.drain = Some(outcome);
        Ok(())
    }

    async fn await_volumes(&self, machine: &Machine, observed: &mut Observed) -> Result<(), ReconcileError> {
        let name = node_name(machine, observed).unwrap_or_default();
        let started = deletion::started(machine, Stage::Volumes).unwrap_or(observed.now);
        let outcome = match (self.workload(machine), self.rules(machine, observed)) {
            (Ok(client), Ok(rules)) => match drain::wait_for_volumes(&client, &name, &rules).await {
                Ok(VolumeProgress::Done) => Outcome::Done,
                Ok(VolumeProgress::Waiting(waiting)) => Outcome::Waiting(waiting.message(started)),
                Err(error) => Outcome::Failed(error.to_string()),
            },
            (Err(error), _) | (_, Err(error)) => Outcome::Failed(error),
        };
        self.record_volumes(machine, observed, &outcome).await;
        observed.deletion.volumes = Some(outcome);
        Ok(())
    }

    /// Creates the Event about the volumes of the Node.
    pub(super) async fn record_volumes(&self, machine: &Machine, observed: &Observed, outcome: &Outcome) {
        let name = node_name(machine, observed).unwrap_or_default();
        let events = &self.context.events;
        match outcome {
            Outcome::Done if reached(machine, "VolumeDetachSucceeded") => {}
            Outcome::Done => {
                let message = format!("success waiting for node volumes detaching Machine's node {name:?}");
                events.record(machine, Severity::Normal, "NodeVolumesDetached", &message).await;
            }
            Outcome::Failed(error) => {
                let message = format!("error waiting for the volumes of node {name:?}: {error}");
                events.record(machine, Severity::Warning, "FailedWaitForVolumeDetach", &message).await;
            }
            Outcome::Waiting(_) => {}
        }
    }

    /// Deletes the Node, several times if that fails: the address of the API may just move to another server.
    async fn try_to_delete_node(&self, machine: &Machine, name: &str) -> Result<(), String> {
        let mut last = String::new();
        let end = Instant::now() + NODE_DELETIONS;
        loop {
            if !last.is_empty() {
                tokio::time::sleep(NODE_DELETION_PAUSE).await;
            }
            let deleted = match self.workload(machine) {
                Ok(client) => drain::delete_node(&client, name).await.map_err(|error| error.to_string()),
                Err(error) => Err(error),
            };
            match deleted {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
            if Instant::now() >= end {
                return Err(last);
            }
        }
    }

    async fn delete_node(
        &self,
        machine: &Machine,
        observed: &mut Observed,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let uid = machine.uid().unwrap_or_default();
        observed.deletion.node_since = Some(self.attempts.first(&uid, observed.now));
        let deleted = self.try_to_delete_node(machine, name).await;
        // The attempts take a part of the time.
        observed.now = Timestamp::now().max(observed.now);
        observed.deletion.node = Some(match deleted {
            Ok(()) => Outcome::Done,
            Err(error) => {
                let message = format!("error deleting Machine's node {name:?}: {error}");
                self.context.events.record(machine, Severity::Warning, "FailedDeleteNode", &message).await;
                Outcome::Failed(error)
            }
        });
        Ok(())
    }
}

/// Reports whether a stage of the deletion was over in an earlier pass, so that its Event is recorded.
fn reached(machine: &Machine, kind: &str) -> bool {
    let status = machine.status.as_ref().and_then(|status| status.deprecated.as_ref());
    let conditions = status.and_then(|it| it.v1beta1.as_ref()?.conditions.as_deref()).unwrap_or_default();
    deprecated_conditions::state(conditions, kind) == Some(Old::True)
}
