//! Record of the repairs of a load balancer, in annotations of its cluster, so that their limits survive a restart.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_types::OpenStackCluster;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::health::is_over;

/// Annotation with the repairs of parts: a JSON object by part.
pub(super) const PART_REPAIRS: &str = "capstan.dev/load-balancer-part-repairs";

/// Annotation with the load balancers that were created in place of another one: a JSON object.
pub(super) const RECREATIONS: &str = "capstan.dev/load-balancer-recreations";

/// Number of deletions of one part in [`DELETION_INTERVAL`]: that of a listener interrupts its port.
const DELETIONS: usize = 3;

/// Interval in which deletions of a part are counted.
const DELETION_INTERVAL: Duration = Duration::from_hours(1);

/// Time before a load balancer that never worked is created a third time. It doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_mins(1);

/// Longest time between two load balancers, and that between two that worked.
const LONGEST_DELAY: Duration = Duration::from_mins(30);

/// Next repair of a part in ERROR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// Octavia configures it once more.
    SetAgain,
    /// It is deleted, so that a later pass creates it again.
    Delete,
}

/// Repairs of one part, which has the same key after it was created again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct History {
    /// Id of the part that was last set again.
    set: String,
    /// Times of its deletions. Unit: seconds since 1970.
    deleted: Vec<i64>,
}

/// Repairs of all parts of a load balancer, by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in super::super) struct PartRepairs(BTreeMap<String, History>);

impl PartRepairs {
    /// Reads the repairs of a cluster. A text that cannot be parsed counts as none.
    pub(super) fn of(object: &OpenStackCluster) -> Self {
        parse(object, PART_REPAIRS)
    }

    /// Returns the next repair of a part; `None` if it was deleted too often. Pure.
    pub(super) fn next(&self, key: &str, id: &str, now: Timestamp) -> Option<Repair> {
        let history = self.0.get(key);
        if history.is_none_or(|it| it.set != id) {
            return Some(Repair::SetAgain);
        }
        let deletions = history.map_or(0, |it| it.deleted.iter().filter(|at| is_recent(**at, now)).count());
        (deletions < DELETIONS).then_some(Repair::Delete)
    }

    /// Returns the record after a repair. It leaves out what limits nothing any more. Pure.
    pub(super) fn after(&self, key: &str, id: &str, repair: Repair, now: Timestamp) -> Self {
        let mut repairs = self.clone();
        for history in repairs.0.values_mut() {
            history.deleted.retain(|at| is_recent(*at, now));
        }
        repairs.0.retain(|known, history| known == key || !history.deleted.is_empty());
        let history = repairs.0.entry(key.to_owned()).or_default();
        match repair {
            Repair::SetAgain => id.clone_into(&mut history.set),
            Repair::Delete => history.deleted.push(now.as_second()),
        }
        repairs
    }

    /// Returns the value of the annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Load balancers that were created in place of another one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(in super::super) struct Recreations {
    /// Number of them since a load balancer was last ACTIVE.
    count: u32,
    /// Time of the last one. Unit: seconds since 1970.
    last: i64,
}

impl Recreations {
    /// Reads the record of a cluster. A text that cannot be parsed counts as none.
    pub(super) fn of(object: &OpenStackCluster) -> Self {
        parse(object, RECREATIONS)
    }

    /// Returns true if the present load balancer has not been ACTIVE, as far as is known.
    pub(super) fn is_unproven(&self) -> bool {
        self.count > 0
    }

    /// Returns the time before which a load balancer that never worked is not replaced, if that is in the future. Pure.
    pub(super) fn delay_of_unproven(&self, now: Timestamp) -> Option<Timestamp> {
        let doublings = self.count.checked_sub(1)?.min(u32::BITS - 1);
        let delay = FIRST_DELAY.saturating_mul(1_u32 << doublings).min(LONGEST_DELAY);
        self.delay(delay, now)
    }

    /// Returns the time before which a load balancer that worked is not replaced, if that is in the future. Pure.
    pub(super) fn delay_of_proven(&self, now: Timestamp) -> Option<Timestamp> {
        self.delay(LONGEST_DELAY, now)
    }

    fn delay(&self, delay: Duration, now: Timestamp) -> Option<Timestamp> {
        let last = Timestamp::from_second(self.last).ok()?;
        (!is_over(last, now, delay)).then(|| last.checked_add(delay).unwrap_or(now))
    }

    /// Returns the record after another one. Pure.
    pub(super) fn after(&self, now: Timestamp) -> Self {
        Self { count: self.count.saturating_add(1), last: now.as_second() }
    }

    /// Returns the record after the load balancer was ACTIVE. Pure.
    pub(super) fn proven(&self) -> Self {
        Self { count: 0, ..self.clone() }
    }

    /// Returns the value of the annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn is_recent(at: i64, now: Timestamp) -> bool {
    Timestamp::from_second(at).is_ok_and(|at| !is_over(at, now, DELETION_INTERVAL))
}

fn parse<T: Default + for<'a> Deserialize<'a>>(object: &OpenStackCluster, key: &str) -> T {
    let text = object.annotations().get(key);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackClusterSpec;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
    }

    fn stored(key: &str, text: String) -> OpenStackCluster {
        let mut object = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        object.annotations_mut().insert(key.to_owned(), text);
        object
    }

    #[test]
    fn a_part_is_set_again_once_and_deleted_three_times_per_hour_also_after_restarts() {
        let mut repairs = PartRepairs::default();
        for minute in [0, 10, 20] {
            let id = format!("id-{minute}");
            for expected in [Repair::SetAgain, Repair::Delete] {
                assert_eq!(repairs.next("member/m", &id, at(minute)), Some(expected), "{minute}");
                repairs = repairs.after("member/m", &id, expected, at(minute));
                repairs = PartRepairs::of(&stored(PART_REPAIRS, repairs.text()));
            }
        }
        assert_eq!(repairs.next("member/m", "id-30", at(30)), Some(Repair::SetAgain));
        repairs = repairs.after("member/m", "id-30", Repair::SetAgain, at(30));
        assert_eq!(repairs.next("member/m", "id-30", at(59)), None);
        assert_eq!(repairs.next("member/m", "id-30", at(60)), Some(Repair::Delete));
        assert_eq!(repairs.next("member/n", "n", at(59)), Some(Repair::SetAgain), "of each part");
        let others = repairs.after("member/n", "n", Repair::SetAgain, at(600));
        assert_eq!(others.text(), r#"{"member/n":{"set":"n","deleted":[]}}"#);
    }

    #[test]
    fn a_load_balancer_that_never_works_is_created_again_after_growing_delays() {
        let mut made = Recreations::default();
        assert_eq!(made.delay_of_unproven(at(0)), None);
        for delay in [1, 2, 4, 8, 16, 30, 30] {
            made = Recreations::of(&stored(RECREATIONS, made.after(at(0)).text()));
            assert_eq!(made.delay_of_unproven(at(0)), Some(at(delay)));
            assert_eq!(made.delay_of_unproven(at(delay)), None);
        }
        let made = made.proven();
        assert!(!made.is_unproven());
        assert_eq!(made.delay_of_proven(at(29)), Some(at(30)));
        assert_eq!(made.delay_of_proven(at(30)), None);
        assert_eq!(made.after(at(50)).delay_of_unproven(at(50)), Some(at(51)), "the delays begin again");
    }
}
