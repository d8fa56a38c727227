//! Table of the servers, with counts of them and the times of their tasks: with thousands of servers, a call that looked
//! at each of them would take longer than all other work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, Serializer};

use super::model::Server;
use crate::changes::ChangeLog;

/// Time for which a deleted server can still be queried, with `changes-since` or through its actions.
const DELETED_RETENTION: SignedDuration = SignedDuration::from_hours(1);

/// Instances, cores and memory in use.
pub(super) type Usage = [i64; 3];

/// Counts to which a server adds while users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Share {
    project: String,
    usage: Usage,
    host: Option<String>,
    group: Option<String>,
}

/// Entry of one server in the counts and the times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    share: Option<Share>,
    /// Times at which something happens to the server.
    due: BTreeSet<Timestamp>,
}

impl Facts {
    fn of(server: &Server) -> Self {
        let share = server.exists().then(|| Share {
            project: server.project_id.clone(),
            usage: [1, server.flavor.vcpus, server.flavor.ram],
            host: server.host.clone(),
            group: server.group.clone(),
        });
        let task = server.pending.as_ref().map(|task| task.until);
        let detachments = server.attachments.iter().filter_map(|held| Some(held.detachment.as_ref()?.until));
        Self { share, due: detachments.chain(task).chain(forgotten_at(server)).collect() }
    }
}

/// Returns the time at which a deleted server can no longer be queried.
fn forgotten_at(server: &Server) -> Option<Timestamp> {
    Some(server.terminated?.checked_add(DELETED_RETENTION).unwrap_or(Timestamp::MAX))
}

/// Servers of all projects by id. Only the servers are saved.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "BTreeMap<String, Server>")]
pub(crate) struct ServerTable {
    servers: BTreeMap<String, Server>,
    facts: BTreeMap<String, Facts>,
    /// Servers that may have changed since the counts were last brought up to date.
    touched: BTreeSet<String>,
    /// Usage by project.
    usage: BTreeMap<String, Usage>,
    /// Number of servers by host.
    hosts: BTreeMap<String, usize>,
    /// Ids of servers by server group.
    groups: BTreeMap<String, BTreeSet<String>>,
    /// Times at which something happens to a server.
    due: BTreeSet<(Timestamp, String)>,
    /// Servers that have changed.
    pub(crate) changes: ChangeLog,
}

impl From<BTreeMap<String, Server>> for ServerTable {
    fn from(servers: BTreeMap<String, Server>) -> Self {
        let mut read = Self::default();
        for server in servers.into_values() {
            read.insert(server);
        }
        read
    }
}

impl Serialize for ServerTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.servers.serialize(serializer)
    }
}

impl ServerTable {
    /// Returns all servers, in the order of their ids, with those that are deleted and can still be queried.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Server> {
        self.servers.values()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Server> {
        self.servers.get(id)
    }

    /// Returns one server, to change it.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Server> {
        let found = self.servers.get_mut(id)?;
        self.touched.insert(id.to_owned());
        self.changes.mark(id);
        Some(found)
    }

    pub(super) fn insert(&mut self, server: Server) {
        let id = server.id.clone();
        self.changes.mark(&id);
        self.servers.insert(id.clone(), server);
        self.touched.insert(id);
        self.settle();
    }

    /// Removes a deleted server if its time has passed.
    pub(super) fn forget(&mut self, id: &str, now: Timestamp) {
        let is_forgotten = self.get(id).and_then(forgotten_at).is_some_and(|at| at <= now);
        if is_forgotten {
            self.servers.remove(id);
            self.changes.mark(id);
            self.touched.insert(id.to_owned());
            self.settle();
        }
    }

    /// Brings the counts up to date.
    pub(crate) fn settle(&mut self) {
        for id in std::mem::take(&mut self.touched) {
            let new = self.servers.get(&id).map(Facts::of);
            let old = self.facts.remove(&id);
            if old != new {
                if let Some(old) = &old {
                    self.subtract(&id, old);
                }
                if let Some(new) = &new {
                    self.add(&id, new);
                }
            }
            if let Some(new) = new {
                self.facts.insert(id, new);
            }
        }
    }

    fn add(&mut self, id: &str, facts: &Facts) {
        self.due.extend(facts.due.iter().map(|at| (*at, id.to_owned())));
        let Some(share) = &facts.share else { return };
        let used = self.usage.entry(share.project.clone()).or_default();
        used.iter_mut().zip(share.usage).for_each(|(used, more)| *used += more);
        if let Some(host) = &share.host {
            *self.hosts.entry(host.clone()).or_default() += 1;
        }
        if let Some(group) = &share.group {
            self.groups.entry(group.clone()).or_default().insert(id.to_owned());
        }
    }

    fn subtract(&mut self, id: &str, facts: &Facts) {
        for at in &facts.due {
            self.due.remove(&(*at, id.to_owned()));
        }
        let Some(share) = &facts.share else { return };
        if let Some(used) = self.usage.get_mut(&share.project) {
            used.iter_mut().zip(share.usage).for_each(|(used, less)| *used -= less);
        }
        if let Some(servers) = share.host.as_ref().and_then(|host| self.hosts.get_mut(host)) {
            *servers = servers.saturating_sub(1);
        }
        if let Some(members) = share.group.as_ref().and_then(|group| self.groups.get_mut(group)) {
            members.remove(id);
        }
    }

    /// Returns what the servers of a project use.
    pub(super) fn usage(&self, project: &str) -> Usage {
        self.usage.get(project).copied().unwrap_or_default()
    }

    /// Returns the number of servers on a host.
    pub(super) fn on_host(&self, host: &str) -> usize {
        self.hosts.get(host).copied().unwrap_or_default()
    }

    /// Returns the servers of a server group, in the order of their ids.
    pub(super) fn in_group(&self, group: &str) -> impl Iterator<Item = &Server> {
        self.groups.get(group).into_iter().flatten().filter_map(move |id| self.servers.get(id))
    }

    /// Returns the ids of the servers to which something happens until `now`.
    pub(super) fn due(&self, now: Timestamp) -> BTreeSet<String> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone()).collect()
    }

    /// Returns the time at which something happens next.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::model::{Pending, ServerTask, VmState};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn server(id: &str, host: &str) -> Server {
        serde_json::from_value(json!({
            "id": id, "name": id, "hostname": id, "description": null, "project_id": "p", "user_id": "u",
            "image": null, "flavor": {"id": "1", "name": "f", "vcpus": 2, "ram": 512, "disk": 1},
            "key_name": null, "zone": "az1", "host": host, "metadata": {}, "tags": [], "user_data": null,
            "config_drive": false, "security_groups": [], "group": "g", "attachments": [], "own_ports": [],
            "vm_state": "Active", "pending": null, "fault": null, "actions": [], "created": at(0),
            "updated": at(0), "launched": null, "terminated": null, "sequence": 1,
        }))
        .unwrap()
    }

    fn two_servers() -> ServerTable {
        let mut table = ServerTable::default();
        table.insert(server("a", "h1"));
        table.insert(server("b", "h2"));
        table
    }

    fn members(table: &ServerTable) -> Vec<&str> {
        table.in_group("g").map(|server| server.id.as_str()).collect()
    }

    #[test]
    fn a_deleted_server_counts_neither_for_its_project_nor_for_its_host_and_group() {
        let mut table = two_servers();
        assert_eq!((table.usage("p"), table.on_host("h1")), ([2, 4, 1024], 1));
        assert_eq!(members(&table), ["a", "b"]);
        table.get_mut("a").unwrap().vm_state = VmState::Deleted;
        table.settle();
        assert_eq!((table.usage("p"), table.on_host("h1")), ([1, 2, 512], 0));
        assert_eq!(members(&table), ["b"]);
        assert_eq!(table.usage("q"), [0, 0, 0]);
    }

    #[test]
    fn only_servers_with_a_task_that_ends_are_due() {
        let mut table = two_servers();
        let task = ServerTask::Reboot;
        table.get_mut("b").unwrap().pending =
            Some(Pending { task, began: at(1), until: at(9), failure: None });
        table.settle();
        assert_eq!((table.due(at(8)).len(), table.next_due()), (0, Some(at(9))));
        assert_eq!(table.due(at(9)), BTreeSet::from(["b".to_owned()]));
        table.get_mut("b").unwrap().pending = None;
        table.settle();
        assert_eq!((table.due(at(9)).len(), table.next_due()), (0, None));
    }

    #[test]
    fn a_deleted_server_is_forgotten_after_an_hour() {
        let mut table = two_servers();
        table.get_mut("a").unwrap().terminated = Some(at(0));
        table.settle();
        assert_eq!(table.next_due(), Some(at(3600)));
        table.forget("a", at(3599));
        assert!(table.get("a").is_some());
        table.forget("a", at(3600));
        assert!(table.get("a").is_none() && table.next_due().is_none());
    }

    #[test]
    fn servers_that_were_saved_are_counted_again() {
        let saved = serde_json::to_value(two_servers()).unwrap();
        assert_eq!(saved["a"]["host"], "h1", "only the servers are saved");
        let read: ServerTable = serde_json::from_value(saved).unwrap();
        assert_eq!((read.usage("p"), read.on_host("h2")), ([2, 4, 1024], 1));
        assert_eq!(members(&read), ["a", "b"]);
    }
}
