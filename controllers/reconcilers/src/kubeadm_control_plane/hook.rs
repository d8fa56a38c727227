//! Pre-terminate hook: the deletion of a control plane Machine waits until etcd no longer needs it.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_projection::{self, Change, Member};
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
    /// Remove the annotation of this Machine: nothing is left to do for etcd.
    Release(String),
    /// Hand over the leadership if this Machine has it, remove its member, then the annotation.
    Leave {
        /// Name of the Machine.
        machine: String,
        /// Name of its member.
        member: String,
    },
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
    if !matches!(of_first, Departure::Wait(_)) {
        return Some(of_first);
    }
    // A learner forbids that any other member leaves, and it has no vote: it need not wait for its turn.
    let of_learner = replicas.iter().find(|it| it.is_deleting() && is_learner(it, known)).map(next);
    Some(of_learner.filter(|it| matches!(it, Departure::Leave { .. })).unwrap_or(of_first))
}

/// Returns true if the member of a Machine does not vote yet.
fn is_learner(replica: &Replica, known: Known<'_>) -> bool {
    let (Ok(nodes), Ok(members)) = (known.nodes, known.members) else { return false };
    let name = member_of(replica, nodes);
    members.iter().any(|it| it.is_learner && Some(&it.name) == name.as_ref())
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
    let Some(member) = member_of(leaving, nodes) else { return Departure::Release(name) };
    if !members.iter().any(|it| it.name == member) {
        return Departure::Release(name);
    }
    let after = etcd_projection::project(members, replicas, Change::Leave(&member));
    if !after.is_safe() {
        let reason = "stays, because etcd would lose its quorum without it";
        return wait(format!("Machine {name} {reason}: {}", after.text()));
    }
    Departure::Leave { machine: name, member }
}

/// Returns the name of a Machine's member, which is that of its Node.
pub(super) fn member_of(replica: &Replica, nodes: &[Node]) -> Option<String> {
    if let Some(node) = replica.node() {
        return Some(node.to_owned());
    }
    let id = replica.machine.spec.provider_id.as_deref()?;
    let of_server =
        |node: &&Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
    nodes.iter().find(of_server).map(ResourceExt::name_any)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus, Time, set_condition};

    use super::super::replica::examples::{going, healthy, set};
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

    fn known() -> Known<'static> {
        Known { nodes: Ok(&[]), members: Ok(&[]), managed_etcd: true, endpoint_holder: None, balancer: None }
    }

    fn members(names: &[&str]) -> Vec<Member> {
        names.iter().map(|name| Member { name: (*name).to_owned(), ..Member::default() }).collect()
    }

    #[test]
    fn a_machine_leaves_after_the_drain_one_at_a_time_and_only_if_etcd_keeps_its_quorum() {
        let leave = || Departure::Leave { machine: "1".to_owned(), member: "1".to_owned() };
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
            ("no quorum", vec![leaving("1"), healthy("2", 1), unhealthy], Ok(&all), true, Some(waits())),
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
                Some(Departure::Wait(reason)) => Some(wait(reason.chars().take(0).collect())),
                other => other,
            };
            assert_eq!(found, expected, "{case}");
        }
    }

    #[test]
    fn a_learner_that_leaves_is_removed_before_an_earlier_machine_that_waits_for_it() {
        let mut all = members(&["1", "2", "3"]);
        let replicas = [leaving("1"), healthy("2", 1), leaving("3")];
        let found =
            |members: &[Member]| departure("v1.33.0", &replicas, Known { members: Ok(members), ..known() });
        assert_eq!(found(&all), Some(Departure::Leave { machine: "1".to_owned(), member: "1".to_owned() }));
        all[2].is_learner = true;
        assert_eq!(found(&all), Some(Departure::Leave { machine: "3".to_owned(), member: "3".to_owned() }));
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
