//! Upgrade of a Cluster: the plan, the hooks, and the version of each part in a pass. Pure.

pub(super) mod control_plane;
pub(super) mod hooks;
pub(super) mod order;
pub(super) mod plan;
pub(super) mod workers;

use apiserver_types::Cluster;
use kube::ResourceExt;

use super::UPGRADE_STEP;
use crate::machine_versions::parse;
use hooks::{Hook, Hooks};
use plan::{Plan, Source, Versions};

/// Annotation of a Cluster that disables the checks of the order of versions. Upstream's name.
const SKIP_ORDER: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";

/// Annotation of a Cluster with the number of worker groups that are upgraded at the same time.
const CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";

/// Versions of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Upgrade {
    pub plan: Plan,
    pub control_plane: control_plane::Decision,
    pub workers: Vec<workers::Decision>,
    pub hooks: Hooks,
}

impl Upgrade {
    /// Returns the version that the Cluster is taking; `None` without an upgrade.
    pub(super) fn step(&self) -> Option<&str> {
        let is_under_way = !self.plan.control_plane.is_empty() || !self.plan.workers.is_empty();
        is_under_way.then_some(self.control_plane.version.as_str())
    }

    /// Returns the lowest version of the workers that exist.
    pub(super) fn lowest_workers(&self) -> Option<&str> {
        let existing = self.workers.iter().filter(|it| !it.object.is_empty());
        let versions = existing.map(|it| it.version.as_str());
        versions.min_by_key(|version| parse(version))
    }

    /// Returns the decision on a worker group.
    pub(super) fn group(&self, topology_name: &str) -> Option<&workers::Decision> {
        self.workers.iter().find(|it| it.topology_name == topology_name)
    }
}

/// Decides on the versions of all parts of a Cluster, as if no server had a hook.
///
/// # Errors
/// There is no plan for the upgrade. For people.
pub(super) fn decide(
    cluster: &Cluster,
    source: Source<'_>,
    current: Option<&control_plane::State>,
    groups: &[workers::Group],
) -> Result<Upgrade, String> {
    decide_with(Hooks::of(cluster), cluster, source, current, groups)
}

/// Decides on a pass over a topology: on the hooks of its creation, and on the versions. If a hook is due, the decision goes up
/// to it.
///
/// # Errors
/// As of `decide`.
pub(super) fn decide_topology(
    mut hooks: Hooks,
    cluster: &Cluster,
    source: Source<'_>,
    current: Option<&control_plane::State>,
    groups: &[workers::Group],
) -> Result<Upgrade, String> {
    if cluster.spec.infrastructure_ref.is_none() && cluster.spec.control_plane_ref.is_none() {
        if !hooks.blocks(Hook::BeforeClusterCreate) {
            hooks.begin_creation();
        }
    } else if is_initialized(cluster) {
        hooks.blocks(Hook::AfterControlPlaneInitialized);
    }
    let decided = decide_with(hooks, cluster, source, current, groups);
    decided.map_err(|problem| explained(problem, cluster, current))
}

/// Adds what to do to an error, if another client has given the control plane a version above that of the topology.
fn explained(problem: String, cluster: &Cluster, current: Option<&control_plane::State>) -> String {
    let target = target(cluster);
    let version = current.map(|current| current.version.as_str());
    let Some(version) = version.filter(|version| parse(version) > parse(target)) else { return problem };
    format!(
        "{problem}. The control plane is ahead of spec.topology.version. Set its spec.version back to {target} while no \
         Machine has {version}; otherwise set spec.topology.version to {version}, with the annotation {SKIP_ORDER} on \
         the Cluster"
    )
}

fn target(cluster: &Cluster) -> &str {
    cluster.spec.topology.as_ref().map(|it| it.version.as_str()).unwrap_or_default()
}

/// Reports whether the control plane was reachable once.
fn is_initialized(cluster: &Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

/// Returns the versions from which a plan leads to that of the topology.
pub(super) fn versions<'a>(
    cluster: &'a Cluster,
    current: &'a control_plane::State,
    groups: &'a [workers::Group],
) -> Versions<'a> {
    let target = target(cluster);
    // A version above the target is no step of the plan: the group returns to the target.
    let versions = groups.iter().filter_map(|group| group.version.as_deref());
    let planned = versions.filter(|version| parse(version) <= parse(target));
    Versions {
        control_plane: &current.version,
        workers: planned.min_by_key(|version| parse(version)),
        target,
    }
}

/// Decides on the versions of all parts with these hooks.
fn decide_with(
    mut hooks: Hooks,
    cluster: &Cluster,
    source: Source<'_>,
    current: Option<&control_plane::State>,
    groups: &[workers::Group],
) -> Result<Upgrade, String> {
    let target = target(cluster);
    let plan = match current {
        Some(current) => plan::plan(versions(cluster, current, groups), source)?,
        None => Plan::default(),
    };
    let announced = cluster.annotations().get(UPGRADE_STEP);
    if current.is_some_and(|current| announced.is_some_and(|step| *step != current.version)) {
        // A crash came before the control plane got the version.
        hooks.forget_step();
    }
    if plan.workers.is_empty() {
        hooks.forget_workers();
    }
    let upgrading = groups.iter().any(|group| group.is_upgrading);
    let control_plane = control_plane::decide(current, target, &plan, upgrading, &mut hooks);
    let concurrency = cluster.annotations().get(CONCURRENCY).and_then(|text| text.parse().ok());
    let concurrency = concurrency.unwrap_or(1);
    let workers = workers::decide(groups, target, &plan, &control_plane, concurrency, &mut hooks);
    let is_settled = |it: &workers::Decision| matches!(it.progress, workers::Progress::Done);
    let is_done = control_plane.is_stable() && current.is_some() && workers.iter().all(is_settled);
    // A hook that does not block is over.
    if is_done && hooks.is_free() && !hooks.blocks(Hook::AfterWorkersUpgrade) {
        hooks.blocks(Hook::AfterClusterUpgrade);
    }
    Ok(Upgrade { plan, control_plane, workers, hooks })
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
