//! Deletion of what OpenStack's cloud provider made for Services of the workload cluster: load balancers with their
//! floating IPs and security groups.
//!
//! They outlive the workload cluster, and Neutron deletes no network with them. One on a network that Capstan created serves
//! that cluster alone. On a network of another owner, the notes about the workload cluster decide. What may be another
//! cluster's stays and is named.

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{CloudError, ErrorClass, LoadBalancer, LoadBalancerQuery, NetworkQuery};
use controllers_runtime::{Journal, ReconcileError};
use jiff::Timestamp;
use kube::ResourceExt;

use super::act::{Actor, gone};
use super::balancer::{PENDING, STUCK, health};
use super::balancer_members::{blocker, is_behind, serves_others};
use super::blockers::BLOCKED;
use super::observe::{Observed, Observer};
use super::service_balancers::{Evidence, Service, Verdict, service, verdict};
use super::service_resources::{claim_groups, release_floating_ips};
use super::shared_balancers::{self, OwnMembers};
use super::workload_notes::WorkloadNotes;
use crate::names;
use crate::resource_events::deletion_error;

/// Annotation with the ids of load balancers that are deleted with the cluster, separated by commas.
pub(super) const DELETE: &str = "capstan.dev/delete-leftovers";

/// Reason of the Event and the condition that name what stays of the workload cluster.
pub(super) const LEFTOVERS: &str = "LeftoversFound";

/// Number of resources that a message lists.
const LISTED: usize = 5;

/// Returns the ids of the load balancers that the user names.
fn named(object: &OpenStackCluster) -> Vec<String> {
    let text = object.annotations().get(DELETE).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// Returns true if something may be left without a resource in the journal: the user names it, or it was noted.
pub(super) fn may_exist(object: &OpenStackCluster) -> bool {
    let notes = WorkloadNotes::read(object);
    !named(object).is_empty() || !notes.load_balancers.is_empty() || !notes.addresses.is_empty()
}

/// Load balancers of the project.
#[derive(Debug, Default)]
pub(super) struct Found {
    balancers: Vec<LoadBalancer>,
    /// Ids of those that are deleted with the cluster.
    ids: Vec<String>,
    /// Ids of those that others use. Parts of them may be the cluster's.
    shared: Vec<String>,
    /// Titles of those that may be the cluster's, and of routes to its machines. They stay.
    pub kept: Vec<String>,
    evidence: Evidence,
}

impl Found {
    /// Returns those that are deleted with the cluster.
    pub(super) fn leftovers(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.balancers.iter().filter(|it| self.ids.contains(&it.id))
    }

    /// Returns those that others use, too.
    fn shared(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.balancers.iter().filter(|it| self.shared.contains(&it.id))
    }
}

/// Finds the load balancers that are deleted with the cluster, and those that may be the cluster's.
///
/// `is_thorough`: also the members of load balancers on other networks are read, which takes calls for each of the project.
pub(super) async fn find(
    observer: &Observer<'_>,
    object: &OpenStackCluster,
    journal: &Journal,
    is_thorough: bool,
) -> Result<Found, ReconcileError> {
    let evidence = evidence(observer, object, journal).await?;
    if evidence.is_empty() {
        return Ok(Found::default());
    }
    let balancers = match observer.cloud.load_balancers(&LoadBalancerQuery::default()).await {
        Err(error) if is_without_octavia(&error) => Vec::new(),
        result => result?,
    };
    let ours = |it: &LoadBalancer| observer.tag.is_on(&it.tags, &it.description);
    let (mut ids, mut shared, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for balancer in balancers.iter().filter(|it| !ours(it)) {
        let id = || balancer.id.clone();
        match verdict(balancer, &evidence) {
            Verdict::Deleted => ids.push(id()),
            Verdict::ByMembers if is_thorough => {
                let is_behind = is_behind(observer, balancer, &evidence).await?;
                if is_behind { ids.push(id()) } else { shared.push(id()) }
            }
            Verdict::Unclear if serves_others(observer, balancer, &evidence).await? => shared.push(id()),
            Verdict::Unclear => kept.push(format!("load balancer {} ({})", balancer.name, balancer.id)),
            Verdict::ByMembers | Verdict::Other => {}
        }
    }
    kept.extend(routes(observer, object, journal, &evidence).await?);
    Ok(Found { balancers, ids, shared, kept, evidence })
}

/// Obstacles of a deletion, and what it takes from load balancers that stay.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    /// Ids of load balancers on the cluster's network that others use, too.
    pub blocked: Vec<String>,
    /// Their titles, with the reason.
    pub titles: Vec<String>,
    /// Titles of load balancers that lose the cluster's parts.
    pub parts: Vec<String>,
}

/// Finds what others use of the load balancers that were found.
pub(super) async fn obstacles(
    observer: &Observer<'_>,
    object: &OpenStackCluster,
    found: &Found,
) -> Result<Obstacles, ReconcileError> {
    let (named, mut obstacles) = (named(object), Obstacles::default());
    let mut others: Vec<&LoadBalancer> = found.shared().collect();
    for balancer in found.leftovers().filter(|it| !named.contains(&it.id)) {
        let Some(why) = blocker(observer, balancer, &found.evidence).await? else { continue };
        others.push(balancer);
        obstacles.blocked.push(balancer.id.clone());
        if found.evidence.created.is_some() {
            obstacles.titles.push(format!("load balancer {} ({}), {why}", balancer.name, balancer.id));
        }
    }
    if others.is_empty() {
        return Ok(obstacles);
    }
    let own = OwnMembers::find(observer, object, &found.evidence).await?;
    for balancer in others {
        if shared_balancers::removal(observer, balancer, &own).await?.is_some() {
            let title =
                format!("the parts of this cluster in load balancer {} ({})", balancer.name, balancer.id);
            obstacles.parts.push(title);
        }
    }
    Ok(obstacles)
}

/// Returns the sentence about what stays.
pub(super) fn kept_text(kept: &[String]) -> String {
    let more = kept.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let listed = kept.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    format!("{listed}{rest}. They may belong to this workload cluster or to another one")
}

async fn evidence(
    observer: &Observer<'_>,
    object: &OpenStackCluster,
    journal: &Journal,
) -> Result<Evidence, ReconcileError> {
    let name = &observer.desired.name;
    let created = if journal.has(names::NETWORK, name) {
        observer.owned_networks(journal.id(names::NETWORK, name), name).await?.into_iter().next()
    } else {
        None
    };
    let status = object.status.as_ref();
    let existing = status.and_then(|it| it.network.as_ref()).map(|network| network.id.clone());
    Ok(Evidence {
        existing: existing.filter(|_| !journal.has(names::NETWORK, name)),
        created: created.map(|network| network.id),
        named: named(object),
        notes: WorkloadNotes::read(object),
    })
}

/// Returns the titles of routes to machines of the cluster, in a router of another owner.
async fn routes(
    observer: &Observer<'_>,
    object: &OpenStackCluster,
    journal: &Journal,
    evidence: &Evidence,
) -> Result<Vec<String>, ReconcileError> {
    let router = object.status.as_ref().and_then(|status| status.router.as_ref());
    let is_ours = journal.has(names::ROUTER, &observer.desired.name);
    let Some(router) = router.filter(|_| !is_ours && !evidence.notes.addresses.is_empty()) else {
        return Ok(Vec::new());
    };
    let query = NetworkQuery { id: Some(router.id.clone()), ..NetworkQuery::default() };
    let found = observer.cloud.routers(&query).await?.into_iter().flat_map(|router| router.routes);
    let to_ours = found.filter(|(_, next)| evidence.notes.addresses.contains(next));
    Ok(to_ours
        .map(|(to, next)| format!("route {to} via {next} of router {} ({})", router.name, router.id))
        .collect())
}

/// Deletes the load balancers of Services, with their floating IPs. Marks their security groups, which the journal then
/// deletes. Describes what was done, and returns the titles of what stays.
pub(super) async fn delete(
    observer: &Observer<'_>,
    actor: &Actor<'_>,
    object: &mut OpenStackCluster,
    (observed, is_thorough): (&mut Observed, bool),
    made: &mut Vec<(&'static str, String)>,
) -> Result<Vec<String>, ReconcileError> {
    // The members of load balancers on other networks are read only when the list alone shows nothing to delete.
    let mut found = find(observer, object, &observed.journal, false).await?;
    if is_thorough && found.leftovers().next().is_none() {
        found = find(observer, object, &observed.journal, true).await?;
    }
    let named = named(object);
    let is_needed = !found.ids.is_empty() || !found.shared.is_empty();
    let own = if is_needed {
        OwnMembers::find(observer, object, &found.evidence).await?
    } else {
        OwnMembers::default()
    };
    let mut pending = None;
    let mut kept = std::mem::take(&mut found.kept);
    for balancer in found.leftovers() {
        let title = format!("load balancer {} ({})", balancer.name, balancer.id);
        if !named.contains(&balancer.id)
            && let Some(why) = blocker(observer, balancer, &found.evidence).await?
        {
            if let Some(wait) = shared_balancers::leave(observer, balancer, &own, made).await? {
                return Err(wait);
            }
            // On an existing network nothing waits for it.
            if found.evidence.created.is_none() {
                kept.push(format!("{title}, {why}"));
                continue;
            }
            let message = format!(
                "{title} is that of a Service of the workload cluster, {why}. Move it, or name it in the annotation {DELETE}"
            );
            return Err(ReconcileError::waiting(BLOCKED, message));
        }
        pending = Some(format!("waiting for {title} to be deleted"));
        if balancer.provisioning_status.starts_with("PENDING") {
            let (reason, message) = health::pending(Timestamp::now(), balancer);
            if reason == STUCK {
                return Err(ReconcileError::waiting(reason, message));
            }
            continue;
        }
        delete_balancer(observer, actor, object, observed, (&found, balancer), made).await?;
        made.push(("DeletedLoadBalancer", format!("deleted {title} of a Service")));
    }
    for balancer in found.shared() {
        if let Some(wait) = shared_balancers::leave(observer, balancer, &own, made).await? {
            return Err(wait);
        }
    }
    pending.map_or(Ok(kept), |message| Err(ReconcileError::waiting(PENDING, message)))
}

/// Deletes a load balancer of a Service with its floating IPs, and marks its security groups.
async fn delete_balancer(
    observer: &Observer<'_>,
    actor: &Actor<'_>,
    object: &mut OpenStackCluster,
    observed: &mut Observed,
    (found, balancer): (&Found, &LoadBalancer),
    made: &mut Vec<(&'static str, String)>,
) -> Result<(), ReconcileError> {
    let service = service(balancer);
    // Services of two workload clusters may look the same; then the groups go with the last one.
    let present = found.balancers.iter().filter(|other| other.provisioning_status != "DELETED");
    let mut alike = present.filter(|other| other.id != balancer.id).filter_map(self::service);
    let is_last = |own: &&Service| !alike.any(|other| other == **own);
    if let Some(service) = service.as_ref().filter(is_last) {
        for title in claim_groups(observer, service, balancer, &mut observed.journal).await? {
            // The next pass does not know the group any more.
            made.push((LEFTOVERS, format!("kept {title}. Delete it in the cloud once no port has it")));
        }
        // The groups are known only as long as their load balancer is.
        actor.write_journal(object, observed).await?;
    }
    release_floating_ips(observer, balancer, made).await?;
    gone(observer.cloud.delete_load_balancer(&balancer.id).await).map_err(|error| {
        super::balancer::busy::busy(deletion_error(names::LOAD_BALANCER, &balancer.name, error))
    })?;
    Ok(())
}

/// Returns true for the error of a cloud without load balancers, or of a user who may have none.
pub(super) fn is_without_octavia(error: &CloudError) -> bool {
    let absent = error.class == ErrorClass::Broken && error.status.is_none();
    absent || matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound)
}
