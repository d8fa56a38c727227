//! Conditions that explain why an object is not as desired, from the cause to its effects.

use apiserver_machinery::object;
use serde_json::Value;

use crate::rules::json_fields::{items, text};

/// Conditions whose steady status is False.
const NEGATIVE: [&str; 5] = ["Deleting", "Paused", "RollingOut", "ScalingUp", "Upgrading"];

/// Conditions that are True also while everything goes on. They explain something only if their message names an
/// obstacle.
const BUSY: [&str; 2] = ["RollingOut", "ScalingUp"];

/// Parts of the messages of [`BUSY`] conditions that name an obstacle.
const OBSTACLES: [&str; 2] = [" blocked", "\n* Waiting: "];

/// Conditions of a Cluster itself. Those that repeat the state of other objects are in [`CLUSTER_PARTS`].
pub(super) const CLUSTER: &[&str] =
    &["Deleting", "Paused", "TopologyReconciled", "Upgrading", "RemoteConnectionProbe"];

/// Conditions of a Cluster that repeat the state of its infrastructure, its control plane and its workers.
pub(super) const CLUSTER_PARTS: &[&str] = &[
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "Available",
];

/// Conditions of an owner of Machines.
pub(super) const OWNER: &[&str] = &[
    "Deleting",
    "Paused",
    "CertificatesAvailable",
    "RollingOut",
    "ScalingUp",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "Progressing",
    "Available",
    "MachinesReady",
];

/// Conditions of a Machine.
const MACHINE: &[&str] = &[
    "Deleting",
    "Paused",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "NodeHealthy",
    "NodeReady",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "ExternallyRemediated",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "Ready",
];

/// Condition of a Machine that a health check finds unhealthy, and whose message says why.
const CHECK: &str = "HealthCheckSucceeded";

/// Reason of `OwnerRemediated` until the owner has decided.
const UNDECIDED: &str = "WaitingForRemediation";

/// Conditions of an OpenStackCluster or an OpenStackMachine.
pub(super) const INFRASTRUCTURE: &[&str] = &[
    "Paused",
    "OpenStackAuthenticationSucceeded",
    "NetworkReady",
    "RouterReady",
    "SecurityGroupsReady",
    "APIEndpointReady",
    "InstanceReady",
    "FloatingAddressFromPoolReady",
    "APIServerIngressReady",
    "Ready",
];

/// Conditions of a KubeadmConfig.
pub(super) const BOOTSTRAP: &[&str] = &["Paused", "CertificatesAvailable", "DataSecretAvailable", "Ready"];

/// Returns the condition of a type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "status.conditions").map(|(_, it)| it).find(|it| text(it, "type") == Some(kind))
}

/// Returns the first of these conditions that is not as it should be. A condition that is absent explains nothing.
pub(super) fn first_open<'a>(object: &'a Value, kinds: &[&str]) -> Option<&'a Value> {
    kinds.iter().filter_map(|kind| condition(object, kind)).find(|it| is_open(it))
}

/// Returns the condition that explains the state of a Machine. Once the owner has decided about an unhealthy one, its decision
/// is the cause of what goes on, or of what does not.
pub(super) fn of_machine(machine: &Value) -> Option<&Value> {
    let first = first_open(machine, MACHINE)?;
    let decided = || {
        let found = condition(machine, "OwnerRemediated").filter(|it| is_open(it));
        found.filter(|it| text(it, "reason") != Some(UNDECIDED))
    };
    Some(if text(first, "type") == Some(CHECK) { decided().unwrap_or(first) } else { first })
}

/// Reports whether a condition is not as it should be.
fn is_open(condition: &Value) -> bool {
    let kind = text(condition, "type").unwrap_or_default();
    let (status, message) = (text(condition, "status"), text(condition, "message").unwrap_or_default());
    let is_steady = if NEGATIVE.contains(&kind) { status != Some("True") } else { status == Some("True") };
    !is_steady && (!BUSY.contains(&kind) || OBSTACLES.iter().any(|part| message.contains(part)))
}

/// Returns kind and name of the owner that controls an object.
pub(super) fn owner(object: &Value) -> Option<(&str, &str)> {
    let mut owners = items(object, "metadata.ownerReferences").map(|(_, owner)| owner);
    let owner = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))?;
    Some((text(owner, "kind")?, text(owner, "name")?))
}

/// Returns the object of a name.
pub(super) fn named<'a>(objects: &'a [Value], name: &str) -> Option<&'a Value> {
    objects.iter().find(|it| object::name(it) == name)
}
