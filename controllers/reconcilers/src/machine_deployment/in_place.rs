//! Updates in place of the Machines of old sets: which sets an extension server can bring to the present template, and the
//! marks by which their Machines move to the present set. Pure.
//!
//! A Machine that was moved counts in its new set only once this controller has acknowledged it. So it counts once, whatever
//! else happens in between.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apiserver_types::rollout_settings::ROLLOUT_POLICY;
use apiserver_types::{Machine, MachineDeployment, MachineSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decide::{self, Roll, numbers};
use super::observe::Observed;
use super::rollout::{Set, Updates};
use super::sameness::{self, EXPIRED};
use crate::in_place::{self, ACKNOWLEDGED, MOVE_TO, PENDING_ACKNOWLEDGE, PENDING_HOOKS, RECEIVE_FROM};
use crate::machine_labels::UPDATING;
use crate::ownership;
use crate::replica_status::is_deleting;
use crate::rollout_gate::{self, Hold, InPlace as Part};

/// Annotations of sets about moves of Machines, by the name of the set. A set loses those that it has not here.
pub(super) type Marks = BTreeMap<String, BTreeMap<&'static str, String>>;

/// Judgement of the old sets in one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InPlace {
    /// The sets were judged: Machines of old ones may be updated in place, and an extension server is registered for that.
    pub is_judged: bool,
    /// An extension server decides. The present set exists before Machines of old ones leave.
    pub is_served: bool,
    /// Names of the old sets whose Machines the server can update.
    pub accepted: BTreeSet<String>,
    /// Differences that the server cannot make, one line each.
    pub refusals: BTreeSet<String>,
    /// Failure of the judgement, and the time until the next one.
    pub failure: Option<(String, Duration)>,
}

impl InPlace {
    /// Notes the differences of an old set that the server cannot make.
    pub(super) fn note(&mut self, set: &MachineSet, differences: Vec<String>) {
        if differences.is_empty() {
            self.accepted.insert(set.name_any());
        }
        self.refusals.extend(differences);
    }
}

/// Returns the old sets whose Machines may be updated in place now.
pub(super) fn candidates<'a>(
    deployment: &MachineDeployment,
    observed: &'a Observed,
    now: Timestamp,
) -> Vec<&'a MachineSet> {
    let is_held = || rollout_gate::hold_in_place(deployment, observed.cluster.as_ref(), now).is_some();
    if deployment.spec.paused == Some(true)
        || decide::is_on_delete(deployment)
        || rollout_gate::in_place(deployment) == Part::Never
        || is_held()
    {
        return Vec::new();
    }
    let new = sameness::find_new(deployment, &observed.sets, now);
    let wanted = i64::from(deployment.spec.replicas.unwrap_or(1));
    if new.is_some_and(|new| Moves::of(observed).numbers(new).desired >= wanted) {
        return Vec::new();
    }
    let is_candidate = |set: &&MachineSet| {
        let differences = sameness::all_differences(set, deployment, now);
        new.is_none_or(|new| new.metadata.name != set.metadata.name)
            && set.metadata.deletion_timestamp.is_none()
            && numbers(set).existing > 0
            && !differences.is_empty()
            && !differences.iter().any(|line| line == EXPIRED)
    };
    observed.sets.iter().filter(is_candidate).collect()
}

/// Returns what keeps a rollout that may only update Machines in place from its next step.
pub(super) fn obstacle(deployment: &MachineDeployment, in_place: &InPlace) -> Option<Hold> {
    let begin = format!("Annotation {ROLLOUT_POLICY} is InPlaceOnly");
    if !in_place.refusals.is_empty() {
        let lines: Vec<&str> = in_place.refusals.iter().map(String::as_str).collect();
        let lines = lines.join("; ");
        let message =
            format!("{begin}, and the extension server does not make all changes in place: {lines}");
        return Some(rollout_gate::blocked(message, None));
    }
    (decide::limits(deployment).unavailable == 0).then(|| {
        let message = format!(
            "{begin}, so that no surplus Machine is made, and no Machine may be unavailable. Set \
             spec.rollout.strategy.rollingUpdate.maxUnavailable to 1 or more"
        );
        rollout_gate::blocked(message, None)
    })
}

/// Returns the marks of a rollout in which Machines move to this set.
pub(super) fn marks(in_place: &InPlace, new: &str) -> Marks {
    let sources: BTreeSet<&str> = in_place.accepted.iter().map(String::as_str).collect();
    if sources.is_empty() {
        return Marks::new();
    }
    let old = sources.iter().map(|name| ((*name).to_owned(), BTreeMap::from([(MOVE_TO, new.to_owned())])));
    let mut marks: Marks = old.collect();
    marks.insert(new.to_owned(), BTreeMap::from([(RECEIVE_FROM, in_place::joined(sources))]));
    marks
}

/// Returns the marks that the sets have. A rollout that waits keeps them: Machines of which there are too many already leave,
/// and are not deleted.
pub(super) fn present_marks(observed: &Observed) -> Marks {
    let of = |set: &MachineSet| {
        let own = [MOVE_TO, RECEIVE_FROM].into_iter();
        let own = own.filter_map(|key| Some((key, set.annotations().get(key)?.clone())));
        (set.name_any(), own.collect::<BTreeMap<_, _>>())
    };
    observed.sets.iter().map(of).filter(|(_, marks)| !marks.is_empty()).collect()
}

/// Returns the state of the updates in place.
pub(super) fn updates(observed: &Observed, new: &MachineSet) -> Updates {
    let status = new.status.as_ref();
    let up_to_date = status.and_then(|status| status.up_to_date_replicas).unwrap_or_default();
    let in_progress = observed.machines.iter().any(in_place::is_updating);
    Updates { up_to_date: i64::from(up_to_date), in_progress }
}

/// Counts moved Machines in their new sets and ends all updates, for a plan: a model has neither moves nor updates.
pub(super) fn settle(observed: &mut Observed) {
    let moves = Moves::of(observed);
    for set in observed.sets.iter_mut().filter(|set| moves.0.contains_key(&set.name_any())) {
        set.spec.replicas = i32::try_from(moves.numbers(set).desired).ok();
    }
    for machine in observed.machines.iter_mut().filter(|it| in_place::is_updating(it)) {
        for mark in [UPDATING, PENDING_ACKNOWLEDGE, PENDING_HOOKS] {
            machine.annotations_mut().remove(mark);
        }
    }
}

/// Machines that were moved to a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Arrivals {
    names: BTreeSet<String>,
    /// Number of those that the set's own number does not include yet.
    uncounted: i64,
}

/// Moves of Machines that are to be acknowledged, by the name of the set that has the Machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Moves(BTreeMap<String, Arrivals>);

impl Moves {
    /// Returns the moves of an observation. Also a set that is not the present one any more may have got Machines.
    pub(super) fn of(observed: &Observed) -> Self {
        let mut moves = Self::default();
        for set in &observed.sets {
            let known = in_place::listed(set.annotations().get(ACKNOWLEDGED));
            let is_moved =
                |it: &&Machine| it.annotations().contains_key(PENDING_ACKNOWLEDGE) && is_controlled(it, set);
            for machine in observed.machines.iter().filter(is_moved) {
                let name = machine.name_any();
                let arrivals = moves.0.entry(set.name_any()).or_default();
                arrivals.uncounted += i64::from(!known.contains(name.as_str()));
                arrivals.names.insert(name);
            }
        }
        moves
    }

    /// Returns the numbers of a set with the Machines that were moved to it.
    pub(super) fn numbers(&self, set: &MachineSet) -> Set {
        let numbers = numbers(set);
        let uncounted = self.0.get(&numbers.name).map_or(0, |arrivals| arrivals.uncounted);
        Set { desired: numbers.desired + uncounted, ..numbers }
    }

    /// Returns the numbers of a set in a rollout that waits: Machines that have yet to leave it for another set count in it,
    /// because that one does not count them.
    pub(super) fn with_leaving(&self, observed: &Observed, numbers: &Set) -> Set {
        let is_source =
            |set: &&MachineSet| set.name_any() == numbers.name && set.annotations().contains_key(MOVE_TO);
        let Some(set) = observed.sets.iter().find(is_source) else { return numbers.clone() };
        let own = observed.machines.iter().filter(|it| is_controlled(it, set) && !is_deleting(it)).count();
        let own = i64::try_from(own).unwrap_or(i64::MAX);
        Set { desired: numbers.desired.max(own), ..numbers.clone() }
    }

    /// Ends the moves from the sets that a rollout which waits makes smaller: it deletes Machines, and a moved one would stay.
    /// A set from which more Machines leave than there are too many keeps its number until they have left.
    pub(super) fn without_moves_of_surplus(&self, observed: &Observed, mut roll: Roll) -> Roll {
        for set in &observed.sets {
            let name = set.name_any();
            let counted = self.numbers(set);
            let whole = self.with_leaving(observed, &counted).desired;
            let Some(number) = roll.replicas.get(&name).copied().filter(|number| *number < whole) else {
                continue;
            };
            if number > counted.desired {
                roll.replicas.remove(&name);
            } else if let Some(marks) = roll.marks.get_mut(&name) {
                marks.remove(MOVE_TO);
            }
        }
        roll
    }

    /// Adds the acknowledgements to a step of a rollout: number and mark are written together.
    pub(super) fn acknowledge(&self, observed: &Observed, roll: &mut Roll) {
        for set in &observed.sets {
            let Some(arrivals) = self.0.get(&set.name_any()) else { continue };
            let number = self.numbers(set).desired;
            if arrivals.uncounted > 0 {
                roll.replicas.entry(set.name_any()).or_insert(number);
            }
            let names = in_place::joined(arrivals.names.iter().map(String::as_str).collect());
            roll.marks.entry(set.name_any()).or_default().insert(ACKNOWLEDGED, names);
        }
    }
}

fn is_controlled(machine: &Machine, set: &MachineSet) -> bool {
    let owner = ownership::controller_of(machine);
    owner.is_some_and(|owner| Some(&owner.uid) == set.metadata.uid.as_ref())
}

#[cfg(test)]
#[path = "in_place_tests.rs"]
mod tests;
