//! Conversion of a Cluster's topology.

use serde_json::Value;

use crate::empty::drop_each;
use crate::fields::{drop_empty, each, get, put, rename, take, with};
use crate::replicas::Strategy;
use crate::{health_check, timeouts};

const STRATEGY: Strategy = Strategy { max_in_flight: "healthCheck.remediation.maxInFlight" };

/// Lists of variables, relative to the part that has them.
const VARIABLES: [&str; 2] = ["variables", "variables.overrides"];

pub(super) fn default(topology: &mut Value, namespace: &str) {
    let check = |part: &mut Value| health_check::default(part, namespace);
    with(topology, "controlPlane.machineHealthCheck", check);
    each(topology, "workers.machineDeployments", |pool| {
        STRATEGY.default(pool);
        with(pool, "machineHealthCheck", check);
    });
}

pub(super) fn to_stored(topology: &mut Value) {
    rename(topology, "class", "classRef.name");
    rename(topology, "classNamespace", "classRef.namespace");
    // Each part has its own time of rollout.
    take(topology, "rolloutAfter");
    part_to_stored(topology);
    with(topology, "controlPlane", |control_plane| {
        part_to_stored(control_plane);
        check_to_stored(control_plane);
    });
    each(topology, "workers.machineDeployments", |pool| {
        STRATEGY.to_stored(pool);
        part_to_stored(pool);
        check_to_stored(pool);
    });
    each(topology, "workers.machinePools", part_to_stored);
    drop_each(topology, &["workers.machineDeployments", "workers.machinePools", "workers", "controlPlane"]);
}

pub(super) fn from_stored(topology: &mut Value, namespace: &str) {
    rename(topology, "classRef.name", "class");
    rename(topology, "classRef.namespace", "classNamespace");
    take(topology, "classRef");
    with(topology, "controlPlane", |control_plane| {
        timeouts::from_stored(control_plane);
        check_from_stored(control_plane, namespace);
    });
    each(topology, "workers.machineDeployments", |pool| {
        STRATEGY.to_older(pool);
        timeouts::from_stored(pool);
        check_from_stored(pool, namespace);
    });
    each(topology, "workers.machinePools", timeouts::from_stored);
}

/// Converts timeouts, and removes empty lists.
fn part_to_stored(part: &mut Value) {
    timeouts::to_stored(part);
    for list in VARIABLES {
        each(part, list, |variable| {
            take(variable, "definitionFrom");
        });
    }
    drop_each(
        part,
        &["metadata", "readinessGates", "taints", "failureDomains", "variables.overrides", "variables"],
    );
}

/// Converts the health check. A strategy may have written other fields of it before.
fn check_to_stored(part: &mut Value) {
    let Some(mut check) = take(part, "machineHealthCheck") else { return };
    rename(&mut check, "enable", "enabled");
    health_check::to_stored(&mut check);
    if let Some(at_once) = get(part, "healthCheck.remediation.maxInFlight").cloned() {
        put(&mut check, "remediation.maxInFlight", at_once);
    }
    put(part, "healthCheck", check);
    drop_empty(part, "healthCheck");
}

fn check_from_stored(part: &mut Value, namespace: &str) {
    rename(part, "healthCheck", "machineHealthCheck");
    with(part, "machineHealthCheck", |check| {
        rename(check, "enabled", "enable");
        health_check::from_stored(check, namespace);
    });
    drop_empty(part, "machineHealthCheck");
}
