//! Resources of other owners that prevent the deletion of a resource of the cluster.

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{ErrorClass, Port, PortQuery};
use controllers_runtime::{Journal, ReconcileError};
use kube::ResourceExt;

use super::observe::Observer;
use crate::names;

/// Reason of a deletion that resources of another owner prevent.
pub(super) const BLOCKED: &str = "DeletionBlocked";

/// Annotation by which the user leaves resources in the cloud whose deletion is blocked.
const FORGET: &str = "capstan.dev/forget-blocked";

/// Number of resources that a message lists.
const LISTED: usize = 5;

/// Returns true for the error of a resource in use, if the user leaves such resources in the cloud. Pure.
pub(super) fn is_forgotten(object: &OpenStackCluster, error: &ReconcileError) -> bool {
    let is_blocked = match error {
        ReconcileError::Waiting { reason, .. } => *reason == BLOCKED,
        ReconcileError::Cloud(error) => error.class == ErrorClass::Conflict,
        ReconcileError::Api(_) => false,
    };
    is_blocked && object.annotations().get(FORGET).map(String::as_str) == Some("true")
}

/// Returns the error of a resource in use, with the ports that use the network. Those of Neutron itself go with it.
pub(super) async fn blocked(
    observer: &Observer<'_>,
    journal: &Journal,
    error: ReconcileError,
) -> ReconcileError {
    let conflict = matches!(&error, ReconcileError::Cloud(error) if error.class == ErrorClass::Conflict);
    let Some(network) = journal.id(names::NETWORK, &observer.desired.name).filter(|_| conflict) else {
        return error;
    };
    let query = PortQuery { network_id: Some(network.to_owned()), ..PortQuery::default() };
    let Ok(ports) = observer.cloud.ports(&query).await else { return error };
    let foreign = |port: &&Port| {
        !port.device_owner.starts_with("network:") && !observer.tag.is_on(&port.tags, &port.description)
    };
    let ports: Vec<String> = ports
        .iter()
        .filter(foreign)
        .map(|port| {
            let used = if port.device_id.is_empty() { "nothing" } else { port.device_id.as_str() };
            format!("port {} {:?} ({}, used by {used})", port.id, port.name, port.device_owner)
        })
        .collect();
    if ports.is_empty() {
        return error;
    }
    let more = ports.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let listed = ports.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    let message =
        format!("{error}. These are on the network and not of this cluster: {listed}{rest}. Delete them");
    ReconcileError::waiting(BLOCKED, message)
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::CloudError;
    use serde_json::json;

    use super::*;

    #[test]
    fn r17_4_a_blocked_resource_is_left_only_if_the_user_says_so() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        let blocked = ReconcileError::waiting(BLOCKED, "ports");
        let used = CloudError::new(ErrorClass::Conflict, "delete", "SecurityGroupInUse").into();
        let outage = CloudError::new(ErrorClass::Unreachable, "delete", "no answer").into();
        assert!(!is_forgotten(&object, &blocked));
        object.annotations_mut().insert(FORGET.to_owned(), "true".to_owned());
        assert!(is_forgotten(&object, &blocked) && is_forgotten(&object, &used));
        assert!(
            !is_forgotten(&object, &outage)
                && !is_forgotten(&object, &ReconcileError::waiting("Pending", ""))
        );
    }
}
