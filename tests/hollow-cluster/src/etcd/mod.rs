//! etcd of a cluster: its members as records.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) mod grpc;
mod messages;

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdMember {
    /// Id of the member.
    pub id: u64,
    /// Name of the member, which is that of its node. Empty until the member has started.
    pub name: String,
    /// URL for other members.
    pub peer_url: String,
    /// URL for clients.
    pub client_url: String,
    /// True until the member may vote.
    pub learner: bool,
    /// True while the member runs.
    pub alive: bool,
    /// Alarms that the member has raised, e.g. `NOSPACE` or `CORRUPT`.
    pub alarms: Vec<String>,
}

/// All members, and their leader.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EtcdCluster {
    pub(crate) id: u64,
    pub(crate) members: Vec<EtcdMember>,
    pub(crate) leader: u64,
    pub(crate) term: u64,
    /// Number of times at which the members that run became too few for a quorum.
    #[serde(default)]
    pub(crate) quorum_losses: u64,
    /// Names of members that never run again.
    lost: BTreeSet<String>,
}

/// Refusal of a member at the URL of another one.
const URL_EXISTS: &str = "etcdserver: Peer URLs already exists";

/// Refusal of a learner beside another one.
const TOO_MANY_LEARNERS: &str = "etcdserver: too many learner members in cluster";

/// Returns a random id.
fn random_id() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

impl EtcdCluster {
    fn voters(&self) -> impl Iterator<Item = &EtcdMember> {
        self.members.iter().filter(|member| !member.learner)
    }

    /// Returns true if more than half of the voters run.
    pub(crate) fn has_quorum(&self) -> bool {
        let total = self.voters().count();
        self.voters().filter(|member| member.alive).count() > total / 2
    }

    /// Adds a member. The first one votes at once.
    pub(crate) fn add(&mut self, name: &str, address: &str) -> Result<u64, String> {
        let first = self.members.is_empty();
        if !first && !self.has_quorum() {
            return Err("etcdserver: unhealthy cluster".to_owned());
        }
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let peer_url = format!("https://{host}:2380");
        if self.members.iter().any(|member| member.peer_url == peer_url) {
            return Err(URL_EXISTS.to_owned());
        }
        // Members of nodes get their vote soon, and a real kubeadm waits for that.
        if self.members.iter().any(|member| member.learner && member.name.is_empty()) {
            return Err(TOO_MANY_LEARNERS.to_owned());
        }
        if first {
            self.id = random_id();
        }
        let id = random_id();
        self.members.push(EtcdMember {
            id,
            name: name.to_owned(),
            peer_url,
            client_url: format!("https://{host}:2379"),
            learner: !first,
            alive: true,
            alarms: Vec::new(),
        });
        self.elect();
        Ok(id)
    }

    /// Adds a learner at a URL, which does not start.
    pub(crate) fn add_learner(&mut self, peer_url: &str) -> Result<u64, &'static str> {
        if !self.has_quorum() {
            return Err("etcdserver: unhealthy cluster");
        }
        if self.members.iter().any(|member| member.peer_url == peer_url) {
            return Err(URL_EXISTS);
        }
        if self.members.iter().any(|member| member.learner) {
            return Err(TOO_MANY_LEARNERS);
        }
        let id = random_id();
        self.members.push(EtcdMember {
            id,
            name: String::new(),
            peer_url: peer_url.to_owned(),
            client_url: String::new(),
            learner: true,
            alive: false,
            alarms: Vec::new(),
        });
        Ok(id)
    }

    /// Lets a learner vote.
    pub(crate) fn promote(&mut self, id: u64) {
        if let Some(member) = self.find_mut(id) {
            member.learner = false;
        }
    }

    /// Lets the members of a node vote, whose promotion a stop of the process has interrupted.
    pub(crate) fn finish_join(&mut self, name: &str) {
        for member in self.members.iter_mut().filter(|member| member.name == name) {
            member.learner = false;
        }
    }

    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut EtcdMember> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&EtcdMember> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Starts or stops a member.
    pub(crate) fn set_alive(&mut self, name: &str, alive: bool) {
        let lost = self.lost.contains(name);
        for member in self.members.iter_mut().filter(|member| member.name == name) {
            member.alive = alive && !lost;
        }
        self.elect();
    }

    /// Kills a member for ever. Returns false if there is none.
    pub(crate) fn lose(&mut self, name: &str) -> bool {
        if self.named(name).is_none() {
            return false;
        }
        self.lost.insert(name.to_owned());
        self.set_alive(name, false);
        true
    }

    /// Raises an alarm of a member. Returns false if there is none.
    pub(crate) fn raise(&mut self, name: &str, alarm: &str) -> bool {
        let Some(member) = self.members.iter_mut().find(|member| member.name == name) else { return false };
        member.alarms.push(alarm.to_owned());
        true
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, id: u64) -> Result<(), &'static str> {
        if !self.has_quorum() {
            return Err("etcdserver: request timed out");
        }
        let member =
            self.members.iter().find(|member| member.id == id).ok_or("etcdserver: member not found")?;
        if !member.learner && self.voters().count() == 1 {
            return Err("etcdserver: re-configuration failed due to not enough started members");
        }
        let remaining_total = self.voters().filter(|member| member.id != id).count();
        let remaining_alive = self.voters().filter(|member| member.id != id && member.alive).count();
        if !member.learner && remaining_alive <= remaining_total / 2 {
            return Err("etcdserver: re-configuration failed due to not enough started members");
        }
        let name = member.name.clone();
        self.members.retain(|member| member.id != id);
        self.lost.remove(&name);
        self.elect();
        Ok(())
    }

    /// Makes another member the leader.
    pub(crate) fn move_leader(&mut self, target: u64) -> Result<(), &'static str> {
        let known = self.voters().any(|member| member.id == target && member.alive);
        if !known {
            return Err("etcdserver: bad leader transferee");
        }
        if self.leader != target {
            self.leader = target;
            self.term += 1;
        }
        Ok(())
    }

    /// Elects a leader if the present one is gone. Without a quorum there is none.
    fn elect(&mut self) {
        let leads = |member: &EtcdMember| member.alive && !member.learner;
        let present = self.members.iter().any(|member| member.id == self.leader && leads(member));
        if !self.has_quorum() {
            self.quorum_losses += u64::from(self.leader != 0);
            self.leader = 0;
        } else if !present {
            self.leader = self.members.iter().find(|member| leads(member)).map_or(0, |member| member.id);
            self.term += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> EtcdCluster {
        let mut cluster = EtcdCluster::default();
        for name in ["a", "b", "c"] {
            let id = cluster.add(name, &format!("10.0.0.{}", name.len() + cluster.members.len())).unwrap();
            cluster.promote(id);
        }
        cluster
    }

    #[test]
    fn a_lost_leader_is_replaced_while_a_quorum_lives() {
        let mut cluster = three();
        let leader = cluster.leader;
        assert_eq!(leader, cluster.named("a").unwrap().id);
        cluster.set_alive("a", false);
        assert!(cluster.has_quorum() && cluster.leader != leader && cluster.leader != 0);
        cluster.set_alive("b", false);
        assert!(!cluster.has_quorum() && cluster.leader == 0);
        assert_eq!(cluster.quorum_losses, 1);
        assert!(cluster.add("d", "10.0.0.9").is_err());
    }

    #[test]
    fn a_learner_that_does_not_start_keeps_nodes_from_joining_and_costs_no_quorum() {
        let mut cluster = EtcdCluster::default();
        cluster.add("a", "10.0.0.1").unwrap();
        let id = cluster.add_learner("https://x.invalid:2380").unwrap();
        assert!(cluster.has_quorum() && cluster.quorum_losses == 0);
        assert_eq!(cluster.add("b", "10.0.0.2"), Err(TOO_MANY_LEARNERS.to_owned()));
        assert_eq!(cluster.add_learner("https://y.invalid:2380"), Err(TOO_MANY_LEARNERS));
        assert_eq!(cluster.remove(id), Ok(()));
        assert!(cluster.add("b", "10.0.0.2").is_ok());
    }

    #[test]
    fn urls_have_addresses_of_ipv6_in_brackets() {
        let mut cluster = EtcdCluster::default();
        cluster.add("a", "fd00:20::5").unwrap();
        let member = cluster.named("a").unwrap();
        assert_eq!(member.peer_url, "https://[fd00:20::5]:2380");
        assert_eq!(member.client_url, "https://[fd00:20::5]:2379");
    }

    #[test]
    fn a_removal_that_would_end_the_quorum_is_refused() {
        let mut cluster = three();
        cluster.set_alive("c", false);
        let (a, c) = (cluster.named("a").unwrap().id, cluster.named("c").unwrap().id);
        assert!(cluster.remove(a).is_err());
        assert_eq!(cluster.remove(c), Ok(()));
        assert_eq!(cluster.remove(a), Ok(()));
        assert_eq!(cluster.remove(c), Err("etcdserver: member not found"));
        let last = cluster.members[0].id;
        assert!(cluster.remove(last).is_err());
    }
}
