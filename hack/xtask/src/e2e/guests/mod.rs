//! Real nodes: Nova's servers are system containers with systemd, cloud-init or Ignition, containerd, kubelet and
//! kubeadm.

mod authority;
mod build;
mod cluster;
mod command_line;
mod compute;
mod control_plane;
mod credentials;
mod drain;
mod failure;
mod fields;
mod ignition;
mod join;
mod nodes;
mod phases;
mod probe;
mod quota;
mod self_hosted;
mod topology;
mod upgrade;

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

/// Scenarios of minutes, which run before the last two if they are selected. CI has no time for them.
const LONG: [Scenario; 8] = [
    ("the control plane gets a newer release while its API server responds", upgrade::control_plane),
    ("the workers get a newer release", upgrade::workers),
    ("a worker whose server stops is replaced", upgrade::dead_worker),
    ("a budget blocks the drain of a deleted worker", drain::budget),
    ("a quota ends halfway and is raised", quota::raised),
    ("credentials are rotated, and the earlier ones revoked", credentials::rotated),
    ("another authority of the cluster takes the place of the first", authority::rotated),
    ("two of five control plane Machines are lost and replaced", control_plane::two_of_five),
];

/// Scenarios with a Cluster of a class, whose nodes have releases of three minors. Each one between the first and the last
/// depends on the first only.
const TOPOLOGY: [Scenario; 6] = [
    ("a Cluster of a class becomes Ready", topology::first),
    ("a topology is upgraded by two minors while its API server responds", topology::upgraded),
    ("a Cluster changes to another class", topology::other_class),
    ("clusterctl moves the Cluster to a second Capstan and back", topology::moved),
    ("a Cluster hosts the Capstan that manages it", self_hosted::itself),
    ("a deleted Cluster of a class leaves the project as it was", deletion),
];

/// Environment variable that selects long scenarios: `all`, or parts of their sentences, separated by commas.
const SELECT_LONG: &str = "CAPSTAN_LONG_SCENARIOS";

/// Number of scenarios that always run.
pub(super) const COUNT: usize = SCENARIOS.len();

/// Note beside the counts if the scenarios did not run.
pub(super) const PUT_OFF: &str = "; scenarios with real nodes are put off: their root folder was built too late for this run, and the next one has it";

/// Returns true if the sentence of a scenario contains this text.
pub(super) fn has(text: &str) -> bool {
    SCENARIOS.iter().any(|(name, _)| name.contains(text))
}

/// Scenarios of one run.
struct Selection {
    /// Those with the cluster of templates.
    template: Vec<Scenario>,
    /// Those with the cluster of a class.
    topology: Vec<Scenario>,
}

/// Selects the scenarios of a run. A text that only sentences with a class contain selects none of the others, and of those
/// with a class it selects the first and the last one, too.
fn selected(long: Option<&str>) -> Selection {
    let mut template = SCENARIOS.to_vec();
    let Some(text) = long else { return Selection { template, topology: Vec::new() } };
    let is_selected = |(name, _): &Scenario| text == "all" || text.split(',').any(|part| name.contains(part));
    let long: Vec<Scenario> = LONG.into_iter().filter(is_selected).collect();
    let mut topology = TOPOLOGY.to_vec();
    topology.retain(is_selected);
    if !topology.is_empty() {
        let [first, .., last] = TOPOLOGY;
        topology.retain(|(name, _)| *name != first.0 && *name != last.0);
        topology.insert(0, first);
        topology.push(last);
    }
    match long.is_empty() {
        true => template.clear(),
        false => {
            template.splice(SCENARIOS.len() - 2..SCENARIOS.len() - 2, long);
        }
    }
    Selection { template, topology }
}

/// Runs all scenarios, and prints the wall time and the CPU time of each. Returns their number.
pub(super) fn run(lab: &Lab, openstack: &OpenStack, image: Image) -> anyhow::Result<usize> {
    let Selection { template, topology } = selected(std::env::var(SELECT_LONG).ok().as_deref());
    let image = if topology.is_empty() { image } else { build::with_minors(image)? };
    let phases = Phases::default();
    let before = openstack.records(&["inventory"])?;
    let compute = phases.measure("the compute host starts", || Compute::start(openstack, &image))?;
    let mut cluster = Cluster { lab, openstack, image, name: "guests", before };
    for (name, scenarios) in [("guests", &template), (topology::NAME, &topology)] {
        cluster.name = name;
        each(&cluster, scenarios, &phases)?;
    }
    phases.measure("the compute host stops", || {
        drop(compute);
        Ok(())
    })?;
    Ok(template.len() + topology.len())
}

fn each(cluster: &Cluster<'_>, scenarios: &[Scenario], phases: &Phases) -> anyhow::Result<()> {
    for (name, scenario) in scenarios {
        let result = super::one(cluster.lab, name, || phases.measure(name, || scenario(cluster)));
        if result.is_err() {
            // The next run uses the same project.
            let _ = cluster.host(&["delete", "cluster", cluster.name, "--timeout=120s"]);
        }
        result?;
    }
    Ok(())
}

/// Deletes the Cluster. No object and no resource may be left.
fn deletion(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    cluster.host(&["delete", "cluster", cluster.name, "--timeout=300s"]).with_context(|| cluster.state())?;
    let kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,kubeadmconfigs,\
                 openstackclusters,openstackmachines";
    let left = cluster.host(&["get", kinds, "-o", "name"])?;
    anyhow::ensure!(left.trim().is_empty(), "objects still exist: {left}");
    cluster.until("the project has the same resources as before", || {
        Ok(cluster.openstack.records(&["inventory"])? == cluster.before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scenarios: &[Scenario]) -> Vec<&'static str> {
        scenarios.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_part_of_a_sentence_selects_its_scenario_and_those_that_it_needs() {
        let Selection { template, topology } = selected(None);
        assert_eq!((template.len(), topology.len()), (SCENARIOS.len(), 0));
        let Selection { template, topology } = selected(Some("all"));
        assert_eq!(template.len(), SCENARIOS.len() + LONG.len());
        assert_eq!(names(&topology), names(&TOPOLOGY));
        let Selection { template, topology } = selected(Some("hosts the Capstan"));
        assert_eq!(names(&template), [""; 0]);
        let expected = [0, 4, 5].map(|index| TOPOLOGY[index].0);
        assert_eq!(names(&topology), expected);
        let Selection { template, topology } = selected(Some("a quota ends,second Capstan"));
        assert_eq!((template.len(), topology.len()), (SCENARIOS.len() + 1, 3));
    }
}
