//! Placement: the failure domain of a new Machine, and the Machine that goes when there are too many.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use apiserver_types::FailureDomain;
use jiff::Timestamp;

use super::join_stage;
use super::replica::{NODE_LABELS, Replica};
use crate::machine_labels::DELETE_FIRST;

/// Returns the failure domain of a new Machine: of those for control planes the one with the fewest Machines that match
/// the control plane and stay, then with the fewest at all, then the first by name.
pub(super) fn domain_of_new(domains: &[FailureDomain], replicas: &[Replica]) -> Option<String> {
    let count = |domain: &str, counts: &dyn Fn(&Replica) -> bool| {
        replicas.iter().filter(|it| it.failure_domain() == Some(domain) && counts(it)).count()
    };
    let stays = |it: &Replica| !it.is_deleting() && it.causes.is_empty();
    for_control_planes(domains)
        .min_by_key(|domain| (count(domain, &stays), count(domain, &|_| true), (*domain).to_owned()))
        .map(str::to_owned)
}

fn for_control_planes(domains: &[FailureDomain]) -> impl Iterator<Item = &str> {
    let suitable = domains.iter().filter(|domain| domain.control_plane == Some(true));
    suitable.map(|domain| domain.name.as_str())
}

/// Returns the Machine to delete next, of those that are not being deleted yet.
pub(super) fn next_to_delete<'a>(
    domains: &[FailureDomain],
    replicas: &'a [Replica],
    managed_etcd: bool,
    now: Timestamp,
) -> Option<&'a Replica> {
    let candidates = class(replicas, managed_etcd, now);
    let domain = domain_to_shrink(domains, &candidates, replicas);
    let within = candidates.into_iter().filter(|it| it.failure_domain() == domain);
    within.min_by_key(|it| (it.created(), it.name()))
}

/// Reports whether a Machine is outdated, and no Node of it is near. Its successor may work, and the others must not
/// wait for it. It may still have a member of etcd, which leaves before the Machine does.
pub(super) fn has_failed_to_join(replica: &Replica, now: Timestamp) -> bool {
    replica.is_outdated() && join_stage::is_expendable(replica, now)
}

/// Returns the first class of Machines that has any. Those without a Node go before those that work: no other one could go
/// while they are unhealthy.
fn class(replicas: &[Replica], managed_etcd: bool, now: Timestamp) -> Vec<&Replica> {
    let asked = |it: &Replica| it.has_annotation(DELETE_FIRST);
    let broken =
        |it: &Replica| it.fails(NODE_LABELS) || Replica::components(managed_etcd).any(|kind| it.fails(kind));
    let classes: [&dyn Fn(&Replica) -> bool; 7] = [
        &|it| has_failed_to_join(it, now),
        &|it| it.is_outdated() && asked(it),
        &asked,
        &|it| it.is_outdated() && broken(it),
        &Replica::is_outdated,
        &|it| join_stage::is_expendable(it, now),
        &|_| true,
    ];
    let of = |is_in: &dyn Fn(&Replica) -> bool| -> Vec<&Replica> {
        replicas.iter().filter(|it| !it.is_deleting() && is_in(it)).collect()
    };
    classes.into_iter().map(of).find(|class| !class.is_empty()).unwrap_or_default()
}

/// Returns the failure domain that loses a Machine: first one that is no longer listed, else the one with the most
/// Machines.
fn domain_to_shrink<'a>(
    domains: &[FailureDomain],
    candidates: &[&'a Replica],
    replicas: &[Replica],
) -> Option<&'a str> {
    let listed: BTreeSet<&str> = for_control_planes(domains).collect();
    let is_unlisted =
        |domain: Option<&str>| !listed.is_empty() && domain.is_none_or(|it| !listed.contains(it));
    let mut unlisted: Vec<_> = candidates.iter().filter(|it| is_unlisted(it.failure_domain())).collect();
    unlisted.sort_by_key(|it| (it.created(), it.name()));
    if let Some(oldest) = unlisted.first() {
        return oldest.failure_domain();
    }
    let count = |domain: Option<&str>| {
        let in_class = candidates.iter().filter(|it| it.failure_domain() == domain).count();
        (in_class, replicas.iter().filter(|it| it.failure_domain() == domain).count())
    };
    let found: BTreeSet<Option<&str>> = candidates.iter().map(|it| it.failure_domain()).collect();
    found.into_iter().min_by_key(|domain| (Reverse(count(*domain)), *domain)).flatten()
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;
    use kube::ResourceExt;

    use super::super::replica::examples::{going, healthy, outdated, replica, set, within};
    use super::*;

    fn domains(names: &[&str]) -> Vec<FailureDomain> {
        let domain = |name: &&str| FailureDomain {
            name: (*name).to_owned(),
            control_plane: Some(true),
            ..FailureDomain::default()
        };
        names.iter().map(domain).collect()
    }

    fn asked(mut replica: Replica) -> Replica {
        replica.machine.annotations_mut().insert(DELETE_FIRST.to_owned(), String::new());
        replica
    }

    #[test]
    fn a_new_machine_goes_where_the_fewest_machines_stay() {
        let mut only_workers = domains(&["a", "b"]);
        only_workers[0].control_plane = Some(false);
        let m = |name, domain| within(healthy(name, 1), domain);
        let table = [
            ("no domain is listed", domains(&[]), vec![m("1", "a")], None),
            ("the first of two empty ones", domains(&["b", "a"]), vec![], Some("a")),
            ("the empty one", domains(&["a", "b"]), vec![m("1", "a")], Some("b")),
            ("not the one for workers", only_workers, vec![m("1", "b")], Some("b")),
            (
                "an outdated one counts less",
                domains(&["a", "b"]),
                vec![outdated(m("1", "a")), m("2", "b")],
                Some("a"),
            ),
            (
                "a leaving one counts less",
                domains(&["a", "b"]),
                vec![m("1", "a"), going(m("2", "b"))],
                Some("b"),
            ),
            ("but breaks a tie", domains(&["a", "b"]), vec![outdated(m("1", "a"))], Some("b")),
        ];
        for (case, domains, replicas, expected) in table {
            assert_eq!(domain_of_new(&domains, &replicas).as_deref(), expected, "{case}");
        }
    }

    #[test]
    fn the_machine_that_goes_is_asked_for_then_broken_then_outdated_then_the_oldest_of_the_fullest_domain() {
        let m = |name, second, domain| within(healthy(name, second), domain);
        let mut broken = outdated(m("broken", 9, "b"));
        set(&mut broken, "SchedulerPodHealthy", ConditionStatus::False);
        let mut unknown = outdated(m("unknown", 9, "b"));
        set(&mut unknown, "SchedulerPodHealthy", ConditionStatus::Unknown);
        let both = domains(&["a", "b"]);
        let table = [
            ("none", both.clone(), vec![], None),
            ("all are leaving", both.clone(), vec![going(m("1", 1, "a"))], None),
            ("the oldest", both.clone(), vec![m("1", 2, "a"), m("2", 1, "a")], Some("2")),
            ("by name", both.clone(), vec![m("2", 1, "a"), m("1", 1, "a")], Some("1")),
            (
                "the fullest domain",
                both.clone(),
                vec![m("1", 1, "a"), m("2", 2, "b"), m("3", 3, "b")],
                Some("2"),
            ),
            (
                "an unlisted domain",
                both.clone(),
                vec![m("1", 1, "a"), m("2", 2, "a"), m("3", 3, "c")],
                Some("3"),
            ),
            ("no listed domain", domains(&[]), vec![healthy("1", 2), healthy("2", 1)], Some("2")),
            ("outdated", both.clone(), vec![m("1", 1, "a"), outdated(m("2", 2, "b"))], Some("2")),
            ("broken", both.clone(), vec![outdated(m("1", 1, "a")), broken.clone()], Some("broken")),
            ("unknown is not broken", both.clone(), vec![outdated(m("1", 1, "b")), unknown], Some("1")),
            ("asked for", both.clone(), vec![asked(m("1", 5, "a")), broken.clone()], Some("1")),
            (
                "outdated and asked for",
                both.clone(),
                vec![asked(m("1", 5, "a")), asked(broken)],
                Some("broken"),
            ),
            (
                "outdated and without a server",
                both.clone(),
                vec![asked(outdated(m("1", 1, "a"))), outdated(within(replica("2", 9), "b"))],
                Some("2"),
            ),
            (
                "the outdated one works",
                both.clone(),
                vec![outdated(m("1", 1, "a")), within(replica("2", 9), "b")],
                Some("1"),
            ),
            (
                "none is outdated, and one has no server",
                both,
                vec![m("1", 1, "a"), within(replica("2", 9), "b")],
                Some("2"),
            ),
        ];
        let now = Timestamp::from_second(10).unwrap();
        for (case, domains, replicas, expected) in table {
            let found = next_to_delete(&domains, &replicas, true, now).map(Replica::name);
            assert_eq!(found.as_deref(), expected, "{case}");
        }
    }
}
