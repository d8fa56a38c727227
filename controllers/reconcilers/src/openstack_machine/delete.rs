//! Takes away exactly what was made for a machine: the server, then its ports and volumes.

use std::time::Duration;

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_runtime::{Entry, OwnershipTag, ReconcileError, Severity, now, write_status};
use kube::{Api, ResourceExt};

use super::decide::Observed;
use super::observe::{Observer, is_unclaimed};
use super::{FINALIZER, OpenStackMachineReconciler, act, observe, report};
use crate::names;

/// Pause before looking whether a server is gone: Nova takes a few seconds.
const POLL: Duration = Duration::from_secs(2);

/// Kinds in the order in which they go.
const ORDER: [&str; 3] = [names::SERVER, names::PORT, names::VOLUME];

/// The entry whose thing goes next. Pure.
fn next_entry(seen: &Observed) -> Option<Entry> {
    ORDER.iter().find_map(|kind| seen.journal.of_kind(kind).next().cloned())
}

impl OpenStackMachineReconciler {
    /// Takes away what was made, as far as it goes now.
    pub(super) async fn delete(
        &self,
        api: &Api<OpenStackMachine>,
        object: &mut OpenStackMachine,
        cluster: Option<&OpenStackCluster>,
    ) -> Result<Option<Duration>, ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }
        if crate::moved(object) {
            crate::finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        if let Some(name) = self.operation(object).await? {
            // It sees the deletion too, and ends where its server is known to somebody.
            return Err(ReconcileError::waiting(
                "WaitingForOperation",
                format!("waiting for MachineOperation {name} to end"),
            ));
        }
        let mark = OwnershipTag::of(object);
        let mut seen = observe::begin(object);
        complete(&mut seen, object);
        if seen.journal.entries().is_empty() {
            crate::finalizers::remove(api, object, FINALIZER).await?;
            return Ok(None);
        }
        let cloud = self.cloud(object, cluster).await?;
        let observer = Observer { cloud: &cloud, servers: &self.context.servers, mark: &mark };
        while let Some(entry) = next_entry(&seen) {
            match take_away(&observer, object, &entry).await? {
                Gone::NotYet(what) => {
                    let trouble = ReconcileError::waiting("Deleting", format!("waiting for {what} to go"));
                    let before = object.clone();
                    report::report_stopped(object, &trouble, &now());
                    *object = write_status(api, &before, object).await?;
                    return Ok(Some(POLL));
                }
                // There may be another, of a create whose answer never came: looked for again.
                Gone::Yes(Some(message)) => {
                    self.context.events.record(object, Severity::Normal, "Deleted", &message).await;
                }
                Gone::Yes(None) => {
                    seen.journal.strike(&entry.kind, &entry.name);
                    act::write_journal(api, object, &seen).await?;
                    seen.known_server = None;
                }
            }
        }
        crate::finalizers::remove(api, object, FINALIZER).await?;
        Ok(None)
    }
}

/// What became of an entry.
enum Gone {
    /// It is gone; says what was done, if anything.
    Yes(Option<String>),
    /// It was asked to go and is still there.
    NotYet(String),
}

/// Takes away what one entry names, if it is there and bears our mark.
async fn take_away(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    entry: &Entry,
) -> Result<Gone, ReconcileError> {
    match entry.kind.as_str() {
        names::SERVER => server(observer, object, entry).await,
        names::PORT => port(observer, object, entry).await,
        names::VOLUME => volume(observer, entry).await,
        _ => Ok(Gone::Yes(None)),
    }
}

async fn server(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    entry: &Entry,
) -> Result<Gone, ReconcileError> {
    // By name and mark, or by the journal's id and mark should it have another name by now; not by the
    // id in the spec, which anybody could have written.
    let mut found = observer.owned_server(&entry.name).await?;
    if let (None, Some(id)) = (&found, &entry.id) {
        found = observer.owned_server_by_id(id).await?;
    }
    let Some(server) = found else { return Ok(Gone::Yes(None)) };
    let leaving = server.task_state.as_deref() == Some("deleting") || server.status == "DELETED";
    if !leaving {
        match observer.cloud.delete_server(&server.id).await {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => tracing::info!(
                server = server.id,
                machine = object.metadata.name,
                "asked Nova to delete the server"
            ),
        }
    }
    Ok(Gone::NotYet(format!("server {} ({})", server.name, server.id)))
}

async fn port(
    observer: &Observer<'_>,
    object: &OpenStackMachine,
    entry: &Entry,
) -> Result<Gone, ReconcileError> {
    let asked_for = |description: &str| {
        let ports = object.spec.ports.iter().flatten();
        ports.filter_map(|port| port.description.as_deref()).any(|asked| asked == description)
    };
    let found = observer.ports_named(&entry.name).await?.into_iter().find(|port| {
        observer.mark.is_on(&port.tags, &port.description)
            || (is_unclaimed(port) && asked_for(&port.description))
            || (is_unclaimed(port) && entry.id.as_ref() == Some(&port.id))
    });
    let Some(port) = found else { return Ok(Gone::Yes(None)) };
    match observer.cloud.delete_port(&port.id).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Gone::Yes(Some(format!("deleted port {} ({})", port.name, port.id)))),
    }
}

async fn volume(observer: &Observer<'_>, entry: &Entry) -> Result<Gone, ReconcileError> {
    let Some(volume) = observer.owned_volume(&entry.name).await? else { return Ok(Gone::Yes(None)) };
    let told = format!("volume {} ({})", volume.name, volume.id);
    match volume.status.as_str() {
        // It goes with its server, or is on its way.
        "deleting" | "in-use" | "detaching" | "attaching" | "creating" | "downloading" => {
            Ok(Gone::NotYet(told))
        }
        _ => match observer.cloud.delete_volume(&volume.id).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(Gone::NotYet(told)),
        },
    }
}

/// Makes the journal name what the object surely had, should the annotation be lost: then the mark
/// alone says what is ours, and names are deterministic.
fn complete(seen: &mut Observed, object: &OpenStackMachine) {
    if seen.known_server.is_some() {
        let name = object.metadata.name.clone().unwrap_or_default();
        seen.journal.intend(names::SERVER, &name);
        for (index, opts) in super::desired::ports(object).iter().enumerate() {
            seen.journal.intend(names::PORT, &super::desired::port_name(object, index, opts));
        }
    }
}
