//! Machines behind a load balancer, and reasons to keep it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use controllers_infrastructure::{Cloud, CloudError, LoadBalancer, Member, PortQuery, SubnetQuery};
use controllers_runtime::ReconcileError;

use super::observe::Observer;
use super::service_balancers::{Evidence, Members, is_shared, whose};
use crate::cidrs;

/// Returns the members of all pools of a load balancer.
async fn members(cloud: &Arc<dyn Cloud>, balancer: &str) -> Result<Vec<Member>, CloudError> {
    let mut all = Vec::new();
    // Another client may delete it between two reads.
    for pool in unless_gone(cloud.pools(balancer).await)? {
        all.extend(unless_gone(cloud.members(&pool.id).await)?);
    }
    Ok(all)
}

/// Returns an empty list for what another client has deleted.
pub(super) fn unless_gone<T>(result: Result<Vec<T>, CloudError>) -> Result<Vec<T>, CloudError> {
    match result {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        result => result,
    }
}

/// Returns the addresses of the members of a load balancer.
pub(super) async fn member_addresses(
    cloud: &Arc<dyn Cloud>,
    balancer: &str,
) -> Result<Vec<String>, CloudError> {
    Ok(members(cloud, balancer).await?.into_iter().map(|member| member.address).collect())
}

/// Returns true if all members of a load balancer are on the subnets that Capstan created. Other clusters may have the
/// same addresses on other subnets.
pub(super) async fn is_behind(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    evidence: &Evidence,
) -> Result<bool, ReconcileError> {
    let Some(network) = &evidence.created else { return Ok(false) };
    let members = members(observer.cloud, &balancer.id).await?;
    if members.is_empty() || members.iter().any(|member| member.subnet_id.is_none()) {
        return Ok(false);
    }
    let query = SubnetQuery { network_id: Some(network.clone()), ..SubnetQuery::default() };
    let own: BTreeSet<String> = observer.cloud.subnets(&query).await?.into_iter().map(|it| it.id).collect();
    Ok(members.iter().all(|member| member.subnet_id.as_ref().is_some_and(|id| own.contains(id))))
}

/// Returns true if a machine of another owner is behind a load balancer. Those of the cluster are gone, or noted.
pub(super) async fn serves_others(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    evidence: &Evidence,
) -> Result<bool, ReconcileError> {
    let Some(network) = &evidence.existing else { return Ok(false) };
    let addresses = member_addresses(observer.cloud, &balancer.id).await?;
    let query = PortQuery { network_id: Some(network.clone()), ..PortQuery::default() };
    let ports = observer.cloud.ports(&query).await?.into_iter();
    let others = ports.flat_map(|port| port.fixed_ips).filter_map(|ip| ip.ip_address);
    let noted: BTreeSet<String> = evidence.notes.addresses.iter().cloned().collect();
    let others: BTreeSet<String> = others.filter(|address| !noted.contains(address)).collect();
    Ok(whose(&addresses, &noted, &others) == Members::Foreign)
}

/// Returns why a load balancer of the workload cluster cannot be deleted: others use it, too.
pub(super) async fn blocker(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    evidence: &Evidence,
) -> Result<Option<String>, ReconcileError> {
    if is_shared(balancer) {
        return Ok(Some("and other workload clusters use it".to_owned()));
    }
    if evidence.created.as_ref() != Some(&balancer.vip_network_id) {
        let is_shared = serves_others(observer, balancer, evidence).await?;
        return Ok(is_shared.then(|| "and a machine of another owner is behind it".to_owned()));
    }
    let foreign = foreign_member(observer, balancer).await?;
    Ok(foreign.map(|address| format!("on the cluster's network, and its member {address} is not")))
}

/// Returns the address of a member outside of the network of its load balancer: a machine that is not of this cluster,
/// which loses its connections with the load balancer.
async fn foreign_member(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
) -> Result<Option<String>, ReconcileError> {
    let query = SubnetQuery { network_id: Some(balancer.vip_network_id.clone()), ..SubnetQuery::default() };
    let subnets = observer.cloud.subnets(&query).await?;
    let is_foreign = |text: &String| {
        let address: Option<IpAddr> = text.parse().ok();
        address.is_some_and(|address| !subnets.iter().any(|subnet| cidrs::contains(&subnet.cidr, address)))
    };
    Ok(member_addresses(observer.cloud, &balancer.id).await?.into_iter().find(is_foreign))
}
