//! Conditions of a Cluster.

use apiserver_types::{
    Cluster, Condition, ConditionStatus, ContractVersionedObjectReference, KubeadmControlPlane, Machine,
    OpenStackCluster, Time,
};
use kube::{Resource, ResourceExt};

use super::aggregates;
use super::decide::Step;
use super::descendants::{self, Stage};
use super::observe::Observed;
use crate::cluster_certificates::kubeconfig_secret_name;
use crate::endpoint_hosts::host_and_port;
use crate::object_refs::{is_of, unknown_kind};
use crate::summary;

/// Failed probes after which a connection that never was is reported as failed. Upstream's number.
const FIRST_FAILURES: u32 = 5;

/// Returns every condition but `Available`, which sums some of them up.
pub(super) fn all(cluster: &Cluster, observed: &Observed, step: &Step, now: &Time) -> Vec<Condition> {
    let mut all = vec![
        infrastructure(cluster, observed, now),
        control_plane_available(cluster, observed, now),
        control_plane_initialized(cluster, observed, now),
        probe(cluster, observed, now),
        aggregates::workers_available(observed, now),
        deleting(cluster, observed, step, now),
    ];
    for (machines, ready, up_to_date) in [
        (&observed.control_plane_machines, "ControlPlaneMachinesReady", "ControlPlaneMachinesUpToDate"),
        (&observed.workers, "WorkerMachinesReady", "WorkerMachinesUpToDate"),
    ] {
        all.push(aggregates::machines_ready(ready, machines, now));
        all.push(aggregates::machines_up_to_date(up_to_date, machines, observed, now));
    }
    all.extend(
        ["RollingOut", "ScalingUp", "ScalingDown"].map(|kind| aggregates::movement(kind, observed, now)),
    );
    all.push(aggregates::remediating(observed, now));
    all
}

fn infrastructure(cluster: &Cluster, observed: &Observed, now: &Time) -> Condition {
    let kind = "InfrastructureReady";
    let new =
        |status, reason: &str, message: &str| Condition::new(kind, status, reason, message, now.clone());
    let Some(reference) = &cluster.spec.infrastructure_ref else {
        return match &cluster.spec.topology {
            Some(_) => without_object(kind, cluster, now),
            None => new(ConditionStatus::True, "Ready", "No infrastructure object is used"),
        };
    };
    let status = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    let existed = status.and_then(|it| it.infrastructure_provisioned) == Some(true);
    let name = format!("{} {}", reference.kind, reference.name);
    let part = Part {
        name: &name,
        field: "spec.infrastructureRef",
        unknown: unknown::<OpenStackCluster>("spec.infrastructureRef", reference),
        refused: observed.refused.as_deref(),
        found: observed.infrastructure.is_some(),
        existed,
    };
    if let Some((reason, message)) = part.obstacle(cluster) {
        return new(ConditionStatus::False, reason, &message);
    }
    match observed.infrastructure.as_ref().and_then(|it| it.condition("Ready")) {
        Some(ready) => summary::mirror(kind, ready, "Ready"),
        None if observed.provisioned() => new(ConditionStatus::True, "Ready", ""),
        None => {
            let message = format!("{} status.initialization.provisioned is false", reference.kind);
            new(ConditionStatus::False, "NotReady", &message)
        }
    }
}

/// Returns the condition of an object that the topology of the Cluster has not made yet.
fn without_object(kind: &str, cluster: &Cluster, now: &Time) -> Condition {
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let message = if deleting { "" } else { "Waiting for cluster topology to be reconciled" };
    Condition::new(kind, ConditionStatus::False, "ObjectDoesNotExist", message, now.clone())
}

fn unknown<K: Resource<DynamicType = ()>>(
    field: &str,
    reference: &ContractVersionedObjectReference,
) -> Option<String> {
    (!is_of::<K>(reference)).then(|| unknown_kind::<K>(field, reference))
}

/// Object that a Cluster names.
struct Part<'a> {
    name: &'a str,
    /// Field of the Cluster that names it.
    field: &'static str,
    /// Text about a kind that is not served.
    unknown: Option<String>,
    refused: Option<&'a str>,
    found: bool,
    /// The object was complete once.
    existed: bool,
}

impl Part<'_> {
    /// Returns reason and message if the object cannot be used.
    fn obstacle(&self, cluster: &Cluster) -> Option<(&'static str, String)> {
        if let Some(unknown) = &self.unknown {
            return Some(("UnknownKind", unknown.clone()));
        }
        if let Some(refused) = self.refused {
            return Some(("NotReady", refused.to_owned()));
        }
        if self.found {
            return None;
        }
        Some(match (self.existed, cluster.metadata.deletion_timestamp.is_some()) {
            (true, true) => ("ObjectDeleted", format!("{} has been deleted", self.name)),
            (true, false) => {
                ("ObjectDeleted", format!("{} has been deleted while the cluster still exists", self.name))
            }
            (false, true) => ("ObjectDoesNotExist", format!("{} does not exist", self.name)),
            (false, false) => {
                let (name, field) = (self.name, self.field);
                ("ObjectDoesNotExist", format!("{name} does not exist. Create it, or correct {field}"))
            }
        })
    }
}

fn control_plane_available(cluster: &Cluster, observed: &Observed, now: &Time) -> Condition {
    let kind = "ControlPlaneAvailable";
    let new =
        |status, reason: &str, message: &str| Condition::new(kind, status, reason, message, now.clone());
    let Some(reference) = &cluster.spec.control_plane_ref else {
        return match &cluster.spec.topology {
            Some(_) => without_object(kind, cluster, now),
            None => of_machines(kind, observed, now),
        };
    };
    let name = format!("{} {}", reference.kind, reference.name);
    let part = Part {
        name: &name,
        field: "spec.controlPlaneRef",
        unknown: unknown::<KubeadmControlPlane>("spec.controlPlaneRef", reference),
        refused: observed.control_plane_refused.as_deref(),
        found: observed.control_plane.is_some(),
        existed: was_initialized(cluster),
    };
    if let Some((reason, message)) = part.obstacle(cluster) {
        return new(ConditionStatus::False, reason, &message);
    }
    match observed.control_plane.as_ref().and_then(|it| it.condition("Available")) {
        Some(it) => summary::mirror(kind, it, "Available"),
        None if observed.initialized(cluster) => new(ConditionStatus::True, "Available", ""),
        None => {
            let message =
                format!("{} status.initialization.controlPlaneInitialized is false", reference.kind);
            new(ConditionStatus::False, "NotAvailable", &message)
        }
    }
}

/// Availability of a control plane that consists of Machines without an object above them.
fn of_machines(kind: &str, observed: &Observed, now: &Time) -> Condition {
    let available = |machine: &Machine| machine.condition("Available").is_some_and(Condition::holds);
    let (status, reason, message) = match observed.control_plane_machines.as_slice() {
        [] => (ConditionStatus::True, "Available", "No control plane object is used"),
        machines if machines.iter().any(available) => (ConditionStatus::True, "Available", ""),
        _ => (ConditionStatus::False, "NotAvailable", "no control plane Machine is available"),
    };
    Condition::new(kind, status, reason, message, now.clone())
}

fn was_initialized(cluster: &Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

/// Initialized stays True for good.
fn control_plane_initialized(cluster: &Cluster, observed: &Observed, now: &Time) -> Condition {
    let kind = "ControlPlaneInitialized";
    if was_initialized(cluster) || observed.initialized(cluster) {
        return Condition::new(kind, ConditionStatus::True, "Initialized", "", now.clone());
    }
    let message = match &cluster.spec.control_plane_ref {
        Some(reference) if observed.control_plane.is_none() => {
            let message = format!("{} {} does not exist", reference.kind, reference.name);
            let unknown = ConditionStatus::Unknown;
            return Condition::new(kind, unknown, "ObjectDoesNotExist", &message, now.clone());
        }
        Some(_) => "Control plane not yet initialized",
        None => "Waiting for the first control plane machine to have status.nodeRef set",
    };
    Condition::new(kind, ConditionStatus::False, "NotInitialized", message, now.clone())
}

/// Returns where to correct an error: in the kubeconfig, or at the endpoint of the workload cluster.
fn remedy(cluster: &Cluster, error: &str) -> String {
    let is_unusable = error.starts_with("the kubeconfig of the workload cluster cannot be used");
    let is_of_another_authority = error.contains("an authority that the kubeconfig does not contain");
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    if is_unusable || is_of_another_authority {
        let secret = kubeconfig_secret_name(&name);
        let field = if is_unusable { "the key value" } else { "certificate-authority-data" };
        return format!(". Correct {field} of Secret {namespace}/{secret}");
    }
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let parts = endpoint.and_then(|it| Some((it.host.as_deref()?, it.port?)));
    parts.map_or_else(String::new, |(host, port)| {
        let endpoint = host_and_port(host, port);
        format!(". The endpoint is {endpoint}, spec.controlPlaneEndpoint of Cluster {namespace}/{name}")
    })
}

fn probe(cluster: &Cluster, observed: &Observed, now: &Time) -> Condition {
    let kind = "RemoteConnectionProbe";
    let probe = &observed.probe;
    let no =
        |message: &str| Condition::new(kind, ConditionStatus::False, "ProbeFailed", message, now.clone());
    let because = probe.error.as_ref().map(|error| format!(": {error}{}", remedy(cluster, error)));
    let because = because.unwrap_or_default();
    match probe.last_success {
        Some(at) if !observed.settings.is_down(observed.now.duration_since(at)) => {
            let late =
                |error: &String| format!("Changes of Nodes are seen late, because the watch fails: {error}");
            let message = probe.watch_error.as_ref().map(late).unwrap_or_default();
            Condition::new(kind, ConditionStatus::True, "ProbeSucceeded", &message, now.clone())
        }
        Some(at) => no(&format!(
            "Remote connection probe failed, probe last succeeded at {}{because}",
            at.strftime("%Y-%m-%dT%H:%M:%SZ")
        )),
        None if observed.kubeconfig_obstacle.is_some() => {
            let obstacle = observed.kubeconfig_obstacle.as_deref().unwrap_or_default();
            no(&format!("Remote connection not established yet: {obstacle}"))
        }
        None if probe.failures < FIRST_FAILURES => match cluster.condition(kind) {
            Some(known) => known.clone(),
            None => no("Remote connection not established yet"),
        },
        None => no(&format!("Remote connection probe failed{because}")),
    }
}

fn deleting(cluster: &Cluster, observed: &Observed, step: &Step, now: &Time) -> Condition {
    if cluster.metadata.deletion_timestamp.is_none() {
        return Condition::new("Deleting", ConditionStatus::False, "NotDeleting", "", now.clone());
    }
    let infrastructure = "WaitingForInfrastructureDeletion";
    let (reason, message) = match step {
        Step::DeleteDescendants(stage @ Stage::ControlPlane, remaining) => {
            let note = descendants::protected(remaining).map(|note| format!("\n{note}")).unwrap_or_default();
            (stage.reason(), format!("Waiting for KubeadmControlPlane to be deleted{note}"))
        }
        // As upstream: without an object for the control plane, its Machines are among the workers.
        Step::DeleteDescendants(stage, remaining) => {
            let alone = cluster.spec.control_plane_ref.is_none();
            let reason = if alone { Stage::Workers.reason() } else { stage.reason() };
            (reason, descendants::describe(remaining))
        }
        Step::WaitForHook => {
            ("WaitingForBeforeDeleteHook", "Waiting for BeforeClusterDelete hook".to_owned())
        }
        Step::CleanWorkload(message) => ("WaitingForWorkloadCleanup", message.clone()),
        Step::DeleteInfrastructure => {
            (infrastructure, "Waiting for OpenStackCluster to be deleted".to_owned())
        }
        Step::WaitForInfrastructure(message) => (infrastructure, message.clone()),
        Step::Release => ("DeletionCompleted", "Deletion completed".to_owned()),
        _ => ("Deleting", "Deletion started".to_owned()),
    };
    let message = match &observed.error {
        Some(error) => format!("{message}\n{error}"),
        None => message,
    };
    Condition::new("Deleting", ConditionStatus::True, reason, &message, now.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;
    use controllers_workload::Probe;
    use serde_json::json;

    use super::*;

    /// Returns reason and message of the probe's condition after `failures` failed probes with this error.
    fn probed(failures: u32, error: &str) -> (String, String) {
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        cluster.metadata.namespace = Some("ns".to_owned());
        let endpoint = json!({"host": "192.0.2.1", "port": 6443});
        cluster.spec.control_plane_endpoint = serde_json::from_value(endpoint).unwrap();
        let error = Some(error.to_owned());
        let observed =
            Observed { probe: Probe { failures, error, ..Probe::default() }, ..Observed::default() };
        let condition = probe(&cluster, &observed, &Time("2026-11-26T10:00:00Z".to_owned()));
        assert_eq!(
            (condition.kind.as_str(), condition.status),
            ("RemoteConnectionProbe", ConditionStatus::False)
        );
        (condition.reason, condition.message)
    }

    #[test]
    fn a_workload_cluster_that_cannot_be_reached_is_explained_with_a_remedy() {
        let failed = "Remote connection probe failed: ";
        let endpoint = ". The endpoint is 192.0.2.1:6443, spec.controlPlaneEndpoint of Cluster ns/blue";
        let table = [
            (
                "the kubeconfig of the workload cluster cannot be used: it is not UTF-8 text",
                ". Correct the key value of Secret ns/blue-kubeconfig",
            ),
            (
                "invalid peer certificate: UnknownIssuer (x509: certificate signed by an authority that the kubeconfig \
                 does not contain)",
                ". Correct certificate-authority-data of Secret ns/blue-kubeconfig",
            ),
            ("the server answered GET / with HTML instead of JSON", endpoint),
            ("Connection refused (os error 111)", endpoint),
        ];
        for (error, remedy) in table {
            let expected = ("ProbeFailed".to_owned(), format!("{failed}{error}{remedy}"));
            assert_eq!(probed(FIRST_FAILURES, error), expected);
        }
        assert_eq!(probed(1, "Connection refused").1, "Remote connection not established yet");
    }

    #[test]
    fn objects_that_do_not_exist_are_told_from_those_that_wait() {
        use apiserver_types::{ContractVersionedObjectReference, KubeadmControlPlane};
        let now = Time::default();
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        let told = |cluster: &Cluster, observed: &Observed| {
            let found = [
                infrastructure(cluster, observed, &now),
                control_plane_available(cluster, observed, &now),
                control_plane_initialized(cluster, observed, &now),
            ];
            found.map(|it| it.reason)
        };
        let mut observed = Observed::default();
        assert_eq!(told(&cluster, &observed), ["Ready", "Available", "NotInitialized"]);
        cluster.spec.topology = Some(Default::default());
        assert_eq!(
            told(&cluster, &observed),
            ["ObjectDoesNotExist", "ObjectDoesNotExist", "NotInitialized"],
            "the topology makes them"
        );
        cluster.spec.control_plane_ref = Some(ContractVersionedObjectReference {
            api_group: "controlplane.cluster.x-k8s.io".to_owned(),
            kind: "KubeadmControlPlane".to_owned(),
            name: "cp".to_owned(),
        });
        assert_eq!(told(&cluster, &observed)[2], "ObjectDoesNotExist");
        observed.control_plane = Some(KubeadmControlPlane::default());
        assert_eq!(told(&cluster, &observed)[1..], ["NotAvailable", "NotInitialized"]);
        let milestone = json!({"initialization": {"controlPlaneInitialized": true}});
        observed.control_plane.as_mut().unwrap().status = serde_json::from_value(milestone).unwrap();
        assert_eq!(told(&cluster, &observed)[1..], ["Available", "Initialized"], "without a condition");
        cluster.spec.control_plane_ref.as_mut().unwrap().api_group = "example.com".to_owned();
        let found = control_plane_available(&cluster, &observed, &now);
        assert_eq!(found.reason, "UnknownKind");
        assert!(
            found
                .message
                .starts_with("spec.controlPlaneRef names KubeadmControlPlane cp of group example.com")
        );
    }

    #[test]
    fn an_object_that_does_not_exist_is_named_with_its_field_and_a_remedy() {
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "c"});
        cluster.spec.infrastructure_ref = serde_json::from_value(reference).unwrap();
        let found = infrastructure(&cluster, &Observed::default(), &Time::default());
        assert_eq!(
            found.message,
            "OpenStackCluster c does not exist. Create it, or correct spec.infrastructureRef"
        );
    }

    #[test]
    fn control_plane_machines_without_an_object_above_them_are_awaited_like_workers() {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        cluster.metadata.deletion_timestamp = Some(now);
        let step = Step::DeleteDescendants(Stage::ControlPlaneMachines, Vec::new());
        let reason =
            |cluster: &Cluster| deleting(cluster, &Observed::default(), &step, &Time::default()).reason;
        assert_eq!(reason(&cluster), "WaitingForWorkersDeletion");
        cluster.spec.control_plane_ref = Some(ContractVersionedObjectReference::default());
        assert_eq!(reason(&cluster), "WaitingForControlPlaneDeletion");
    }

    #[test]
    fn a_deletion_that_is_refused_says_so() {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        let mut cluster = Cluster::new("blue", ClusterSpec::default());
        cluster.metadata.deletion_timestamp = Some(now);
        let error = Some("MachineDeployment md: denied by policy keep".to_owned());
        let observed = Observed { error, ..Observed::default() };
        let found = deleting(&cluster, &observed, &Step::DeleteInfrastructure, &Time::default());
        assert_eq!(
            found.message,
            "Waiting for OpenStackCluster to be deleted\nMachineDeployment md: denied by policy keep"
        );
    }

    #[test]
    fn a_missing_kubeconfig_is_told() {
        let obstacle = Some("Secret ns/blue-kubeconfig has no key value with a kubeconfig".to_owned());
        let observed = Observed { kubeconfig_obstacle: obstacle, ..Observed::default() };
        let found = probe(&Cluster::default(), &observed, &Time::default());
        assert_eq!(
            found.message,
            "Remote connection not established yet: Secret ns/blue-kubeconfig has no key value with a kubeconfig"
        );
    }
}
