//! Random histories of a control plane: Machines come, boot or do not, die, recover, are deleted by people, and the spec
//! changes. The decisions are those of the controller; the test models Machines and etcd, and checks each decision by that
//! model alone.
//!
//! Etcd never loses its quorum by a decision, no two Machines are disrupted at the same time, and when the disturbances
//! end, all Machines are up to date, healthy, and as many as desired. A failure prints its seed and the history.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, MachineAddress, Time, set_condition};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::cause::Cause;
use super::config::Start;
use super::decide::{self, Step};
use super::etcd_projection::Member;
use super::hook::Departure;
use super::inspection::{Inspection, Workload};
use super::observe::Observed;
use super::remediation_record::{FOR, IN_PROGRESS};
use super::replica::examples::{going, replica, set};
use super::replica::{HOOK, NODE_LABELS, Replica};
use super::workload_settings::{Change, Settings};
use crate::pre_terminate;

/// Number of histories.
const HISTORIES: u64 = 3000;

/// Rounds with disturbances. In each, something happens and the controller makes a pass.
const DISTURBED: usize = 60;

/// Rounds after them, by which everything must be well. A Machine takes about six.
const QUIET: usize = 400;

/// At most one history of this number needs a person. 77 of the 3000 do.
const SELDOM: u64 = 35;

/// Random numbers that a seed determines.
struct Random(u64);

impl Random {
    fn next(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next(100) < percent
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next(u64::try_from(length.max(1)).unwrap())).unwrap()
    }
}

/// State of a server on its way to a member of etcd with a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Boots,
    /// The server never joins.
    Fails,
    Learner,
    Voter,
}

/// State of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    Drains,
    Drained,
    /// The hook is gone.
    Free,
}

#[derive(Debug, Clone)]
struct Server {
    name: String,
    number: i64,
    created: i64,
    settings: u32,
    stage: Stage,
    alive: bool,
    /// The health check found it unhealthy.
    sick: bool,
    going: Option<Going>,
    record: Option<String>,
}

impl Server {
    fn works(&self) -> bool {
        self.alive && self.stage == Stage::Voter
    }
}

/// Member of etcd. It outlives its server if nothing removes it.
#[derive(Debug, Clone)]
struct EtcdMember {
    id: u64,
    name: String,
    number: i64,
    votes: bool,
    alive: bool,
}

struct Model {
    random: Random,
    servers: Vec<Server>,
    etcd: Vec<EtcdMember>,
    control_plane: KubeadmControlPlane,
    replicas: usize,
    surge: usize,
    settings: u32,
    /// Settings in the workload cluster.
    prepared: u32,
    clock: i64,
    count: i64,
    quiet: bool,
    history: Vec<String>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.version = "v1.33.0".to_owned();
        let mut model = Self {
            random: Random(seed),
            servers: Vec::new(),
            etcd: Vec::new(),
            control_plane,
            replicas: 3,
            surge: 1,
            settings: 0,
            prepared: 0,
            clock: 1_000_000,
            count: 0,
            quiet: false,
            history: Vec::new(),
        };
        model.replicas = [1, 3, 5][model.random.index(3)];
        model
    }

    fn note(&mut self, text: String) {
        self.history.push(text);
    }

    fn is_initialized(&self) -> bool {
        !self.etcd.is_empty()
    }

    /// Voters, and those of them that run, without one of them.
    fn votes_without(&self, id: Option<u64>) -> (usize, usize) {
        let voters = self.etcd.iter().filter(|it| it.votes && Some(it.id) != id);
        let alive = voters.clone().filter(|it| it.alive).count();
        (voters.count(), alive)
    }

    fn has_quorum_without(&self, id: Option<u64>) -> bool {
        let (voters, alive) = self.votes_without(id);
        alive > voters / 2
    }

    fn member_id(&self, name: &str) -> Option<u64> {
        self.etcd.iter().find(|it| it.name == name).map(|it| it.id)
    }

    // ---- what happens around the controller

    fn happen(&mut self) {
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
        if (votes && alive.saturating_sub(1) <= voters / 2) || !self.random.chance(30) {
            return;
        }
        self.servers[index].going = Some(Going::Free);
        self.note(format!("a person removes the hook of {name}"));
    }

    /// Lets a person repair all Machines. Some histories need it: a Machine that goes waits for good while etcd needs its
    /// member, or while a learner is dead, because a second Machine must not go at the same time.
    fn repair(&mut self) {
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

    // ---- what the controller sees

    fn observed(&self) -> Observed {
        let mut observed = Observed {
            replicas: self.servers.iter().map(|it| self.replica(it)).collect(),
            now: Timestamp::from_second(self.clock).unwrap(),
            ..Observed::default()
        };
        observed.replicas.sort_by_key(|it| (it.created(), it.name()));
        let cluster = json!({"metadata": {"name": "blue"}, "spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}}});
        observed.cluster = serde_json::from_value(cluster).unwrap();
        observed.certificates.examined = true;
        let template = json!({"apiVersion": "g/v1", "kind": "KTemplate", "metadata": {"name": "t"}});
        observed.template = Some(serde_json::from_value(template).unwrap());
        let is_outdated = observed.replicas.iter().any(Replica::is_outdated);
        observed.workload = self.workload();
        if is_outdated && matches!(observed.workload, Workload::Reached(_)) {
            let differs = self.prepared != self.settings;
            let changes = differs.then(|| Change::Record(self.settings.to_string(), None));
            observed.settings = Settings::Read(changes.into_iter().collect());
        }
        observed
    }

    fn workload(&self) -> Workload {
        if !self.is_initialized() {
            return Workload::NotInitialized { message: String::new(), failed: false };
        }
        if !self.has_quorum_without(None) {
            let message = "no quorum".to_owned();
            return Workload::Unreachable { message, is_over: true, reason: "ConnectionDown" };
        }
        let member = |it: &EtcdMember| Member {
            id: it.id,
            // A learner has no name until it has started.
            name: if it.votes || it.alive { it.name.clone() } else { String::new() },
            is_learner: !it.votes,
            has_alarm: false,
            peer_urls: vec![format!("https://10.0.0.{}:2380", it.number)],
        };
        let members = Ok(self.etcd.iter().map(member).collect());
        Workload::Reached(Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members })
    }

    fn replica(&self, server: &Server) -> Replica {
        let mut replica = replica(&server.name, server.created);
        let annotations = replica.machine.annotations_mut();
        if server.going != Some(Going::Free) {
            annotations.insert(HOOK.to_owned(), String::new());
        }
        annotations.extend(server.record.clone().map(|text| (FOR.to_owned(), text)));
        let status = replica.machine.status.get_or_insert_default();
        let address = MachineAddress {
            address: format!("10.0.0.{}", server.number),
            ..serde_json::from_value(json!({"type": "InternalIP", "address": ""})).unwrap()
        };
        status.addresses = Some(vec![address]);
        let has_node = matches!(server.stage, Stage::Learner | Stage::Voter);
        if has_node {
            status.node_ref = Some(apiserver_types::NodeReference { name: server.name.clone() });
        }
        self.set_conditions(&mut replica, server, has_node);
        if server.settings != self.settings {
            replica.causes = vec![Cause::Config];
        }
        if server.going.is_none() { replica } else { going(replica) }
    }

    fn set_conditions(&self, replica: &mut Replica, server: &Server, has_node: bool) {
        use ConditionStatus::{False, True, Unknown};
        for kind in Replica::components(true).chain([NODE_LABELS]).filter(|_| has_node) {
            let status = match (server.going, server.alive, server.stage) {
                (Some(_), ..) => False,
                (None, false, _) => Unknown,
                (None, true, Stage::Learner) if kind == "EtcdMemberHealthy" => False,
                (None, true, _) => True,
            };
            set(replica, kind, status);
        }
        if server.sick {
            set(replica, "HealthCheckSucceeded", False);
            set(replica, "OwnerRemediated", False);
        }
        if matches!(server.going, Some(Going::Drained)) {
            let deleting = Condition::new("Deleting", True, pre_terminate::REASON, "", Time::default());
            let status = replica.machine.status.get_or_insert_default();
            set_condition(status.conditions.get_or_insert_default(), deleting);
        }
    }

    // ---- what the controller does

    fn pass(&mut self) {
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
        if !matches!(step, Step::Nothing | Step::Block(_) | Step::Depart(Departure::Wait(_))) {
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
                assert!(others.count() + 1 >= self.replicas, "too few Machines");
                keeps(self.member_id(name));
            }
            Step::Remediate(record) => {
                calm();
                let server = self.servers.iter().find(|it| it.name == record.machine).unwrap();
                assert!(server.sick, "it is not unhealthy");
                joined(&record.machine);
                keeps(self.member_id(&record.machine));
            }
            Step::Depart(Departure::Leave { machine, member }) => {
                let server = self.servers.iter().find(|it| it.name == *machine).unwrap();
                assert_eq!(server.going, Some(Going::Drained), "it is not drained");
                keeps(self.member_id(member));
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
            Step::Depart(Departure::Release(machine)) => self.unhook(&machine),
            Step::Depart(Departure::Leave { machine, member }) => {
                self.etcd.retain(|it| it.name != member);
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

    /// Returns what is not as it should be.
    fn unfinished(&self) -> Option<String> {
        let ours = |it: &Server| it.works() && !it.sick && it.going.is_none() && it.settings == self.settings;
        let members: Vec<&str> = self.etcd.iter().map(|it| it.name.as_str()).collect();
        let all_are_members = self.servers.iter().all(|it| members.contains(&it.name.as_str()));
        let is_noted = self.control_plane.annotations().contains_key(IN_PROGRESS);
        let is_well = self.servers.len() == self.replicas
            && self.servers.iter().all(ours)
            && all_are_members
            && members.len() == self.servers.len()
            && !is_noted;
        (!is_well).then(|| format!("{:#?}\n{:#?}\nrecord: {is_noted}", self.servers, self.etcd))
    }
}

/// Returns the number of events, and whether a person had to repair Machines.
fn live(seed: u64) -> (usize, bool) {
    let mut model = Model::new(seed);
    for _ in 0..DISTURBED {
        model.happen();
        step(&mut model, seed);
    }
    model.quiet = true;
    for round in 0..QUIET {
        if round == QUIET / 2 {
            model.repair();
        }
        model.happen();
        step(&mut model, seed);
        if model.unfinished().is_none() {
            return (model.history.len(), round >= QUIET / 2);
        }
    }
    let history = model.history.join("\n");
    panic!("seed {seed} is not over:\n{history}\n{}", model.unfinished().unwrap_or_default());
}

fn step(model: &mut Model, seed: u64) {
    let before = model.history.len();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.pass()));
    if let Err(cause) = outcome {
        eprintln!("seed {seed}, {before} entries:\n{}", model.history.join("\n"));
        eprintln!("{:#?}\n{:#?}", model.servers, model.etcd);
        std::panic::resume_unwind(cause);
    }
}

#[test]
fn e2_random_histories_keep_the_quorum_disrupt_one_machine_at_a_time_and_end_well() {
    let first = std::env::var("CAPSTAN_SEED").ok().map(|text| text.parse().unwrap());
    if let Some(seed) = first {
        live(seed);
        return;
    }
    let (mut events, mut repaired) = (0, 0);
    for seed in 0..HISTORIES {
        let (count, needs_repair) = live(seed);
        events += count;
        repaired += u64::from(needs_repair);
    }
    assert!(events > 20 * 3000, "the histories are too quiet: {events} events");
    assert!(repaired < HISTORIES / SELDOM, "{repaired} histories need a person");
}

#[test]
fn a_history_depends_on_its_seed_only() {
    assert_eq!(live(7), live(7));
}
