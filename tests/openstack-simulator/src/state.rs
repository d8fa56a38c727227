//! Everything the cloud knows: one value, saved and loaded as a whole.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cinder::Volume;
use crate::keystone::{ApplicationCredential, Project, Token, User};
use crate::neutron::Kind;
use crate::nova::model::{Flavor, KeyPair, Server, ServerGroup};
use crate::object::{Object, Table};

/// The state of the cloud.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) projects: Vec<Project>,
    pub(crate) users: Vec<User>,
    pub(crate) application_credentials: Vec<ApplicationCredential>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) network: BTreeMap<Kind, Table>,
    pub(crate) flavors: Vec<Flavor>,
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) key_pairs: Vec<KeyPair>,
    pub(crate) server_groups: Vec<ServerGroup>,
    pub(crate) images: Vec<Object>,
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Limits by project and resource; what is not here is unlimited.
    pub(crate) quotas: BTreeMap<String, BTreeMap<String, i64>>,
    /// What was there at the start, so that an inventory can leave it out.
    pub(crate) seeds: BTreeSet<String>,
    /// When the next transition is due; nothing needs looking at before.
    pub(crate) next_due: Option<Timestamp>,
    /// Orders what was created within one tick of the clock.
    pub(crate) sequence: u64,
}

impl State {
    /// Resources of one kind of network object.
    pub(crate) fn table(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.network.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// One network object.
    pub(crate) fn find(&self, kind: Kind, id: &str) -> Option<&Object> {
        self.network.get(&kind)?.get(id)
    }

    /// One network object, to change.
    pub(crate) fn find_mut(&mut self, kind: Kind, id: &str) -> Option<&mut Object> {
        self.network.get_mut(&kind)?.get_mut(id)
    }

    /// Puts a network object in its table, by its `id`.
    pub(crate) fn insert(&mut self, kind: Kind, object: Object) {
        let id = crate::object::text(&object, "id").to_owned();
        self.network.entry(kind).or_default().insert(id, object);
    }

    /// Takes a network object out of its table.
    pub(crate) fn remove(&mut self, kind: Kind, id: &str) -> Option<Object> {
        self.network.get_mut(&kind)?.remove(id)
    }

    /// The limit of a resource; `-1` is none.
    pub(crate) fn quota(&self, project: &str, resource: &str) -> i64 {
        self.quotas.get(project).and_then(|quotas| quotas.get(resource)).copied().unwrap_or(-1)
    }

    /// Makes sure that the transition at `when` is not slept through.
    pub(crate) fn expect(&mut self, when: Timestamp) {
        self.next_due = Some(self.next_due.map_or(when, |due| due.min(when)));
    }

    /// The project called `name`, or with that id.
    pub(crate) fn project(&self, name: &str) -> Option<&Project> {
        self.projects.iter().find(|project| project.id == name || project.name == name)
    }

    /// Does all that was due by `now`. True if anything changed.
    ///
    /// There is no clock of its own: every call settles the state first, so that a state loaded
    /// from a file is as far on as if the process had never stopped.
    pub(crate) fn settle(&mut self, now: Timestamp) -> bool {
        if self.next_due.is_none_or(|due| due > now) {
            return false;
        }
        let servers = crate::nova::transitions::settle(self, now);
        let volumes = crate::cinder::settle(self, now);
        self.tokens.retain(|_, token| token.expires_at > now);
        self.next_due = [servers, volumes].into_iter().flatten().min();
        true
    }
}
