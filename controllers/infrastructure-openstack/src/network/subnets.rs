//! Neutron calls for subnets.

use controllers_infrastructure::{CloudResult, NewSubnet, Subnet, SubnetQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{delete, object, path, tagged};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    name: String,
    network_id: String,
    cidr: String,
    #[serde(default)]
    gateway_ip: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    dns_nameservers: Vec<String>,
    #[serde(default)]
    allocation_pools: Vec<PoolBody>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    created_at: String,
}

#[derive(Deserialize)]
struct PoolBody {
    start: String,
    end: String,
}

impl From<ResponseBody> for Subnet {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name,
            network_id: answer.network_id,
            cidr: answer.cidr,
            gateway_ip: answer.gateway_ip,
            tags: answer.tags,
            dns_nameservers: answer.dns_nameservers,
            allocation_pools: answer
                .allocation_pools
                .into_iter()
                .map(|pool| (pool.start, pool.end))
                .collect(),
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
        }
    }
}

pub(crate) async fn subnets(session: &Session, query: &SubnetQuery) -> CloudResult<Vec<Subnet>> {
    let version = query.ip_version.map(|version| version.to_string());
    let request = Request::get(Service::Network, "/subnets")
        .with_some("id", query.id.as_deref())
        .with_some("network_id", query.network_id.as_deref())
        .with_some("name", query.name.as_deref())
        .with_some("description", query.description.as_deref())
        .with_some("cidr", query.cidr.as_deref())
        .with_some("gateway_ip", query.gateway_ip.as_deref())
        .with_some("ip_version", version.as_deref())
        .with_some("project_id", query.project_id.as_deref())
        .with_some("ipv6_address_mode", query.ipv6_address_mode.as_deref())
        .with_some("ipv6_ra_mode", query.ipv6_ra_mode.as_deref());
    let found: Vec<ResponseBody> = list(session, tagged(request, &query.tagged), "subnets").await?;
    Ok(found.into_iter().map(Subnet::from).collect())
}

pub(crate) async fn create_subnet(session: &Session, new: &NewSubnet) -> CloudResult<Subnet> {
    let pools = pools(&new.allocation_pools);
    let version = if new.cidr.contains(':') { 6 } else { 4 };
    let mode = new.slaac.then(|| json!("slaac"));
    let subnet = object([
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("network_id", Some(json!(new.network_id))),
        ("cidr", Some(json!(new.cidr))),
        ("ip_version", Some(json!(version))),
        ("dns_nameservers", Some(json!(new.dns_nameservers))),
        ("ipv6_address_mode", mode.clone()),
        ("ipv6_ra_mode", mode),
        // An empty list would be a subnet without addresses.
        ("allocation_pools", (!pools.is_empty()).then(|| json!(pools))),
    ]);
    let request = Request::post(Service::Network, "/subnets", json!({"subnet": subnet}));
    Ok(session.under::<ResponseBody>(&request, "subnet").await?.into())
}

pub(crate) async fn set_dns_nameservers(
    session: &Session,
    subnet: &str,
    nameservers: &[String],
) -> CloudResult<()> {
    let body = json!({"subnet": {"dns_nameservers": nameservers}});
    session.done(&Request::put(Service::Network, path("subnets", subnet), body)).await.map(drop)
}

fn pools(ranges: &[(String, String)]) -> Vec<Value> {
    ranges.iter().map(|(start, end)| json!({"start": start, "end": end})).collect()
}

pub(crate) async fn set_allocation_pools(
    session: &Session,
    subnet: &str,
    ranges: &[(String, String)],
) -> CloudResult<()> {
    let body = json!({"subnet": {"allocation_pools": pools(ranges)}});
    session.done(&Request::put(Service::Network, path("subnets", subnet), body)).await.map(drop)
}

pub(crate) async fn delete_subnet(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "subnets", id).await
}
