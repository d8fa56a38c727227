//! Deletion of the load balancer and of the port of its address.

use controllers_runtime::{Entry, ReconcileError};
use jiff::Timestamp;

use super::super::act::gone;
use super::super::observe::Observer;
use super::{NAME_TAKEN, health};

/// Deletes the load balancer with its parts. Waits until Octavia has finished.
pub(in super::super) async fn balancer(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<Option<String>, ReconcileError> {
    let found = match observer.owned_balancer(entry.id.as_deref(), &entry.name, None).await {
        // One of the same name is another owner's.
        Err(ReconcileError::Waiting { reason: NAME_TAKEN, .. }) => None,
        result => result?,
    };
    let Some(found) = found else { return Ok(None) };
    if found.provisioning_status.starts_with("PENDING") {
        let (reason, message) = health::pending(Timestamp::now(), &found);
        return Err(ReconcileError::waiting(reason, message));
    }
    gone(observer.cloud.delete_load_balancer(&found.id).await).map_err(super::busy::busy)?;
    Ok(Some(format!("deleted load balancer {} ({})", found.name, found.id)))
}

/// Deletes the port of the address.
pub(in super::super) async fn vip_port(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<Option<String>, ReconcileError> {
    let found = observer.owned_vip_ports(&entry.name).await?;
    let Some(port) = found.first() else { return Ok(None) };
    gone(observer.cloud.delete_port(&port.id).await)?;
    Ok(Some(format!("deleted port {} ({})", port.name, port.id)))
}
