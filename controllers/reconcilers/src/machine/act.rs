//! Effects of the steps of a Machine.

use apiserver_types::{Machine, OpenStackMachine};
use controllers_runtime::ReconcileError;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::FINALIZER;
use super::decide::{self, Step};
use super::observe::Observed;
use crate::ownership;

/// Limit of the steps of one pass: more than there are, so that a step that has no effect does not repeat for ever.
const STEPS: usize = 8;

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub client: &'a Client,
    pub api: &'a Api<Machine>,
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
        match (step, &observed.cluster, &mut observed.infrastructure) {
            (Step::AddFinalizer, ..) => crate::finalizers::add(self.api, machine, FINALIZER).await,
            (Step::Adopt, Some(cluster), _) => {
                let owner = ownership::reference(cluster, false);
                ownership::adopt(self.api, machine, owner, &cluster.name_any()).await
            }
            (Step::AdoptInfrastructure, Some(cluster), Some(infrastructure)) => {
                let owner = ownership::reference(machine, true);
                let api = self.infrastructures(machine);
                ownership::adopt(&api, infrastructure, owner, &cluster.name_any()).await
            }
            (Step::SetProviderId(id), ..) => {
                let change = json!({
                    "metadata": {"resourceVersion": machine.resource_version()},
                    "spec": {"providerID": id},
                });
                let (name, change) = (machine.name_any(), Patch::Merge(&change));
                *machine = self.api.patch(&name, &PatchParams::default(), &change).await?;
                Ok(())
            }
            (Step::DeleteInfrastructure, _, Some(it)) => {
                ownership::delete(&self.infrastructures(machine), &it.name_any(), it.uid()).await
            }
            _ => Ok(()),
        }
    }

    fn infrastructures(&self, machine: &Machine) -> Api<OpenStackMachine> {
        Api::namespaced(self.client.clone(), &machine.namespace().unwrap_or_default())
    }
}
