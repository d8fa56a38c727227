//! Observation of an OpenStackMachine's resources in the cloud.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{Cloud, Member, Port, PortQuery, Server, Trunk, TrunkQuery, Volume};
use controllers_runtime::{
    JOURNAL_ANNOTATION, Journal, OwnershipTag, ReconcileError, ServerLists, TermStart,
};
use jiff::Timestamp;
use kube::ResourceExt;

use super::decide::{Desired, Membership, Observed};
use super::failed_builds::FailedBuilds;
use crate::cidrs::same_address;
use crate::duplicates::{adopt, sort};
use crate::lost_calls::LostCalls;
use crate::names;

/// Maximum age of the shared list for a machine that is being built. Such machines are observed every two
/// seconds, all machines of a project with one call.
const LIST_AGE: Duration = Duration::from_secs(1);

/// Maximum age for complete machines: half of the interval in which they are compared.
pub(super) const SETTLED_LIST_AGE: Duration = Duration::from_secs(15);

/// Annotation with the name of the operation that has claimed the server.
pub(super) const OPERATION: &str = "capstan.dev/operation";

/// Reader of a pass.
pub(super) struct Observer<'a> {
    pub cloud: &'a Arc<dyn Cloud>,
    pub servers: &'a ServerLists,
    pub tag: &'a OwnershipTag,
}

/// Returns what is known without the cloud.
pub(super) fn begin(object: &OpenStackMachine, term: &TermStart) -> Observed {
    let status = object.status.as_ref();
    let provider_id = object.spec.provider_id.clone().filter(|id| !id.is_empty());
    let named = provider_id.as_deref().and_then(|id| id.rsplit('/').next()).map(str::to_owned);
    let initialization = status.and_then(|status| status.initialization.as_ref());
    let (mut journal, mut lost_calls, now) = (Journal::of(object), LostCalls::of(object), Timestamp::now());
    lost_calls.enter(term, &mut journal, now);
    Observed {
        journal,
        known_server: named.or_else(|| status.and_then(|status| status.instance_id.clone())),
        provider_id,
        provisioned: initialization.and_then(|it| it.provisioned) == Some(true),
        failed_builds: FailedBuilds::of(object),
        lost_calls,
        now,
        ..Observed::default()
    }
}

impl Observer<'_> {
    /// Finds the server: by its id, or by name and tag if its id was never recorded.
    pub(super) async fn server(&self, observed: &mut Observed, name: &str) -> Result<(), ReconcileError> {
        if let Some(id) = observed.known_server.clone() {
            observed.server = if observed.provisioned && observed.at_rest {
                self.in_list(&id, &*self.servers.list_at_rest(self.cloud).await?).await?
            } else {
                self.by_id(&id, if observed.provisioned { SETTLED_LIST_AGE } else { LIST_AGE }).await?
            };
        }
        // A server that was up once is not searched for: the Machine's owner decides about another one.
        let known_for_good = observed.provisioned || observed.provider_id.is_some();
        if observed.server.is_none() && !known_for_good && observed.journal.has(names::SERVER, name) {
            let found = self.owned_servers(name).await?;
            observed.server = adopt(names::SERVER, found, &mut observed.duplicates);
            observed.known_server = observed.server.as_ref().map(|server| server.id.clone());
            if let Some(id) = &observed.known_server {
                observed.journal.learn(names::SERVER, name, id);
            }
        }
        self.explain_error(observed).await
    }

    /// Reads a failed server alone if the list does not say why it failed: Nova's lists have no reasons of servers for which
    /// it found no host.
    async fn explain_error(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let unexplained = |it: &&Server| it.status == "ERROR" && it.fault.is_none();
        let Some(server) = observed.server.as_ref().filter(unexplained) else { return Ok(()) };
        match self.cloud.server(&server.id).await {
            Ok(read) => observed.server = Some(read),
            // The next pass looks again.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    pub(super) async fn by_id(&self, id: &str, age: Duration) -> Result<Option<Server>, ReconcileError> {
        self.in_list(id, &*self.servers.list(self.cloud, age).await?).await
    }

    /// Returns the server of this id from the list, or reads it.
    async fn in_list(
        &self,
        id: &str,
        listed: &HashMap<String, Server>,
    ) -> Result<Option<Server>, ReconcileError> {
        if let Some(server) = listed.get(id) {
            return Ok(Some(server.clone()));
        }
        // A list may be incomplete or older than the server: only a read proves that it is absent.
        match self.cloud.server(id).await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds the servers of this name with our tag. The one to adopt comes first: that with ports, or the oldest.
    pub(super) async fn owned_servers(&self, name: &str) -> Result<Vec<Server>, ReconcileError> {
        let mut found = self.cloud.servers_named(name).await?;
        found.retain(|server| server.tags.contains(&self.tag.text()) && server.status != "SOFT_DELETED");
        if found.len() > 1 {
            // One of them is on its way out.
            found.retain(|server| server.task_state.as_deref() != Some("deleting"));
        }
        sort(&mut found, &BTreeSet::new());
        Ok(found)
    }

    /// Finds the server of this id, if it has our tag.
    pub(super) async fn owned_server_by_id(&self, id: &str) -> Result<Option<Server>, ReconcileError> {
        match self.cloud.server(id).await {
            Ok(server) => {
                Ok(Some(server)
                    .filter(|it| it.tags.contains(&self.tag.text()) && it.status != "SOFT_DELETED"))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds the volumes and ports that the journal names.
    pub(super) async fn parts(
        &self,
        observed: &mut Observed,
        desired: &Desired,
    ) -> Result<(), ReconcileError> {
        for wish in &desired.volumes {
            let found = self.owned_volumes(&wish.name).await?;
            if let Some(volume) = adopt(names::VOLUME, found, &mut observed.duplicates) {
                observed.journal.learn(names::VOLUME, &wish.name, &volume.id);
                observed.volumes.insert(wish.name.clone(), volume);
            }
        }
        let by_tag_alone = observed.by_tag_alone;
        for spec in &desired.ports {
            if !observed.journal.has(names::PORT, &spec.name) {
                continue;
            }
            let found = self.ports_named(&spec.name).await?.into_iter();
            let is_tagged = |port: &Port| self.tag.is_on(&port.tags, &port.description);
            let (mut ours, mut rest): (Vec<Port>, Vec<Port>) = found.partition(is_tagged);
            sort(&mut ours, &BTreeSet::new());
            // Those without the tag may be a user's, so they are no duplicates.
            rest.retain(|port| {
                let requested = spec.description.as_ref() == Some(&port.description);
                !by_tag_alone && requested && port.network_id == spec.network_id && is_unclaimed(port)
            });
            let first = adopt(names::PORT, ours, &mut observed.duplicates);
            if let Some(port) = first.or_else(|| rest.into_iter().next()) {
                // After a crash the journal lacks the id, by which the cluster finds the machine's address.
                observed.journal.learn(names::PORT, &spec.name, &port.id);
                observed.ports.insert(spec.name.clone(), port);
            }
        }
        self.trunks(observed, desired).await
    }

    /// Finds the trunks that the journal names.
    async fn trunks(&self, observed: &mut Observed, desired: &Desired) -> Result<(), ReconcileError> {
        for spec in desired.ports.iter().filter(|spec| spec.trunk == Some(true)) {
            if observed.journal.has(names::TRUNK, &spec.name)
                && let Some(trunk) = self.owned_trunk(&spec.name).await?
            {
                observed.journal.learn(names::TRUNK, &spec.name, &trunk.id);
                observed.trunks.insert(spec.name.clone(), trunk);
            }
        }
        Ok(())
    }

    /// Finds the trunk of this name with our tag.
    pub(super) async fn owned_trunk(&self, name: &str) -> Result<Option<Trunk>, ReconcileError> {
        let query = TrunkQuery { name: Some(name.to_owned()), ..TrunkQuery::default() };
        let found = self.cloud.trunks(&query).await?;
        Ok(found.into_iter().find(|trunk| self.tag.is_on(&trunk.tags, &trunk.description)))
    }

    /// Finds the volumes of this name with our tag. The one to adopt comes first.
    pub(super) async fn owned_volumes(&self, name: &str) -> Result<Vec<Volume>, ReconcileError> {
        let mut found = self.cloud.volumes_named(name).await?;
        found.retain(|it| it.metadata.get(OwnershipTag::METADATA_KEY) == Some(&self.tag.text()));
        if found.len() > 1 {
            found.retain(|volume| volume.status != "deleting");
        }
        sort(&mut found, &BTreeSet::new());
        Ok(found)
    }

    /// Finds the ports of this name.
    pub(super) async fn ports_named(&self, name: &str) -> Result<Vec<Port>, ReconcileError> {
        let query = PortQuery { name: Some(name.to_owned()), ..PortQuery::default() };
        Ok(self.cloud.ports(&query).await?)
    }

    /// Finds the machine's members in the pools of a load balancer. The cluster's reconciler adds them.
    pub(super) async fn membership(
        &self,
        observed: &mut Observed,
        balancer: &str,
        ports: usize,
        object: &OpenStackMachine,
    ) -> Result<(), ReconcileError> {
        let status = object.status.as_ref();
        let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        let (mut states, mut taken) = (Vec::new(), None);
        for pool in self.cloud.pools(balancer).await? {
            let members = self.cloud.members(&pool.id).await?;
            let ours = members.iter().find(|member| names::is_member_of(member, object));
            states.push(ours.map(|member| member.provisioning_status.clone()));
            let is_ours = |it: &Member| it.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX));
            let is_at = |it: &Member| addresses.iter().any(|known| same_address(&known.address, &it.address));
            let other = members.iter().find(|it| ours.is_none() && !is_ours(it) && is_at(it));
            taken = taken.or_else(|| Some(format!("{} ({}) at {}", other?.name, other?.id, other?.address)));
        }
        let all = |status: &str| states.iter().all(|it| it.as_deref() == Some(status));
        observed.membership = match () {
            () if states.iter().flatten().any(|status| status == "ERROR") => Membership::Broken,
            () if taken.is_some() => Membership::Taken(taken.unwrap_or_default()),
            () if states.len() >= ports && all("ACTIVE") => Membership::Complete,
            () => Membership::Pending,
        };
        Ok(())
    }

    /// Returns true if the machine has a member in a pool of a load balancer.
    pub(super) async fn is_member(
        &self,
        balancer: &str,
        object: &OpenStackMachine,
    ) -> Result<bool, ReconcileError> {
        for pool in self.cloud.pools(balancer).await? {
            let members = match self.cloud.members(&pool.id).await {
                // It was deleted between the two reads.
                Err(error) if error.is_not_found() => continue,
                result => result?,
            };
            if members.iter().any(|member| names::is_member_of(member, object)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns true if a port has no sign of an owner. A port with the user's description cannot carry ours,
/// until it is tagged. Journal, name and network identify it, if it is unused and has no tags.
pub(super) fn is_unclaimed(port: &Port) -> bool {
    let tagged = port.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX));
    !tagged && port.tags.is_empty() && port.device_id.is_empty()
}

/// Returns true if the journal on an object is this one.
pub(super) fn is_written(object: &OpenStackMachine, journal: &Journal) -> bool {
    object
        .annotations()
        .get(JOURNAL_ANNOTATION)
        .map_or_else(|| journal.entries().is_empty(), |text| *text == journal.text())
}
