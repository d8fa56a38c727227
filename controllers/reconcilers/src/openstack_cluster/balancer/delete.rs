//! Deletion of the load balancer and of the port of its address.

use controllers_infrastructure::{LoadBalancer, LoadBalancerQuery};
use controllers_runtime::{Entry, Journal, ReconcileError};
use jiff::Timestamp;

use super::super::act::gone;
use super::super::blockers::BLOCKED;
use super::super::leftovers::is_without_octavia;
use super::super::observe::Observer;
use super::{BalancerView, BalancerWish, NAME_TAKEN, PENDING, foreign_parts, health};
use crate::names;

/// Deletes the load balancer with its parts. Waits until Octavia has finished.
pub(in super::super) async fn balancer(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<Option<String>, ReconcileError> {
    let Some(found) = ours(observer, entry).await? else { return Ok(None) };
    if found.provisioning_status.starts_with("PENDING") {
        let (reason, message) = health::pending(Timestamp::now(), &found);
        return Err(ReconcileError::waiting(reason, message));
    }
    let tags = foreign_parts::other_tags(observer.tag, &observer.desired.tags, &found.tags);
    if !tags.is_empty() {
        return Err(leave(observer, entry, found, &tags).await?);
    }
    gone(observer.cloud.delete_load_balancer(&found.id).await).map_err(super::busy::busy)?;
    Ok(Some(format!("deleted load balancer {} ({})", found.name, found.id)))
}

async fn ours(observer: &Observer<'_>, entry: &Entry) -> Result<Option<LoadBalancer>, ReconcileError> {
    match observer.owned_balancer(entry.id.as_deref(), &entry.name, None).await {
        // One of the same name is another owner's.
        Err(ReconcileError::Waiting { reason: NAME_TAKEN, .. }) => Ok(None),
        result => result,
    }
}

/// Returns the load balancer with its parts.
async fn view(
    observer: &Observer<'_>,
    entry: &Entry,
    found: LoadBalancer,
) -> Result<(BalancerWish, BalancerView), ReconcileError> {
    let wish = BalancerWish { name: entry.name.clone(), ..BalancerWish::default() };
    let limits = observer.cloud.load_balancer_limits().await?;
    let mut view = BalancerView { balancer: Some(found), limits, ..BalancerView::default() };
    observer.parts(&mut view).await?;
    Ok((wish, view))
}

/// Returns the titles of the parts of other owners that go with our load balancer.
pub(in super::super) async fn parts_of_others(
    observer: &Observer<'_>,
    journal: &Journal,
) -> Result<Vec<String>, ReconcileError> {
    let mut titles = Vec::new();
    for entry in journal.of_kind(names::LOAD_BALANCER) {
        let Some(found) = ours(observer, entry).await? else { continue };
        if foreign_parts::other_tags(observer.tag, &observer.desired.tags, &found.tags).is_empty() {
            let (wish, view) = view(observer, entry, found).await?;
            titles.extend(foreign_parts::titles(&wish, observer.tag, &view));
        }
    }
    Ok(titles)
}

/// Removes our listeners and pools from a load balancer that other owners use, too, one by one. Returns the reason for
/// the wait.
async fn leave(
    observer: &Observer<'_>,
    entry: &Entry,
    found: LoadBalancer,
    tags: &[String],
) -> Result<ReconcileError, ReconcileError> {
    let title = format!("load balancer {} ({})", found.name, found.id);
    let (wish, view) = view(observer, entry, found).await?;
    let removed = if let Some(own) = foreign_parts::first_listener(&wish, observer.tag, &view) {
        gone(observer.cloud.delete_listener(&own.id).await).map_err(super::busy::busy)?;
        format!("listener {} ({})", own.name, own.id)
    } else if let Some(own) = foreign_parts::first_pool(&wish, observer.tag, &view) {
        gone(observer.cloud.delete_pool(&own.id).await).map_err(super::busy::busy)?;
        format!("pool {} ({})", own.name, own.id)
    } else {
        let message = format!(
            "{title} has the tags {} of other owners, so Capstan removed only its own listeners. Move the others away \
             and remove these tags, or set the annotation capstan.dev/forget-blocked to \"true\" to leave it",
            tags.join(", ")
        );
        return Ok(ReconcileError::waiting(BLOCKED, message));
    };
    Ok(ReconcileError::waiting(PENDING, format!("waiting for {removed} of {title} to be removed")))
}

/// Deletes the port of the address.
pub(in super::super) async fn vip_port(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<Option<String>, ReconcileError> {
    let found = observer.owned_vip_ports(&entry.name).await?;
    let Some(port) = found.first() else { return Ok(None) };
    let query = LoadBalancerQuery { vip_port_id: Some(port.id.clone()), ..LoadBalancerQuery::default() };
    // A cloud without Octavia has no load balancer on it.
    let on_it = match observer.cloud.load_balancers(&query).await {
        Err(error) if is_without_octavia(&error) => Vec::new(),
        result => result?,
    };
    if let Some(other) = on_it.iter().find(|it| it.provisioning_status != "DELETED") {
        let message = format!(
            "port {} ({}) has the address of load balancer {} ({}), which stays. Delete that load balancer, or set the \
             annotation capstan.dev/forget-blocked to \"true\" to leave the port",
            port.name, port.id, other.name, other.id
        );
        return Err(ReconcileError::waiting(BLOCKED, message));
    }
    gone(observer.cloud.delete_port(&port.id).await)?;
    Ok(Some(format!("deleted port {} ({})", port.name, port.id)))
}
