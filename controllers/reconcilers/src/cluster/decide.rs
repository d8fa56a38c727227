//! Decision on the next step of a Cluster.

use std::time::Duration;

use apiserver_types::{ApiEndpoint, Cluster, OpenStackCluster};
use controllers_runtime::paused;
use kube::ResourceExt;

use super::descendants::{Descendant, Stage};
use super::observe::Observed;
use super::{FINALIZER, WAITING, kubeconfig};
use crate::CLUSTER_NAME_LABEL;
use crate::cluster_topology;
use crate::ownership::{self, Adoption};

/// Interval of a Cluster that waits for nothing; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(5);

/// Interval of a Cluster whose workload API does not answer: Secrets are not watched, and one with a right kubeconfig or
/// certificate authority may come. Upstream's.
const UNCONNECTED: Duration = Duration::from_secs(30);

/// Interval of a Cluster that waits for its descendants: upstream's. Of these only Machines are
/// watched.
const DESCENDANTS: Duration = Duration::from_secs(5);

/// Next step of a Cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Report only: the Cluster is paused.
    Pause,
    /// Do nothing at all: the Cluster is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizer.
    AddFinalizer,
    /// Add owner reference and label to the OpenStackCluster.
    AdoptInfrastructure,
    /// Add owner reference and label to the KubeadmControlPlane.
    AdoptControlPlane,
    /// Copy the endpoint of the infrastructure or the control plane.
    SetEndpoint(ApiEndpoint),
    /// Create or renew the Secret with the kubeconfig of the workload API at this URL.
    CreateKubeconfig(String),
    /// Nothing is left to do.
    Nothing,
    /// Wait until the controller of topologies lets the deletion proceed: a hook may hold it up.
    WaitForHook,
    /// Have the workload cluster delete these objects, and wait for that.
    CleanWorkload(String),
    /// Delete those of these that are not being deleted yet, and wait for all of them.
    DeleteDescendants(Stage, Vec<Descendant>),
    /// Delete the OpenStackCluster.
    DeleteInfrastructure,
    /// Wait for the OpenStackCluster, for the reason that it gives.
    WaitForInfrastructure(String),
    /// Remove the finalizer: nothing is left.
    Release,
}

impl Step {
    /// Reports whether a pass ends with this step, because what follows needs another observation.
    pub(super) const fn ends_pass(&self) -> bool {
        !matches!(
            self,
            Self::AddFinalizer | Self::AdoptInfrastructure | Self::AdoptControlPlane | Self::SetEndpoint(_)
        )
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(cluster: &Cluster, observed: &Observed) -> Step {
    if paused(cluster, Some(cluster)) {
        return Step::Pause;
    }
    let is_held = cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    match (cluster.metadata.deletion_timestamp.is_some(), is_held) {
        (true, true) => return deletion(cluster, observed),
        (true, false) => return Step::Ignore,
        (false, false) => return Step::AddFinalizer,
        (false, true) => {}
    }
    let due = |adoption| adoption == Adoption::Due;
    if observed.infrastructure.as_ref().is_some_and(|it| due(ownership::part_adoption(it, cluster))) {
        return Step::AdoptInfrastructure;
    }
    if observed.control_plane.as_ref().is_some_and(|it| due(ownership::part_adoption(it, cluster))) {
        return Step::AdoptControlPlane;
    }
    let found = observed.infrastructure.as_ref().and_then(|it| endpoint(cluster, it));
    found
        .map(Step::SetEndpoint)
        .or_else(|| kubeconfig::due(cluster, observed).map(Step::CreateKubeconfig))
        .unwrap_or(Step::Nothing)
}

/// Returns the interval after a pass that ended with `step`.
pub(super) fn interval(step: &Step, observed: &Observed) -> Option<Duration> {
    match step {
        Step::Pause | Step::Ignore | Step::Release => None,
        Step::Nothing if observed.refused.is_some() || !observed.provisioned() => Some(WAITING),
        Step::Nothing if observed.probe.last_success.is_none() || observed.probe.error.is_some() => {
            Some(UNCONNECTED)
        }
        Step::Nothing => Some(RESYNC),
        Step::DeleteDescendants(..) | Step::CleanWorkload(_) => Some(DESCENDANTS),
        _ => Some(WAITING),
    }
}

/// Reports whether an endpoint can be used.
pub(super) fn is_complete(endpoint: &ApiEndpoint) -> bool {
    endpoint.host.as_ref().is_some_and(|host| !host.is_empty()) && endpoint.port.is_some_and(|port| port > 0)
}

/// Returns the OpenStackCluster's endpoint, if it is complete and the Cluster has none.
fn endpoint(cluster: &Cluster, infrastructure: &OpenStackCluster) -> Option<ApiEndpoint> {
    let known = cluster.spec.control_plane_endpoint.as_ref().is_some_and(is_complete);
    let found = infrastructure.spec.control_plane_endpoint.clone();
    found.filter(|it| !known && is_complete(it))
}

fn deletion(cluster: &Cluster, observed: &Observed) -> Step {
    if cluster_topology::holds_deletion(cluster) {
        return Step::WaitForHook;
    }
    if !observed.leftovers.is_empty() {
        return Step::CleanWorkload(observed.leftovers.describe());
    }
    for stage in Stage::ALL {
        let of_stage = observed.descendants.iter().filter(|descendant| descendant.stage() == stage);
        let remaining: Vec<Descendant> = of_stage.cloned().collect();
        if !remaining.is_empty() {
            return Step::DeleteDescendants(stage, remaining);
        }
    }
    // An object of another Cluster is not deleted with this one. One that is not adopted yet is.
    let ours = |infrastructure: &&OpenStackCluster| {
        let label = infrastructure.labels().get(CLUSTER_NAME_LABEL);
        label.is_none_or(|label| *label == cluster.name_any())
            && !matches!(ownership::part_adoption(*infrastructure, cluster), Adoption::Refused(_))
    };
    match observed.infrastructure.as_ref().filter(ours) {
        None => Step::Release,
        Some(it) if it.metadata.deletion_timestamp.is_none() => Step::DeleteInfrastructure,
        Some(it) => {
            let ready = it.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
            let rest = if ready.is_empty() { ready } else { format!(": {ready}") };
            Step::WaitForInfrastructure(format!("Waiting for OpenStackCluster to be deleted{rest}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, OpenStackClusterSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::cluster::descendants::Kind;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        cluster
    }

    fn infrastructure(cluster: &Cluster) -> OpenStackCluster {
        let mut infrastructure = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        infrastructure.metadata.owner_references = Some(vec![ownership::reference(cluster, false)]);
        infrastructure
    }

    #[test]
    fn a_cluster_adopts_its_infrastructure_and_then_copies_its_endpoint() {
        let endpoint = |port| ApiEndpoint { host: Some("10.0.0.1".to_owned()), port };
        let mut owned = infrastructure(&cluster());
        owned.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "c".to_owned());
        let mut reachable = owned.clone();
        reachable.spec.control_plane_endpoint = Some(endpoint(Some(6443)));
        let mut half = owned.clone();
        half.spec.control_plane_endpoint = Some(endpoint(None));
        let mut nowhere = owned.clone();
        nowhere.spec.control_plane_endpoint = Some(ApiEndpoint { host: Some(String::new()), port: Some(1) });
        let mut known = cluster();
        known.spec.control_plane_endpoint = Some(endpoint(Some(1)));
        let bare = Cluster { metadata: Default::default(), ..cluster() };
        let paused =
            Cluster { spec: ClusterSpec { paused: Some(true), ..ClusterSpec::default() }, ..bare.clone() };
        let mut going = bare.clone();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let bare_one = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        let table = [
            ("paused", paused, None, Step::Pause),
            ("going, held by others", going, None, Step::Ignore),
            ("new", bare, None, Step::AddFinalizer),
            ("alone", cluster(), None, Step::Nothing),
            ("not adopted", cluster(), Some(bare_one), Step::AdoptInfrastructure),
            ("adopted", cluster(), Some(owned), Step::Nothing),
            ("half an endpoint", cluster(), Some(half), Step::Nothing),
            ("an endpoint without a host", cluster(), Some(nowhere), Step::Nothing),
            ("an endpoint", cluster(), Some(reachable.clone()), Step::SetEndpoint(endpoint(Some(6443)))),
            ("another endpoint", known, Some(reachable), Step::Nothing),
        ];
        for (case, cluster, infrastructure, expected) in table {
            let observed = Observed { infrastructure, ..Observed::default() };
            assert_eq!(next_step(&cluster, &observed), expected, "{case}");
        }
    }

    /// MachineDeployments were left behind: only Machines went with their Cluster.
    #[test]
    fn workers_are_deleted_first_then_control_planes_and_the_network_last() {
        let of = |kind, name: &str, deleting| {
            let (name, uid) = (name.to_owned(), Some(name.to_owned()));
            Descendant { kind, name, uid, deleting, of_another: false, standalone: false, protected: false }
        };
        let mut cluster = cluster();
        cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let workers = vec![
            of(Kind::MachinePool, "mp", false),
            of(Kind::MachineDeployment, "md", false),
            of(Kind::MachineSet, "ms", true),
            of(Kind::Worker, "w", false),
        ];
        let control_plane = of(Kind::ControlPlane, "kcp", false);
        let machine = of(Kind::ControlPlaneMachine, "cp", true);
        let descendants = [workers, vec![control_plane.clone(), machine.clone()]].concat();
        let infrastructure = Some(infrastructure(&cluster));
        let mut observed = Observed { infrastructure, descendants, ..Observed::default() };
        for kind in [Kind::MachinePool, Kind::MachineDeployment, Kind::MachineSet, Kind::Worker] {
            let remaining = observed.descendants.iter().filter(|it| it.stage() == Stage::Workers).cloned();
            let expected = Step::DeleteDescendants(Stage::Workers, remaining.collect());
            assert_eq!(next_step(&cluster, &observed), expected, "with a {kind:?} left");
            observed.descendants.retain(|descendant| descendant.kind != kind);
        }
        let expected = Step::DeleteDescendants(Stage::ControlPlane, vec![control_plane.clone()]);
        assert_eq!(next_step(&cluster, &observed), expected);
        let alone = Descendant { standalone: true, ..of(Kind::ControlPlaneMachine, "alone", false) };
        observed.descendants.push(alone.clone());
        let both = Step::DeleteDescendants(Stage::ControlPlane, vec![control_plane, alone]);
        assert_eq!(next_step(&cluster, &observed), both, "the control plane waits for it");
        observed.descendants.pop();
        observed.leftovers.connecting = true;
        assert!(matches!(next_step(&cluster, &observed), Step::CleanWorkload(_)), "R17.4");
        observed.leftovers.connecting = false;
        observed.descendants.retain(|descendant| descendant.kind != Kind::ControlPlane);
        let expected = Step::DeleteDescendants(Stage::ControlPlaneMachines, vec![machine]);
        assert_eq!(next_step(&cluster, &observed), expected);
        observed.descendants.clear();
        assert_eq!(next_step(&cluster, &observed), Step::DeleteInfrastructure);
        cluster.metadata.uid = Some("another".to_owned());
        assert_eq!(next_step(&cluster, &observed), Step::Release, "another Cluster's infrastructure");
        observed.infrastructure.as_mut().unwrap().metadata.owner_references = None;
        assert_eq!(next_step(&cluster, &observed), Step::DeleteInfrastructure, "not adopted yet");
        let label = (CLUSTER_NAME_LABEL.to_owned(), "another".to_owned());
        observed.infrastructure.as_mut().unwrap().labels_mut().extend([label]);
        assert_eq!(next_step(&cluster, &observed), Step::Release, "about to be adopted by another Cluster");
        observed.infrastructure = None;
        assert_eq!(next_step(&cluster, &observed), Step::Release);
    }

    #[test]
    fn a_cluster_whose_workload_api_does_not_answer_is_looked_at_again_soon() {
        let mut observed = Observed { without_infrastructure: true, ..Observed::default() };
        assert_eq!(interval(&Step::Nothing, &observed), Some(UNCONNECTED));
        observed.probe.last_success = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(interval(&Step::Nothing, &observed), Some(RESYNC));
        observed.probe.error = Some("refused".to_owned());
        assert_eq!(interval(&Step::Nothing, &observed), Some(UNCONNECTED));
    }
}
