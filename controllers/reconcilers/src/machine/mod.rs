//! Machine: references, owner references, and what the infrastructure says, in one status.

mod deletion;
mod observe;
mod report;
mod watch;

use std::time::Duration;

use apiserver_types::{Machine, OpenStackMachine};
use controllers_runtime::{ControllerContext, ReconcileError, Requeue, Severity, now, paused, write_status};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::ownership;
use deletion::Step;
use observe::Observed;

pub use watch::run;

/// Keeps a Machine until its server is gone; upstream's name.
pub(crate) const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// How often a Machine that waits for nothing is looked at; watches tell of all changes sooner.
const RESYNC: Duration = Duration::from_mins(5);

/// How often one that waits is looked at.
const WAITING: Duration = Duration::from_secs(10);

/// Reconciles Machines.
#[derive(Debug)]
pub struct MachineReconciler {
    context: ControllerContext,
}

impl MachineReconciler {
    /// A reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { context }
    }

    /// One pass. Says when to look again.
    ///
    /// # Errors
    /// When the API fails.
    pub async fn reconcile(&self, object: &Machine) -> Result<Requeue, kube::Error> {
        Requeue::after(Box::pin(self.pass(object)).await, WAITING)
    }

    async fn pass(&self, object: &Machine) -> Result<Option<Duration>, ReconcileError> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let Some(mut machine) = api.get_opt(&object.name_any()).await? else { return Ok(None) };
        let mut seen = observe::look(&self.context.client, &machine).await?;
        let left_alone = paused(&machine, seen.cluster.as_ref());
        let deleting = machine.metadata.deletion_timestamp.is_some();
        if left_alone {
            self.write(&api, machine, &seen, None, None).await?;
            return Ok(None);
        }
        if deleting {
            return self.delete(&api, machine, &mut seen).await;
        }
        let taken = self.take(&api, &mut machine, &mut seen).await;
        if matches!(taken, Err(ReconcileError::Api(_))) {
            return taken.map(|()| None);
        }
        let trouble = taken.as_ref().err().map(ToString::to_string);
        self.adopt_provider_id(&api, &mut machine, &seen).await?;
        self.write(&api, machine, &seen, None, trouble.as_deref()).await?;
        Ok(Some(if taken.is_ok() && seen.infrastructure.is_some() { RESYNC } else { WAITING }))
    }

    /// Takes its place: finalizer, owner, label; and makes the infrastructure its own.
    async fn take(
        &self,
        api: &Api<Machine>,
        machine: &mut Machine,
        seen: &mut Observed,
    ) -> Result<(), ReconcileError> {
        crate::finalizers::add(api, machine, FINALIZER).await?;
        let Some(cluster) = &seen.cluster else {
            let message = format!("Cluster {} does not exist", machine.spec.cluster_name);
            return Err(ReconcileError::waiting("WaitingForCluster", message));
        };
        let name = cluster.name_any();
        ownership::take(api, machine, ownership::reference(cluster, false), &name).await?;
        if let Some(infrastructure) = &mut seen.infrastructure {
            let namespace = machine.namespace().unwrap_or_default();
            let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
            let taken =
                ownership::take(&api, infrastructure, ownership::reference(machine, true), &name).await;
            if taken.is_err() {
                // What another Machine controls says nothing of this one.
                seen.infrastructure = None;
            }
            taken?;
        }
        Ok(())
    }

    async fn adopt_provider_id(
        &self,
        api: &Api<Machine>,
        machine: &mut Machine,
        seen: &Observed,
    ) -> Result<(), ReconcileError> {
        let provider_id = seen.infrastructure.as_ref().and_then(|it| it.spec.provider_id.clone());
        let Some(provider_id) = provider_id.filter(|_| seen.provisioned()) else { return Ok(()) };
        if machine.spec.provider_id.as_ref() == Some(&provider_id) {
            return Ok(());
        }
        let change = json!({
            "metadata": {"resourceVersion": machine.resource_version()},
            "spec": {"providerID": provider_id},
        });
        *machine = api.patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    async fn write(
        &self,
        api: &Api<Machine>,
        machine: Machine,
        seen: &Observed,
        deletion: Option<&Step>,
        trouble: Option<&str>,
    ) -> Result<Machine, ReconcileError> {
        let mut new = machine.clone();
        report::report(&mut new, seen, deletion, trouble, &now());
        let before = machine.status.as_ref().and_then(|status| status.phase);
        let after = new.status.as_ref().and_then(|status| status.phase);
        let written = write_status(api, &machine, &new).await?;
        if let Some(phase) = after.filter(|phase| Some(*phase) != before) {
            let message = format!("Machine is {phase:?}");
            self.context.events.record(&written, Severity::Normal, &format!("{phase:?}"), &message).await;
        }
        Ok(written)
    }

    async fn delete(
        &self,
        api: &Api<Machine>,
        machine: Machine,
        seen: &mut Observed,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !machine.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        let step = deletion::next_step(&machine, seen.infrastructure.as_ref());
        if step == Step::DeleteInfrastructure
            && let Some(infrastructure) = &seen.infrastructure
        {
            let namespace = machine.namespace().unwrap_or_default();
            let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
            let preconditions = Preconditions { uid: infrastructure.uid(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match api.delete(&infrastructure.name_any(), &params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => {
                    result?;
                }
            }
        }
        let machine = self.write(api, machine, seen, Some(&step), None).await?;
        if step == Step::Release {
            crate::finalizers::remove(api, &machine, FINALIZER).await?;
            return Ok(None);
        }
        Ok(Some(WAITING))
    }
}
