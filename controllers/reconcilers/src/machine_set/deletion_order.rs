//! Order in which the Machines of a set are deleted at a scale-down. Pure.

use std::cmp::Ordering;

use apiserver_types::protection::is_protected;
use apiserver_types::{ConditionStatus, DeletionOrder, Machine};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::in_place;
use crate::machine_labels::DELETE_FIRST;
use crate::replica_status::is_deleting;

/// State of a Machine, as far as it determines the order of deletion. Machines of the first state go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Being deleted already.
    Deleting,
    /// Marked by a user to go first.
    Chosen,
    /// Being updated in place.
    InUpdate,
    /// Without a Node, or found unhealthy.
    Unhealthy,
    /// None of these, so that the age counts, or the name alone.
    Other,
    /// The server refuses to delete it.
    Protected,
}

/// Priority of a Machine that is being deleted already.
const DELETING: f64 = 100.0;

/// Priority of a Machine that a user wants to be deleted first.
const CHOSEN: f64 = 80.0;

/// Priority of a Machine that is being updated in place.
const IN_UPDATE: f64 = 75.0;

/// Priority of an unhealthy Machine, and the limit of the priority by age.
const UNHEALTHY: f64 = 50.0;

/// Priority of any other Machine without an order by age.
const OTHER: f64 = 20.0;

/// Priority of a Machine that the server refuses to delete.
const PROTECTED: f64 = -1.0;

/// Age at which the priority by age is near its limit: ten days. Unit: seconds.
const AGE_SCALE: f64 = 864_000.0;

/// Returns the Machines in the order of their deletion. Equal ones are in the order of their names.
pub(super) fn in_order<'a>(
    machines: impl IntoIterator<Item = &'a Machine>,
    order: DeletionOrder,
    now: Timestamp,
) -> Vec<&'a Machine> {
    let mut machines: Vec<(f64, &Machine)> =
        machines.into_iter().map(|machine| (priority(machine, order, now), machine)).collect();
    machines.sort_by(|(a, left), (b, right)| {
        let by_priority = b.partial_cmp(a).unwrap_or(Ordering::Equal);
        by_priority.then_with(|| left.metadata.name.cmp(&right.metadata.name))
    });
    machines.into_iter().map(|(_, machine)| machine).collect()
}

fn priority(machine: &Machine, order: DeletionOrder, now: Timestamp) -> f64 {
    match (state(machine), order) {
        (State::Deleting, _) => DELETING,
        (State::Chosen, _) => CHOSEN,
        (State::InUpdate, _) => IN_UPDATE,
        (State::Unhealthy, _) => UNHEALTHY,
        (State::Other, DeletionOrder::Random) => OTHER,
        (State::Other, DeletionOrder::Oldest) => by_age(machine, now),
        (State::Other, DeletionOrder::Newest) => UNHEALTHY - by_age(machine, now),
        (State::Protected, _) => PROTECTED,
    }
}

/// Returns the state of a Machine. The first one that applies counts.
pub(super) fn state(machine: &Machine) -> State {
    if is_deleting(machine) {
        return State::Deleting;
    }
    if is_protected(&machine.metadata) {
        return State::Protected;
    }
    if machine.annotations().contains_key(DELETE_FIRST) {
        return State::Chosen;
    }
    if in_place::is_updating(machine) {
        return State::InUpdate;
    }
    if is_unhealthy(machine) { State::Unhealthy } else { State::Other }
}

/// Returns true if a Machine has no Node, or its Node or itself was found unhealthy. Unknown is not unhealthy.
pub(super) fn is_unhealthy(machine: &Machine) -> bool {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let is_false = |kind| machine.condition(kind).is_some_and(|it| it.status == ConditionStatus::False);
    !has_node || is_false("NodeHealthy") || is_false("HealthCheckSucceeded")
}

fn by_age(machine: &Machine, now: Timestamp) -> f64 {
    let Some(created) = &machine.metadata.creation_timestamp else { return 0.0 };
    let seconds = now.duration_since(created.0).as_secs_f64().max(0.0);
    UNHEALTHY * (1.0 - (-seconds / AGE_SCALE).exp())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, MachineSpec, MachineStatus, NodeReference, Time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
    use k8s_openapi::jiff::SignedDuration;

    use super::*;
    use crate::machine_labels::UPDATING;

    fn machine(name: &str, age: Option<SignedDuration>, now: Timestamp) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        machine.metadata.creation_timestamp = age.map(|age| Instant(now.checked_sub(age).unwrap()));
        let node_ref = Some(NodeReference { name: name.to_owned() });
        machine.status = Some(MachineStatus { node_ref, ..MachineStatus::default() });
        machine
    }

    fn with_condition(mut machine: Machine, kind: &str, status: ConditionStatus) -> Machine {
        let condition = Condition::new(kind, status, "Reason", "", Time::default());
        machine.status.as_mut().unwrap().conditions.get_or_insert_default().push(condition);
        machine
    }

    #[test]
    fn machines_are_deleted_by_state_first_then_by_age_or_name() {
        let now = Timestamp::now();
        let hours = |hours| Some(SignedDuration::from_hours(hours));
        let of = |name: &str, age| machine(name, age, now);
        let mut deleting = of("g-deleting", hours(1));
        deleting.metadata.deletion_timestamp = Some(Instant(now));
        let mut chosen = of("f-chosen", hours(1));
        chosen.annotations_mut().insert(DELETE_FIRST.to_owned(), String::new());
        let mut updating = of("e-updating", hours(1));
        updating.annotations_mut().insert(UPDATING.to_owned(), String::new());
        let mut without_node = of("z-no-node", hours(1));
        without_node.status = None;
        let unhealthy = with_condition(of("x-unhealthy", hours(1)), "NodeHealthy", ConditionStatus::False);
        let checked =
            with_condition(of("y-checked", hours(1)), "HealthCheckSucceeded", ConditionStatus::False);
        let unknown = with_condition(of("b-unknown", hours(2)), "NodeHealthy", ConditionStatus::Unknown);
        let ages = [
            of("a-hour", hours(1)),
            unknown,
            of("c-ten-days", hours(240)),
            of("d-future", hours(-1)),
            of("h-no-age", None),
        ];
        let machines: Vec<Machine> =
            ages.into_iter().chain([without_node, unhealthy, checked, updating, chosen, deleting]).collect();
        let first = ["g-deleting", "f-chosen", "e-updating", "x-unhealthy", "y-checked", "z-no-node"];
        let table = [
            (DeletionOrder::Random, ["a-hour", "b-unknown", "c-ten-days", "d-future", "h-no-age"]),
            (DeletionOrder::Oldest, ["c-ten-days", "b-unknown", "a-hour", "d-future", "h-no-age"]),
        ];
        for (order, rest) in table {
            let names: Vec<String> = in_order(&machines, order, now).iter().map(|it| it.name_any()).collect();
            assert_eq!(names, [&first[..], &rest[..]].concat(), "{order:?}");
        }
        let names: Vec<String> =
            in_order(&machines, DeletionOrder::Newest, now).iter().map(|it| it.name_any()).collect();
        // A Machine without age ties with the unhealthy ones.
        let expected = [
            "d-future",
            "h-no-age",
            "x-unhealthy",
            "y-checked",
            "z-no-node",
            "a-hour",
            "b-unknown",
            "c-ten-days",
        ];
        assert_eq!(names[3..], expected);
    }

    #[test]
    fn a_protected_machine_is_chosen_last_even_if_a_user_wants_it_first() {
        let now = Timestamp::now();
        let mut kept = machine("a", None, now);
        let annotations = [apiserver_types::protection::PROTECTED, DELETE_FIRST];
        kept.annotations_mut().extend(annotations.map(|key| (key.to_owned(), "true".to_owned())));
        let machines = [kept, machine("b", None, now)];
        let names = in_order(&machines, DeletionOrder::Random, now).into_iter().map(ResourceExt::name_any);
        assert_eq!(names.collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn a_very_old_machine_is_deleted_after_the_unhealthy_ones() {
        let now = Timestamp::now();
        let old = machine("a", Some(SignedDuration::from_hours(24 * 365)), now);
        assert!(priority(&old, DeletionOrder::Oldest, now) <= UNHEALTHY);
        assert!(priority(&old, DeletionOrder::Newest, now) >= 0.0);
    }
}
