//! Rules by which Argo CD, and Flux and Helm, compute the health of an object, and cluster-autoscaler the state of a Machine.

use serde_json::{Value, json};

use crate::objects::{self, text};

/// Annotation by which users pause an object.
const PAUSED: &str = "/metadata/annotations/cluster.x-k8s.io~1paused";

/// Returns the status of a condition.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    objects::condition(object, kind).map(|it| text(it, "/status")).unwrap_or_default()
}

/// Returns the status of a condition of v1beta2. In objects of v1beta1 these conditions have a place of their own.
fn new_condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let of_old = object.pointer("/status/v1beta2/conditions").and_then(Value::as_array);
    let found = of_old.into_iter().flatten().find(|it| it["type"] == kind);
    found.map_or_else(|| condition(object, kind), |it| text(it, "/status"))
}

fn count(object: &Value, field: &str) -> Option<u64> {
    object.pointer(&format!("/status/{field}")).and_then(Value::as_u64)
}

/// Returns the number of Machines that have the newest form. Each version has its own field.
fn updated(object: &Value) -> Option<u64> {
    count(object, "upToDateReplicas").or_else(|| count(object, "updatedReplicas"))
}

/// Returns the health that Argo CD computes with its rules for this kind; `-` for a kind without rules.
pub(super) fn argo_cd(object: &Value) -> &'static str {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return if has_rules(object) { "Progressing" } else { "-" };
    }
    match text(object, "/kind") {
        "Cluster" => cluster(object),
        "KubeadmControlPlane" => control_plane(object),
        "MachineDeployment" => deployment(object),
        "MachineHealthCheck" => health_check(object),
        "Machine" => by_phase(object, "Running"),
        _ => "-",
    }
}

fn has_rules(object: &Value) -> bool {
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineHealthCheck", "Machine"]
        .contains(&text(object, "/kind"))
}

fn is_paused(object: &Value) -> bool {
    object.pointer("/spec/paused") == Some(&json!(true))
}

fn by_phase(object: &Value, healthy: &str) -> &'static str {
    match text(object, "/status/phase") {
        "Failed" => "Degraded",
        phase if phase == healthy => "Healthy",
        _ => "Progressing",
    }
}

fn cluster(object: &Value) -> &'static str {
    let is_not_ready =
        |it: &Value| it["type"] == "Ready" && it["status"] == "False" && it["severity"] != "Info";
    let changes = new_condition(object, "RollingOut") == "True"
        || new_condition(object, "TopologyReconciled") == "False";
    match () {
        () if is_paused(object) => "Suspended",
        () if objects::conditions(object).any(is_not_ready) => "Degraded",
        () if changes => "Progressing",
        () => by_phase(object, "Provisioned"),
    }
}

fn control_plane(object: &Value) -> &'static str {
    let lacks = |status: &str| !["", "True"].contains(&status);
    let parts = ["MachinesReady", "MachinesUpToDate"].map(|kind| new_condition(object, kind));
    let replicas = count(object, "replicas").unwrap_or_default();
    let short = [updated(object), count(object, "readyReplicas")].map(|it| it.unwrap_or_default() < replicas);
    match () {
        () if object.pointer(PAUSED).is_some() => "Suspended",
        () if object.get("status").is_none() => "Progressing",
        () if lacks(condition(object, "EtcdClusterHealthy")) => "Degraded",
        () if parts.into_iter().any(lacks) => "Progressing",
        () if lacks(condition(object, "ControlPlaneComponentsHealthy")) => "Progressing",
        () if new_condition(object, "RollingOut") == "True" || short.contains(&true) => "Progressing",
        () => "Healthy",
    }
}

fn deployment(object: &Value) -> &'static str {
    let replicas = count(object, "replicas");
    let is_whole = [updated(object), count(object, "readyReplicas")].iter().all(|it| *it == replicas);
    match by_phase(object, "Running") {
        _ if is_paused(object) => "Suspended",
        "Healthy" if !is_whole => "Progressing",
        health => health,
    }
}

fn health_check(object: &Value) -> &'static str {
    match (count(object, "expectedMachines"), count(object, "currentHealthy")) {
        (_, None) => "Progressing",
        (expected, healthy) if expected == healthy => "Healthy",
        _ => "Degraded",
    }
}

/// Returns the status that Flux and Helm compute for any kind.
pub(super) fn flux(object: &Value) -> &'static str {
    let generation = &object["metadata"]["generation"];
    let observed = object.pointer("/status/observedGeneration");
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    if observed.is_some_and(|observed| observed != generation) || condition(object, "Reconciling") == "True" {
        return "InProgress";
    }
    match (condition(object, "Stalled"), condition(object, "Ready")) {
        ("True", _) => "Failed",
        (_, "" | "True") => "Current",
        _ => "InProgress",
    }
}

/// Returns the state of a Machine's node in its group, as cluster-autoscaler computes it.
pub(super) fn autoscaler(machine: &Value) -> &'static str {
    let has = |pointer: &str| !text(machine, pointer).is_empty();
    match () {
        () if has("/metadata/deletionTimestamp") => "deleting",
        () if has("/status/failureMessage") => "failed",
        () if has("/spec/providerID") && has("/status/nodeRef/name") => "running",
        () => "pending",
    }
}
