//! Order of an upgrade: the passes that are to come if every step ends well. Pure.

use apiserver_types::Cluster;
use kube::ResourceExt;

use super::super::UPGRADE_STEP;
use super::hooks::PENDING_HOOKS;
use super::plan::Source;
use super::{Upgrade, control_plane, decide, workers};

/// Most passes. Each one but the last gives an object its next version.
const MOST_PASSES: usize = 1000;

/// Change of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Step {
    /// Name of the worker group in the topology; `None` for the control plane.
    pub group: Option<String>,
    pub version: String,
}

/// Passes that are to come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Order {
    /// Decisions of each pass. There is one at least. The last one changes nothing: it has what holds up the rest.
    pub passes: Vec<Upgrade>,
    /// Changes of versions of objects that exist, in their order.
    pub steps: Vec<Step>,
}

impl Order {
    /// Returns the pass in which the control plane is written first.
    pub(in crate::cluster_topology) fn control_plane_turn(&self) -> Option<usize> {
        self.passes.iter().position(|pass| !pass.control_plane.is_pending)
    }
}

/// Returns the passes from a present state. The arguments are those of [`decide`].
///
/// # Errors
/// There is no plan for the upgrade. For people.
pub(in crate::cluster_topology) fn order(
    cluster: &Cluster,
    source: Source<'_>,
    control_plane: Option<control_plane::State>,
    groups: Vec<workers::Group>,
) -> Result<Order, String> {
    let mut model = Model { cluster: cluster.clone(), control_plane, groups };
    let mut order = Order::default();
    for _ in 0..MOST_PASSES {
        let upgrade = decide(&model.cluster, source, model.control_plane.as_ref(), &model.groups)?;
        let has_changed = model.advance(&upgrade, &mut order.steps);
        order.passes.push(upgrade);
        if !has_changed {
            break;
        }
    }
    Ok(order)
}

/// State between two passes. All Machines come to the versions of their objects in that time.
#[derive(Debug, Clone, PartialEq)]
struct Model {
    cluster: Cluster,
    control_plane: Option<control_plane::State>,
    groups: Vec<workers::Group>,
}

impl Model {
    /// Applies the decisions of a pass. Returns false if they change nothing.
    fn advance(&mut self, upgrade: &Upgrade, steps: &mut Vec<Step>) -> bool {
        let before = self.clone();
        let version = upgrade.control_plane.version.clone();
        if self.control_plane.as_ref().is_some_and(|state| state.version != version) {
            steps.push(Step { group: None, version: version.clone() });
        }
        self.control_plane = Some(control_plane::State { version, ..control_plane::State::default() });
        for group in &mut self.groups {
            group.is_upgrading = false;
            let decision = upgrade.group(&group.topology_name).filter(|it| it.is_written());
            let Some(version) = decision.map(|it| it.version.clone()) else { continue };
            if group.version.as_ref().is_some_and(|known| *known != version) {
                steps.push(Step { group: Some(group.topology_name.clone()), version: version.clone() });
            }
            group.version = Some(version);
        }
        let annotations = self.cluster.annotations_mut();
        let written =
            [(PENDING_HOOKS, upgrade.hooks.pending()), (UPGRADE_STEP, upgrade.step().map(str::to_owned))];
        for (key, value) in written {
            match value {
                Some(value) => drop(annotations.insert(key.to_owned(), value)),
                None => drop(annotations.remove(key)),
            }
        }
        *self != before
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Topology};

    use super::*;

    fn cluster(version: &str, annotation: Option<&str>) -> Cluster {
        let topology = Topology { version: version.to_owned(), ..Topology::default() };
        let mut cluster =
            Cluster::new("c", ClusterSpec { topology: Some(topology), ..ClusterSpec::default() });
        cluster.annotations_mut().extend(annotation.map(|key| (key.to_owned(), String::new())));
        cluster
    }

    fn group(name: &str, version: Option<&str>) -> workers::Group {
        workers::Group {
            topology_name: name.to_owned(),
            version: version.map(str::to_owned),
            ..workers::Group::default()
        }
    }

    fn found(cluster: &Cluster, from: Option<&str>, groups: &[workers::Group]) -> Order {
        let listed: Vec<String> = (30..36).map(|minor| format!("v1.{minor}.0")).collect();
        let state =
            |version: &str| control_plane::State { version: version.to_owned(), ..Default::default() };
        order(cluster, Source::Listed(&listed), from.map(state), groups.to_vec()).unwrap()
    }

    fn shown(order: &Order) -> Vec<String> {
        let text = |step: &Step| format!("{} {}", step.group.as_deref().unwrap_or("plane"), step.version);
        order.steps.iter().map(text).collect()
    }

    #[test]
    fn minors_are_chained_and_the_groups_follow_one_by_one() {
        let groups = [group("a", Some("v1.31.0")), group("b", Some("v1.31.0"))];
        let order = found(&cluster("v1.33.0", None), Some("v1.31.0"), &groups);
        assert_eq!(shown(&order), ["plane v1.32.0", "plane v1.33.0", "a v1.33.0", "b v1.33.0"]);
        assert!(order.passes.last().is_some_and(|last| last.hooks.blocking.is_empty()));
    }

    #[test]
    fn what_holds_up_an_upgrade_ends_the_order_and_is_in_the_last_pass() {
        let groups = [group("a", Some("v1.31.0"))];
        let held = |key: &str| found(&cluster("v1.32.0", Some(key)), Some("v1.31.0"), &groups);
        let order = held("before-upgrade.hook.cluster.cluster.x-k8s.io/x");
        assert_eq!(shown(&order), [""; 0]);
        assert!(order.passes[0].hooks.text().starts_with("BeforeClusterUpgrade: annotation "));
        let order = held("before-workers.hook.cluster.cluster.x-k8s.io/x");
        assert_eq!(shown(&order), ["plane v1.32.0"]);
        let last = order.passes.last().unwrap();
        assert!(last.hooks.text().starts_with("BeforeWorkersUpgrade: annotation "));
        let deferred = [workers::Group { defers: true, ..group("a", Some("v1.31.0")) }, group("b", None)];
        let order = found(&cluster("v1.32.0", None), Some("v1.31.0"), &deferred);
        assert_eq!(shown(&order), ["plane v1.32.0"]);
        let progress: Vec<_> = order.passes.last().unwrap().workers.iter().map(|it| it.progress).collect();
        assert_eq!(progress, [workers::Progress::Deferred, workers::Progress::Done], "b is made by then");
    }

    #[test]
    fn a_new_cluster_is_made_in_one_pass_without_steps() {
        let order = found(&cluster("v1.32.0", None), None, &[group("a", None)]);
        assert_eq!(shown(&order), [""; 0]);
        assert_eq!(order.passes[0].workers[0].progress, workers::Progress::Create);
    }
}
