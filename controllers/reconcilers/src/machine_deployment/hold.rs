//! Hold of a rollout: the setting that keeps old sets from being replaced, and the changes that wait. Pure.

use std::collections::BTreeSet;

use apiserver_types::{MachineDeployment, MachineSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decide::is_on_delete;
use super::observe::Observed;
use super::{in_place, sameness};
use crate::rollout_gate::{self, Hold};

/// Returns the hold of a rollout, or `None` if it can go on. Without Machines in old sets, there is no rollout. With
/// OnDelete, people replace the Machines themselves.
pub(super) fn hold(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Option<Hold> {
    let in_place = &observed.in_place;
    let is_rolling = in_place.is_judged || old(deployment, observed, now).next().is_some();
    if is_on_delete(deployment) || !is_rolling {
        return None;
    }
    if let Some((text, wait)) = &in_place.failure {
        return Some(rollout_gate::blocked(text.clone(), Some(*wait)));
    }
    let hold = rollout_gate::hold(deployment, observed.cluster.as_ref(), now)?;
    // Sets are judged only if nothing else holds the rollout than a policy that replaces no Machine.
    if in_place.is_served { in_place::obstacle(deployment, in_place) } else { Some(hold) }
}

/// Returns the changes that wait, one line each.
pub(super) fn differences(
    deployment: &MachineDeployment,
    observed: &Observed,
    now: Timestamp,
) -> BTreeSet<String> {
    let sets = old(deployment, observed, now);
    sets.flat_map(|set| sameness::all_differences(set, deployment, now)).collect()
}

/// Returns the old sets that are to have Machines.
fn old<'a>(
    deployment: &MachineDeployment,
    observed: &'a Observed,
    now: Timestamp,
) -> impl Iterator<Item = &'a MachineSet> {
    let new = sameness::find_new(deployment, &observed.sets, now).map(ResourceExt::name_any);
    let is_old = move |set: &&MachineSet| new.as_ref().is_none_or(|new| set.name_any() != *new);
    let has_machines = |set: &&MachineSet| set.spec.replicas.unwrap_or_default() > 0;
    observed.sets.iter().filter(is_old).filter(has_machines)
}
