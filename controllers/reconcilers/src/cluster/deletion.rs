//! Deletion of a Cluster, step by step: descendants in their stages, infrastructure, itself.

use apiserver_types::{Cluster, OpenStackCluster};
use kube::ResourceExt;

use super::descendants::{Descendant, Stage};
use super::observe::Observed;
use crate::ownership;

/// Next step of the deletion of a Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Delete those of these that are not being deleted yet, and wait for all of them.
    DeleteDescendants(Stage, Vec<Descendant>),
    /// Delete the OpenStackCluster.
    DeleteInfrastructure,
    /// Wait for the OpenStackCluster, for the reason that it gives.
    WaitForInfrastructure(String),
    /// Remove the finalizer: nothing is left.
    Release,
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(cluster: &Cluster, seen: &Observed) -> Step {
    for stage in Stage::ALL {
        let of_stage = seen.descendants.iter().filter(|descendant| descendant.stage() == stage);
        let remaining: Vec<Descendant> = of_stage.cloned().collect();
        if !remaining.is_empty() {
            return Step::DeleteDescendants(stage, remaining);
        }
    }
    // An object that another Cluster controls is not deleted with this one.
    let ours = |infrastructure: &&OpenStackCluster| ownership::is_owned(*infrastructure, cluster);
    match seen.infrastructure.as_ref().filter(ours) {
        None => Step::Release,
        Some(it) if it.metadata.deletion_timestamp.is_none() => Step::DeleteInfrastructure,
        Some(it) => {
            let ready = it.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
            Step::WaitForInfrastructure(format!("OpenStackCluster {}: {ready}", it.name_any()))
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, OpenStackClusterSpec};

    use super::*;
    use crate::cluster::descendants::Kind;

    /// MachineDeployments were left behind: only Machines went with their Cluster.
    #[test]
    fn workers_go_first_then_control_planes_and_the_network_last() {
        let of = |kind, name: &str, deleting| Descendant {
            kind,
            name: name.to_owned(),
            uid: Some(name.to_owned()),
            deleting,
        };
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        let mut infrastructure = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        infrastructure.metadata.owner_references = Some(vec![ownership::reference(&cluster, true)]);
        let workers = vec![
            of(Kind::MachinePool, "mp", false),
            of(Kind::MachineDeployment, "md", false),
            of(Kind::MachineSet, "ms", true),
            of(Kind::Worker, "w", false),
        ];
        let control_plane = of(Kind::ControlPlane, "kcp", false);
        let machine = of(Kind::ControlPlaneMachine, "cp", true);
        let descendants = [workers.clone(), vec![control_plane.clone(), machine.clone()]].concat();
        let mut seen = Observed { infrastructure: Some(infrastructure), descendants, ..Observed::default() };
        for kind in [Kind::MachinePool, Kind::MachineDeployment, Kind::MachineSet, Kind::Worker] {
            let remaining = seen.descendants.iter().filter(|it| it.stage() == Stage::Workers).cloned();
            let expected = Step::DeleteDescendants(Stage::Workers, remaining.collect());
            assert_eq!(next_step(&cluster, &seen), expected, "with a {kind:?} left");
            seen.descendants.retain(|descendant| descendant.kind != kind);
        }
        let expected = Step::DeleteDescendants(Stage::ControlPlane, vec![control_plane]);
        assert_eq!(next_step(&cluster, &seen), expected);
        seen.descendants.retain(|descendant| descendant.kind != Kind::ControlPlane);
        let expected = Step::DeleteDescendants(Stage::ControlPlaneMachines, vec![machine]);
        assert_eq!(next_step(&cluster, &seen), expected);
        seen.descendants.clear();
        assert_eq!(next_step(&cluster, &seen), Step::DeleteInfrastructure);
        cluster.metadata.uid = Some("another".to_owned());
        assert_eq!(next_step(&cluster, &seen), Step::Release, "another Cluster's infrastructure");
        seen.infrastructure = None;
        assert_eq!(next_step(&cluster, &seen), Step::Release);
    }
}
