//! What there is in the cloud of what a machine wants.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{Cloud, FloatingIpQuery, Port, PortQuery, Server, Volume};
use controllers_runtime::{JOURNAL_ANNOTATION, Journal, OwnershipTag, ReconcileError, ServerLists};
use kube::ResourceExt;

use super::decide::{Desired, Observed};
use crate::names;

/// How old the shared list may be when a server is looked up: a machine that is being built is asked
/// about every two seconds, all machines of a project with one call.
const LIST_AGE: Duration = Duration::from_secs(1);

/// The same for machines that have everything: half of the period in which they are compared.
const SETTLED_LIST_AGE: Duration = Duration::from_secs(15);

/// Annotation that names the operation which has the server in its hands.
pub(super) const OPERATION: &str = "capstan.dev/operation";

/// Looks at what a machine has.
pub(super) struct Observer<'a> {
    pub cloud: &'a Arc<dyn Cloud>,
    pub servers: &'a ServerLists,
    pub mark: &'a OwnershipTag,
}

/// What is known of a machine without the cloud.
pub(super) fn begin(object: &OpenStackMachine) -> Observed {
    let status = object.status.as_ref();
    let provider_id = object.spec.provider_id.clone().filter(|id| !id.is_empty());
    let named = provider_id.as_deref().and_then(|id| id.rsplit('/').next()).map(str::to_owned);
    let initialization = status.and_then(|status| status.initialization.as_ref());
    Observed {
        journal: Journal::of(object),
        known_server: named.or_else(|| status.and_then(|status| status.instance_id.clone())),
        provider_id,
        provisioned: initialization.and_then(|it| it.provisioned) == Some(true),
        ..Observed::default()
    }
}

impl Observer<'_> {
    /// Finds the server: by its id, or by name and mark when its id was never written down.
    pub(super) async fn server(&self, seen: &mut Observed, name: &str) -> Result<(), ReconcileError> {
        if let Some(id) = seen.known_server.clone() {
            let age = if seen.provisioned { SETTLED_LIST_AGE } else { LIST_AGE };
            seen.server = self.by_id(&id, age).await?;
        }
        // One that was up once and is gone is not looked for: whoever owns the Machine decides.
        let known_for_good = seen.provisioned || seen.provider_id.is_some();
        if seen.server.is_none() && !known_for_good && seen.journal.has(names::SERVER, name) {
            seen.server = self.owned_server(name).await?;
            seen.known_server = seen.server.as_ref().map(|server| server.id.clone());
        }
        Ok(())
    }

    async fn by_id(&self, id: &str, age: Duration) -> Result<Option<Server>, ReconcileError> {
        let listed = self.servers.list(self.cloud, age).await?;
        if let Some(server) = listed.get(id) {
            return Ok(Some(server.clone()));
        }
        // A list may be cut short or older than the server: only asking for it says that it is gone.
        match self.cloud.server(id).await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The server of this name that bears our mark.
    pub(super) async fn owned_server(&self, name: &str) -> Result<Option<Server>, ReconcileError> {
        let found = self.cloud.servers_named(name).await?;
        let ours =
            |server: &Server| server.tags.contains(&self.mark.tag()) && server.status != "SOFT_DELETED";
        Ok(found.into_iter().find(ours))
    }

    /// The server of this id, if it bears our mark.
    pub(super) async fn owned_server_by_id(&self, id: &str) -> Result<Option<Server>, ReconcileError> {
        match self.cloud.server(id).await {
            Ok(server) => {
                Ok(Some(server)
                    .filter(|it| it.tags.contains(&self.mark.tag()) && it.status != "SOFT_DELETED"))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds the volumes and ports that the journal names.
    pub(super) async fn parts(&self, seen: &mut Observed, wanted: &Desired) -> Result<(), ReconcileError> {
        for wish in &wanted.volumes {
            if let Some(volume) = self.owned_volume(&wish.name).await? {
                seen.volumes.insert(wish.name.clone(), volume);
            }
        }
        for spec in &wanted.ports {
            if !seen.journal.has(names::PORT, &spec.name) {
                continue;
            }
            let found = self.ports_named(&spec.name).await?.into_iter().find(|port| {
                let asked_for = spec.description.as_ref() == Some(&port.description);
                let same_network = port.network_id == spec.network_id;
                self.mark.is_on(&port.tags, &port.description)
                    || (asked_for && same_network && is_unclaimed(port))
            });
            if let Some(port) = found {
                seen.ports.insert(spec.name.clone(), port);
            }
        }
        Ok(())
    }

    /// The volume of this name that bears our mark.
    pub(super) async fn owned_volume(&self, name: &str) -> Result<Option<Volume>, ReconcileError> {
        let found = self.cloud.volumes_named(name).await?;
        let ours =
            |volume: &Volume| volume.metadata.get(OwnershipTag::METADATA_KEY) == Some(&self.mark.tag());
        Ok(found.into_iter().find(ours))
    }

    /// The ports of this name.
    pub(super) async fn ports_named(&self, name: &str) -> Result<Vec<Port>, ReconcileError> {
        let query = PortQuery { name: Some(name.to_owned()), ..PortQuery::default() };
        Ok(self.cloud.ports(&query).await?)
    }

    /// The floating IP at which a cluster's API answers, if it is one.
    pub(super) async fn endpoint_ip(
        &self,
        seen: &mut Observed,
        host: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let Some(host) = host.filter(|host| host.parse::<std::net::IpAddr>().is_ok()) else { return Ok(()) };
        let query = FloatingIpQuery { address: Some(host.to_owned()), ..FloatingIpQuery::default() };
        seen.endpoint_ip = self.cloud.floating_ips(&query).await?.into_iter().next();
        Ok(())
    }
}

/// Whether nothing says whose a port is. One with a description of the user's cannot bear the mark
/// until it is tagged; the journal, its name and network, and that nobody uses or has marked it, say so.
pub(super) fn is_unclaimed(port: &Port) -> bool {
    let marked = port.tags.iter().any(|tag| tag.starts_with(controllers_runtime::MARK_PREFIX));
    !marked && port.tags.is_empty() && port.device_id.is_empty()
}

/// Whether the journal on an object is this one.
pub(super) fn is_written(object: &OpenStackMachine, journal: &Journal) -> bool {
    object
        .annotations()
        .get(JOURNAL_ANNOTATION)
        .map_or_else(|| journal.entries().is_empty(), |text| *text == journal.text())
}
