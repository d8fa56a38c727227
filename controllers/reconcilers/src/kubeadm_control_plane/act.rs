//! Effects of the steps of a control plane.

use apiserver_types::protection::is_protected;
use apiserver_types::{KubeadmConfig, KubeadmControlPlane, Machine};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use controllers_workload::ClusterKey;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::config::Start;
use super::decide::{self, Step};
use super::etcd_projection::Member;
use super::hook::Departure;
use super::observe::{Observed, Unfinished};
use super::replica::{HOOK, Replica, initialized};
use super::surplus::Surplus;
use super::updaters::Updaters;
use super::{
    FINALIZER, add_ons, certificates, conditions_of_machines, connection, desired, etcd, expiry, in_place,
    sync, workload_settings,
};
use crate::applied::Applied;
use crate::machine_names::FreeNames;
use crate::templates::NEW_OBJECT;
use crate::{ownership, templates};

/// Reasons of `MachinesCreated` in the form of v1beta1: the object that could not be made.
const INFRASTRUCTURE: &str = "InfrastructureTemplateCloningFailed";
const BOOTSTRAP: &str = "BootstrapTemplateCloningFailed";
const MACHINE: &str = "MachineGenerationFailed";

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

    /// Makes a Machine with its objects. What a failure leaves behind is deleted by the next pass.
    async fn create(
        &self,
        control_plane: &mut KubeadmControlPlane,
        observed: &mut Observed,
        start: Start,
        domain: Option<String>,
    ) -> Result<(), ReconcileError> {
        let name = match self.name(control_plane, observed).await {
            Ok(name) => name,
            Err(error) => {
                observed.failure = Some((MACHINE, error.to_string()));
                return Err(error);
            }
        };
        match self.make(control_plane, observed, &name, start, domain).await {
            Ok(()) => {
                let message = format!("Created Machine {name}");
                self.tell(control_plane, "SuccessfulCreate", &message).await?;
                // The Machine has the record now.
                self.forget_remediation(control_plane).await
            }
            // Another client took the name at this moment. The next pass sees that, and takes another one.
            Err((_, error)) if error.is_conflict() => Err(error),
            Err((stage, error)) => {
                let reason = if start == Start::Init { "FailedInitialization" } else { "FailedScaleUp" };
                let message = format!("Failed to create Machine {name}: {error}");
                observed.failure = Some((stage, error.to_string()));
                self.warn(control_plane, reason, &message).await?;
                Err(error)
            }
        }
    }

    /// Returns a name for a new Machine.
    async fn name(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
    ) -> Result<String, ReconcileError> {
        let cluster = observed.cluster.name_any();
        let naming = desired::naming(control_plane, &cluster);
        let name = if naming.has_index() {
            let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
            let parts = [
                ("bootstrap.cluster.x-k8s.io", "KubeadmConfig"),
                (template.api_group.as_str(), templates::kind_of(template)),
            ];
            let namespace = control_plane.namespace().unwrap_or_default();
            let cluster = ClusterKey { namespace, name: cluster };
            // An earlier step waits for the connection.
            FreeNames::read(self.context, naming, cluster, &parts, false).await?.take(self.context).await
        } else {
            naming.random()
        };
        name.map_err(|message| ReconcileError::waiting("InvalidName", message))
    }

    /// Makes the objects, none of which may exist. Returns a failure with the reason of its stage.
    async fn make(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
        start: Start,
        domain: Option<String>,
    ) -> Result<(), (&'static str, ReconcileError)> {
        let cluster = observed.cluster.name_any();
        let namespace = control_plane.namespace().unwrap_or_default();
        let wish = templates::Clone {
            template: &control_plane.spec.machine_template.spec.infrastructure_ref,
            namespace: &namespace,
            name,
            cluster: &cluster,
            labels: &desired::fixed_labels(control_plane, &cluster),
            annotations: &Default::default(),
            owner: ownership::reference(control_plane, false),
            earlier: None,
        };
        // An update in place applies the object again, so that this field manager has to own it.
        let made = templates::apply_new(self.context, &wish, sync::MANAGER).await;
        let infrastructure = made.map_err(|error| (INFRASTRUCTURE, error))?;
        let params = PatchParams::apply(sync::MANAGER).force();
        let configs: Api<KubeadmConfig> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut config = desired::config(control_plane, &cluster, name, start);
        config.metadata.resource_version = Some(NEW_OBJECT.to_owned());
        let made = configs.patch(name, &params, &Patch::Apply(&config)).await;
        let config = made.map_err(|error| (BOOTSTRAP, error.into()))?;
        let mut machine = desired::machine(control_plane, &cluster, name, domain);
        machine.metadata.resource_version = Some(NEW_OBJECT.to_owned());
        let (config, infrastructure) = (Some(config), Some(infrastructure));
        let parts = Replica { machine, config, infrastructure, ..Replica::default() };
        // Once the Machine exists, bootstrap data are made, and they are made only once.
        let applied = sync::apply_metadata(self.context, self.applied, control_plane, &cluster, &parts).await;
        applied.map_err(|error| (MACHINE, error))?;
        let made = self.machines(control_plane).patch(name, &params, &Patch::Apply(&parts.machine)).await;
        made.map(drop).map_err(|error| (MACHINE, error.into()))
    }

    async fn delete_unfinished(
        &self,
        control_plane: &KubeadmControlPlane,
        unfinished: &[Unfinished],
    ) -> Result<(), ReconcileError> {
        let namespace = control_plane.namespace().unwrap_or_default();
        for object in unfinished {
            let (api, _) = templates::api(self.context, &namespace, &object.group, &object.kind)?;
            ownership::delete(&api, &object.name, object.uid.clone()).await?;
        }
        Ok(())
    }

    /// Hands over the leadership of etcd, and deletes a Machine. Its hook holds the deletion until etcd no longer needs it.
    async fn delete(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let replica = observed.replicas.iter().find(|it| it.machine.name_any() == name);
        // The server refuses to delete a protected Machine, so that it keeps the leadership.
        let leaves = replica.filter(|it| !is_protected(&it.machine.metadata)).and_then(Replica::node);
        let forwarded = self.forward_leadership(control_plane, observed, leaves).await;
        let result = match forwarded {
            Ok(()) => self.delete_named(control_plane, observed, name).await,
            Err(error) => Err(error),
        };
        match &result {
            Ok(()) => {
                self.tell(control_plane, "SuccessfulDelete", &format!("Deleted Machine {name}")).await?
            }
            Err(error) => {
                let message = format!("Failed to delete Machine {name}: {error}");
                self.warn(control_plane, "FailedScaleDown", &message).await?;
            }
        }
        result
    }

    /// Deletes a Machine, unless it is gone.
    pub(super) async fn delete_named(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        name: &str,
    ) -> Result<(), ReconcileError> {
        let replica = observed.replicas.iter().find(|it| it.machine.name_any() == name);
        let Some(replica) = replica else { return Ok(()) };
        let machines = self.machines(control_plane);
        ownership::delete(&machines, name, replica.machine.uid()).await
    }

    /// Hands over the leadership of etcd, if the member of this name has it.
    pub(super) async fn forward_leadership(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        member: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let Some(member) = member.filter(|_| super::replica::managed_etcd(control_plane)) else {
            return Ok(());
        };
        if let Some(leader) = etcd::forward_leadership(observed, member).await? {
            let message = format!("Moved the leadership of etcd from {member} to {leader}");
            self.tell(control_plane, "EtcdLeadershipMoved", &message).await?;
        }
        Ok(())
    }

    async fn depart(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        departure: &Departure,
    ) -> Result<(), ReconcileError> {
        let name = match departure {
            Departure::Wait(_) | Departure::WaitForBalancer(_) | Departure::WaitForQuorum(_) => return Ok(()),
            Departure::Release(machine) => machine,
            Departure::Leave { machine, member, id } => {
                // A member that has never started does not lead.
                let leader = Some(member.as_str()).filter(|name| !name.is_empty());
                self.forward_leadership(control_plane, observed, leader).await?;
                let members = observed.workload.members().unwrap_or_default();
                let leaves = |it: &&Member| it.id == *id || (!member.is_empty() && it.name == *member);
                for leaving in members.iter().filter(leaves) {
                    etcd::remove_member(observed, leaving.id).await?;
                    let title = Surplus { id: leaving.id, name: leaving.name.clone() }.title();
                    let message = format!("Removed etcd member {title} of Machine {machine}");
                    self.tell(control_plane, "EtcdMemberRemoved", &message).await?;
                }
                machine
            }
        };
        match observed.replicas.iter().find(|it| it.name() == *name) {
            Some(replica) => self.unhook(control_plane, replica).await,
            None => Ok(()),
        }
    }

    /// Removes the annotation that holds the deletion of a Machine. Other changes of the Machine are no obstacle: after the
    /// member of etcd has left, a later pass may not reach the workload cluster any more.
    async fn unhook(
        &self,
        control_plane: &KubeadmControlPlane,
        replica: &Replica,
    ) -> Result<(), ReconcileError> {
        if !replica.has_annotation(HOOK) {
            return Ok(());
        }
        let change = json!({"metadata": {"uid": replica.machine.uid(), "annotations": {HOOK: null}}});
        let patch = Patch::Merge(&change);
        self.machines(control_plane).patch(&replica.name(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Deletes all Machines at once: etcd goes with the cluster.
    async fn delete_all(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
    ) -> Result<(), ReconcileError> {
        let machines = self.machines(control_plane);
        for replica in &observed.replicas {
            self.unhook(control_plane, replica).await?;
            if !replica.is_deleting() {
                let name = replica.name();
                if let Err(error) = ownership::delete(&machines, &name, replica.machine.uid()).await {
                    let message = format!("Failed to delete Machine {name}: {error}");
                    self.warn(control_plane, "FailedDelete", &message).await?;
                    return Err(error);
                }
                let message = format!("Deleted Machine {}", replica.name());
                self.tell(control_plane, "SuccessfulDelete", &message).await?;
            }
        }
        Ok(())
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

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
