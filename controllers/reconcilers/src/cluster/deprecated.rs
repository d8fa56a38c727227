//! Conditions of a Cluster in the form of v1beta1, which clients of that version read.

use apiserver_types::{Cluster, Condition, Time, condition};

use crate::deprecated_conditions::{self, Old};
use crate::summary;

/// Writes the conditions, from those of v1beta2 that were written before.
pub(super) fn report(cluster: &mut Cluster, now: &Time) {
    let with_object = cluster.spec.control_plane_ref.is_some();
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let status = cluster.status.get_or_insert_default();
    let known = status.conditions.clone().unwrap_or_default();
    let initialized = match condition(&known, "ControlPlaneInitialized") {
        Some(found) if found.holds() => Old::True,
        _ if with_object => Old::no("Info", "WaitingForControlPlaneProviderInitialized", ""),
        _ => Old::no("Info", "MissingNodeRef", ""),
    };
    let infrastructure = mirrored(&known, "InfrastructureReady", "WaitingForInfrastructure", deleting);
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let conditions = deprecated.conditions.get_or_insert_default();
    deprecated_conditions::set(conditions, "ControlPlaneInitialized", initialized, now);
    deprecated_conditions::set(conditions, "InfrastructureReady", infrastructure.clone(), now);
    let mut parts = vec![Some(infrastructure)];
    if with_object {
        let control_plane = mirrored(&known, "ControlPlaneAvailable", "WaitingForControlPlane", deleting);
        deprecated_conditions::set(conditions, "ControlPlaneReady", control_plane.clone(), now);
        parts.push(Some(control_plane));
    }
    let ready = deprecated_conditions::summary(&parts);
    deprecated_conditions::set(conditions, "Ready", ready, now);
}

/// Returns the state of a condition of v1beta2. Without its object, v1beta1 has words of its own.
fn mirrored(known: &[Condition], kind: &str, waiting: &str, deleting: bool) -> Old {
    match condition(known, kind) {
        Some(found) if found.holds() => Old::True,
        Some(found) if deleting && summary::is_gone(known, kind) => {
            Old::no("Info", "Deleted", found.message.clone())
        }
        Some(found) if found.reason == "ObjectDoesNotExist" => {
            Old::no("Info", waiting, found.message.clone())
        }
        Some(found) => Old::no("Info", &found.reason, found.message.clone()),
        None => Old::no("Info", waiting, ""),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;

    use super::*;

    #[test]
    fn an_object_that_does_not_exist_is_awaited_or_deleted() {
        let of = |status, reason: &str| vec![Condition::new("K", status, reason, "", Time::default())];
        let table = [
            (vec![], false, "Waiting"),
            (of(ConditionStatus::False, "ObjectDoesNotExist"), false, "Waiting"),
            (of(ConditionStatus::False, "ObjectDoesNotExist"), true, "Deleted"),
            (of(ConditionStatus::False, "ObjectDeleted"), true, "Deleted"),
            (of(ConditionStatus::False, "ObjectDeleted"), false, "ObjectDeleted"),
            (of(ConditionStatus::False, "NotReady"), true, "NotReady"),
        ];
        for (known, deleting, expected) in table {
            let found = mirrored(&known, "K", "Waiting", deleting);
            assert_eq!(found, Old::no("Info", expected, ""), "{known:?} {deleting}");
        }
        assert_eq!(mirrored(&of(ConditionStatus::True, "Ready"), "K", "Waiting", true), Old::True);
    }
}
