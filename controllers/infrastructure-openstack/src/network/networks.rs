//! Neutron calls for networks.

use controllers_infrastructure::{CloudResult, Network, NetworkQuery, NewNetwork};
use serde::Deserialize;
use serde_json::json;

use super::{delete, object, tagged};
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
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    subnets: Vec<String>,
    #[serde(rename = "router:external", default)]
    external: bool,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    created_at: String,
}

impl From<ResponseBody> for Network {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name,
            tags: answer.tags,
            subnets: answer.subnets,
            external: answer.external,
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
        }
    }
}

pub(crate) async fn networks(session: &Session, query: &NetworkQuery) -> CloudResult<Vec<Network>> {
    let external = query.external.map(|external| external.to_string());
    let request = filtered("/networks", query).with_some("router:external", external.as_deref());
    let found: Vec<ResponseBody> = list(session, request, "networks").await?;
    Ok(found.into_iter().map(Network::from).collect())
}

/// Adds the filters that networks and routers share.
pub(super) fn filtered(path: &str, query: &NetworkQuery) -> Request {
    let request = Request::get(Service::Network, path)
        .with_some("id", query.id.as_deref())
        .with_some("name", query.name.as_deref())
        .with_some("description", query.description.as_deref())
        .with_some("project_id", query.project_id.as_deref());
    tagged(request, &query.tagged)
}

pub(crate) async fn create_network(session: &Session, new: &NewNetwork) -> CloudResult<Network> {
    let network = object([
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("mtu", new.mtu.map(|mtu| json!(mtu))),
        ("port_security_enabled", new.port_security.map(|enabled| json!(enabled))),
    ]);
    let request = Request::post(Service::Network, "/networks", json!({"network": network}));
    Ok(session.under::<ResponseBody>(&request, "network").await?.into())
}

pub(crate) async fn delete_network(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "networks", id).await
}
