//! Events around the controller: Machines join, die and recover, people change the spec and delete Machines.

use serde_json::json;

use super::{EtcdMember, Going, Model, Server, Stage};

impl Model {
    pub(super) fn happen(&mut self) {
        self.clock += 1 + i64::try_from(self.random.next(60)).unwrap();
        self.progress();
        self.check_health();
        if self.quiet {
            return;
        }
        match self.random.next(12) {
            0 => self.die(),
            1 => self.recover(),
            2 => {
                self.replicas = [1, 3, 5][self.random.index(3)];
                self.surge = if self.replicas >= 3 { self.random.index(2) } else { 1 };
                self.note(format!("replicas {}, surge {}", self.replicas, self.surge));
            }
            3 => {
                self.settings += 1;
                self.note(format!("settings {}", self.settings));
            }
            4 if self.late && self.random.chance(50) => self.delete_one_that_boots(),
            4 => self.delete_by_hand(),
            5 => self.unhook_by_hand(),
            _ => {}
        }
    }

    /// Lets some servers take their next step.
    fn progress(&mut self) {
        for index in 0..self.servers.len() {
            if !self.random.chance(if self.quiet { 80 } else { 50 }) {
                continue;
            }
            let (going, stage, alive) = {
                let server = &self.servers[index];
                (server.going, server.stage, server.alive)
            };
            if going == Some(Going::Drains) {
                self.servers[index].going = Some(Going::Drained);
            } else if alive && going.is_none() {
                self.join(index, stage);
            } else if self.late && alive && stage == Stage::Boots {
                self.join_late(index);
            }
        }
        let free: Vec<String> = self
            .servers
            .iter()
            .filter(|it| it.going == Some(Going::Free))
            .map(|it| it.name.clone())
            .collect();
        for name in free {
            self.servers.retain(|it| it.name != name);
            for member in self.etcd.iter_mut().filter(|it| it.name == name) {
                member.alive = false;
            }
            self.note(format!("{name} is gone"));
        }
    }

    fn join(&mut self, index: usize, stage: Stage) {
        let server = self.servers[index].clone();
        match stage {
            Stage::Boots if self.is_initialized() && self.slot => {}
            Stage::Boots if self.is_initialized() && self.has_quorum_without(None) => {
                let id = u64::try_from(server.number).unwrap();
                let (name, number) = (server.name.clone(), server.number);
                self.etcd.push(EtcdMember { id, name, number, votes: false, alive: true });
                self.servers[index].stage = Stage::Learner;
                self.note(format!("{} joins", server.name));
            }
            Stage::Boots if !self.is_initialized() => {
                let id = u64::try_from(server.number).unwrap();
                let (name, number) = (server.name.clone(), server.number);
                self.etcd.push(EtcdMember { id, name, number, votes: true, alive: true });
                self.servers[index].stage = Stage::Voter;
                let status = json!({"initialization": {"controlPlaneInitialized": true}});
                self.control_plane.status = serde_json::from_value(status).unwrap();
                self.note(format!("{} begins the cluster", server.name));
            }
            Stage::Learner => {
                for member in self.etcd.iter_mut().filter(|it| it.name == server.name) {
                    member.votes = true;
                }
                self.servers[index].stage = Stage::Voter;
                self.note(format!("{} votes", server.name));
            }
            _ => {}
        }
    }

    /// Lets a Machine that goes join after all. In the worst case, it has a vote before the controller looks again.
    fn join_late(&mut self, index: usize) {
        if !self.has_room() {
            return;
        }
        let Server { name, number, .. } = self.servers[index].clone();
        let id = u64::try_from(number).unwrap();
        self.note(format!("{name} joins late"));
        self.etcd.push(EtcdMember { id, name, number, votes: true, alive: true });
        self.servers[index].stage = Stage::Voter;
    }

    /// Lets a person delete a Machine that boots, beside others that work.
    fn delete_one_that_boots(&mut self) {
        let is_calm = self.servers.iter().all(|it| it.going.is_none());
        let works = self.servers.iter().any(Server::works);
        let boots = self.servers.iter().position(|it| it.alive && it.stage == Stage::Boots);
        if let Some(index) = boots.filter(|_| is_calm && works) {
            self.servers[index].going = Some(Going::Drains);
            let name = self.servers[index].name.clone();
            self.note(format!("a person deletes {name}, which boots"));
        }
    }

    /// Plays the health check: it marks what does not work, after a while, and what works again.
    fn check_health(&mut self) {
        let limit = if self.quiet { 60 } else { 20 };
        for index in 0..self.servers.len() {
            let server = self.servers[index].clone();
            let broken = !server.alive || server.stage == Stage::Fails;
            if broken && !server.sick && self.random.chance(limit) {
                self.servers[index].sick = true;
                self.note(format!("{} is unhealthy", server.name));
            } else if !broken && server.sick {
                self.servers[index].sick = false;
                self.note(format!("{} is healthy again", server.name));
            }
        }
    }

    /// Kills a server, but not the quorum: that would not be the controller's doing.
    fn die(&mut self) {
        let index = self.random.index(self.servers.len());
        let Some(server) = self.servers.get(index).cloned() else { return };
        let is_vital = self.member_id(&server.name).is_some_and(|id| {
            let votes = self.etcd.iter().any(|it| it.id == id && it.votes && it.alive);
            let (voters, alive) = self.votes_without(None);
            votes && alive.saturating_sub(1) <= voters / 2
        });
        if !server.alive || server.stage == Stage::Boots || is_vital {
            return;
        }
        self.servers[index].alive = false;
        for member in self.etcd.iter_mut().filter(|it| it.name == server.name) {
            member.alive = false;
        }
        self.note(format!("{} dies", server.name));
    }

    fn recover(&mut self) {
        let dead: Vec<usize> = (0..self.servers.len()).filter(|index| !self.servers[*index].alive).collect();
        let Some(index) = dead.get(self.random.index(dead.len())).copied() else { return };
        self.servers[index].alive = true;
        let name = self.servers[index].name.clone();
        for member in self.etcd.iter_mut().filter(|it| it.name == name) {
            member.alive = true;
        }
        self.note(format!("{name} runs again"));
    }

    /// Lets a person delete a Machine, but not so many that those which stay are no majority: the members of Machines that
    /// go count as unhealthy, so the first one would wait for good.
    fn delete_by_hand(&mut self) {
        let index = self.random.index(self.servers.len());
        let others = self.servers.iter().filter(|it| it.works() && it.going.is_none()).count();
        let voters_left = self.etcd.iter().filter(|it| it.votes).count().saturating_sub(1);
        let is_minority = others.saturating_sub(1) <= voters_left / 2;
        if others < 3 || is_minority || self.servers[index].going.is_some() || !self.random.chance(30) {
            return;
        }
        self.servers[index].going = Some(Going::Drains);
        let name = self.servers[index].name.clone();
        self.note(format!("a person deletes {name}"));
    }

    /// Lets a person remove the hook of a Machine: its member stays behind.
    fn unhook_by_hand(&mut self) {
        let candidates: Vec<usize> = (0..self.servers.len())
            .filter(|index| matches!(self.servers[*index].going, Some(Going::Drains | Going::Drained)))
            .collect();
        let Some(index) = candidates.get(self.random.index(candidates.len())).copied() else { return };
        let name = self.servers[index].name.clone();
        let id = self.member_id(&name);
        let votes = id.is_some_and(|id| self.etcd.iter().any(|it| it.id == id && it.votes && it.alive));
        let (voters, alive) = self.votes_without(None);
        let joins = self.late && self.may_take_the_quorum(&self.servers[index]);
        if joins || (votes && alive.saturating_sub(1) <= voters / 2) || !self.random.chance(30) {
            return;
        }
        self.servers[index].going = Some(Going::Free);
        self.note(format!("a person removes the hook of {name}"));
    }

    /// Lets a person repair all Machines. Some histories need it: a Machine that goes waits for good while etcd needs its
    /// member, or while a learner is dead, because a second Machine must not go at the same time.
    pub(super) fn repair(&mut self) {
        for server in &mut self.servers {
            server.alive = true;
            if server.stage == Stage::Fails {
                server.stage = Stage::Boots;
            }
        }
        let names: Vec<String> = self.servers.iter().map(|it| it.name.clone()).collect();
        for member in self.etcd.iter_mut().filter(|it| names.contains(&it.name)) {
            member.alive = true;
        }
        self.note("a person repairs all Machines".to_owned());
    }
}
