//! Effects of the steps of a control plane.

use apiserver_types::{KubeadmControlPlane, Machine};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::{self, Step};
use super::observe::Observed;
use super::replica::initialized;
use super::updaters::Updaters;
use super::{
    FINALIZER, add_ons, certificates, conditions_of_machines, connection, etcd, expiry, in_place, sync,
    workload_settings,
};
use crate::applied::Applied;
use crate::{ownership, templates};

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<KubeadmControlPlane>,
    pub applied: &'a Applied,
    pub etcd: &'a dyn etcd::EtcdConnector,
    pub credentials: &'a etcd::Credentials,
    pub expiry_reads: &'a expiry::Reads,
    pub updaters: &'a Updaters,
}

impl Actor<'_> {
    /// Prepares what a decision needs, decides, and acts. Returns the step.
    pub(super) async fn work(
        &self,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
    ) -> Result<Step, ReconcileError> {
        let step = match decide::first_step(control_plane, observed) {
            Some(step) => step,
            None => {
                self.prepare(control_plane, observed).await?;
                observed.remediation = decide::remediation(control_plane, observed);
                self.mark(control_plane, observed).await?;
                if let Some(name) = in_place::in_question(control_plane, observed) {
                    observed.verdict = Box::pin(self.judge(control_plane, observed, &name)).await?;
                }
                decide::next_step(control_plane, observed)
            }
        };
        self.act(&step, control_plane, observed).await?;
        if expiry::follows(&step) {
            expiry::record(self, control_plane, observed).await;
        }
        if step == Step::Nothing {
            add_ons::follow(self, control_plane, observed).await;
        }
        Ok(step)
    }

    /// Makes certificates, applies what changes in place, and inspects the workload cluster.
    async fn prepare(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        self.own_template(observed).await?;
        certificates::ensure(self.context, control_plane, observed).await?;
        sync::sync(self.context, self.applied, control_plane, observed).await?;
        connection::inspect(self, control_plane, observed).await;
        conditions_of_machines::write(self.context, control_plane, observed).await?;
        workload_settings::inspect(self, control_plane, observed).await;
        Ok(())
    }

    /// Makes the Cluster an owner of the template, so that `clusterctl move` takes it along.
    async fn own_template(&self, observed: &Observed) -> Result<(), ReconcileError> {
        let Some(template) = &observed.template else { return Ok(()) };
        let types = template.types.clone().unwrap_or_default();
        if !types.kind.ends_with("Template") {
            return Ok(());
        }
        let group = types.api_version.split('/').next().unwrap_or_default();
        let namespace = observed.cluster.namespace().unwrap_or_default();
        let (api, _) = templates::api(self.context, &namespace, group, &types.kind)?;
        let owner = ownership::reference(&observed.cluster, false);
        templates::add_owner(&api, template, owner).await
    }

    async fn act(
        &self,
        step: &Step,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        match step {
            Step::AddFinalizer => crate::finalizers::add(self.api, control_plane, FINALIZER).await,
            Step::Refuse(reason) => self.warn(control_plane, "MixedManagement", reason).await,
            Step::RefuseAdoption(reason) => self.warn(control_plane, "AdoptionFailed", reason).await,
            Step::Adopt => self.adopt(control_plane, observed).await,
            Step::DeleteMachines => self.delete_all(control_plane, observed).await,
            Step::DeleteUnfinished => self.delete_unfinished(control_plane, &observed.unfinished).await,
            Step::RemoveMember(surplus) => {
                let title = format!("etcd member {}", surplus.title());
                self.context.settings.removes_unknown(&title).await?;
                etcd::remove_member(observed, surplus.id).await?;
                let message = format!("Removed etcd member {}, which has no Machine", surplus.title());
                self.tell(control_plane, "EtcdMemberRemoved", &message).await
            }
            Step::FreeSlot(id) => self.free_slot(control_plane, observed, *id).await,
            Step::Depart(departure) => self.depart(control_plane, observed, departure).await,
            Step::Remediate(record) => self.remediate(control_plane, observed, record).await,
            Step::Prepare(changes) => {
                workload_settings::write(self, observed, changes).await?;
                let message = format!(
                    "Prepared the workload cluster for version {} and the settings of kubeadm",
                    control_plane.spec.version
                );
                self.tell(control_plane, "WorkloadClusterPrepared", &message).await
            }
            Step::Create(start, domain) => self.create(control_plane, observed, *start, domain.clone()).await,
            Step::Delete(name) => self.delete(control_plane, observed, name).await,
            Step::Update(name) => Box::pin(self.update(control_plane, observed, name)).await,
            Step::Block(blocked) if blocked.is_unhealthy => {
                self.warn(control_plane, "ControlPlaneUnhealthy", &blocked.reasons.join("; ")).await
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn warn(
        &self,
        control_plane: &KubeadmControlPlane,
        reason: &str,
        message: &str,
    ) -> Result<(), ReconcileError> {
        self.context.events.record(control_plane, Severity::Warning, reason, message).await;
        Ok(())
    }

    pub(super) async fn tell(
        &self,
        control_plane: &KubeadmControlPlane,
        reason: &str,
        message: &str,
    ) -> Result<(), ReconcileError> {
        self.context.events.record(control_plane, Severity::Normal, reason, message).await;
        Ok(())
    }

    pub(super) fn machines(&self, control_plane: &KubeadmControlPlane) -> Api<Machine> {
        Api::namespaced(self.context.client.clone(), &control_plane.namespace().unwrap_or_default())
    }

    /// Makes the control plane the controller of Machines that have none.
    async fn adopt(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        certificates::take_over(self.context, control_plane, observed).await?;
        for replica in &observed.standalone {
            let mut owners = replica.machine.owner_references().to_vec();
            owners.push(ownership::reference(control_plane, true));
            let change = json!({"metadata": {
                "resourceVersion": replica.machine.resource_version(), "uid": replica.machine.uid(),
                "ownerReferences": owners,
            }});
            let patch = Patch::Merge(&change);
            self.machines(control_plane).patch(&replica.name(), &PatchParams::default(), &patch).await?;
            let message = format!("Adopted Machine {}", replica.name());
            self.tell(control_plane, "SuccessfulAdopt", &message).await?;
        }
        Ok(())
    }
}

/// Reports whether the API server was reached, now or before.
pub(super) fn is_initialized(control_plane: &KubeadmControlPlane, observed: &Observed) -> bool {
    use super::inspection::Workload::{Reached, Unreachable};
    initialized(control_plane) || matches!(observed.workload, Reached(_) | Unreachable { .. })
}
