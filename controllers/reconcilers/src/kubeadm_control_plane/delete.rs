//! Deletion of Machines of a control plane, and what etcd needs before it.

use apiserver_types::KubeadmControlPlane;
use apiserver_types::protection::is_protected;
use controllers_runtime::ReconcileError;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::act::Actor;
use super::etcd;
use super::etcd_projection::Member;
use super::hook::Departure;
use super::observe::{Observed, Unfinished};
use super::replica::{HOOK, Replica};
use super::surplus::Surplus;
use crate::{ownership, templates};

impl Actor<'_> {
    pub(super) async fn delete_unfinished(
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
    pub(super) async fn delete(
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

    pub(super) async fn depart(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        departure: &Departure,
    ) -> Result<(), ReconcileError> {
        let name = match departure {
            Departure::Wait(_) | Departure::WaitForBalancer(_) | Departure::WaitForQuorum(_) => return Ok(()),
            Departure::TakeSlot(machine) => return self.take_slot(control_plane, observed, machine).await,
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

    /// Keeps a Machine without a member of etcd from joining. It goes in a later pass, which sees whether it has joined before.
    async fn take_slot(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        machine: &str,
    ) -> Result<(), ReconcileError> {
        etcd::take_slot(observed).await?;
        let message = format!("Took the slot for a learner in etcd, so that Machine {machine} does not join");
        self.tell(control_plane, "EtcdLearnerSlotTaken", &message).await
    }

    /// Lets Machines join again.
    pub(super) async fn free_slot(
        &self,
        control_plane: &KubeadmControlPlane,
        observed: &Observed,
        id: u64,
    ) -> Result<(), ReconcileError> {
        etcd::remove_member(observed, id).await?;
        let message = "Freed the slot for a learner in etcd, so that Machines can join";
        self.tell(control_plane, "EtcdLearnerSlotFreed", message).await
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
    pub(super) async fn delete_all(
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
}
