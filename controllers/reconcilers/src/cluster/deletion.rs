//! The order in which a Cluster goes: workers, control planes, infrastructure, itself.

use apiserver_types::{Cluster, Machine, OpenStackCluster};
use kube::ResourceExt;

use super::observe::Observed;
use crate::ownership;

/// What to do next with a Cluster that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Delete these Machines.
    DeleteMachines(Vec<String>),
    /// These Machines are on their way.
    WaitForMachines(Vec<String>),
    /// Delete the infrastructure's object.
    DeleteInfrastructure,
    /// The infrastructure is on its way.
    WaitForInfrastructure(String),
    /// Nothing is left.
    Release,
}

/// Says what to do next. Pure and total.
pub(super) fn next_step(cluster: &Cluster, seen: &Observed) -> Step {
    for machines in [&seen.workers, &seen.control_plane] {
        let name = |machine: &Machine| machine.name_any();
        let staying = machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none());
        let staying: Vec<String> = staying.map(name).collect();
        if !staying.is_empty() {
            return Step::DeleteMachines(staying);
        }
        if !machines.is_empty() {
            return Step::WaitForMachines(machines.iter().map(name).collect());
        }
    }
    // What another Cluster controls is not ours to delete.
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
    use apiserver_types::{ClusterSpec, MachineSpec, OpenStackClusterSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn workers_go_first_and_the_network_last() {
        let machine = |name: &str, leaving: bool| {
            let mut machine = Machine::new(name, MachineSpec::default());
            machine.metadata.deletion_timestamp = leaving.then_some(Time(Timestamp::UNIX_EPOCH));
            machine
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        let mut infrastructure = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        infrastructure.metadata.owner_references = Some(vec![ownership::reference(&cluster, true)]);
        let mut seen = Observed {
            infrastructure: Some(infrastructure),
            control_plane: vec![machine("cp", false)],
            workers: vec![machine("w1", true), machine("w2", false)],
        };
        assert_eq!(next_step(&cluster, &seen), Step::DeleteMachines(names(&["w2"])));
        seen.workers = vec![machine("w1", true)];
        assert_eq!(next_step(&cluster, &seen), Step::WaitForMachines(names(&["w1"])));
        seen.workers.clear();
        assert_eq!(next_step(&cluster, &seen), Step::DeleteMachines(names(&["cp"])));
        seen.control_plane = vec![machine("cp", true)];
        assert_eq!(next_step(&cluster, &seen), Step::WaitForMachines(names(&["cp"])));
        seen.control_plane.clear();
        assert_eq!(next_step(&cluster, &seen), Step::DeleteInfrastructure);
        cluster.metadata.uid = Some("another".to_owned());
        assert_eq!(next_step(&cluster, &seen), Step::Release, "of somebody else");
        seen.infrastructure = None;
        assert_eq!(next_step(&cluster, &seen), Step::Release);
    }
}
