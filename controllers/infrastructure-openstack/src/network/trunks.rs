//! Neutron calls for trunks.

use controllers_infrastructure::{CloudResult, NewTrunk, Trunk, TrunkQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{delete, path};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: String,
    port_id: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    sub_ports: Vec<Subport>,
}

#[derive(Deserialize)]
struct Subport {
    port_id: String,
}

impl From<ResponseBody> for Trunk {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name,
            port_id: answer.port_id,
            description: answer.description.unwrap_or_default(),
            tags: answer.tags,
            subports: answer.sub_ports.into_iter().map(|subport| subport.port_id).collect(),
        }
    }
}

pub(crate) async fn trunks(session: &Session, query: &TrunkQuery) -> CloudResult<Vec<Trunk>> {
    let request = Request::get(Service::Network, "/trunks")
        .with_some("name", query.name.as_deref())
        .with_some("port_id", query.port_id.as_deref());
    let found: Vec<ResponseBody> = list(session, request, "trunks").await?;
    Ok(found.into_iter().map(Trunk::from).collect())
}

pub(crate) async fn create_trunk(session: &Session, new: &NewTrunk) -> CloudResult<Trunk> {
    let trunk = json!({
        "name": new.name, "description": new.description, "port_id": new.port_id,
        "admin_state_up": true, "sub_ports": [],
    });
    let request = Request::post(Service::Network, "/trunks", json!({"trunk": trunk}));
    Ok(session.under::<ResponseBody>(&request, "trunk").await?.into())
}

pub(crate) async fn remove_subports(session: &Session, trunk: &str, ports: &[String]) -> CloudResult<()> {
    let ports: Vec<Value> = ports.iter().map(|port| json!({"port_id": port})).collect();
    let path = format!("{}/remove_subports", path("trunks", trunk));
    session.done(&Request::put(Service::Network, path, json!({"sub_ports": ports}))).await.map(drop)
}

pub(crate) async fn delete_trunk(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "trunks", id).await
}
