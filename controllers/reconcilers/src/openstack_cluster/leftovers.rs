//! Load balancers that OpenStack's cloud provider made in a network of the cluster for its Services.
//!
//! They outlive the workload cluster, and Neutron deletes no network with them. One whose address is on a network
//! that Capstan created serves that cluster alone. In a network of another owner, only those that the user names are
//! deleted, because several workload clusters may have the same name.

use std::net::IpAddr;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{
    CloudError, ErrorClass, FloatingIpQuery, LoadBalancer, LoadBalancerQuery, PortQuery, SecurityGroupQuery,
    SubnetQuery, TaggedKind,
};
use controllers_runtime::{Journal, ReconcileError};
use kube::ResourceExt;

use super::act::{Actor, gone};
use super::balancer::PENDING;
use super::observe::{Observed, Observer};
use crate::cidrs;
use crate::names;
use crate::resource_events::deletion_error;

/// Annotation with the ids of load balancers that are deleted with the cluster, separated by commas.
const DELETE: &str = "capstan.dev/delete-leftovers";

/// Annotation by which the user leaves resources in the cloud whose deletion is blocked.
const FORGET: &str = "capstan.dev/forget-blocked";

/// Reason of a deletion that resources of another owner prevent.
pub(super) const BLOCKED: &str = "DeletionBlocked";

/// Number of resources that a message lists.
const LISTED: usize = 5;

/// Service of a load balancer, as its description names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    /// Namespace and name.
    name: String,
    /// Name that the workload cluster has for the cloud provider.
    cluster: String,
}

/// Returns the Service of a load balancer, if it has one.
fn service(balancer: &LoadBalancer) -> Option<Service> {
    let text = balancer.description.strip_prefix("Kubernetes external service ")?;
    let (name, cluster) = text.split_once(" from cluster ")?;
    Some(Service { name: name.to_owned(), cluster: cluster.to_owned() })
}

/// Returns true if Services of other workload clusters use a load balancer, too. Its tags name all of them.
fn is_shared(balancer: &LoadBalancer, service: Option<&Service>) -> bool {
    let Some(service) = service else { return false };
    let own = format!("kube_service_{}_", service.cluster);
    balancer.tags.iter().any(|tag| tag.starts_with("kube_service_") && !tag.starts_with(&own))
}

/// Returns true if a load balancer is to be deleted with the cluster.
fn is_leftover(balancer: &LoadBalancer, network: Option<&str>, named: &[String]) -> bool {
    let of_kubernetes = service(balancer).is_some()
        || ["kube_service_", "kube_ingress"].iter().any(|prefix| balancer.name.starts_with(prefix));
    let is_within = network.is_some_and(|network| balancer.vip_network_id == network);
    balancer.provisioning_status != "DELETED"
        && ((of_kubernetes && is_within) || named.contains(&balancer.id))
}

/// Returns the ids of the load balancers that the user names.
fn named(object: &OpenStackCluster) -> Vec<String> {
    let text = object.annotations().get(DELETE).map(String::as_str).unwrap_or_default();
    text.split(',').map(str::trim).filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

/// Returns true for the error of a resource in use, if the user leaves such resources in the cloud. Pure.
pub(super) fn is_forgotten(object: &OpenStackCluster, error: &ReconcileError) -> bool {
    let is_blocked = match error {
        ReconcileError::Waiting { reason, .. } => *reason == BLOCKED,
        ReconcileError::Cloud(error) => error.class == ErrorClass::Conflict,
        ReconcileError::Api(_) => false,
    };
    is_blocked && object.annotations().get(FORGET).map(String::as_str) == Some("true")
}

/// Returns true if the user names load balancers.
pub(super) fn are_named(object: &OpenStackCluster) -> bool {
    !named(object).is_empty()
}

/// Load balancers of the project.
#[derive(Debug, Default)]
pub(super) struct Found {
    balancers: Vec<LoadBalancer>,
    /// Ids of those that are deleted with the cluster.
    ids: Vec<String>,
}

impl Found {
    /// Returns those that are deleted with the cluster.
    pub(super) fn leftovers(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.balancers.iter().filter(|it| self.ids.contains(&it.id))
    }
}

/// Finds the load balancers that are deleted with the cluster.
pub(super) async fn find(
    observer: &Observer<'_>,
    object: &OpenStackCluster,
    journal: &Journal,
) -> Result<Found, ReconcileError> {
    let named = named(object);
    let name = &observer.desired.name;
    let network = if journal.has(names::NETWORK, name) {
        observer.owned_networks(journal.id(names::NETWORK, name), name).await?.into_iter().next()
    } else {
        None
    };
    if network.is_none() && named.is_empty() {
        return Ok(Found::default());
    }
    let network = network.map(|network| network.id);
    let balancers = match observer.cloud.load_balancers(&LoadBalancerQuery::default()).await {
        Err(error) if is_without_octavia(&error) => Vec::new(),
        result => result?,
    };
    let ours = |it: &LoadBalancer| observer.tag.is_on(&it.tags, &it.description);
    let leftovers = balancers.iter().filter(|it| is_leftover(it, network.as_deref(), &named) && !ours(it));
    let ids = leftovers.map(|it| it.id.clone()).collect();
    Ok(Found { balancers, ids })
}

/// Deletes the load balancers of Services, with their floating IPs. Marks their security groups, which the journal then
/// deletes. Describes what was done.
pub(super) async fn delete(
    observer: &Observer<'_>,
    actor: &Actor<'_>,
    object: &mut OpenStackCluster,
    observed: &mut Observed,
    made: &mut Vec<(&'static str, String)>,
) -> Result<(), ReconcileError> {
    let found = find(observer, object, &observed.journal).await?;
    let named = named(object);
    let mut pending = None;
    for balancer in found.leftovers() {
        let service = service(balancer);
        let title = format!("load balancer {} ({})", balancer.name, balancer.id);
        if is_shared(balancer, service.as_ref()) && !named.contains(&balancer.id) {
            let message = format!(
                "{title} is on the cluster's network, and other workload clusters use it. Move it, or name it in the \
                 annotation {DELETE}"
            );
            return Err(ReconcileError::waiting(BLOCKED, message));
        }
        if !named.contains(&balancer.id)
            && let Some(address) = foreign_member(observer, balancer).await?
        {
            let message = format!(
                "{title} is on the cluster's network, and its member {address} is not. Move the load balancer, or name it \
                 in the annotation {DELETE}"
            );
            return Err(ReconcileError::waiting(BLOCKED, message));
        }
        pending = Some(format!("waiting for {title} to be deleted"));
        if balancer.provisioning_status.starts_with("PENDING") {
            continue;
        }
        // Services of two workload clusters may look the same; then the groups go with the last one.
        let present = found.balancers.iter().filter(|other| other.provisioning_status != "DELETED");
        let mut alike = present.filter(|other| other.id != balancer.id).filter_map(self::service);
        let is_last = |own: &&Service| !alike.any(|other| other == **own);
        if let Some(service) = service.as_ref().filter(is_last) {
            claim_groups(observer, service, &mut observed.journal).await?;
            // The groups are known only as long as their load balancer is.
            actor.write_journal(object, observed).await?;
        }
        release_floating_ips(observer, balancer, made).await?;
        gone(observer.cloud.delete_load_balancer(&balancer.id).await).map_err(|error| {
            super::balancer::busy::busy(deletion_error(names::LOAD_BALANCER, &balancer.name, error))
        })?;
        made.push(("DeletedLoadBalancer", format!("deleted {title} of a Service")));
    }
    pending.map_or(Ok(()), |message| Err(ReconcileError::waiting(PENDING, message)))
}

/// Returns the address of a member outside of the network of its load balancer: a machine that is not of this cluster,
/// which loses its connections with the load balancer.
async fn foreign_member(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
) -> Result<Option<String>, ReconcileError> {
    let query = SubnetQuery { network_id: Some(balancer.vip_network_id.clone()), ..SubnetQuery::default() };
    let subnets = observer.cloud.subnets(&query).await?;
    let is_foreign = |text: &str| {
        let address: Option<IpAddr> = text.parse().ok();
        address.is_some_and(|address| !subnets.iter().any(|subnet| cidrs::contains(&subnet.cidr, address)))
    };
    for pool in observer.cloud.pools(&balancer.id).await? {
        let members = observer.cloud.members(&pool.id).await?;
        if let Some(member) = members.into_iter().find(|member| is_foreign(&member.address)) {
            return Ok(Some(member.address));
        }
    }
    Ok(None)
}

/// Returns true for the error of a cloud without load balancers, or of a user who may have none.
fn is_without_octavia(error: &CloudError) -> bool {
    let absent = error.class == ErrorClass::Broken && error.status.is_none();
    absent || matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound)
}

/// Marks the security groups of a Service as ours, and writes them into the journal.
async fn claim_groups(
    observer: &Observer<'_>,
    service: &Service,
    journal: &mut Journal,
) -> Result<(), ReconcileError> {
    let description =
        format!("Security Group for {} Service LoadBalancer in cluster {}", service.name, service.cluster);
    for group in observer.cloud.security_groups(&SecurityGroupQuery::default()).await? {
        if group.name.starts_with("lb-sg-") && group.description == description {
            let tags = observer.tag.tags(None);
            observer.cloud.change_tags(TaggedKind::SecurityGroup, &group.id, &tags, &[]).await?;
            journal.learn(names::SECURITY_GROUP, &group.name, &group.id);
        }
    }
    Ok(())
}

/// Deletes the floating IPs that the cloud provider allocated, and disassociates those that a user gave it.
async fn release_floating_ips(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    made: &mut Vec<(&'static str, String)>,
) -> Result<(), ReconcileError> {
    if balancer.vip_port_id.is_empty() {
        return Ok(());
    }
    let query = FloatingIpQuery { port_id: Some(balancer.vip_port_id.clone()), ..FloatingIpQuery::default() };
    for ip in observer.cloud.floating_ips(&query).await? {
        if ip.description.starts_with("Floating IP for Kubernetes external service") {
            gone(observer.cloud.delete_floating_ip(&ip.id).await)?;
            let message = format!("released floating IP {} ({}) of a Service", ip.address, ip.id);
            made.push(("DeletedFloatingIP", message));
        } else {
            gone(observer.cloud.associate_floating_ip(&ip.id, None).await)?;
        }
    }
    Ok(())
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
    let foreign = |port: &&controllers_infrastructure::Port| {
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
    use super::*;

    fn balancer(name: &str, description: &str, network: &str) -> LoadBalancer {
        LoadBalancer {
            id: format!("id-{name}"),
            name: name.to_owned(),
            description: description.to_owned(),
            vip_network_id: network.to_owned(),
            provisioning_status: "ACTIVE".to_owned(),
            ..LoadBalancer::default()
        }
    }

    #[test]
    fn r17_3_only_load_balancers_of_services_on_our_network_and_named_ones_are_leftovers() {
        let text = "Kubernetes external service default/web from cluster kubernetes";
        let table = [
            (balancer("kube_service_kubernetes_default_web", text, "ours"), true),
            (balancer("a0123456789abcdef", text, "ours"), true),
            (balancer("kube_ingress_web", "", "ours"), true),
            (balancer("kube_service_kubernetes_default_web", text, "theirs"), false),
            (balancer("database", "of the user", "ours"), false),
            (balancer("named", "of the user", "theirs"), true),
        ];
        let named = ["id-named".to_owned()];
        for (balancer, expected) in table {
            assert_eq!(is_leftover(&balancer, Some("ours"), &named), expected, "{}", balancer.name);
            assert_eq!(is_leftover(&balancer, None, &named), balancer.name == "named");
        }
    }

    #[test]
    fn r17_3_a_load_balancer_with_services_of_two_clusters_is_shared() {
        let text = "Kubernetes external service default/web from cluster prod";
        let mut balancer = balancer("kube_service_prod_default_web", text, "ours");
        let found = service(&balancer);
        assert_eq!(found, Some(Service { name: "default/web".to_owned(), cluster: "prod".to_owned() }));
        balancer.tags = vec!["kube_service_prod_default_web".to_owned()];
        assert!(!is_shared(&balancer, found.as_ref()));
        balancer.tags.push("kube_service_prod2_default_web".to_owned());
        assert!(is_shared(&balancer, found.as_ref()));
    }
}
