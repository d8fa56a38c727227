//! Real nodes: Nova's servers are system containers with systemd, cloud-init or Ignition, containerd, kubelet and
//! kubeadm.

mod build;
mod cluster;
mod command_line;
mod compute;
mod control_plane;
mod drain;
mod failure;
mod fields;
mod ignition;
mod join;
mod nodes;
mod phases;

use anyhow::Context;

pub(crate) use build::{Image, image};

use cluster::Cluster;
use compute::Compute;
use phases::Phases;

use super::lab::Lab;
use super::openstack::OpenStack;

/// Scenario with real nodes. Each one depends on the earlier ones.
type Scenario = (&'static str, fn(&Cluster<'_>) -> anyhow::Result<()>);

const SCENARIOS: [Scenario; 14] = [
    ("a control plane and a worker become Ready", nodes::first),
    ("a worker is created whose bootstrap fails", failure::plant),
    ("each field of a KubeadmConfig has its effect on the worker", fields::on_the_worker),
    ("the commands describe the cluster through the host", command_line::through_the_host),
    ("a Deployment with two pods responds over HTTP", nodes::web),
    ("a MachineDeployment is scaled to two workers", nodes::scale),
    ("the second worker has certificates that Capstan approved", join::attested),
    ("a reboot drains a worker and changes its boot id", drain::reboot),
    ("a deleted worker is drained, and its Node and server go", drain::delete),
    ("the worker that replaces it has fetched its bootstrap data", join::fetched),
    ("a worker that boots by Ignition joins", ignition::joins),
    ("etcd counts three members, and then one", control_plane::scale),
    ("a condition says why the bootstrap failed", failure::explained),
    ("a deleted Cluster leaves the project as it was", deletion),
];

/// Number of scenarios.
pub(super) const COUNT: usize = SCENARIOS.len();

/// Note beside the counts if the scenarios did not run.
pub(super) const PUT_OFF: &str = "; scenarios with real nodes are put off, because their root folder is still being built for the next run";

/// Returns true if the sentence of a scenario contains this text.
pub(super) fn has(text: &str) -> bool {
    SCENARIOS.iter().any(|(name, _)| name.contains(text))
}

/// Runs all scenarios, and prints the wall time and the CPU time of each.
pub(super) fn run(lab: &Lab, openstack: &OpenStack, image: Image) -> anyhow::Result<()> {
    let phases = Phases::default();
    let before = openstack.records(&["inventory"])?;
    let compute = phases.measure("the compute host starts", || Compute::start(openstack, &image))?;
    let cluster = Cluster { lab, openstack, image, before };
    for (name, scenario) in SCENARIOS {
        let result = super::one(lab, name, || phases.measure(name, || scenario(&cluster)));
        if result.is_err() {
            // The next run uses the same project.
            let _ = cluster.host(&["delete", "cluster", "guests", "--timeout=120s"]);
        }
        result?;
    }
    phases.measure("the compute host stops", || {
        drop(compute);
        Ok(())
    })
}

/// Deletes the Cluster. No object and no resource may be left.
fn deletion(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    cluster.host(&["delete", "cluster", "guests", "--timeout=300s"]).with_context(|| cluster.state())?;
    let kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,kubeadmconfigs,\
                 openstackclusters,openstackmachines";
    let left = cluster.host(&["get", kinds, "-o", "name"])?;
    anyhow::ensure!(left.trim().is_empty(), "objects still exist: {left}");
    cluster.until("the project has the same resources as before", || {
        Ok(cluster.openstack.records(&["inventory"])? == cluster.before)
    })
}
