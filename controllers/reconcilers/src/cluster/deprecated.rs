//! Conditions of a Cluster in the form of v1beta1, which clients of that version read.

use apiserver_types::{Cluster, Condition, Time, condition};

use crate::deprecated_conditions::{self, Old};

/// Writes the conditions, from those of v1beta2 that were written before.
pub(super) fn report(cluster: &mut Cluster, now: &Time) {
    let with_object = cluster.spec.control_plane_ref.is_some();
    let status = cluster.status.get_or_insert_default();
    let known = status.conditions.clone().unwrap_or_default();
    let initialized = match condition(&known, "ControlPlaneInitialized") {
        Some(found) if found.holds() => Old::True,
        _ if with_object => Old::no("Info", "WaitingForControlPlaneProviderInitialized", ""),
        _ => Old::no("Info", "MissingNodeRef", ""),
    };
    let infrastructure = mirrored(condition(&known, "InfrastructureReady"), "WaitingForInfrastructure");
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let conditions = deprecated.conditions.get_or_insert_default();
    deprecated_conditions::set(conditions, "ControlPlaneInitialized", initialized, now);
    deprecated_conditions::set(conditions, "InfrastructureReady", infrastructure.clone(), now);
    let mut parts = vec![Some(infrastructure)];
    if with_object {
        let control_plane = mirrored(condition(&known, "ControlPlaneAvailable"), "WaitingForControlPlane");
        deprecated_conditions::set(conditions, "ControlPlaneReady", control_plane.clone(), now);
        parts.push(Some(control_plane));
    }
    let ready = deprecated_conditions::summary(&parts);
    deprecated_conditions::set(conditions, "Ready", ready, now);
}

fn mirrored(found: Option<&Condition>, waiting: &str) -> Old {
    match found {
        Some(found) if found.holds() => Old::True,
        Some(found) => Old::no("Info", &found.reason, found.message.clone()),
        None => Old::no("Info", waiting, ""),
    }
}
