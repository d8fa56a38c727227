//! Sightings: when this process first saw the present status of a Node's condition.
//!
//! A Node stamps its conditions by its own clock. If that clock is wrong, a timeout would end too soon or never.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition};

/// Difference of two clocks that is tolerated. Beside the clocks, it covers the time from a change to its observation.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);

/// State of a condition.
#[derive(Debug, Clone)]
struct Sighting {
    status: String,
    transition: Option<Timestamp>,
    /// First sight of this state, if the time of the Node cannot be used.
    since: Option<Timestamp>,
}

/// Uid of a Node, and type of a condition.
type Key = (String, String);

/// Sightings of the Nodes of each health check. They are lost with the process, which then trusts the Nodes again.
#[derive(Debug, Default)]
pub(super) struct Sightings(Mutex<HashMap<String, HashMap<Key, Sighting>>>);

impl Sightings {
    /// Takes over the Nodes of a health check. Returns, by the uid of the Node and the type of the condition, the times
    /// that replace those of the Nodes.
    pub(super) fn observe<'a>(
        &self,
        check: &str,
        nodes: impl Iterator<Item = &'a Node>,
        now: Timestamp,
    ) -> HashMap<String, BTreeMap<String, Timestamp>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.remove(check).unwrap_or_default();
        let mut seen = HashMap::new();
        let mut replaced: HashMap<String, BTreeMap<String, Timestamp>> = HashMap::new();
        for node in nodes {
            let uid = node.metadata.uid.clone().unwrap_or_default();
            for condition in node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten() {
                let key = (uid.clone(), condition.type_.clone());
                let sighting = sight(known.get(&key), condition, now);
                if let Some(since) = sighting.since {
                    replaced.entry(uid.clone()).or_default().insert(condition.type_.clone(), since);
                }
                seen.insert(key, sighting);
            }
        }
        all.insert(check.to_owned(), seen);
        replaced
    }

    /// Forgets a health check that does not exist any more.
    pub(super) fn forget(&self, check: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(check);
    }
}

fn sight(known: Option<&Sighting>, condition: &NodeCondition, now: Timestamp) -> Sighting {
    let transition = condition.last_transition_time.as_ref().map(|time| time.0);
    if let Some(known) = known.filter(|it| it.status == condition.status && it.transition == transition) {
        return known.clone();
    }
    let is_wrong = transition.is_none_or(|transition| {
        let age = now.duration_since(transition);
        // One that is seen for the first time may have begun long ago.
        age < -TOLERANCE || known.is_some() && age > TOLERANCE
    });
    Sighting { status: condition.status.clone(), transition, since: is_wrong.then_some(now) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn node(status: &str, transition: i64) -> Node {
        let condition = NodeCondition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            last_transition_time: Some(Time(Timestamp::from_second(transition).unwrap())),
            ..NodeCondition::default()
        };
        let mut node = Node::default();
        node.metadata.uid = Some("n".to_owned());
        node.status = Some(NodeStatus { conditions: Some(vec![condition]), ..NodeStatus::default() });
        node
    }

    #[test]
    fn a_time_of_a_wrong_clock_is_replaced_by_the_first_sight() {
        let at = |second| Timestamp::from_second(second).unwrap();
        // Status and transition of the passes, the second of each pass, and the time that counts in the last one.
        let table = [
            ("an old one at the start is trusted", vec![("False", 0, 10_000)], None),
            ("the future is not", vec![("False", 10_031, 10_000)], Some(10_000)),
            ("30 s are tolerated", vec![("False", 10_030, 10_000)], None),
            ("a change in time", vec![("True", 0, 10_000), ("False", 10_000, 10_015)], None),
            ("a slow clock", vec![("True", 0, 10_000), ("False", 9_900, 10_015)], Some(10_015)),
            (
                "the first sight stays",
                vec![("True", 0, 10_000), ("False", 9_900, 10_015), ("False", 9_900, 10_100)],
                Some(10_015),
            ),
            (
                "an event with the old state changes nothing",
                vec![("False", 0, 10_000), ("False", 0, 10_015)],
                None,
            ),
        ];
        for (case, passes, expected) in table {
            let sightings = Sightings::default();
            let mut last = HashMap::new();
            for (status, transition, second) in passes {
                last = sightings.observe("mhc", [node(status, transition)].iter(), at(second));
            }
            let found = last.get("n").and_then(|times| times.get("Ready")).copied();
            assert_eq!(found, expected.map(at), "{case}");
        }
    }
}
