//! Load balancer of the API: a Machine leaves it before its member of etcd leaves, so that no client loses its connection.

use jiff::{SignedDuration, Timestamp};

use super::outdated::timestamp;
use super::replica::Replica;

/// Condition of an infrastructure object: clients reach the API server through this machine. Upstream's name.
const MEMBERSHIP: &str = "APIServerIngressReady";

/// Limit of the wait from the begin of the hook phase. A load balancer changes in seconds; one that is broken must not
/// hold the deletion of a Machine.
const LIMIT: SignedDuration = SignedDuration::from_secs(60);

/// Time in which the connections of the load balancer end, after the machine is no member any more. Most requests to
/// an API server take less; a watch is begun again at another one.
const DRAIN: SignedDuration = SignedDuration::from_secs(5);

/// Returns what a Machine in its hook phase waits for. A provider without the condition is not waited for. After the
/// limit, there is nothing to wait for.
pub(super) fn obstacle(leaving: &Replica, now: Timestamp) -> Option<String> {
    let begun = begin_of_hook_phase(leaving)?;
    // The Machine may be a little newer than `now`. A clock that was set back must not prolong the wait.
    let is_in = |since: Timestamp, limit| {
        let elapsed = now.duration_since(since);
        elapsed < limit && elapsed > -LIMIT
    };
    let membership = leaving.infrastructure_condition(MEMBERSHIP).filter(|_| is_in(begun, LIMIT))?;
    let name = leaving.name();
    if membership.holds() {
        return Some(format!(
            "Machine {name} waits until the load balancer sends it no connections, at most {} s",
            LIMIT.as_secs()
        ));
    }
    let since = timestamp(&membership.last_transition_time)?;
    // A machine that was no member before has no connections.
    (since >= begun && is_in(since, DRAIN))
        .then(|| format!("Machine {name} waits {} s until its connections have ended", DRAIN.as_secs()))
}

fn begin_of_hook_phase(leaving: &Replica) -> Option<Timestamp> {
    let deletion = leaving.machine.status.as_ref()?.deletion.as_ref()?;
    timestamp(deletion.wait_for_pre_terminate_hook_start_time.as_ref()?)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeletionStatus, Time};
    use kube::api::{ApiResource, DynamicObject};
    use serde_json::json;

    use super::super::replica::examples::{going, healthy};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    /// Returns a Machine whose hook phase began at second 0, with the state of its membership since a second.
    fn leaving(membership: Option<(&str, i64)>) -> Replica {
        let mut replica = going(healthy("1", 1));
        let deletion = replica.machine.status.get_or_insert_default().deletion.get_or_insert_default();
        let begun = Some(Time(at(0).to_string()));
        *deletion =
            MachineDeletionStatus { wait_for_pre_terminate_hook_start_time: begun, ..Default::default() };
        let conditions: Vec<_> = membership
            .into_iter()
            .map(|(status, since)| {
                json!({"type": MEMBERSHIP, "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": at(since).to_string()})
            })
            .collect();
        let kind = ApiResource::erase::<apiserver_types::OpenStackMachine>(&());
        let object = DynamicObject::new("1", &kind).data(json!({"status": {"conditions": conditions}}));
        replica.infrastructure = Some(object);
        replica
    }

    #[test]
    fn a_machine_waits_for_the_load_balancer_and_then_for_its_connections_with_a_limit() {
        let table = [
            ("a provider without the condition", None, 1, false),
            ("a member", Some(("True", -100)), 0, true),
            ("a member, at the end of the limit", Some(("True", -100)), 59, true),
            ("a member, after the limit", Some(("True", -100)), 60, false),
            ("a member, and the Machine is newer than the observation", Some(("True", -100)), -1, true),
            ("a member, and the clock was set back", Some(("True", -100)), -60, false),
            ("removed just now", Some(("False", 10)), 10, true),
            ("removed, and the connections end", Some(("False", 10)), 14, true),
            ("removed, and the connections have ended", Some(("False", 10)), 15, false),
            ("removed late", Some(("False", 58)), 60, false),
            ("never a member", Some(("False", -3)), 0, false),
        ];
        for (case, membership, second, expected) in table {
            assert_eq!(obstacle(&leaving(membership), at(second)).is_some(), expected, "{case}");
        }
    }

    #[test]
    fn a_machine_without_an_infrastructure_object_or_before_its_hook_phase_is_not_waited_for() {
        let mut lost = leaving(Some(("True", 0)));
        lost.infrastructure = None;
        assert_eq!(obstacle(&lost, at(1)), None);
        let mut early = leaving(Some(("True", 0)));
        early.machine.status.as_mut().unwrap().deletion = None;
        assert_eq!(obstacle(&early, at(1)), None);
    }
}
