//! Tests of members of etcd without a Machine (D.7).

use apiserver_types::ConditionStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::replica::examples::{addressed, going, healthy, replica, set};
use super::*;

/// Time of the observation. Unit: seconds.
const NOW: i64 = 100_000;

fn member(id: u64, name: &str, host: &str) -> Member {
    let peer_urls = vec![format!("https://{host}:2380")];
    Member { id, name: name.to_owned(), peer_urls, ..Member::default() }
}

fn learner(id: u64, name: &str, host: &str) -> Member {
    Member { is_learner: true, ..member(id, name, host) }
}

/// Returns the Nodes of the Machines: that of `young` has just joined.
fn nodes(young: Option<&str>) -> Vec<Node> {
    let node = |name: &str| {
        let mut node = Node::default();
        let created = if young == Some(name) { NOW - 60 } else { NOW - 180 };
        node.metadata.name = Some(name.to_owned());
        node.metadata.creation_timestamp = Some(Time(Timestamp::from_second(created).unwrap()));
        node
    };
    ["a", "b", "c"].into_iter().map(node).collect()
}

fn view<'a>(members: &'a [Member], replicas: &'a [Replica], nodes: &'a [Node]) -> View<'a> {
    View { members, replicas, nodes: Some(nodes), now: Timestamp::from_second(NOW).unwrap() }
}

fn machines() -> Vec<Replica> {
    vec![addressed(healthy("a", 1), "10.0.0.1"), addressed(healthy("b", 1), "fd00::2")]
}

fn with(extra: Member) -> Vec<Member> {
    vec![member(1, "a", "10.0.0.1"), member(2, "b", "[fd00::2]"), extra]
}

fn and(extra: Replica) -> Vec<Replica> {
    machines().into_iter().chain([extra]).collect()
}

#[test]
fn d7_a_member_is_removed_only_if_no_machine_has_its_name_or_its_address_and_the_quorum_stays() {
    let mut broken = machines();
    set(&mut broken[0], "EtcdMemberHealthy", ConditionStatus::False);
    let joining = addressed(replica("c", NOW - 60), "10.0.0.3");
    let surplus = |id, name: &str| Some(Surplus { id, name: name.to_owned() });
    let table = [
        ("all match", with(member(2, "b", "[fd00::2]")), machines(), None),
        ("gone", with(member(3, "c", "10.0.0.3")), machines(), surplus(3, "c")),
        ("never started", with(member(3, "", "10.0.0.3")), machines(), surplus(3, "")),
        ("started and never promoted", with(learner(3, "c", "10.0.0.3")), machines(), surplus(3, "c")),
        ("starting", with(member(3, "", "10.0.0.3")), and(joining), None),
        ("without an address yet", with(member(3, "", "10.0.0.3")), and(replica("c", 1)), None),
        ("it holds the quorum", with(member(3, "c", "10.0.0.3")), broken, None),
        ("the last one", vec![member(3, "c", "10.0.0.3")], machines(), None),
    ];
    let nodes = nodes(None);
    for (case, members, replicas, expected) in table {
        assert_eq!(find(view(&members, &replicas, &nodes)), expected, "{case}");
    }
}

/// The learner of a server with an interface that its Machine does not report was removed while it joined.
#[test]
fn d7_a_learner_stays_while_a_machine_that_may_be_its_joins() {
    let second = |at: i64| Timestamp::from_second(at).unwrap().to_string();
    let mut slow = addressed(replica("c", 1), "10.0.0.3");
    set(&mut slow, "InfrastructureReady", ConditionStatus::True);
    let conditions = slow.machine.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions[0].last_transition_time = apiserver_types::Time(second(NOW - 300));
    let waits = |age: i64| addressed(replica("c", NOW - age), "10.0.0.3");
    let joined = || addressed(healthy("c", 1), "10.0.0.3");
    let (never, unknown) = (learner(3, "", "192.0.2.3"), learner(3, "d", "192.0.2.3"));
    let (new, old) = (nodes(Some("c")), nodes(None));
    let table = [
        ("its Machine has no Node", never.clone(), and(waits(300)), &old, true),
        ("it has started", unknown.clone(), and(waits(300)), &old, true),
        ("it has a vote", member(3, "d", "192.0.2.3"), and(waits(300)), &old, true),
        ("its Machine is deleted", never.clone(), and(going(waits(300))), &old, false),
        ("it has a vote, and is deleted", member(3, "d", "192.0.2.3"), and(going(waits(300))), &old, true),
        ("the server is there for 5 minutes", never.clone(), and(slow), &old, true),
        ("the Machine never joined", never.clone(), and(waits(700)), &old, false),
        ("the Node has just joined", never.clone(), and(joined()), &new, true),
        ("it has started on a new Node", unknown.clone(), and(joined()), &new, true),
        (
            "a started member has the name of its Node",
            member(3, "d", "192.0.2.3"),
            and(joined()),
            &new,
            false,
        ),
        ("the Node is old", never.clone(), and(joined()), &old, false),
        ("no Machine joins", never.clone(), machines(), &old, false),
    ];
    for (case, extra, replicas, nodes, stays) in table {
        let members = with(extra);
        assert_eq!(find(view(&members, &replicas, nodes)).is_none(), stays, "{case}");
    }
    let (members, replicas) = (with(never), and(joined()));
    let unknown = View { nodes: None, ..view(&members, &replicas, &[]) };
    assert_eq!(find(unknown), None, "the Nodes are not known");
}

#[test]
fn d7_the_machine_that_has_its_own_member_keeps_no_other_one() {
    let joins = addressed(replica("c", NOW - 60), "10.0.0.3");
    let mut members = with(learner(3, "", "10.0.0.3"));
    members.push(member(4, "", "10.0.0.4"));
    let (replicas, nodes) = (and(joins), nodes(None));
    let expected = Some(Surplus { id: 4, name: String::new() });
    assert_eq!(find(view(&members, &replicas, &nodes)), expected, "a learner that was left behind");
}

/// A member stayed for good, and nothing named the reason.
#[test]
fn d7_the_reason_for_which_a_member_stays_is_named() {
    let mut broken = machines();
    set(&mut broken[0], "EtcdMemberHealthy", ConditionStatus::False);
    let joins = "it may be that of Machine c, which has no Node yet. Delete the Machine if it does not join";
    let starts = "it may be that of Machine c, whose Node c has just joined";
    let quorum = "without it, etcd would have 1 of 2 voting members healthy, 2 required";
    let (new, stray) = (nodes(Some("c")), || member(3, "x", "192.0.2.3"));
    let table = [
        (with(stray()), machines(), None),
        (with(stray()), broken, Some(Stay::Needed(quorum.to_owned()))),
        (with(stray()), and(replica("c", 1)), Some(Stay::Joins(joins.to_owned()))),
        (with(learner(3, "", "192.0.2.3")), and(healthy("c", 1)), Some(Stay::Joins(starts.to_owned()))),
        (vec![stray()], machines(), Some(Stay::Needed("it is the only one".to_owned()))),
    ];
    for (members, replicas, expected) in table {
        let found = strays(view(&members, &replicas, &new));
        let found: Vec<Option<Stay>> = found.into_iter().map(|it| it.stays).collect();
        assert_eq!(found, [expected], "{members:?}");
    }
    let mut members = with(stray());
    members.push(learner(4, "", "192.0.2.4"));
    let found = strays(view(&members, &machines(), &new)).pop().unwrap();
    let text = "without it, etcd would have 2 of 2 voting members healthy, 2 required, and 1 without a vote";
    assert_eq!(found.stays, Some(Stay::Needed(text.to_owned())));
    assert_eq!(found.member.title(), "x");
}

#[test]
fn d7_a_member_that_can_go_does_not_wait_for_one_that_cannot() {
    let mut first = member(3, "c", "192.0.2.3");
    let mut second = member(4, "d", "192.0.2.4");
    second.has_alarm = true;
    let members =
        |first: &Member, second: &Member| vec![member(1, "a", "10.0.0.1"), first.clone(), second.clone()];
    let (replicas, nodes) = (vec![addressed(healthy("a", 1), "10.0.0.1")], nodes(None));
    let found = find(view(&members(&first, &second), &replicas, &nodes)).unwrap();
    assert_eq!(found.name, "d", "without c, the only healthy voter would be a");
    (first.has_alarm, second.has_alarm) = (true, false);
    let found = find(view(&members(&first, &second), &replicas, &nodes)).unwrap();
    assert_eq!(found.name, "c");
}
