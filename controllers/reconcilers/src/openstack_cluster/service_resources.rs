//! Floating IPs and security groups of a load balancer that OpenStack's cloud provider made.

use controllers_infrastructure::{
    FloatingIpQuery, LoadBalancer, Port, PortQuery, SecurityGroup, SecurityGroupQuery, TaggedKind,
};
use controllers_runtime::{Journal, ReconcileError};

use super::act::gone;
use super::observe::Observer;
use super::service_balancers::Service;
use crate::names;

/// Marks the security groups of a Service as ours, and writes them into the journal. Returns the titles of those that stay,
/// because ports of another owner have them.
pub(super) async fn claim_groups(
    observer: &Observer<'_>,
    service: &Service,
    balancer: &LoadBalancer,
    journal: &mut Journal,
) -> Result<Vec<String>, ReconcileError> {
    let description =
        format!("Security Group for {} Service LoadBalancer in cluster {}", service.name, service.cluster);
    let found = observer.cloud.security_groups(&SecurityGroupQuery::default()).await?.into_iter();
    let is_of_service =
        |group: &SecurityGroup| group.name.starts_with("lb-sg-") && group.description == description;
    let groups: Vec<_> = found.filter(is_of_service).collect();
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    let ports = observer.cloud.ports(&PortQuery::default()).await?;
    let is_other =
        |port: &&Port| !observer.tag.is_on(&port.tags, &port.description) && port.id != balancer.vip_port_id;
    for group in groups {
        let mut carriers = ports.iter().filter(|port| port.security_groups.contains(&group.id));
        if let Some(port) = carriers.find(is_other) {
            kept.push(format!("security group {} ({}), which port {} has", group.name, group.id, port.id));
            continue;
        }
        let tags = observer.tag.tags(None);
        observer.cloud.change_tags(TaggedKind::SecurityGroup, &group.id, &tags, &[]).await?;
        journal.learn(names::SECURITY_GROUP, &group.name, &group.id);
    }
    Ok(kept)
}

/// Deletes the floating IPs that the cloud provider allocated, and disassociates those that a user gave it.
pub(super) async fn release_floating_ips(
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
