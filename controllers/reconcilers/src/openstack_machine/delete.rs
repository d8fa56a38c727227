//! Deletion of exactly the resources that were created for an OpenStackMachine: the server, then its
//! ports and volumes.

use std::time::Duration;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{FloatingIpQuery, Port, Server};
use controllers_runtime::{Entry, OwnershipTag, ReconcileError, Severity, now};
use kube::ResourceExt;

use super::decide::Observed;
use super::objects::ServerObjects;
use super::observe::{Observer, is_unclaimed};
use super::{OpenStackMachineReconciler, act, delete_trunk, desired, observe, pool_address, report};
use crate::resource_events::{self, deletion_error};
use crate::{names, project};

/// Interval of a deletion in progress: Nova takes a few seconds.
const POLL: Duration = Duration::from_secs(2);

/// Kinds in the order of their deletion.
const ORDER: [&str; 5] = [names::SERVER, names::TRUNK, names::SUBPORT, names::PORT, names::VOLUME];

/// Returns the entry whose resource is deleted next. Pure.
fn next_entry(observed: &Observed) -> Option<Entry> {
    ORDER.iter().find_map(|kind| observed.journal.of_kind(kind).next().cloned())
}

impl OpenStackMachineReconciler {
    /// Deletes the created resources, as far as that is possible now.
    pub(super) async fn delete(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
        cluster_is_going: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == objects.finalizer()) {
            return Ok(None);
        }
        if crate::moved(object) {
            objects.remove_finalizer(object).await?;
            return Ok(None);
        }
        if let Some(name) = self.operation(object).await? {
            // The operation observes the deletion too, and ends at a point where its server is recorded.
            return Err(ReconcileError::waiting(
                "WaitingForOperation",
                format!("waiting for MachineOperation {name} to end"),
            ));
        }
        let tag = objects.tag(object);
        pool_address::release(&self.context.client, object).await?;
        let Some(mut observed) = self.begin_deletion(object, cluster).await else {
            objects.remove_finalizer(object).await?;
            return Ok(None);
        };
        let cloud = self.cloud(object, cluster).await?;
        observed.project = project::check(object.annotations(), cloud.as_ref())?;
        let machine = self.machine(object).await?;
        observed.of_control_plane = machine.is_some_and(|machine| desired::is_control_plane(&machine))
            || object.labels().contains_key(names::CONTROL_PLANE_LABEL);
        let observer = Observer { cloud: &cloud, servers: &self.context.servers, tag: &tag };
        if !cluster_is_going && self.is_member(objects, &observer, object, cluster).await? {
            let message = "waiting for the removal of the machine from the load balancer";
            let error = ReconcileError::waiting("Deleting", message);
            return report_wait(objects, object, &error).await;
        }
        if observed.by_tag_alone {
            find_by_tag(&observer, object, &mut observed).await?;
        }
        let network = network_of(cluster);
        let waiting =
            self.delete_entries(objects, object, &observer, &mut observed, network.as_deref()).await?;
        if let Some(error) = waiting {
            return report_wait(objects, object, &error).await;
        }
        objects.remove_finalizer(object).await?;
        self.preflight.note_freed();
        Ok(None)
    }
}

impl OpenStackMachineReconciler {
    /// Deletes the resources in the journal, one after the other. Returns the reason to wait, if one cannot go yet.
    async fn delete_entries(
        &self,
        objects: &ServerObjects,
        object: &mut OpenStackMachine,
        observer: &Observer<'_>,
        observed: &mut Observed,
        network: Option<&str>,
    ) -> Result<Option<ReconcileError>, ReconcileError> {
        while let Some(entry) = next_entry(observed) {
            let deleted = delete_entry(observer, object, observed, &entry, network).await;
            match deleted.map_err(|error| deletion_error(&entry.kind, &entry.name, error))? {
                Gone::First(subports) => {
                    for id in subports {
                        observed.journal.learn(names::SUBPORT, &id, &id);
                    }
                    act::write_journal(objects, object, observed).await?;
                }
                Gone::NotYet(what) => {
                    let message = format!("waiting for {what} to be deleted");
                    return Ok(Some(ReconcileError::waiting("Deleting", message)));
                }
                // There may be a second one, of a create call whose response was lost: look again.
                Gone::Yes(Some(message)) => {
                    self.record_deletion(objects, object, &entry, &message).await;
                }
                Gone::Yes(None) => {
                    if entry.id.is_none()
                        && let Err(error) = observed.lost_calls.check_absence(observed.now)
                    {
                        return Ok(Some(error));
                    }
                    if let Some(id) = &entry.id
                        && is_slow(&entry.kind)
                    {
                        let message = format!("deleted {} {} ({id})", entry.kind, entry.name);
                        self.record_deletion(objects, object, &entry, &message).await;
                    }
                    observed.journal.strike(&entry.kind, &entry.name);
                    act::write_journal(objects, object, observed).await?;
                    observed.known_server = None;
                }
            }
        }
        Ok(None)
    }

    /// Returns what is known without the cloud; `None` if the machine has nothing there. One that may be from a backup from
    /// before its journal has to be looked for, if anything names credentials: without them nothing was created.
    async fn begin_deletion(
        &self,
        object: &OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
    ) -> Option<Observed> {
        let mut observed = observe::begin(object, &self.context.term);
        complete(&mut observed, object);
        if !observed.journal.entries().is_empty() {
            return Some(observed);
        }
        let has_credentials = object.spec.identity_ref.is_some() || cluster.is_some();
        observed.by_tag_alone = has_credentials && self.may_lack_journal(object, &observed).await;
        observed.by_tag_alone.then_some(observed)
    }

    async fn record_deletion(
        &self,
        objects: &ServerObjects,
        object: &OpenStackMachine,
        entry: &Entry,
        message: &str,
    ) {
        let reason = resource_events::deleted(&entry.kind);
        objects.record(&self.context.events, object, Severity::Normal, reason, message).await;
    }
}

/// Reports what the deletion waits for.
async fn report_wait(
    objects: &ServerObjects,
    object: &mut OpenStackMachine,
    error: &ReconcileError,
) -> Result<Option<Duration>, ReconcileError> {
    let before = object.clone();
    report::report_stopped(object, error, &now());
    *object = objects.write_status(&before, object).await?;
    Ok(Some(POLL))
}

/// Returns the id of the cluster's network.
fn network_of(cluster: Option<&OpenStackCluster>) -> Option<String> {
    let network = cluster?.status.as_ref()?.network.as_ref()?;
    Some(network.id.clone())
}

/// Returns true for a kind whose deletion goes on after the call. A later pass finds that the resource is gone.
fn is_slow(kind: &str) -> bool {
    matches!(kind, names::SERVER | names::VOLUME)
}

/// Result of the deletion of an entry.
pub(super) enum Gone {
    /// The journal needs these subports before the deletion goes on.
    First(Vec<String>),
    /// The resource does not exist any more. Describes what was done, if anything.
    Yes(Option<String>),
    /// The deletion is in progress.
    NotYet(String),
}

/// Deletes the resource of an entry, if it exists and has our tag.
async fn delete_entry(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    observed: &Observed,
    entry: &Entry,
    network: Option<&str>,
) -> Result<Gone, ReconcileError> {
    match entry.kind.as_str() {
        names::TRUNK => delete_trunk::trunk(observer, observed, entry, network).await,
        names::SUBPORT => delete_trunk::subport(observer, entry).await,
        names::SERVER => server(observer, object, entry).await,
        names::PORT => port(observer, object, observed, entry).await,
        names::VOLUME => volume(observer, entry).await,
        _ => Ok(Gone::Yes(None)),
    }
}

async fn server(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    entry: &Entry,
) -> Result<Gone, ReconcileError> {
    // By name and tag, or by the journal's id and tag if it was renamed; not by the id in the spec, which
    // any client may have written.
    let mut found = observer.owned_servers(&entry.name).await?.into_iter().next();
    if let (None, Some(id)) = (&found, &entry.id) {
        found = observer.owned_server_by_id(id).await?;
    }
    let Some(server) = found else { return Ok(Gone::Yes(None)) };
    let leaving = server.task_state.as_deref() == Some("deleting") || server.status == "DELETED";
    if !leaving {
        match observer.cloud.delete_server(&server.id).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => tracing::info!(server = server.id, machine = object.metadata.name, "deleting server"),
        }
    }
    Ok(Gone::NotYet(format!("server {} ({})", server.name, server.id)))
}

async fn port(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    observed: &Observed,
    entry: &Entry,
) -> Result<Gone, ReconcileError> {
    let requested = |description: &str| {
        let ports = object.spec.ports.iter().flatten();
        ports.filter_map(|port| port.description.as_deref()).any(|known| known == description)
    };
    let found = observer.ports_named(&entry.name).await?.into_iter().find(|port| {
        observer.tag.is_on(&port.tags, &port.description)
            || (!observed.by_tag_alone && is_unclaimed(port) && requested(&port.description))
            || (is_unclaimed(port) && entry.id.as_ref() == Some(&port.id))
    });
    let Some(port) = found else { return Ok(Gone::Yes(None)) };
    if observed.of_control_plane {
        release_floating_ips(observer, &port.id).await?;
    }
    match observer.cloud.delete_port(&port.id).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Gone::Yes(Some(format!("deleted port {} ({})", port.name, port.id)))),
    }
}

/// Disassociates floating IPs from a port. That of the API is kept for another control plane, and those of users stay
/// theirs.
async fn release_floating_ips(observer: &Observer<'_>, port: &str) -> Result<(), ReconcileError> {
    let query = FloatingIpQuery { port_id: Some(port.to_owned()), ..FloatingIpQuery::default() };
    for ip in observer.cloud.floating_ips(&query).await? {
        match observer.cloud.associate_floating_ip(&ip.id, None).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => tracing::info!(address = ip.address, port, "disassociated floating IP"),
        }
    }
    Ok(())
}

async fn volume(observer: &Observer<'_>, entry: &Entry) -> Result<Gone, ReconcileError> {
    let found = observer.owned_volumes(&entry.name).await?;
    let Some(volume) = found.first() else { return Ok(Gone::Yes(None)) };
    let description = format!("volume {} ({})", volume.name, volume.id);
    match volume.status.as_str() {
        // It is deleted with its server, or its deletion is in progress.
        "in-use" => {
            purge_servers(observer, &volume.servers).await?;
            Ok(Gone::NotYet(description))
        }
        "deleting" | "detaching" | "attaching" | "creating" | "downloading" => Ok(Gone::NotYet(description)),
        _ => match observer.cloud.delete_volume(&volume.id).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Gone::NotYet(description)),
        },
    }
}

/// Has Nova give up servers of ours that it has deleted and still keeps: they hold the volume until then.
async fn purge_servers(observer: &Observer<'_>, servers: &[String]) -> Result<(), ReconcileError> {
    for id in servers {
        let server = match observer.cloud.server(id).await {
            Err(error) if error.is_not_found() => continue,
            result => result?,
        };
        if server.tags.contains(&observer.tag.text()) && is_kept(&server) {
            match observer.cloud.purge_server(id).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => tracing::info!(server = id, "purging server"),
            }
        }
    }
    Ok(())
}

/// Returns true for a server that Nova has deleted, and keeps for a while.
fn is_kept(server: &Server) -> bool {
    server.status == "SOFT_DELETED" && server.task_state.is_none()
}

/// Returns true if the journal of a machine that had one is gone: its annotations were removed, or only its spec and
/// status were restored.
pub(super) fn is_journal_lost(observed: &Observed, object: &OpenStackMachine) -> bool {
    let resolved = object.status.as_ref().is_some_and(|status| status.resolved.is_some());
    let marked = object.annotations().contains_key(OwnershipTag::ANNOTATION);
    observed.journal.entries().is_empty() && (resolved || !marked)
}

/// Adds the entries that the journal must have had, in case the annotation was lost. The ownership tag
/// then identifies our resources, and their names are deterministic.
pub(super) fn complete(observed: &mut Observed, object: &OpenStackMachine) {
    if observed.known_server.is_some() || is_journal_lost(observed, object) {
        intend_all(observed, object);
    }
}

/// Adds entries for all resources that a machine can have, so that a pass looks for them.
pub(super) fn intend_all(observed: &mut Observed, object: &OpenStackMachine) {
    let (machine, cluster) = (Machine::default(), OpenStackCluster::default());
    for volume in desired::volumes(object, &machine, &cluster) {
        observed.journal.intend(names::VOLUME, &volume.name);
    }
    let name = object.metadata.name.clone().unwrap_or_default();
    observed.journal.intend(names::SERVER, &name);
    for (index, opts) in desired::ports(object).iter().enumerate() {
        let name = desired::port_name(object, index, opts);
        observed.journal.intend(names::PORT, &name);
        if desired::is_trunk(object, opts) {
            observed.journal.intend(names::TRUNK, &name);
        }
    }
}

/// Adds entries for the resources that a machine can have and that have its ownership tag. As long as the object has no
/// journal, each pass looks for them again.
async fn find_by_tag(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    intend_all(observed, object);
    for Entry { kind, name, .. } in observed.journal.entries().to_vec() {
        let id = match kind.as_str() {
            names::SERVER => observer.owned_servers(&name).await?.into_iter().next().map(|it| it.id),
            names::VOLUME => observer.owned_volumes(&name).await?.into_iter().next().map(|it| it.id),
            names::TRUNK => observer.owned_trunk(&name).await?.map(|it| it.id),
            names::PORT => {
                let is_tagged = |port: &Port| observer.tag.is_on(&port.tags, &port.description);
                observer.ports_named(&name).await?.into_iter().find(is_tagged).map(|it| it.id)
            }
            _ => None,
        };
        if let Some(id) = id {
            observed.journal.learn(&kind, &name, &id);
        }
    }
    observed.journal.forget_unknown();
    Ok(())
}

#[cfg(test)]
mod tests {
    use controllers_runtime::TermStart;
    use serde_json::json;

    use super::*;

    #[test]
    fn r2_3_a_machine_that_lost_its_journal_looks_for_all_that_it_can_have() {
        let spec = json!({"flavor": {"id": "f"}, "image": {"id": "i"}, "rootVolume": {"sizeGiB": 10}});
        let mut object = OpenStackMachine::new("m", serde_json::from_value(spec).unwrap());
        let entries = |object: &OpenStackMachine| {
            let mut observed = observe::begin(object, &TermStart::default());
            complete(&mut observed, object);
            let kinds = observed.journal.entries().iter().map(|entry| entry.kind.clone());
            kinds.collect::<Vec<_>>()
        };
        assert_eq!(entries(&object), ["volume", "server", "port"], "all annotations are gone");
        object.annotations_mut().insert(OwnershipTag::ANNOTATION.to_owned(), "u".to_owned());
        assert!(entries(&object).is_empty(), "nothing was created yet");
        object.status.get_or_insert_default().resolved =
            Some(apiserver_types::ResolvedMachineSpec::default());
        assert_eq!(entries(&object), ["volume", "server", "port"], "a pass had begun");
    }
}
