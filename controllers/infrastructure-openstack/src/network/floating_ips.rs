//! Neutron calls for floating IPs.

use controllers_infrastructure::{CloudResult, FloatingIp, FloatingIpQuery, NewFloatingIp};
use serde::Deserialize;
use serde_json::json;

use super::{delete, object, path, text};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    floating_ip_address: String,
    floating_network_id: String,
    #[serde(default)]
    port_id: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    revision_number: Option<u64>,
    #[serde(default)]
    updated_at: String,
    #[serde(default)]
    created_at: String,
}

impl From<ResponseBody> for FloatingIp {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            address: answer.floating_ip_address,
            network_id: answer.floating_network_id,
            port_id: answer.port_id,
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
            tags: answer.tags,
            status: answer.status,
            revision: answer.revision_number,
            updated_at: utc(&answer.updated_at),
        }
    }
}

pub(crate) async fn floating_ips(session: &Session, query: &FloatingIpQuery) -> CloudResult<Vec<FloatingIp>> {
    let request = Request::get(Service::Network, "/floatingips")
        .with_some("floating_ip_address", query.address.as_deref())
        .with_some("description", query.description.as_deref())
        .with_some("port_id", query.port_id.as_deref())
        .with_some("router_id", query.router_id.as_deref())
        .with_some("project_id", query.project_id.as_deref())
        .with_list("tags", &query.tags);
    let found: Vec<ResponseBody> = list(session, request, "floatingips").await?;
    Ok(found.into_iter().map(FloatingIp::from).collect())
}

pub(crate) async fn create_floating_ip(session: &Session, new: &NewFloatingIp) -> CloudResult<FloatingIp> {
    let floating = object([
        ("floating_network_id", Some(json!(new.network_id))),
        ("floating_ip_address", text(new.address.as_ref())),
        ("description", Some(json!(new.description))),
        ("port_id", text(new.port_id.as_ref())),
    ]);
    let request = Request::post(Service::Network, "/floatingips", json!({"floatingip": floating}));
    Ok(session.under::<ResponseBody>(&request, "floatingip").await?.into())
}

pub(crate) async fn associate_floating_ip(
    session: &Session,
    id: &str,
    port: Option<&str>,
) -> CloudResult<()> {
    let body = json!({"floatingip": {"port_id": port}});
    session.done(&Request::put(Service::Network, path("floatingips", id), body)).await.map(drop)
}

pub(crate) async fn take_floating_ip(
    session: &Session,
    read: &FloatingIp,
    port: &str,
    address: Option<&str>,
) -> CloudResult<()> {
    let mut body = json!({"floatingip": {"port_id": port}});
    if let Some(address) = address {
        body["floatingip"]["fixed_ip_address"] = json!(address);
    }
    let request = Request::put(Service::Network, path("floatingips", &read.id), body);
    session.done(&request.guarded_by(read.revision)).await.map(drop)
}

pub(crate) async fn delete_floating_ip(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "floatingips", id).await
}
