//! State of the cloud: one value, saved and loaded as a whole.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cinder::{Message, Snapshot, Volume};
use crate::keystone::{ApplicationCredential, Project, Token, Trust, User};
use crate::manila::Share;
use crate::neutron::{NetworkTables, ResourceKind};
use crate::nova::ServerTable;
use crate::nova::model::{Flavor, KeyPair, ServerGroup};
use crate::object::{Object, Table};
use crate::octavia::{BalancerKind, Transition};

/// State of the cloud.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CloudState {
    pub(crate) projects: Vec<Project>,
    pub(crate) users: Vec<User>,
    pub(crate) application_credentials: Vec<ApplicationCredential>,
    #[serde(default)]
    pub(crate) trusts: Vec<Trust>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) network: NetworkTables,
    pub(crate) flavors: Vec<Flavor>,
    pub(crate) servers: ServerTable,
    pub(crate) key_pairs: Vec<KeyPair>,
    pub(crate) server_groups: Vec<ServerGroup>,
    pub(crate) images: Vec<Object>,
    /// Time at which the content of each image is complete.
    #[serde(default)]
    pub(crate) imports: BTreeMap<String, Timestamp>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Messages of Cinder to users.
    #[serde(default)]
    pub(crate) volume_messages: Vec<Message>,
    /// Snapshots of volumes.
    #[serde(default)]
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// Shares of Manila.
    #[serde(default)]
    pub(crate) shares: BTreeMap<String, Share>,
    /// Resources of Octavia.
    #[serde(default)]
    pub(crate) load_balancing: BTreeMap<BalancerKind, Table>,
    /// Changes in progress, by load balancer.
    #[serde(default)]
    pub(crate) balancer_transitions: BTreeMap<String, Transition>,
    /// Deleted servers are kept until they are purged, with their ports and volumes.
    #[serde(default)]
    pub(crate) keeps_deleted_servers: bool,
    /// Octavia refuses load balancers on the ports of users.
    #[serde(default)]
    pub(crate) refuses_vip_ports: bool,
    /// Logins in a row with a wrong password, by user id.
    #[serde(default)]
    pub(crate) failed_logins: BTreeMap<String, u32>,
    /// Limits by project and resource; a resource without an entry is unlimited.
    pub(crate) quotas: BTreeMap<String, BTreeMap<String, i64>>,
    /// Ids of the initial resources, which an inventory omits.
    pub(crate) seeds: BTreeSet<String>,
    /// Time of the next transition; before it no state has to be checked.
    pub(crate) next_due: Option<Timestamp>,
    /// Order of resources that were created within one tick of the clock.
    pub(crate) sequence: u64,
}

impl CloudState {
    /// Returns the resources of one kind.
    pub(crate) fn table(&self, kind: ResourceKind) -> impl Iterator<Item = &Object> {
        self.network.of_kind(kind)
    }

    /// Returns the resources of one kind whose attribute has this text, in the order of their ids. Those that calls often
    /// select by are in an index.
    pub(crate) fn with(&self, kind: ResourceKind, attribute: &str, value: &str) -> Vec<&Object> {
        self.network.with(kind, attribute, value)
    }

    /// Returns one network resource.
    pub(crate) fn find(&self, kind: ResourceKind, id: &str) -> Option<&Object> {
        self.network.find(kind, id)
    }

    /// Returns one network resource, to change it.
    pub(crate) fn find_mut(&mut self, kind: ResourceKind, id: &str) -> Option<&mut Object> {
        self.network.find_mut(kind, id)
    }

    /// Inserts a network resource into its table, by its `id`.
    pub(crate) fn insert(&mut self, kind: ResourceKind, object: Object) {
        self.network.insert(kind, object);
    }

    /// Removes a network resource from its table.
    pub(crate) fn remove(&mut self, kind: ResourceKind, id: &str) -> Option<Object> {
        self.network.remove(kind, id)
    }

    /// Removes the network resources of one kind whose attribute has this text.
    pub(crate) fn remove_with(&mut self, kind: ResourceKind, attribute: &str, value: &str) {
        let found = self.with(kind, attribute, value).into_iter();
        let ids: Vec<String> = found.map(|object| crate::object::text(object, "id").to_owned()).collect();
        for id in ids {
            self.remove(kind, &id);
        }
    }

    /// Returns the limit of a resource; `-1` is unlimited.
    pub(crate) fn quota(&self, project: &str, resource: &str) -> i64 {
        self.quotas.get(project).and_then(|quotas| quotas.get(resource)).copied().unwrap_or(-1)
    }

    /// Schedules the transition at `when`.
    pub(crate) fn expect(&mut self, when: Timestamp) {
        self.next_due = Some(self.next_due.map_or(when, |due| due.min(when)));
    }

    /// Returns the project with this name or id.
    pub(crate) fn project(&self, name: &str) -> Option<&Project> {
        self.projects.iter().find(|project| project.id == name || project.name == name)
    }

    /// Brings the indices up to date with the changes so far.
    pub(crate) fn settle(&mut self) {
        self.network.settle();
        self.servers.settle();
    }

    /// Completes all transitions due by `now`. Returns true if the state changed.
    ///
    /// There is no clock of its own: every call advances the state first, so that a state loaded from a file
    /// is as far on as if the process had never stopped.
    pub(crate) fn advance(&mut self, now: Timestamp) -> bool {
        self.settle();
        if self.next_due.is_none_or(|due| due > now) {
            return false;
        }
        let servers = crate::nova::transitions::advance(self, now);
        let volumes = crate::cinder::advance(self, now);
        let balancers = crate::octavia::advance(self, now);
        self.tokens.retain(|_, token| token.expires_at > now);
        self.next_due = [servers, volumes, balancers].into_iter().flatten().min();
        true
    }
}
