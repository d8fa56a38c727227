//! Deletion of exactly the resources that were created for an OpenStackCluster, in order.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, ErrorClass, ServerGroup};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError, Severity, now, write_status};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::act::{Actor, gone};
use super::bastion::{self, Progress};
use super::csi_shares::{self, CsiShares};
use super::csi_volumes::{self, CsiVolumes};
use super::delete_entry::{delete_entry, next_entry};
use super::deletion_plan::Stage;
use super::desired::Desired;
use super::leftovers::LEFTOVERS;
use super::observe::{self, Observed, Observer, intended};
use super::orphans::Orphans;
use super::{
    BUILDING, FINALIZER, OpenStackClusterReconciler, balancer, blockers, cluster_name, deletion_plan,
    leftovers, orphans, report,
};
use crate::login::Login;
use crate::lost_calls::LostCalls;
use crate::{names, project, resource_events};

/// Reason of the Event about a resource that the user leaves in the cloud.
const FORGOTTEN: &str = "DeletionForgotten";

/// Number of machines that a message lists.
const LISTED: usize = 5;

impl OpenStackClusterReconciler {
    /// Deletes the resources, then the finalizer.
    pub(super) async fn delete(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        if !crate::moved(object) {
            let result = self.delete_resources(api, object).await;
            if let Err(error) = &result
                && !matches!(error, ReconcileError::Api(_))
            {
                let before = object.clone();
                report::report_stopped(object, error, &now());
                report::report_login(object, &Login::Failed(Some(error)), &now());
                *object = write_status(api, &before, object).await?;
            }
            let is_in_progress =
                |reason| matches!(reason, balancer::PENDING | csi_volumes::WAITING | orphans::WAITING);
            if matches!(result, Err(ReconcileError::Waiting { reason, .. }) if is_in_progress(reason)) {
                return Ok(Some(BUILDING));
            }
            result?;
        }
        crate::finalizers::remove(api, object, FINALIZER).await?;
        Ok(None)
    }

    async fn delete_resources(
        &self,
        api: &Api<OpenStackCluster>,
        object: &mut OpenStackCluster,
    ) -> Result<(), ReconcileError> {
        self.machines_are_gone(object).await?;
        let cluster = cluster_name(object).unwrap_or_default();
        let mut observed = observe::begin(Journal::of(object), None);
        observed.lost_calls = LostCalls::of(object);
        observed.lost_calls.enter(&self.context.term, &mut observed.journal, Timestamp::now());
        observed.bastion = bastion::find(&self.context.client, object, &cluster).await?;
        let has_bastion = observed.bastion.server.is_some() && !observed.bastion.foreign;
        if is_journal_lost(object) {
            for (kind, name) in possible(object, &cluster) {
                observed.journal.intend(kind, &name);
            }
        }
        let may_leave = csi_volumes::may_exist(object) || leftovers::may_exist(object);
        let is_empty = observed.journal.entries().is_empty() && !has_bastion && !may_leave;
        if is_empty && !was_provisioned(object) {
            return Ok(());
        }
        let cloud = match self.connect(object).await {
            // Nothing was created for the cluster itself, and what its machines had is deleted with them.
            Err(error) if is_empty && is_without_login(&error) => return Ok(()),
            result => result?.cloud,
        };
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        let tag = OwnershipTag::of(object);
        let desired = Desired { bastion: None, ..Desired::read(object, &cluster) };
        let observer = Observer { cloud: &cloud, desired: &desired, tag: &tag };
        let settings = &*self.context.settings;
        let actor = Actor { api, cloud: &cloud, desired: &desired, tag: &tag, settings };
        let volumes = csi_volumes::find(&cloud, object).await?;
        let orphans = self.orphans(&cloud, object).await?;
        if is_empty && orphans.titles().is_empty() && !csi_shares::may_exist(object) {
            return Ok(());
        }
        self.announce(&observer, object, &observed.journal, (&orphans, &volumes)).await?;
        observer.bastion(&mut observed).await?;
        let made = actor.work_on_bastion(object, &mut observed).await?;
        self.record_all(object, made).await;
        actor.write_journal(object, &observed).await?;
        if let Progress::Waiting(reason, message) = observed.bastion.progress {
            return Err(ReconcileError::waiting(reason, message));
        }
        self.delete_orphans(&cloud, object, &orphans).await?;
        let kept = self.delete_leftovers(&observer, &actor, object, &mut observed).await?;
        self.delete_volumes(&cloud, object, &volumes).await?;
        self.delete_server_groups(&observer, object, &cluster).await?;
        // An error now repeats the pass while the journal still shows what was the cluster's.
        let shares = csi_shares::find(&cloud, object).await?;
        self.delete_journaled(&observer, &actor, object, &mut observed).await?;
        self.name_kept(object, (&volumes, &shares), &kept).await;
        self.announced.forget(&object.uid().unwrap_or_default());
        Ok(())
    }

    /// Deletes the resources of the journal, and strikes each that is gone, or that the user leaves in the cloud.
    async fn delete_journaled(
        &self,
        observer: &Observer<'_>,
        actor: &Actor<'_>,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        while let Some(entry) = next_entry(&observed.journal) {
            let deleted = match delete_entry(observer, &entry).await {
                Err(error) => {
                    let error = blockers::blocked(observer, &entry, error).await;
                    let error = resource_events::deletion_error(&entry.kind, &entry.name, error);
                    if blockers::is_forgotten(object, &error) {
                        let message = format!("left {} {}: {error}", entry.kind, entry.name);
                        self.context.events.record(object, Severity::Warning, FORGOTTEN, &message).await;
                        observed.journal.strike(&entry.kind, &entry.name);
                        actor.write_journal(object, observed).await?;
                        continue;
                    }
                    Err(error)
                }
                result => result,
            };
            if let Some((reason, message)) = deleted? {
                self.context.events.record(object, Severity::Normal, reason, &message).await;
                // There may be a second one, of a create call whose response was lost: look again.
                continue;
            }
            if entry.id.is_none() {
                observed.lost_calls.check_absence(Timestamp::now())?;
            }
            observed.journal.strike(&entry.kind, &entry.name);
            actor.write_journal(object, observed).await?;
        }
        Ok(())
    }

    /// Names what stays in the cloud, in Events. The object goes now, so its annotations are no remedy any more.
    async fn name_kept(
        &self,
        object: &OpenStackCluster,
        (volumes, shares): (&CsiVolumes, &CsiShares),
        kept: &[String],
    ) {
        let volumes =
            (!volumes.kept.is_empty()).then(|| deletion_plan::kept_text(&volumes.kept, &volumes.snapshots));
        let shares = (!shares.is_empty()).then(|| shares.kept_text());
        let others = (!kept.is_empty()).then(|| leftovers::kept_text(kept));
        for text in [volumes, shares, others].into_iter().flatten() {
            let message = format!("kept {text}. Delete them in the cloud when no one needs them");
            self.context.events.record(object, Severity::Warning, LEFTOVERS, &message).await;
        }
    }

    /// Finds what machines of the cluster left. Once nothing is left, later passes do not look again.
    async fn orphans(
        &self,
        cloud: &Arc<dyn Cloud>,
        object: &OpenStackCluster,
    ) -> Result<Orphans, ReconcileError> {
        let uid = object.uid().unwrap_or_default();
        let is_clean = self.announced.has(&uid, Stage::WithoutOrphans);
        let tag = names::cluster_tag(object).filter(|_| !is_clean);
        let Some(tag) = tag else { return Ok(Orphans::default()) };
        let orphans = orphans::find(cloud, &tag).await?;
        if orphans.titles().is_empty() {
            self.announced.is_new(&uid, Stage::WithoutOrphans);
        }
        Ok(orphans)
    }

    /// Records Events, each with reason and message.
    async fn record_all(&self, object: &OpenStackCluster, made: Vec<(&'static str, String)>) {
        for (reason, message) in made {
            self.context.events.record(object, Severity::Normal, reason, &message).await;
        }
    }

    /// Deletes what machines of the cluster left.
    async fn delete_orphans(
        &self,
        cloud: &Arc<dyn Cloud>,
        object: &OpenStackCluster,
        orphans: &Orphans,
    ) -> Result<(), ReconcileError> {
        if let Some(orphan) = orphans.titles().first() {
            self.context.settings.removes_unknown(orphan).await?;
        }
        let mut made = Vec::new();
        let result = orphans::delete(cloud, orphans, &mut made).await;
        self.record_all(object, made).await;
        result
    }

    /// Deletes the volumes of the workload cluster that the user has deleted.
    async fn delete_volumes(
        &self,
        cloud: &Arc<dyn Cloud>,
        object: &OpenStackCluster,
        volumes: &CsiVolumes,
    ) -> Result<(), ReconcileError> {
        let mut made = Vec::new();
        let result = csi_volumes::delete(cloud, &volumes.deleted, &mut made).await;
        self.record_all(object, made).await;
        result
    }

    /// Deletes the server groups of the cluster's machines. Their names say to which cluster they belong.
    async fn delete_server_groups(
        &self,
        observer: &Observer<'_>,
        object: &OpenStackCluster,
        cluster: &str,
    ) -> Result<(), ReconcileError> {
        let groups = match observer.cloud.server_groups().await {
            // Who may list none has created none.
            Err(error) if error.class == ErrorClass::Forbidden => return Ok(()),
            result => result?,
        };
        let ours = |group: &ServerGroup| names::is_server_group_of(object, cluster, &group.name);
        for group in groups.into_iter().filter(ours) {
            let deleted = gone(observer.cloud.delete_server_group(&group.id).await);
            deleted
                .map_err(|error| resource_events::deletion_error(names::SERVER_GROUP, &group.name, error))?;
            let message = format!("deleted server group {} ({})", group.name, group.id);
            let reason = resource_events::deleted(names::SERVER_GROUP);
            self.context.events.record(object, Severity::Normal, reason, &message).await;
        }
        Ok(())
    }

    /// Deletes what Services of the workload cluster left in the network.
    async fn delete_leftovers(
        &self,
        observer: &Observer<'_>,
        actor: &Actor<'_>,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<Vec<String>, ReconcileError> {
        let uid = object.uid().unwrap_or_default();
        let is_thorough = !self.announced.has(&uid, Stage::WithoutServices);
        let mut made = Vec::new();
        let result = leftovers::delete(observer, actor, object, (observed, is_thorough), &mut made).await;
        self.record_all(object, made).await;
        actor.write_journal(object, observed).await?;
        let kept = result?;
        self.announced.is_new(&uid, Stage::WithoutServices);
        Ok(kept)
    }

    /// Waits for the servers, which use the network.
    async fn machines_are_gone(&self, object: &OpenStackCluster) -> Result<(), ReconcileError> {
        let left = self.machines(object).await?;
        if left.is_empty() {
            return Ok(());
        }
        Err(ReconcileError::waiting(
            "WaitingForMachines",
            format!("waiting for the deletion of OpenStackMachines: {}", listed(&left)),
        ))
    }

    /// Returns the names of the OpenStackMachines that can have resources in the cloud.
    pub(super) async fn machines(&self, object: &OpenStackCluster) -> Result<Vec<String>, ReconcileError> {
        Ok(self.held_machines(object).await?.iter().map(ResourceExt::name_any).collect())
    }

    /// Returns the OpenStackMachines with our finalizer. Without it, a machine has no resources in the cloud.
    pub(super) async fn held_machines(
        &self,
        object: &OpenStackCluster,
    ) -> Result<Vec<OpenStackMachine>, ReconcileError> {
        let Some(cluster) = cluster_name(object) else { return Ok(Vec::new()) };
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackMachine> = Api::namespaced(self.context.client.clone(), &namespace);
        let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
        let holds = |machine: &OpenStackMachine| {
            machine.finalizers().iter().any(|finalizer| finalizer == crate::openstack_machine::FINALIZER)
        };
        let found = api.list(&params).await?;
        Ok(found.items.into_iter().filter(holds).collect())
    }
}

/// Returns the first names, and the number of the others. Pure.
fn listed(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(LISTED).map(String::as_str).collect();
    match names.len().saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Returns true if machines of the cluster may have been created.
fn was_provisioned(object: &OpenStackCluster) -> bool {
    let initialization = object.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.provisioned) == Some(true)
}

/// Returns true for the error of credentials that do not exist any more.
fn is_without_login(error: &ReconcileError) -> bool {
    let ReconcileError::Cloud(error) = error else { return false };
    matches!(error.class, ErrorClass::Credentials | ErrorClass::IdentityNotFound)
}

/// Returns true if the journal of a cluster that had one is gone: its annotations were removed, or only its spec and
/// status were restored. Pure.
fn is_journal_lost(object: &OpenStackCluster) -> bool {
    let status = object.status.as_ref();
    let has_resources = status.is_some_and(|status| {
        status.network.is_some()
            || status.router.is_some()
            || status.control_plane_security_group.is_some()
            || status.api_server_managed_load_balancer.is_some()
    });
    Journal::of(object).entries().is_empty()
        && (has_resources || !object.annotations().contains_key(OwnershipTag::ANNOTATION))
}

/// Returns the entries of all resources that can have been created for a cluster. Each is looked up by its name and
/// ownership tag before it is deleted. Pure.
fn possible(object: &OpenStackCluster, cluster: &str) -> Vec<(&'static str, String)> {
    let desired = Desired::read(object, cluster);
    let mut entries = intended(&desired);
    if !desired.groups.is_empty() {
        entries.push((names::SECURITY_GROUP, desired.bastion_group));
    }
    // The endpoint in the spec hides whether its address was allocated for the cluster.
    entries.push((names::FLOATING_IP, desired.name));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_1_a_message_lists_five_machines() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|at| format!("m{at}")).collect() };
        assert_eq!(listed(&names(1)), "m0");
        assert_eq!(listed(&names(5)), "m0, m1, m2, m3, m4");
        assert_eq!(listed(&names(7)), "m0, m1, m2, m3, m4 and 2 more");
    }

    #[test]
    fn r2_3_a_lost_journal_is_noticed() {
        let spec = serde_json::json!({
            "identityRef": {"name": "s", "cloudName": "c"}, "managedSubnets": [{"cidr": "10.6.0.0/24"}]});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert!(is_journal_lost(&object), "all annotations are gone");
        let mut annotations = std::collections::BTreeMap::new();
        annotations.insert(OwnershipTag::ANNOTATION.to_owned(), "u".to_owned());
        object.metadata.annotations = Some(annotations);
        assert!(!is_journal_lost(&object), "nothing was created yet");
        let status = object.status.get_or_insert_default();
        status.router = Some(apiserver_types::RouterStatus::default());
        assert!(is_journal_lost(&object), "the status has resources and the journal has none");
    }
}
