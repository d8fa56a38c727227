//! Passes of the controller over the model. Each step is judged, and then applied.

use kube::ResourceExt;
use serde_json::json;

use super::super::config::Start;
use super::super::decide::{self, Step};
use super::super::hook::Departure;
use super::super::remediation_record::IN_PROGRESS;
use super::{Going, Model, Server, Stage};

impl Model {
    pub(super) fn pass(&mut self) {
        self.control_plane.spec.replicas = Some(i32::try_from(self.replicas).unwrap());
        let strategy =
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": self.surge}}});
        self.control_plane.spec.rollout = serde_json::from_value(strategy).unwrap();
        let mut observed = self.observed();
        observed.remediation = decide::remediation(&self.control_plane, &observed);
        if observed.remediation.is_over {
            self.control_plane.annotations_mut().remove(IN_PROGRESS);
        }
        let step = decide::next_step(&self.control_plane, &observed);
        let waits = matches!(step, Step::Depart(Departure::Wait(_) | Departure::WaitForQuorum(_)));
        if !waits && !matches!(step, Step::Nothing | Step::Block(_)) {
            self.note(format!("pass: {step:?}"));
        }
        self.judge(&step);
        self.apply(step);
    }

    /// Judges a step by the model alone.
    fn judge(&self, step: &Step) {
        let had_quorum = self.has_quorum_without(None);
        let calm = || {
            assert!(self.servers.iter().all(|it| it.going.is_none()), "a Machine goes already");
        };
        let joined = |except: &str| {
            let mut others = self.servers.iter().filter(|it| it.name != except && !it.sick && it.alive);
            assert!(others.all(|it| it.stage == Stage::Voter), "another Machine joins");
        };
        let keeps = |id: Option<u64>| {
            assert!(!had_quorum || id.is_none() || self.has_quorum_without(id), "etcd loses its quorum");
        };
        let leaves = |name: &str| {
            let is_free = |it: &Server| it.going == Some(Going::Free);
            assert!(!self.servers.iter().any(is_free), "another Machine leaves");
            let server = self.servers.iter().find(|it| it.name == name).unwrap();
            assert_eq!(server.going, Some(Going::Drained), "it is not drained");
        };
        match step {
            Step::Create(start, _) => {
                calm();
                joined("");
                let limit =
                    self.replicas + usize::from(self.servers.iter().any(|it| it.settings != self.settings));
                assert!(self.servers.len() < limit, "too many Machines");
                assert_eq!(*start == Start::Init, self.servers.is_empty(), "two clusters");
                let rolls = self.servers.iter().any(|it| it.settings != self.settings);
                assert!(!rolls || self.prepared == self.settings, "the workload cluster is not prepared");
            }
            Step::Delete(name) => {
                calm();
                joined(name);
                let others = self.servers.iter().filter(|it| it.name != *name);
                assert!(others.clone().all(Server::works), "another Machine does not work");
                let carries = |it: &Server| matches!(it.stage, Stage::Learner | Stage::Voter);
                let disrupts = self.servers.iter().any(|it| it.name == *name && carries(it));
                assert!(!disrupts || others.count() + 1 >= self.replicas, "too few Machines");
                keeps(self.member_id(name));
            }
            Step::Remediate(record) => {
                calm();
                let server = self.servers.iter().find(|it| it.name == record.machine).unwrap();
                assert!(server.sick, "it is not unhealthy");
                joined(&record.machine);
                keeps(self.member_id(&record.machine));
            }
            Step::Depart(Departure::Leave { machine, id, .. }) => {
                leaves(machine);
                assert_eq!(self.member_id(machine), Some(*id), "it is the member of another Machine");
                keeps(Some(*id));
            }
            Step::Depart(Departure::Release(machine)) => {
                leaves(machine);
                let is_only = self.servers.len() == 1;
                assert!(is_only || self.member_id(machine).is_none(), "its member stays behind");
                let server = self.servers.iter().find(|it| it.name == *machine).unwrap();
                let is_safe = is_only || !self.may_take_the_quorum(server);
                assert!(is_safe, "it may join, and take the quorum along");
            }
            Step::Depart(Departure::TakeSlot(machine)) => {
                leaves(machine);
                assert!(self.member_id(machine).is_none() && !self.slot, "the slot makes no difference");
            }
            Step::FreeSlot(_) => {
                let is_free = |it: &Server| it.going == Some(Going::Free);
                assert!(!self.servers.iter().any(is_free), "a Machine that leaves could join");
            }
            Step::RemoveMember(surplus) => {
                let member = self.etcd.iter().find(|it| it.id == surplus.id).unwrap();
                let owner = self.servers.iter().find(|it| it.number == member.number);
                assert!(owner.is_none(), "the member has a Machine");
                keeps(Some(surplus.id));
            }
            _ => {}
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Create(..) => self.create(),
            Step::Delete(name) => self.delete(&name),
            Step::Remediate(record) => {
                self.control_plane.annotations_mut().insert(IN_PROGRESS.to_owned(), record.text());
                // A process may end between the record and the deletion.
                if self.quiet || self.random.chance(80) {
                    self.delete(&record.machine);
                }
            }
            Step::Prepare(_) => self.prepared = self.settings,
            Step::RemoveMember(surplus) => self.etcd.retain(|it| it.id != surplus.id),
            Step::FreeSlot(_) => self.slot = false,
            Step::Depart(Departure::TakeSlot(_)) => self.slot = true,
            Step::Depart(Departure::Release(machine)) => self.unhook(&machine),
            Step::Depart(Departure::Leave { machine, id, .. }) => {
                self.etcd.retain(|it| it.id != id);
                if self.quiet || self.random.chance(80) {
                    self.unhook(&machine);
                }
            }
            _ => {}
        }
    }

    fn create(&mut self) {
        self.count += 1;
        let fails = !self.quiet && self.random.chance(15);
        let record = self.control_plane.annotations().get(IN_PROGRESS).cloned();
        self.servers.push(Server {
            name: format!("m{:03}", self.count),
            number: self.count,
            created: self.clock,
            settings: self.settings,
            stage: if fails { Stage::Fails } else { Stage::Boots },
            alive: true,
            sick: false,
            going: None,
            record,
        });
        // A process may end between the creation and the removal of the record.
        if self.quiet || self.random.chance(80) {
            self.control_plane.annotations_mut().remove(IN_PROGRESS);
        }
    }

    fn delete(&mut self, name: &str) {
        for server in self.servers.iter_mut().filter(|it| it.name == name) {
            server.going = Some(Going::Drains);
        }
    }

    fn unhook(&mut self, name: &str) {
        for server in self.servers.iter_mut().filter(|it| it.name == name) {
            server.going = Some(Going::Free);
        }
    }
}
