//! Nodes of a Machine and of the objects below it.

use apiserver_types::{KubeadmConfig, Machine, MachinePhase, OpenStackMachine};
use kube::ResourceExt;

use super::node::{Cause, Node, time};
use super::severity::{Severity, state_word};
use crate::objects::ClusterObjects;

/// Conditions that explain the state of a Machine, from the cause to its effects.
const MACHINE_CAUSES: [&str; 17] = [
    "OwnerRemediated",
    "ExternallyRemediated",
    "HealthCheckSucceeded",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "Updating",
    "Ready",
    "Available",
    "UpToDate",
];

/// Conditions that explain the state of an OpenStackMachine.
const SERVER_CAUSES: [&str; 5] = [
    "OpenStackAuthenticationSucceeded",
    "InstanceReady",
    "FloatingAddressFromPoolReady",
    "APIServerIngressReady",
    "Ready",
];

/// Conditions that explain the state of a KubeadmConfig.
const CONFIG_CAUSES: [&str; 3] = ["CertificatesAvailable", "DataSecretAvailable", "Ready"];

/// Length of the part of a server's id that is shown. It is unique in practice.
const SHOWN_ID_LENGTH: usize = 8;

/// Returns the node of a Machine with its OpenStackMachine and its KubeadmConfig.
pub(super) fn machine(machine: &Machine, objects: &ClusterObjects) -> Node {
    let status = machine.status.clone().unwrap_or_default();
    let mut node = Node::new(machine, &status.conditions.unwrap_or_default());
    node.version = machine.spec.version.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    node.state = format!("{phase:?}");
    let gates = machine.spec.readiness_gates.iter().flatten().map(|gate| gate.condition_type.as_str());
    let causes: Vec<&str> = MACHINE_CAUSES.into_iter().chain(gates).collect();
    let is_ready = node.holds("Ready") && !node.holds("Updating");
    let cause = if is_ready { node.first_open(&["UpToDate"]) } else { node.first_open(&causes) };
    match cause.cloned() {
        Some(cause) => node.explain(&cause),
        None if is_ready => node.severity = Severity::Done,
        None => {}
    }
    if is_ready {
        node.severity = Severity::Done;
    }
    if phase == MachinePhase::Failed {
        node.severity = Severity::Failed;
    }
    node.since = status.last_updated.as_ref().and_then(time).or(node.since);
    let server = &machine.spec.infrastructure_ref.name;
    let server = objects.servers.iter().find(|it| it.name_any() == *server);
    let config = machine.spec.bootstrap.config_ref.as_ref();
    let config = config.and_then(|config| objects.configs.iter().find(|it| it.name_any() == config.name));
    let below = [config.map(bootstrap_config), server.map(openstack_machine)];
    node.children.extend(below.into_iter().flatten().map(|child| without_repeated_name(child, &node.name)));
    explain_by_children(&mut node);
    node.override_state(machine);
    node
}

/// Takes the cause from the objects below. The conditions of the Machine only repeat it, and later.
fn explain_by_children(node: &mut Node) {
    if node.severity == Severity::Done {
        return;
    }
    let failed = node.children.iter().find(|child| child.severity == Severity::Failed);
    let is_failed = failed.is_some();
    let is_below = ["BootstrapConfigReady", "InfrastructureReady"].iter().any(|kind| {
        let condition = node.condition(kind);
        condition.is_some_and(|it| !it.holds() && node.cause.as_ref() == Some(&Cause::of(it)))
    });
    let open = node.children.iter().find(|child| is_below && child.severity != Severity::Done);
    let Some(cause) = failed.or(open).and_then(|child| child.cause.as_ref()) else { return };
    node.cause = Some(Cause { reason: cause.brief(), message: String::new() });
    if is_failed {
        node.severity = Severity::Failed;
    }
}

/// Leaves out the name of an object that has the name of its Machine, as created objects do.
fn without_repeated_name(mut child: Node, machine: &str) -> Node {
    if child.name == machine {
        child.title.clone_from(&child.kind);
    }
    child
}

fn openstack_machine(server: &OpenStackMachine) -> Node {
    let status = server.status.clone().unwrap_or_default();
    let mut node = Node::new(server, &status.conditions.unwrap_or_default());
    node.state = status.instance_state.unwrap_or_default();
    if let Some(cause) = node.first_open(&SERVER_CAUSES).cloned() {
        node.explain(&cause);
    } else if let Some(ready) = node.condition("Ready").cloned() {
        node.explain(&ready);
    }
    if node.state == "ERROR" {
        node.severity = Severity::Failed;
    }
    if node.state.is_empty() {
        node.state = state_word(node.severity).to_owned();
    }
    let addresses = status.addresses.unwrap_or_default();
    let addresses = addresses.iter().filter(|it| it.kind.ends_with("IP")).map(|it| it.address.clone());
    let id: String = status.instance_id.unwrap_or_default().chars().take(SHOWN_ID_LENGTH).collect();
    let id = (!id.is_empty()).then(|| format!("server {id}"));
    node.note = id.into_iter().chain(addresses).collect::<Vec<_>>().join(", ");
    node.override_state(server);
    node
}

fn bootstrap_config(config: &KubeadmConfig) -> Node {
    let conditions = config.status.as_ref().and_then(|it| it.conditions.clone()).unwrap_or_default();
    let mut node = Node::new(config, &conditions);
    if let Some(cause) = node.first_open(&CONFIG_CAUSES).cloned() {
        node.explain(&cause);
    } else if let Some(ready) = node.condition("Ready").cloned() {
        node.explain(&ready);
    }
    node.state = state_word(node.severity).to_owned();
    node.override_state(config);
    node
}
