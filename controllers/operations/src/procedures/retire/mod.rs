//! Retirement procedure: a deletion of a Machine that can be cancelled until its Node is drained.
//!
//! A deletion timestamp cannot be removed. So the Node is drained and its volumes are waited for first, and the Machine
//! is deleted at the end. A cancellation before that makes the Node schedulable again. The deletion goes on as any other:
//! it finds a drained Node.

mod checks;

use std::time::Duration;

use apiserver_types::{Machine, MachineOperation, OperationStep, StepState};
use async_trait::async_trait;
use controllers_runtime::{ReconcileError, Requeue};
use controllers_workload::drain::{self, VolumeProgress};
use controllers_workload::{WorkloadError, describe};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};

use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, INTERVAL, UNCORDON};
use crate::core::procedure::{self, ActionProcedure, Procedure};
use crate::core::rejoin::is_control_plane;
use crate::core::report;
use crate::core::step_pause;
use crate::core::target::{Stop, Target, find, missing};

/// Step that waits until the volumes of the Node are detached.
const VOLUMES: &str = "AwaitVolumes";

/// Step that deletes the Machine.
const DELETE: &str = "DeleteMachine";

/// Annotation of a Machine whose volumes are not waited for before it is deleted. Upstream's.
const NO_VOLUMES: &str = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";

/// Time limit of the wait for volumes if the Machine has none.
const VOLUMES_TIMEOUT: Duration = Duration::from_hours(1);

/// Retirement of a Machine.
#[derive(Debug)]
pub(crate) struct Retire;

#[async_trait]
impl ActionProcedure for Retire {
    fn plan(&self, operation: &MachineOperation, machine: &Machine) -> Vec<&'static str> {
        // The volumes of a Node that is not drained stay attached.
        let waits = node_drain::drains(operation, machine) && !machine.annotations().contains_key(NO_VOLUMES);
        let steps = if waits { vec![VOLUMES, DELETE] } else { vec![DELETE] };
        node_drain::plan(operation, machine, steps)
    }

    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error> {
        let is_first = target.steps().iter().all(|step| step.state == StepState::Pending);
        if is_first && let Some(outcome) = checks::refusal(target).await? {
            report::finish(&target.context, &target.operation, &outcome, target.now).await?;
            return Ok(Requeue::Now);
        }
        if let Some(requeue) = pause(target).await? {
            return Ok(requeue);
        }
        procedure::pass(self, target).await
    }

    fn needs_server(&self) -> bool {
        false
    }

    fn without_machine(&self, operation: &MachineOperation) -> Option<Outcome> {
        let steps = operation.status.as_ref()?.steps.as_deref()?;
        let is_announced = |step: &OperationStep| matches!(step.state, StepState::Running | StepState::Done);
        find(steps, DELETE).filter(|step| is_announced(step)).map(|_| complete(deleted(steps)))
    }
}

/// The effect of this procedure: the deletion of the Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeleteMachine;

/// Everything a decision is made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    steps: Vec<OperationStep>,
    /// The Machine is being deleted.
    is_deleting: bool,
    /// The Machine of this operation is gone, and another one has its name.
    is_another: bool,
    /// Reason for which volumes of the Node are attached still; `None` once they are detached.
    volumes: Option<String>,
    /// The volumes were not detached in time.
    late: bool,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Retire {
    type Observed = Observed;
    type Effect = DeleteMachine;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let mut observed = Observed {
            steps: target.steps().to_vec(),
            is_deleting: target.machine.metadata.deletion_timestamp.is_some(),
            is_another: is_another(&target.operation, &target.machine),
            stop: target.stop(),
            ..Observed::default()
        };
        if let Some(step) = target.step(VOLUMES).filter(|step| step.state == StepState::Running) {
            let started = report::started(step).unwrap_or(target.now);
            observed.late = node_drain::elapsed(target, VOLUMES) > timeout(&target.machine);
            observed.volumes = volumes(target, started).await;
        }
        Ok(observed)
    }

    fn decide(&self, observed: &Observed) -> Decision<DeleteMachine> {
        let state = |step| find(&observed.steps, step).map(|step| step.state);
        match state(DELETE) {
            Some(StepState::Done) => return Decision::End(complete(Change::default())),
            Some(StepState::Running) if observed.is_deleting || observed.is_another => {
                return Decision::record(deleted(&observed.steps));
            }
            _ => {}
        }
        if observed.is_another {
            let message =
                "the Machine was deleted before the operation had ended, and another one has its name";
            return Decision::End(Outcome::failed(DELETE, "MachineDeleted", message));
        }
        if let Some(stop) = &observed.stop {
            return Decision::End(Outcome::stopped(stop, "this operation did not delete the Machine"));
        }
        match (state(VOLUMES), state(DELETE)) {
            (Some(StepState::Pending), _) => {
                let waiting = StepUpdate::running(VOLUMES, "waiting for the volumes of the Node");
                Decision::record(Change::of([waiting]))
            }
            (Some(StepState::Running), _) => await_volumes(observed),
            (_, Some(StepState::Running)) => Decision::act(DELETE, DeleteMachine),
            _ => Decision::record(Change::of([announcement()])),
        }
    }

    async fn act(&self, target: &Target, _effect: &DeleteMachine) -> Result<Change, ReconcileError> {
        // Two deletions at the same time would each find the other Machine, and none would stay.
        let _only = match is_control_plane(&target.machine) {
            true => Some(target.memory.only_deletion().await),
            false => None,
        };
        if let Some(why) = checks::last_control_plane(target).await? {
            return Err(missing(format!("{why}; retrying")));
        }
        match delete(target, false).await {
            Ok(()) => Ok(deleted(target.steps())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(deleted(target.steps())),
            // The next pass reads the Machine again.
            Err(error @ kube::Error::Api(_)) if !checks::is_refusal(&error) => Err(error.into()),
            Err(error) => {
                Err(missing(format!("the Machine cannot be deleted: {}; retrying", describe(&error))))
            }
        }
    }
}

/// Records a pause of the Machine, its OpenStackMachine or its Cluster while volumes are waited for, or its end. Returns
/// when to continue; `None` if there is nothing to record.
async fn pause(target: &Target) -> Result<Option<Requeue>, kube::Error> {
    let waits = target.step(VOLUMES).is_some_and(|step| step.state == StepState::Running);
    // The end of the operation is decided also in a pause.
    let ends =
        target.is_restored || target.stop().is_some() || is_another(&target.operation, &target.machine);
    if !waits || ends {
        return Ok(None);
    }
    if let Some(why) = &target.paused {
        step_pause::begin(target, VOLUMES, why).await?;
        return Ok(Some(Requeue::After(INTERVAL)));
    }
    Ok(step_pause::end(target, VOLUMES).await?.then_some(Requeue::Now))
}

/// Deletes the Machine of the operation, and no other of its name. With `dry_run`, nothing changes.
async fn delete(target: &Target, dry_run: bool) -> Result<(), kube::Error> {
    let only_this = Preconditions { uid: target.machine.uid(), resource_version: None };
    let params = DeleteParams { dry_run, ..DeleteParams::default() }.preconditions(only_this);
    target.machines().delete(&target.machine.name_any(), &params).await.map(drop)
}

fn await_volumes(observed: &Observed) -> Decision<DeleteMachine> {
    let Some(waiting) = &observed.volumes else {
        let done = StepUpdate::done(VOLUMES, "the volumes of the Node are detached");
        return Decision::record(Change::of([done, announcement()]));
    };
    if observed.late {
        let message = format!(
            "the volumes were not detached in time: {waiting}. The Machine was not deleted. Delete it to go on without"
        );
        return Decision::End(Outcome::failed(VOLUMES, "VolumesNotDetached", message));
    }
    Decision::wait(VOLUMES, waiting.clone())
}

/// Returns the update that is written before the Machine is deleted.
fn announcement() -> StepUpdate {
    StepUpdate::running(DELETE, "deleting the Machine")
}

/// Returns the change of an operation whose Machine is being deleted, or is gone.
fn deleted(steps: &[OperationStep]) -> Change {
    let done = StepUpdate::done(DELETE, "the Machine is being deleted");
    let kept = find(steps, UNCORDON).map(|_| StepUpdate::skipped(UNCORDON, "the Node goes with its Machine"));
    Change::of([done].into_iter().chain(kept).collect::<Vec<_>>())
}

fn complete(change: Change) -> Outcome {
    Outcome::complete("the Machine is being deleted, and its deletion cannot be cancelled any more", change)
}

/// Reports whether a Machine has only the name of the one that an operation began with, its first owner.
fn is_another(operation: &MachineOperation, machine: &Machine) -> bool {
    let first = operation.owner_references().iter().find(|owner| owner.kind == "Machine");
    first.is_none_or(|owner| Some(&owner.uid) != machine.metadata.uid.as_ref())
}

fn timeout(machine: &Machine) -> Duration {
    let seconds = machine.spec.deletion.as_ref().and_then(|it| it.node_volume_detach_timeout_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    seconds.map_or(VOLUMES_TIMEOUT, Duration::from_secs)
}

/// Returns the reason for which volumes of the Node are attached still; `None` once they are detached.
async fn volumes(target: &Target, started: Timestamp) -> Option<String> {
    match look(target).await {
        Ok(VolumeProgress::Done) => None,
        Ok(VolumeProgress::Waiting(waiting)) => Some(waiting.message(started)),
        Err(error) => Some(error.to_string()),
    }
}

/// Looks once whether volumes are attached to the Node.
async fn look(target: &Target) -> Result<VolumeProgress, ReconcileError> {
    let unreachable = |error: WorkloadError| ReconcileError::waiting("NotConnected", error.to_string());
    let client = node_drain::workload(target).map_err(unreachable)?;
    let name = node_drain::node_name(&target.machine).unwrap_or_default();
    let rules = node_drain::rules(target).await?;
    drain::wait_for_volumes(&client, name, &rules).await.map_err(unreachable)
}

#[cfg(test)]
mod tests;
