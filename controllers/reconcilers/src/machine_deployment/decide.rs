//! Decision on the next step of a MachineDeployment.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_types::{MachineDeployment, MachineSet, RolloutStrategyType};
use controllers_runtime::paused;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::in_place::{self, Marks, Moves};
use super::observe::Observed;
use super::paused_scaling::{self, Scaled};
use super::progress::{self, Progress, Record};
use super::rollout::{self, Limits, Plan, Set};
use super::{FINALIZER, finalizers_of, held_scaling, hold, sameness, scale_down, surge, template_revisions};
use crate::machine_labels::{DESIRED_REPLICAS, MAX_REPLICAS};
use crate::replica_counts::scaled;
use crate::{CLUSTER_NAME_LABEL, finalizers, ownership, rollout_gate, topology_templates};

/// Interval of a MachineDeployment that waits for nothing. Upstream's full resync; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval of a MachineDeployment whose templates do not exist: templates are not watched.
const MISSING: Duration = Duration::from_secs(15);

/// Interval of a rollout in which an extension server decides: ExtensionConfigs are not watched.
const JUDGED: Duration = Duration::from_mins(1);

/// Key in a plan of the set that does not exist yet. No object has this name.
pub(super) const TO_BE_CREATED: &str = "";

/// Next step of a MachineDeployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Report only: the MachineDeployment is paused.
    Pause,
    /// Do nothing at all: it is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizers.
    AddFinalizer,
    /// Add the Cluster's label, and the Cluster as the owner.
    Claim,
    /// Add the Cluster as an owner to the templates.
    OwnTemplates,
    /// Record the revisions of the templates: annotations by key.
    Record(BTreeMap<&'static str, Option<String>>),
    /// Become the controller of sets that match the selector and have none.
    Adopt,
    /// Delete these sets, because the MachineDeployment is being deleted.
    DeleteAll(Vec<String>),
    /// Wait until the sets are gone.
    WaitForSets,
    /// Delete the templates of a topology, and remove the finalizers: no set is left.
    Release,
    /// Bring the sets to these numbers, and their metadata and settings up to date.
    Roll(Roll),
    /// Record the last progress.
    Progress(Record),
    /// Pause the MachineDeployment, because its deadline is exceeded.
    Stop(Record),
    /// Delete old sets without Machines: the rollout is complete.
    CleanUp(Vec<String>),
    /// Nothing is left to do.
    Nothing,
}

/// Step of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roll {
    /// Name of the set with the present template; [`TO_BE_CREATED`] if it is to be created, `None` if there is none.
    pub new: Option<String>,
    /// Numbers of the sets that change.
    pub replicas: Plan,
    /// Marks of the sets about moves of Machines.
    pub marks: Marks,
}

impl Step {
    /// Reports whether a pass ends with this step, because what follows needs another observation.
    pub(super) const fn ends_pass(&self) -> bool {
        !matches!(
            self,
            Self::AddFinalizer
                | Self::Claim
                | Self::OwnTemplates
                | Self::Record(_)
                | Self::Adopt
                | Self::Roll(_)
                | Self::Progress(_)
                | Self::Stop(_)
        )
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Step {
    if paused(deployment, observed.cluster.as_ref()) {
        return Step::Pause;
    }
    let is_deleting = deployment.metadata.deletion_timestamp.is_some();
    let is_held = match is_deleting {
        true => finalizers::has_any(deployment, &[FINALIZER, topology_templates::OF_DEPLOYMENT]),
        false => finalizers::has_all(deployment, &finalizers_of(deployment)),
    };
    match (is_deleting, is_held) {
        (true, true) => return deletion(observed),
        (true, false) => return Step::Ignore,
        (false, false) => return Step::AddFinalizer,
        (false, true) => {}
    }
    let is_labelled = deployment.labels().get(CLUSTER_NAME_LABEL) == Some(&deployment.spec.cluster_name);
    let cluster = observed.cluster.as_ref();
    if !is_labelled || cluster.is_some_and(|cluster| !ownership::is_adopted(&deployment.metadata, cluster)) {
        return Step::Claim;
    }
    if !observed.unowned.is_empty() {
        return Step::OwnTemplates;
    }
    let revisions = template_revisions::unrecorded(deployment, &observed.templates, &observed.revisions);
    if !revisions.is_empty() {
        return Step::Record(revisions);
    }
    if !observed.orphans.is_empty() {
        return Step::Adopt;
    }
    if !observed.rolled {
        return Step::Roll(roll(deployment, observed, now));
    }
    if let Some(record) = progress::unrecorded(deployment, observed, now) {
        return Step::Progress(record);
    }
    if let Some(record) = progress::stop(deployment, observed, now) {
        return Step::Stop(record);
    }
    let obsolete = obsolete(deployment, observed, now);
    if obsolete.is_empty() { Step::Nothing } else { Step::CleanUp(obsolete) }
}

fn deletion(observed: &Observed) -> Step {
    let sets = observed.sets.iter();
    let left = sets.filter(|set| set.metadata.deletion_timestamp.is_none()).map(ResourceExt::name_any);
    let left: Vec<String> = left.collect();
    match (left.is_empty(), observed.sets.is_empty()) {
        (false, _) => Step::DeleteAll(left),
        (true, false) => Step::WaitForSets,
        (true, true) => Step::Release,
    }
}

/// Returns true if users replace the old Machines themselves.
pub(super) fn is_on_delete(deployment: &MachineDeployment) -> bool {
    let strategy = deployment.spec.rollout.as_ref().and_then(|it| it.strategy.as_ref());
    strategy.is_some_and(|it| it.kind == RolloutStrategyType::OnDelete)
}

/// Returns the limits of a rollout.
pub(super) fn limits(deployment: &MachineDeployment) -> Limits {
    let replicas = i64::from(deployment.spec.replicas.unwrap_or(1));
    if is_on_delete(deployment) {
        return Limits { replicas, surge: 0, unavailable: 0 };
    }
    let strategy = deployment.spec.rollout.as_ref().and_then(|it| it.strategy.as_ref());
    let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
    let surge = rolling.and_then(|it| it.max_surge.as_ref()).map_or(Some(1), |it| scaled(it, replicas, true));
    let unavailable = rolling.and_then(|it| it.max_unavailable.as_ref());
    let unavailable = unavailable.map_or(Some(0), |it| scaled(it, replicas, false));
    let (surge, unavailable) = (surge.unwrap_or(1), unavailable.unwrap_or_default());
    // With neither, the rollout could not take a step.
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Limits { replicas, surge, unavailable: unavailable.min(replicas) }
}

/// Returns the numbers of a set, as the planner needs them.
pub(super) fn numbers(set: &MachineSet) -> Set {
    let status = |number: Option<i32>| i64::from(number.unwrap_or_default());
    let known = set.status.as_ref();
    Set {
        name: set.name_any(),
        desired: i64::from(set.spec.replicas.unwrap_or_default()),
        existing: status(known.and_then(|it| it.replicas)),
        available: status(known.and_then(|it| it.available_replicas)),
    }
}

/// Returns true if a rollout may make surplus Machines, and goes on without them, too. Without maxUnavailable it
/// cannot.
pub(super) fn is_surge_optional(deployment: &MachineDeployment) -> bool {
    let limits = limits(deployment);
    limits.surge > 0 && limits.unavailable > 0
}

/// Returns true if the next numbers have surplus Machines that the rollout can do without.
pub(super) fn surges(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> bool {
    is_surge_optional(deployment)
        && rolled(deployment, observed, now, false) != rolled(deployment, observed, now, true)
}

/// Plans the next numbers of all sets.
pub(super) fn roll(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Roll {
    let is_short = observed.shortage.is_some() && is_surge_optional(deployment);
    rolled(deployment, observed, now, is_short)
}

/// Plans the next numbers of all sets, and acknowledges moves. If the project `is_short` of room, a rollout in progress makes
/// no surplus Machines.
fn rolled(deployment: &MachineDeployment, observed: &Observed, now: Timestamp, is_short: bool) -> Roll {
    let moves = Moves::of(observed);
    let mut roll = planned(deployment, observed, &moves, (now, is_short));
    moves.acknowledge(observed, &mut roll);
    roll
}

fn planned(
    deployment: &MachineDeployment,
    observed: &Observed,
    moves: &Moves,
    (now, is_short): (Timestamp, bool),
) -> Roll {
    let limits = limits(deployment);
    let known = sameness::find_new(deployment, &observed.sets, now);
    if deployment.spec.paused == Some(true) {
        return paused_roll(deployment, observed, moves, (known, limits));
    }
    let old =
        observed.sets.iter().filter(|set| known.is_none_or(|new| new.metadata.name != set.metadata.name));
    let old: Vec<Set> = old.map(|set| moves.numbers(set)).collect();
    let new = match known {
        Some(new) => moves.numbers(new),
        None => Set { name: TO_BE_CREATED.to_owned(), desired: 0, existing: 0, available: 0 },
    };
    if let Some(roll) = waiting(deployment, observed, moves, (known, &new, &old), now) {
        return roll;
    }
    let marked = known.map_or((0, false), |new| {
        (scale_down::marked(deployment, observed, new), scale_down::is_pending(observed, new))
    });
    let is_only = || rollout_gate::in_place(deployment) == rollout_gate::InPlace::Only;
    let has_no_surge = is_short || (observed.in_place.is_served && is_only());
    let limits = if has_no_surge { Limits { surge: 0, ..limits } } else { limits };
    let updates = known.filter(|_| !observed.in_place.accepted.is_empty());
    let updates = updates.map(|new| in_place::updates(observed, new));
    let planner = |limits: Limits, new: &Set, old: &[Set]| match updates {
        _ if is_on_delete(deployment) => rollout::on_delete(limits, new, old),
        Some(updates) => rollout::rolling_update_in_place(limits, new, old, updates),
        None => rollout::rolling_update(limits, new, old),
    };
    let (name, marks) = (new.name.clone(), in_place::marks(&observed.in_place, &new.name));
    Roll { replicas: scale_down::plan(planner, limits, new, &old, marked), new: Some(name), marks }
}

/// Plans the numbers of a rollout that waits; `None` if it goes on. Its sets keep their marks.
fn waiting(
    deployment: &MachineDeployment,
    observed: &Observed,
    moves: &Moves,
    (known, new, old): (Option<&MachineSet>, &Set, &[Set]),
    now: Timestamp,
) -> Option<Roll> {
    let roll = |new: Option<&Set>, replicas: Plan| {
        let marks = in_place::present_marks(observed);
        Some(Roll { new: new.map(|it| it.name.clone()), replicas, marks })
    };
    if known.is_none() && !(observed.missing.is_empty() && observed.unusable.is_empty()) {
        // Without its templates, a new set could create nothing, and the old Machines must stay.
        return roll(None, Plan::new());
    }
    if known.is_some_and(|new| scale_down::held(deployment, observed, new, now).is_some()) {
        return roll(Some(new), Plan::new());
    }
    if hold::hold(deployment, observed, now).is_some() {
        let existing = known.map(|_| new);
        let whole: Vec<Set> = old.iter().map(|set| moves.with_leaving(observed, set)).collect();
        let replicas = held_scaling::plan(limits(deployment), existing, &whole);
        return roll(existing, replicas).map(|roll| moves.without_moves_of_surplus(observed, roll));
    }
    // The server is called with the new set, and before old Machines go.
    if known.is_none() && observed.in_place.is_served { roll(Some(new), Plan::new()) } else { None }
}

fn paused_roll(
    deployment: &MachineDeployment,
    observed: &Observed,
    moves: &Moves,
    (new, limits): (Option<&MachineSet>, Limits),
) -> Roll {
    let number = |set: &MachineSet, key: &str| set.annotations().get(key).and_then(|text| text.parse().ok());
    let sets = observed.sets.iter().map(|set| Scaled {
        set: moves.with_leaving(observed, &moves.numbers(set)),
        created: set.metadata.creation_timestamp.as_ref().map(|created| created.0),
        desired: number(set, DESIRED_REPLICAS),
        most: number(set, MAX_REPLICAS),
    });
    let existing = deployment.status.as_ref().and_then(|it| it.replicas).map(i64::from).unwrap_or_default();
    let (sets, new) = (sets.collect::<Vec<_>>(), new.map(ResourceExt::name_any));
    let rolls = !is_on_delete(deployment);
    let replicas = paused_scaling::plan(limits, &sets, new.as_deref(), rolls, existing);
    moves.without_moves_of_surplus(observed, Roll { replicas, new, marks: in_place::present_marks(observed) })
}

/// Returns the old sets without Machines, if the rollout is complete.
fn obsolete(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Vec<String> {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let sum = |field: fn(&MachineSet) -> Option<i32>| observed.sets.iter().filter_map(field).sum::<i32>();
    let counters: [fn(&MachineSet) -> Option<i32>; 3] = [
        |set| set.status.as_ref()?.replicas,
        |set| set.status.as_ref()?.available_replicas,
        |set| set.status.as_ref()?.up_to_date_replicas,
    ];
    let Some(new) = sameness::find_new(deployment, &observed.sets, now) else { return Vec::new() };
    if !counters.into_iter().all(|counter| sum(counter) == replicas) || !is_observed(new) {
        return Vec::new();
    }
    let old = observed.sets.iter().filter(|set| set.metadata.name != new.metadata.name);
    let empty = old.filter(|set| {
        let existing = set.status.as_ref().and_then(|status| status.replicas);
        set.spec.replicas == Some(0)
            && existing == Some(0)
            && is_observed(set)
            && set.metadata.deletion_timestamp.is_none()
    });
    empty.map(ResourceExt::name_any).collect()
}

/// Returns true if the status of a set belongs to its present spec.
fn is_observed(set: &MachineSet) -> bool {
    set.status.as_ref().and_then(|status| status.observed_generation) >= set.metadata.generation
}

/// Returns the interval after a pass that ended with `step`.
pub(super) fn interval(
    deployment: &MachineDeployment,
    step: &Step,
    observed: &Observed,
    now: Timestamp,
) -> Option<Duration> {
    if matches!(step, Step::Pause | Step::Ignore | Step::Release) {
        return None;
    }
    if !observed.missing.is_empty() {
        return Some(MISSING);
    }
    let after = sameness::requested_rollout(deployment).filter(|after| *after > now);
    let wait = after.and_then(|after| Duration::try_from(after.duration_since(now)).ok());
    let deadline = match progress::progress(deployment, observed, now) {
        Progress::Moving(left) => Some(left),
        _ => None,
    };
    let held = hold::hold(deployment, observed, now).and_then(|hold| hold.wait);
    let new = sameness::find_new(deployment, &observed.sets, now);
    let scaling = new.and_then(|new| scale_down::wait(deployment, observed, new, now));
    let short = observed.shortage.as_ref().map(|_| surge::AGE);
    let judged = observed.in_place.is_judged.then_some(JUDGED);
    let wait = wait.into_iter().chain(deadline).chain(held).chain(scaling).chain(short).chain(judged).min();
    Some(wait.map_or(RESYNC, |wait| wait.saturating_add(Duration::from_secs(1)).min(RESYNC)))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
