//! Pre-terminate hook: the deletion of a control plane Machine waits until etcd no longer needs it.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_members::{may_be_needed, member_of};
use super::etcd_projection::{self, Change, Member};
use super::learner_slot;
use super::replica::{HOOK, Replica};
use crate::{machine_versions, pre_terminate};

/// Prefix of all hooks before the server of a Machine is deleted.
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// First minor version whose control plane kubelets use the API server of their own Node. Such a kubelet does not see
/// the end of its pods once its API server is gone, so that other hooks come first.
const LOCAL_KUBELET: u64 = 31;

/// Step of the deletion of a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Departure {
    /// Wait, for this reason.
    Wait(String),
    /// Wait some seconds for the load balancer of the API, for this reason.
    WaitForBalancer(String),
    /// Wait until etcd can spare the member of the Machine, for this reason.
    WaitForQuorum(String),
    /// Take the slot for a learner in etcd, so that this Machine, which has no member, does not join any more.
    TakeSlot(String),
    /// Remove the annotation of this Machine: nothing is left to do for etcd.
    Release(String),
    /// Hand over the leadership if this Machine has it, remove its member, then the annotation.
    Leave {
        /// Name of the Machine.
        machine: String,
        /// Name of its member. Empty if the member has never started.
        member: String,
        /// Id of its member.
        id: u64,
    },
}

impl Departure {
    /// Returns the reason for which a Machine waits.
    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Wait(reason) | Self::WaitForBalancer(reason) | Self::WaitForQuorum(reason) => Some(reason),
            Self::TakeSlot(_) | Self::Release(_) | Self::Leave { .. } => None,
        }
    }
}

/// Facts about the workload cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// The Nodes, or the error of their list.
    pub nodes: Result<&'a [Node], &'a str>,
    /// The members of etcd, or the error of their list.
    pub members: Result<&'a [Member], &'a str>,
    /// kubeadm runs etcd on the control plane Machines.
    pub managed_etcd: bool,
    /// Name of the Machine whose floating IP is the endpoint, and that no other Machine has taken over yet.
    pub endpoint_holder: Option<&'a str>,
    /// Reason why the first Machine waits for the load balancer of the API.
    pub balancer: Option<&'a str>,
    /// Our learner takes the slot in etcd.
    pub has_slot: bool,
}

/// Returns the Machine that leaves first: the one that was deleted first, and then the one with the first name.
pub(super) fn first_leaving(replicas: &[Replica]) -> Option<&Replica> {
    let deleted = |it: &Replica| it.machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    replicas.iter().filter(|it| it.is_deleting()).min_by_key(|it| (deleted(it), it.name()))
}

/// Decides on the deletion of Machines, if any is being deleted.
pub(super) fn departure(version: &str, replicas: &[Replica], known: Known<'_>) -> Option<Departure> {
    let first = first_leaving(replicas)?;
    if let Some(other) = replicas.iter().find(|it| it.is_deleting() && !it.has_annotation(HOOK)) {
        return Some(wait(format!("Waiting for Machine {} to be deleted", other.name())));
    }
    let next = |leaving: &Replica| {
        obstacle(version, leaving).map_or_else(|| release(leaving, replicas, known), wait)
    };
    let of_first = next(first);
    if !matches!(of_first, Departure::Wait(_) | Departure::WaitForQuorum(_)) {
        return Some(of_first);
    }
    // A learner forbids that any other member leaves, and it has no vote: it need not wait for its turn.
    let learners = replicas.iter().filter(|it| it.is_deleting() && is_learner(it, replicas, known));
    let of_learner = learners.map(next).find(|it| matches!(it, Departure::Leave { .. }));
    Some(of_learner.unwrap_or(of_first))
}

/// Returns true if the member of a Machine does not vote yet.
fn is_learner(replica: &Replica, replicas: &[Replica], known: Known<'_>) -> bool {
    let (Ok(nodes), Ok(members)) = (known.nodes, known.members) else { return false };
    member_of(replica, replicas, nodes, members).is_some_and(|member| !member.has_vote())
}

fn wait(reason: String) -> Departure {
    Departure::Wait(reason)
}

/// Returns what precedes the care for etcd.
fn obstacle(version: &str, leaving: &Replica) -> Option<String> {
    let name = leaving.name();
    let is_other = |key: &&String| key.starts_with(PRE_TERMINATE) && *key != HOOK;
    let is_last = machine_versions::parse(version).is_none_or(|it| it.major > 1 || it.minor >= LOCAL_KUBELET);
    if let Some(other) = leaving.machine.annotations().keys().find(is_other).filter(|_| is_last) {
        return Some(format!("Waiting for the removal of the annotation {other} of Machine {name}"));
    }
    (!pre_terminate::waits(&leaving.machine)).then(|| format!("Waiting for Machine {name} to be drained"))
}

fn release(leaving: &Replica, replicas: &[Replica], known: Known<'_>) -> Departure {
    let name = leaving.name();
    let mut others = replicas.iter().filter(|it| it.name() != name).peekable();
    if others.peek().is_none() {
        return Departure::Release(name);
    }
    if !others.any(|it| !it.is_deleting() && it.is_healthy(known.managed_etcd)) {
        return wait(format!("Machine {name} waits until another control plane Machine is healthy"));
    }
    if let Some(reason) = known.balancer {
        return Departure::WaitForBalancer(reason.to_owned());
    }
    if !known.managed_etcd {
        return Departure::Release(name);
    }
    if known.endpoint_holder == Some(&name) {
        let message =
            "waits until another control plane Machine has its floating IP, the control plane endpoint";
        return wait(format!("Machine {name} {message}"));
    }
    let nodes = match known.nodes {
        Ok(nodes) => nodes,
        Err(error) => return wait(format!("The Nodes cannot be listed: {error}")),
    };
    let members = match known.members {
        Ok(members) => members,
        Err(error) => return wait(format!("The members of etcd cannot be listed: {error}")),
    };
    let Some(member) = member_of(leaving, replicas, nodes, members) else {
        // The members were read after the slot was taken, so kubeadm has added none, and adds none later.
        let is_safe = known.has_slot || !learner_slot::is_needed(leaving, members);
        return if is_safe { Departure::Release(name) } else { Departure::TakeSlot(name) };
    };
    let after = etcd_projection::project(members, replicas, Change::Leave(&member.name));
    if may_be_needed(member, leaving, nodes) && !after.is_safe() {
        let reason = "stays, because etcd would lose its quorum without it";
        return Departure::WaitForQuorum(format!("Machine {name} {reason}: {}", after.text()));
    }
    Departure::Leave { machine: name, member: member.name.clone(), id: member.id }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus, Time, set_condition};

    use super::super::replica::examples::{addressed, going, healthy, off, set};
    use super::*;

    fn leaving(name: &str) -> Replica {
        let mut replica = going(healthy(name, 1));
        replica.machine.annotations_mut().insert(HOOK.to_owned(), String::new());
        let deleting =
            Condition::new("Deleting", ConditionStatus::True, pre_terminate::REASON, "", Time::default());
        let status = replica.machine.status.get_or_insert_default();
        set_condition(status.conditions.get_or_insert_default(), deleting);
        replica
    }

    fn leaves(machine: &str, member: &str, id: u64) -> Departure {
        Departure::Leave { machine: machine.to_owned(), member: member.to_owned(), id }
    }

    fn known() -> Known<'static> {
        Known {
            nodes: Ok(&[]),
            members: Ok(&[]),
            managed_etcd: true,
            endpoint_holder: None,
            balancer: None,
            has_slot: false,
        }
    }

    fn members(names: &[&str]) -> Vec<Member> {
        names.iter().map(|name| Member { name: (*name).to_owned(), ..Member::default() }).collect()
    }

    #[test]
    fn a_machine_leaves_after_the_drain_one_at_a_time_and_only_if_etcd_keeps_its_quorum() {
        let leave = || leaves("1", "1", 0);
        let needed = || Departure::WaitForQuorum(String::new());
        let release = || Departure::Release("1".to_owned());
        let waits = || wait(String::new());
        let all = members(&["1", "2", "3"]);
        let mut unhealthy = healthy("3", 1);
        set(&mut unhealthy, "EtcdMemberHealthy", ConditionStatus::False);
        let mut other_hook = leaving("1");
        other_hook.machine.annotations_mut().insert(format!("{PRE_TERMINATE}/x"), String::new());
        let mut draining = leaving("1");
        set(&mut draining, "Deleting", ConditionStatus::False);
        let mut no_node = leaving("1");
        no_node.machine.status.as_mut().unwrap().node_ref = None;
        let pair = |first: Replica| vec![first, healthy("2", 1), healthy("3", 1)];
        let table = [
            ("none leaves", pair(healthy("1", 1)), Ok(&all[..]), true, None),
            ("healthy", pair(leaving("1")), Ok(&all), true, Some(leave())),
            (
                "one without the hook is on its way",
                vec![leaving("1"), going(healthy("2", 1))],
                Ok(&all),
                true,
                Some(waits()),
            ),
            ("another hook is before", pair(other_hook), Ok(&all), true, Some(waits())),
            ("not drained", pair(draining), Ok(&all), true, Some(waits())),
            ("the only one", vec![leaving("1")], Err("down"), true, Some(release())),
            ("no healthy one is left", vec![leaving("1"), unhealthy.clone()], Ok(&all), true, Some(waits())),
            ("external etcd", pair(leaving("1")), Err("none"), false, Some(release())),
            ("members unknown", pair(leaving("1")), Err("down"), true, Some(waits())),
            ("without a Node", pair(no_node), Ok(&all), true, Some(release())),
            ("not a member", pair(leaving("1")), Ok(&all[1..]), true, Some(release())),
            ("no quorum", vec![leaving("1"), healthy("2", 1), unhealthy], Ok(&all), true, Some(needed())),
            (
                "the first by name",
                vec![healthy("3", 1), leaving("2"), leaving("1")],
                Ok(&all),
                true,
                Some(leave()),
            ),
        ];
        for (case, replicas, members, managed_etcd, expected) in table {
            let known = Known { members, managed_etcd, ..known() };
            let found = departure("v1.33.0", &replicas, known);
            let found = match found {
                Some(Departure::Wait(_)) => Some(waits()),
                Some(Departure::WaitForQuorum(_)) => Some(needed()),
                other => other,
            };
            assert_eq!(found, expected, "{case}");
        }
    }

    /// Such a Machine joined after the last look at etcd, and took the quorum of a single voter along.
    #[test]
    fn a_machine_that_may_become_the_second_voter_goes_once_the_slot_for_a_learner_is_taken() {
        let (one, two) = (members(&["2"]), members(&["2", "3"]));
        let replicas = [leaving("1"), healthy("2", 1), healthy("3", 1)];
        let found = |members: &[Member], has_slot| {
            departure("v1.33.0", &replicas, Known { members: Ok(members), has_slot, ..known() })
        };
        assert_eq!(found(&one, false), Some(Departure::TakeSlot("1".to_owned())));
        assert_eq!(found(&one, true), Some(Departure::Release("1".to_owned())));
        assert_eq!(found(&two, false), Some(Departure::Release("1".to_owned())), "one more costs no quorum");
        let known = Known { members: Ok(&one), managed_etcd: false, ..known() };
        let external = departure("v1.33.0", &replicas, known);
        assert_eq!(external, Some(Departure::Release("1".to_owned())), "an external etcd is never changed");
    }

    #[test]
    fn a_learner_that_leaves_is_removed_before_an_earlier_machine_that_waits_for_it() {
        let mut all = members(&["1", "2", "3"]);
        let replicas = [leaving("1"), healthy("2", 1), leaving("3")];
        let found =
            |members: &[Member]| departure("v1.33.0", &replicas, Known { members: Ok(members), ..known() });
        assert_eq!(found(&all), Some(leaves("1", "1", 0)));
        all[2].is_learner = true;
        assert_eq!(found(&all), Some(leaves("3", "3", 0)));
    }

    /// Returns three Machines: the first two leave, and the second has an address and no Node.
    fn with_address() -> [Replica; 3] {
        let mut joins = addressed(leaving("2"), "10.0.0.2");
        joins.machine.status.as_mut().unwrap().node_ref = None;
        [leaving("1"), joins, healthy("3", 1)]
    }

    /// The voter of a Machine without a Node was no member, so the Machine went without care, and the quorum with it.
    #[test]
    fn the_member_of_a_machine_without_a_node_is_known_by_its_address() {
        let peer_urls = vec!["https://10.0.0.2:2380".to_owned()];
        let of_second = |name: &str| Member {
            id: 2,
            name: name.to_owned(),
            peer_urls: peer_urls.clone(),
            ..Member::default()
        };
        let mut replicas = with_address();
        replicas[0] = healthy("1", 1);
        let found = |replicas: &[Replica], name: &str| {
            let all = [members(&["1"]), vec![of_second(name)], members(&["3"])].concat();
            departure("v1.33.0", replicas, Known { members: Ok(&all), ..known() })
        };
        assert_eq!(found(&replicas, "2"), Some(leaves("2", "2", 2)));
        assert_eq!(found(&replicas, ""), Some(leaves("2", "", 2)), "it has never started");
        set(&mut replicas[0], "EtcdMemberHealthy", ConditionStatus::Unknown);
        assert!(matches!(found(&replicas, "2"), Some(Departure::WaitForQuorum(_))));
        assert_eq!(found(&replicas, ""), Some(leaves("2", "", 2)), "it has no vote");
        let first = found(&with_address(), "");
        assert_eq!(first, Some(leaves("2", "", 2)), "the first one waits for it");
    }

    /// The state of a server may be old, so two Machines with votes must not leave out of turn.
    #[test]
    fn a_machine_that_is_off_does_not_leave_before_an_earlier_one_that_etcd_needs() {
        let all = members(&["1", "2", "3", "4", "5"]);
        let leaving = |name: &str| {
            let mut leaving = leaving(name);
            set(&mut leaving, "EtcdMemberHealthy", ConditionStatus::False);
            leaving
        };
        let mut lost = healthy("3", 1);
        set(&mut lost, "EtcdMemberHealthy", ConditionStatus::Unknown);
        let replicas = [leaving("1"), off(leaving("2")), lost, healthy("4", 1), healthy("5", 1)];
        let found = departure("v1.33.0", &replicas, Known { members: Ok(&all), ..known() });
        assert!(matches!(found, Some(Departure::WaitForQuorum(_))), "{found:?}");
    }

    #[test]
    fn a_machine_with_the_floating_ip_of_the_endpoint_stays_a_member_until_another_has_it() {
        let all = members(&["1", "2"]);
        let replicas = [leaving("1"), healthy("2", 1)];
        let found = |endpoint_holder| {
            let known = Known { members: Ok(&all), endpoint_holder, ..known() };
            departure("v1.33.0", &replicas, known)
        };
        assert!(matches!(found(Some("1")), Some(Departure::Wait(_))));
        assert!(matches!(found(Some("2")), Some(Departure::Leave { .. })));
    }

    #[test]
    fn a_machine_in_the_load_balancer_stays_a_member_of_etcd_unless_it_is_the_only_one() {
        let all = members(&["1", "2"]);
        let replicas = [leaving("1"), healthy("2", 1)];
        for managed_etcd in [true, false] {
            let known = Known { members: Ok(&all), balancer: Some("in"), managed_etcd, ..known() };
            let expected = Some(Departure::WaitForBalancer("in".to_owned()));
            assert_eq!(departure("v1.33.0", &replicas, known), expected);
            let alone = departure("v1.33.0", &replicas[..1], known);
            assert_eq!(alone, Some(Departure::Release("1".to_owned())));
        }
    }
}
