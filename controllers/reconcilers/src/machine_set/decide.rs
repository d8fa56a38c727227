//! Decision on the next step of a MachineSet.

use std::time::Duration;

use apiserver_types::{Machine, MachineSet};
use controllers_runtime::paused;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::chains::{self, Chains};
use super::moves::Move;
use super::observe::Observed;
use super::remediation::{self, Circumstances, Remediation};
use super::{FINALIZER, WAITING, finalizers_of, limits, moves, spread};
use crate::machine_labels::DISABLE_CREATE;
use crate::replica_status::{counts, is_deleting};
use crate::rollout_gate::{self, Hold};
use crate::{CLUSTER_NAME_LABEL, finalizers, ownership, topology_templates};

/// Interval of a set whose Machines are not all ready, or that must not create Machines. Upstream's.
const UNSETTLED: Duration = Duration::from_secs(15);

/// Interval of a set that waits for nothing. Upstream's full resync; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(10);

/// Next step of a MachineSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Report only: the set is paused.
    Pause,
    /// Do nothing at all: the set is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizers.
    AddFinalizer,
    /// Add the Cluster's label, and the Cluster as the owner of a set without a MachineDeployment.
    Claim,
    /// Add the Cluster as an owner to the templates.
    OwnTemplates,
    /// Become the controller of Machines that match the selector and have none.
    Adopt,
    /// Delete these Machines, because the set is being deleted.
    DeleteAll(Vec<String>),
    /// Wait until the Machines are gone.
    WaitForMachines,
    /// Delete the templates of a topology, and remove the finalizers: no Machine is left.
    Release,
    /// Mark and delete unhealthy Machines.
    Remediate(Remediation),
    /// Bring metadata and settings of the existing Machines up to date.
    Sync,
    /// Begin the updates in place of these Machines.
    BeginUpdates(Vec<String>),
    /// Remove what an interrupted creation left.
    Sweep,
    /// Create this number of Machines.
    Create(usize),
    /// Create no Machines, because a preflight check or a missing template forbids it.
    Blocked,
    /// Delete these Machines, because there are too many.
    ScaleDown(Vec<String>),
    /// Let Machines leave for another set of the MachineDeployment, because there are too many.
    Move(Move),
    /// Nothing is left to do.
    Nothing,
}

impl Step {
    /// Reports whether a pass ends with this step, because what follows needs another observation.
    pub(super) const fn ends_pass(&self) -> bool {
        !matches!(
            self,
            Self::AddFinalizer
                | Self::Claim
                | Self::OwnTemplates
                | Self::Adopt
                | Self::Remediate(_)
                | Self::Sync
                | Self::BeginUpdates(_)
                | Self::Sweep
        )
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(set: &MachineSet, observed: &Observed, now: Timestamp) -> Step {
    if paused(set, observed.cluster.as_ref()) {
        return Step::Pause;
    }
    let is_deleting = set.metadata.deletion_timestamp.is_some();
    let is_held = match is_deleting {
        true => finalizers::has_any(set, &[FINALIZER, topology_templates::OF_SET]),
        false => finalizers::has_all(set, &finalizers_of(set)),
    };
    match (is_deleting, is_held) {
        (true, true) => return deletion(observed),
        (true, false) => return Step::Ignore,
        (false, false) => return Step::AddFinalizer,
        (false, true) => {}
    }
    if !is_claimed(set, observed) {
        return Step::Claim;
    }
    if !observed.unowned.is_empty() {
        return Step::OwnTemplates;
    }
    if !observed.orphans.is_empty() {
        return Step::Adopt;
    }
    let plan = remediation(set, observed, now);
    if !plan.is_empty() {
        return Step::Remediate(plan);
    }
    if !observed.synced {
        return Step::Sync;
    }
    let updates = if observed.begun { Vec::new() } else { moves::to_begin(set, observed) };
    if !updates.is_empty() {
        return Step::BeginUpdates(updates);
    }
    if observed.swept { replicas(set, observed, now) } else { Step::Sweep }
}

/// Returns the number of Machines that a set is to have.
pub(super) fn wanted(set: &MachineSet) -> usize {
    usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or_default()
}

/// Plans the remediation of the set's Machines.
pub(super) fn remediation(set: &MachineSet, observed: &Observed, now: Timestamp) -> Remediation {
    let deployment = observed.deployment.as_ref();
    let own = limits::of_set(set, deployment);
    let circumstances = Circumstances {
        is_current: observed.is_current(set) || is_kept(set, observed, now),
        limits: own.iter().chain(&observed.limit_of_cluster).collect(),
        preflight: &observed.preflight,
        chains: chains::policy(set, deployment)
            .map(|policy| Chains::read(set, policy, now).with_uids_of(&observed.machines)),
        hold: outside_window(set, observed, now),
    };
    remediation::plan(&observed.machines, circumstances)
}

/// Returns the hold of remediations that are not urgent: the window of the MachineDeployment, or of a set without one.
fn outside_window(set: &MachineSet, observed: &Observed, now: Timestamp) -> Option<Hold> {
    let cluster = observed.cluster.as_ref();
    match &observed.deployment {
        Some(deployment) => rollout_gate::outside_window(deployment, cluster, now),
        None => rollout_gate::outside_window(set, cluster, now),
    }
}

/// Returns true if a set with an earlier template keeps its Machines for now, because the rollout is held.
fn is_kept(set: &MachineSet, observed: &Observed, now: Timestamp) -> bool {
    let is_disabled = set.annotations().get(DISABLE_CREATE).is_some_and(|value| value == "true");
    let deployment = observed.deployment.as_ref();
    let hold = deployment.and_then(|it| rollout_gate::hold(it, observed.cluster.as_ref(), now));
    !is_disabled && hold.is_some()
}

fn deletion(observed: &Observed) -> Step {
    let left: Vec<String> =
        observed.machines.iter().filter(|it| !is_deleting(it)).map(ResourceExt::name_any).collect();
    match (left.is_empty(), observed.machines.is_empty()) {
        (false, _) => Step::DeleteAll(left),
        (true, false) => Step::WaitForMachines,
        (true, true) => Step::Release,
    }
}

/// Returns true if set, selector and template have the Cluster's label, and the set has an owner.
fn is_claimed(set: &MachineSet, observed: &Observed) -> bool {
    let Some(cluster) = &observed.cluster else { return true };
    let name = Some(&set.spec.cluster_name);
    let selector = set.spec.selector.match_labels.as_ref();
    let template = set.spec.template.metadata.as_ref().and_then(|it| it.labels.as_ref());
    let is_owned = observed.deployment.is_some() || ownership::is_adopted(&set.metadata, cluster);
    is_owned
        && set.labels().get(CLUSTER_NAME_LABEL) == name
        && selector.and_then(|it| it.get(CLUSTER_NAME_LABEL)) == name
        && template.and_then(|it| it.get(CLUSTER_NAME_LABEL)) == name
}

fn replicas(set: &MachineSet, observed: &Observed, now: Timestamp) -> Step {
    let (desired, existing) = (wanted(set), observed.machines.len());
    if existing < desired {
        let is_disabled = set.annotations().get(DISABLE_CREATE).is_some_and(|value| value == "true");
        return match (is_disabled, observed.is_blocked()) {
            (true, _) => Step::Nothing,
            (false, false) => Step::Create(desired - existing),
            (false, true) => Step::Blocked,
        };
    }
    let order = set.spec.deletion.as_ref().and_then(|it| it.order).unwrap_or_default();
    // One that was moved here, and that the number does not include yet, is none too many.
    let counted: Vec<&Machine> =
        observed.machines.iter().filter(|it| moves::counts(set, observed, it)).collect();
    let excess = counted.len().saturating_sub(desired);
    if let Some(plan) = moves::plan(set, &observed.machines, (order, now), excess) {
        return if plan.is_empty() { Step::Nothing } else { Step::Move(plan) };
    }
    // Those that are being deleted come first, so that no more than necessary are deleted.
    let spread = spread::of_set(observed);
    let first = spread::surplus(counted, (order, now), excess, spread.as_ref());
    let excess = first.into_iter().filter(|it| !is_deleting(it));
    let names: Vec<String> = excess.map(ResourceExt::name_any).collect();
    if names.is_empty() { Step::Nothing } else { Step::ScaleDown(names) }
}

/// Returns the interval after a pass that ended with `step`.
pub(super) fn interval(
    set: &MachineSet,
    step: &Step,
    observed: &Observed,
    now: Timestamp,
) -> Option<Duration> {
    match step {
        Step::Pause | Step::Ignore | Step::Release => return None,
        Step::Blocked => return Some(UNSETTLED),
        _ => {}
    }
    let count = |kind| observed.machines.iter().filter(|it| counts(it, kind)).count();
    let desired = wanted(set);
    let seconds = set.spec.template.spec.min_ready_seconds.unwrap_or_default();
    let interval = match (count("Ready") == desired, count("Available") == desired) {
        (false, _) => UNSETTLED,
        (true, false) if seconds > 0 => Duration::from_secs(u64::try_from(seconds).unwrap_or(1)),
        _ => RESYNC,
    };
    let interval = if observed.is_unbegun { interval.min(WAITING) } else { interval };
    // A little later, so that the period is over.
    let wait = remediation(set, observed, now).wait.map(|wait| wait.saturating_add(Duration::from_secs(1)));
    Some(wait.map_or(interval, |wait| wait.min(interval)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use apiserver_types::{Cluster, ClusterSpec, MachineSetSpec, MachineSpec, TemplateMeta};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::templates::Missing;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster
    }

    fn set(replicas: i32) -> MachineSet {
        let labels = Some(BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), "c".to_owned())]));
        let mut set = MachineSet::new("ms", MachineSetSpec::default());
        set.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        set.metadata.labels = labels.clone();
        set.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
        set.spec.cluster_name = "c".to_owned();
        set.spec.replicas = Some(replicas);
        set.spec.selector.match_labels = labels.clone();
        set.spec.template.metadata = Some(TemplateMeta { labels, ..TemplateMeta::default() });
        set
    }

    fn observed(names: &[&str]) -> Observed {
        let machines = names.iter().map(|name| Machine::new(name, MachineSpec::default())).collect();
        Observed { cluster: Some(cluster()), machines, synced: true, swept: true, ..Observed::default() }
    }

    fn deleted() -> Option<Time> {
        Some(Time(Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn a_set_is_prepared_before_it_creates_machines() {
        let now = Timestamp::now();
        let mut bare = set(1);
        bare.metadata.finalizers = None;
        assert_eq!(next_step(&bare, &observed(&[]), now), Step::AddFinalizer);
        bare.metadata.deletion_timestamp = deleted();
        assert_eq!(next_step(&bare, &observed(&[]), now), Step::Ignore);
        let mut unlabelled = set(1);
        unlabelled.spec.selector.match_labels = None;
        assert_eq!(next_step(&unlabelled, &observed(&[]), now), Step::Claim);
        let mut paused = set(1);
        paused.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        assert_eq!(next_step(&paused, &observed(&[]), now), Step::Pause);
        let orphans = vec![Machine::new("o", MachineSpec::default())];
        assert_eq!(next_step(&set(1), &Observed { orphans, ..observed(&[]) }, now), Step::Adopt);
        let stale = Observed { synced: false, ..observed(&[]) };
        assert_eq!(next_step(&set(1), &stale, now), Step::Sync);
        for replicas in 0..3 {
            let unswept = Observed { swept: false, ..observed(&["a"]) };
            assert_eq!(next_step(&set(replicas), &unswept, now), Step::Sweep, "whatever its number is");
        }
        assert_eq!(next_step(&set(1), &observed(&[]), now), Step::Create(1));
    }

    #[test]
    fn a_set_comes_to_its_number_and_counts_machines_that_are_being_deleted() {
        let now = Timestamp::now();
        let mut going = observed(&["a", "b", "c"]);
        going.machines[2].metadata.deletion_timestamp = deleted();
        let blocked = Observed { preflight: vec!["busy".to_owned()], ..observed(&[]) };
        let absent = Missing { kind: "T".to_owned(), name: "t".to_owned(), field: "infrastructureRef" };
        let missing = Observed { missing: vec![absent], ..observed(&[]) };
        let unusable = Observed { unusable: vec!["no template".to_owned()], ..observed(&[]) };
        let mut disabled = set(1);
        disabled.annotations_mut().insert(DISABLE_CREATE.to_owned(), "true".to_owned());
        let table = [
            (set(3), observed(&["a"]), Step::Create(2)),
            (set(1), observed(&["a"]), Step::Nothing),
            (set(1), observed(&["b", "a", "c"]), Step::ScaleDown(vec!["a".to_owned(), "b".to_owned()])),
            (set(2), going.clone(), Step::Nothing),
            (set(1), going, Step::ScaleDown(vec!["a".to_owned()])),
            (set(1), blocked, Step::Blocked),
            (set(1), missing, Step::Blocked),
            (set(1), unusable, Step::Blocked),
            (disabled, observed(&[]), Step::Nothing),
        ];
        for (set, observed, expected) in table {
            let replicas = set.spec.replicas;
            assert_eq!(next_step(&set, &observed, now), expected, "{replicas:?} of {:?}", observed.machines);
        }
    }

    #[test]
    fn moved_machines_begin_their_updates_and_are_none_too_many_until_they_count() {
        use crate::in_place::{ACKNOWLEDGED, PENDING_ACKNOWLEDGE};
        let now = Timestamp::now();
        let mut observed = observed(&["a", "b"]);
        observed.deployment = Some(apiserver_types::MachineDeployment::default());
        for key in [crate::machine_labels::UPDATING, PENDING_ACKNOWLEDGE] {
            observed.machines[1].annotations_mut().insert(key.to_owned(), String::new());
        }
        assert_eq!(next_step(&set(1), &observed, now), Step::Nothing);
        let mut acknowledged = set(2);
        acknowledged.annotations_mut().insert(ACKNOWLEDGED.to_owned(), "b".to_owned());
        let begins = Step::BeginUpdates(vec!["b".to_owned()]);
        assert_eq!(next_step(&acknowledged, &observed, now), begins);
        let stuck = Observed { begun: true, is_unbegun: true, ..observed };
        assert_eq!(next_step(&acknowledged, &stuck, now), Step::Nothing, "once in a pass");
        assert_eq!(interval(&acknowledged, &Step::Nothing, &stuck, now), Some(WAITING));
    }

    #[test]
    fn a_set_with_the_mark_moves_its_surplus_machines_in_place_of_deleting_them() {
        let now = Timestamp::now();
        let mut observed = observed(&["a", "b", "c"]);
        for machine in &mut observed.machines {
            let node_ref = serde_json::json!({"nodeRef": {"name": "n"}});
            machine.status = serde_json::from_value(node_ref).unwrap();
        }
        let mut moves = set(1);
        moves.annotations_mut().insert(crate::in_place::MOVE_TO.to_owned(), "new".to_owned());
        let names = ["a".to_owned(), "b".to_owned()].to_vec();
        let expected =
            Step::Move(Move { target: "new".to_owned(), machines: names.clone(), deletions: Vec::new() });
        assert_eq!(next_step(&moves, &observed, now), expected);
        moves.annotations_mut().clear();
        assert_eq!(next_step(&moves, &observed, now), Step::ScaleDown(names));
        for machine in &mut observed.machines {
            machine.status = None;
        }
        moves.annotations_mut().insert(crate::in_place::MOVE_TO.to_owned(), "new".to_owned());
        assert_eq!(next_step(&moves, &observed, now), Step::Nothing, "none has a Node yet");
    }

    #[test]
    fn a_deleted_set_goes_after_its_machines() {
        let now = Timestamp::now();
        let mut set = set(3);
        set.metadata.deletion_timestamp = deleted();
        let mut observed = observed(&["a", "b"]);
        observed.machines[0].metadata.deletion_timestamp = deleted();
        assert_eq!(next_step(&set, &observed, now), Step::DeleteAll(vec!["b".to_owned()]));
        observed.machines[1].metadata.deletion_timestamp = deleted();
        assert_eq!(next_step(&set, &observed, now), Step::WaitForMachines);
        observed.machines.clear();
        assert_eq!(next_step(&set, &observed, now), Step::Release);
    }
}
