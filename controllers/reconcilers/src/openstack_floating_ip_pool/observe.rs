//! Observation of a pool: its claims and addresses in the API, and its floating IPs in the cloud.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, IPAddress, IPAddressClaim, NetworkStatus,
    OpenStackFloatingIPPool,
};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, FloatingIp, FloatingIpQuery, NetworkQuery};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError, TermStart};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::decide::{Claim, HeldAddress, Member, Observed};
use super::{ADDRESS_FINALIZER, KIND};
use crate::lost_calls::LostCalls;
use crate::queries;

/// API group of the pools.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Prefix of the tag with which upstream marks the floating IPs of a pool. The name of the pool follows. It is read only:
/// pools of one name in two namespaces would share it.
const UPSTREAM_TAG: &str = "cluster-api-provider-openstack-fip-pool-";

/// Returns true if a reference names the pool.
pub(super) fn names(reference: &ContractVersionedObjectReference, pool: &str) -> bool {
    reference.api_group == GROUP && reference.kind == KIND && reference.name == pool
}

/// Reads the claims and addresses of the pool.
pub(super) async fn objects(
    client: &Client,
    pool: &OpenStackFloatingIPPool,
    term: &TermStart,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let (name, namespace) = (pool.name_any(), pool.namespace().unwrap_or_default());
    observed.journal = Journal::of(pool);
    observed.lost_calls = LostCalls::of(pool);
    observed.lost_calls.enter(term, &mut observed.journal, Timestamp::now());
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), &namespace);
    let mut claims = claims.list(&ListParams::default()).await?.items;
    claims.retain(|claim| names(&claim.spec.pool_ref, &name));
    claims.sort_by_key(|claim| (claim.creation_timestamp().map(|time| time.0), claim.name_any()));
    let clusters = super::claims::clusters(client, &namespace, &claims).await?;
    observed.claims = claims.iter().map(|it| claim(it, &clusters)).collect();
    let addresses: Api<IPAddress> = Api::namespaced(client.clone(), &namespace);
    let addresses = addresses.list(&ListParams::default()).await?;
    let ours = addresses.iter().filter(|address| names(&address.spec.pool_ref, &name));
    observed.addresses = ours.map(address).collect();
    Ok(())
}

fn claim(claim: &IPAddressClaim, clusters: &[Cluster]) -> Claim {
    let status = claim.status.as_ref();
    Claim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        held: super::claims::is_held(claim, clusters),
        has_address: status.is_some_and(|status| status.address_ref.is_some()),
    }
}

fn address(object: &IPAddress) -> HeldAddress {
    HeldAddress {
        name: object.name_any(),
        claim: object.spec.claim_ref.name.clone(),
        address: object.spec.address.clone(),
        releasing: object.metadata.deletion_timestamp.is_some()
            && object.finalizers().iter().any(|known| known == ADDRESS_FINALIZER),
    }
}

/// Reads the network and the floating IPs of the pool.
pub(super) async fn cloud(
    cloud: &Arc<dyn Cloud>,
    pool: &OpenStackFloatingIPPool,
    tag: &OwnershipTag,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let network = network(cloud, pool).await?;
    let given = pool.spec.pre_allocated_floating_ips.clone().unwrap_or_default();
    let all = cloud.floating_ips(&FloatingIpQuery::default()).await?;
    let member = |ip: FloatingIp| {
        let given = given.contains(&ip.address);
        let ours = is_of(&ip, &pool.name_any(), tag);
        let lacks_tag = !given && tag.is_on(&[], &ip.description) && !ip.tags.contains(&tag.text());
        let pool_tags = if given { pool_tags(&ip, &pool.name_any(), tag) } else { Vec::new() };
        (ip.network_id == network.id && (given || ours)).then_some(Member { given, lacks_tag, pool_tags, ip })
    };
    observed.members = all.into_iter().filter_map(member).collect();
    observed
        .members
        .sort_by(|one, other| (!one.given, &one.ip.address).cmp(&(!other.given, &other.ip.address)));
    observed.network = Some(network);
    Ok(())
}

/// Returns the tags on a floating IP that make it one of the pool of this name and tag: ours and upstream's.
fn pool_tags(ip: &FloatingIp, pool: &str, tag: &OwnershipTag) -> Vec<String> {
    let (ours, upstream) = (tag.text(), format!("{UPSTREAM_TAG}{pool}"));
    ip.tags.iter().filter(|held| **held == ours || **held == upstream).cloned().collect()
}

/// Returns true if a floating IP was allocated for the pool of this name and tag. Upstream's tag counts as long as no pool
/// has taken the floating IP over.
fn is_of(ip: &FloatingIp, pool: &str, tag: &OwnershipTag) -> bool {
    let taken = ip.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX));
    let of_upstream = !taken && ip.tags.contains(&format!("{UPSTREAM_TAG}{pool}"));
    tag.is_on(&ip.tags, &ip.description) || of_upstream
}

async fn network(
    cloud: &Arc<dyn Cloud>,
    pool: &OpenStackFloatingIPPool,
) -> Result<NetworkStatus, ReconcileError> {
    let param = pool.spec.floating_ip_network.clone().unwrap_or_default();
    let query = NetworkQuery { external: Some(true), ..queries::network(&param) };
    let found = cloud.networks(&query).await?;
    match found.as_slice() {
        [network] => Ok(NetworkStatus {
            id: network.id.clone(),
            name: network.name.clone(),
            tags: (!network.tags.is_empty()).then(|| network.tags.clone()),
        }),
        several => {
            let class = if several.is_empty() { ErrorClass::NotFound } else { ErrorClass::Ambiguous };
            let ids: Vec<&str> = several.iter().map(|network| network.id.as_str()).collect();
            let ids = if ids.is_empty() { String::new() } else { format!(": {}", ids.join(", ")) };
            let message = format!(
                "{} external networks in the cloud match {}{ids}. Name one in spec.floatingIPNetwork",
                several.len(),
                queries::describe(&query),
            );
            Err(CloudError::new(class, "resolve spec.floatingIPNetwork", message).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackFloatingIPPoolSpec;

    use super::*;

    #[test]
    fn r11_1_pools_of_one_name_in_two_namespaces_do_not_share_addresses() {
        let tag = |uid: &str| {
            let mut pool = OpenStackFloatingIPPool::new("pool", OpenStackFloatingIPPoolSpec::default());
            pool.metadata.uid = Some(uid.to_owned());
            OwnershipTag::of(&pool)
        };
        let (one, other) = (tag("1"), tag("2"));
        let with = |tags: &[&str]| FloatingIp {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..FloatingIp::default()
        };
        let upstream = format!("{UPSTREAM_TAG}pool");
        let table = [
            (with(&["capstan-1"]), true, false),
            (FloatingIp { description: other.description(), ..FloatingIp::default() }, false, true),
            (with(&[&upstream]), true, true),
            (with(&[&upstream, "capstan-1"]), true, false),
            (with(&["cluster-api-provider-openstack-fip-pool-another"]), false, false),
        ];
        let given = with(&[&upstream, "capstan-1", "blue"]);
        assert_eq!(pool_tags(&given, "pool", &one), [upstream.as_str(), "capstan-1"]);
        for (ip, of_one, of_other) in table {
            assert_eq!((is_of(&ip, "pool", &one), is_of(&ip, "pool", &other)), (of_one, of_other), "{ip:?}");
        }
    }
}
