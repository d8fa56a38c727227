//! Upgrade of a Cluster: the plan, the hooks, and the version of each part in a pass. Pure.

pub(super) mod control_plane;
pub(super) mod hooks;
pub(super) mod order;
pub(super) mod plan;
pub(super) mod workers;

use apiserver_types::Cluster;
use kube::ResourceExt;

use hooks::{Hook, Hooks};
use plan::{Plan, Versions};

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

    /// Returns the decision on a worker group.
    pub(super) fn group(&self, topology_name: &str) -> Option<&workers::Decision> {
        self.workers.iter().find(|it| it.topology_name == topology_name)
    }
}

/// Decides on the versions of all parts of a Cluster. `listed` are the versions of its class.
///
/// # Errors
/// There is no plan for the upgrade. For people.
pub(super) fn decide(
    cluster: &Cluster,
    listed: &[String],
    current: Option<&control_plane::State>,
    groups: &[workers::Group],
) -> Result<Upgrade, String> {
    let target = cluster.spec.topology.as_ref().map(|it| it.version.as_str()).unwrap_or_default();
    let mut hooks = Hooks::of(cluster);
    let lowest = groups.iter().filter_map(|group| group.version.as_deref());
    let lowest = lowest.min_by_key(|version| crate::machine_versions::parse(version));
    let plan = match current {
        Some(current) => {
            let versions = Versions { control_plane: &current.version, workers: lowest, target };
            plan::plan(versions, listed)?
        }
        None => Plan::default(),
    };
    let upgrading = groups.iter().any(|group| group.is_upgrading);
    let control_plane = control_plane::decide(current, target, &plan, upgrading, &mut hooks);
    let concurrency = cluster.annotations().get(CONCURRENCY).and_then(|text| text.parse().ok());
    let concurrency = concurrency.unwrap_or(1);
    let workers = workers::decide(groups, target, &plan, &control_plane, concurrency, &mut hooks);
    let is_settled = |it: &workers::Decision| matches!(it.progress, workers::Progress::Done);
    if control_plane.is_stable() && current.is_some() && workers.iter().all(is_settled) {
        // Without a blocking annotation, the hook is over.
        hooks.blocks(Hook::AfterWorkersUpgrade);
        if hooks.blocking.is_empty() {
            hooks.blocks(Hook::AfterClusterUpgrade);
        }
    }
    Ok(Upgrade { plan, control_plane, workers, hooks })
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Topology};

    use super::*;

    #[test]
    fn the_upgrade_ends_only_after_the_hooks_of_its_workers() {
        let topology = Topology { version: "v1.34.0".to_owned(), ..Topology::default() };
        let spec = ClusterSpec { topology: Some(topology), ..ClusterSpec::default() };
        let mut cluster = Cluster::new("c", spec);
        let names = "AfterClusterUpgrade,AfterWorkersUpgrade";
        cluster.annotations_mut().insert(hooks::PENDING_HOOKS.to_owned(), names.to_owned());
        let annotation = "after-workers.hook.cluster.cluster.x-k8s.io/x";
        cluster.annotations_mut().insert(annotation.to_owned(), String::new());
        let state = control_plane::State { version: "v1.34.0".to_owned(), ..Default::default() };
        let held = decide(&cluster, &[], Some(&state), &[]).unwrap();
        assert_eq!(held.hooks.pending().as_deref(), Some(names));
        cluster.annotations_mut().remove(annotation);
        let ended = decide(&cluster, &[], Some(&state), &[]).unwrap();
        assert_eq!(ended.hooks.pending(), None);
    }

    /// Two steps of a chain, played to their end.
    #[test]
    fn a_chain_of_four_minors_lets_the_workers_stop_once_before_the_end() {
        let topology = Topology { version: "v1.34.0".to_owned(), ..Topology::default() };
        let spec = ClusterSpec { topology: Some(topology), ..ClusterSpec::default() };
        let mut cluster = Cluster::new("c", spec);
        let listed: Vec<String> = (30..35).map(|minor| format!("v1.{minor}.0")).collect();
        let (mut version, mut workers) = ("v1.30.0".to_owned(), "v1.30.0".to_owned());
        let mut log = Vec::new();
        for _ in 0..20 {
            let state = control_plane::State { version: version.clone(), ..Default::default() };
            let group = workers::Group {
                topology_name: "a".to_owned(),
                version: Some(workers.clone()),
                ..workers::Group::default()
            };
            let found = decide(&cluster, &listed, Some(&state), &[group]).unwrap();
            let pending = found.hooks.pending().unwrap_or_default();
            cluster.annotations_mut().insert(hooks::PENDING_HOOKS.to_owned(), pending);
            if found.control_plane.version != version {
                log.push(format!("control plane {}", found.control_plane.version));
                version = found.control_plane.version;
            }
            if found.workers[0].version != workers {
                log.push(format!("workers {}", found.workers[0].version));
                workers.clone_from(&found.workers[0].version);
            }
        }
        let expected = [
            "control plane v1.31.0",
            "control plane v1.32.0",
            "control plane v1.33.0",
            "workers v1.33.0",
            "control plane v1.34.0",
            "workers v1.34.0",
        ];
        assert_eq!(log, expected);
        assert_eq!(cluster.annotations()[hooks::PENDING_HOOKS], "", "no hook is left");
    }
}
