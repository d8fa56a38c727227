//! Neutron calls.

mod address_use;
mod floating_ips;
mod networks;
mod ports;
mod routers;
mod security_groups;
mod subnets;
mod trunks;

pub(crate) use address_use::*;
pub(crate) use floating_ips::*;
pub(crate) use networks::*;
pub(crate) use ports::*;
pub(crate) use routers::*;
pub(crate) use security_groups::*;
pub(crate) use subnets::*;
pub(crate) use trunks::*;

use controllers_infrastructure::{CloudError, CloudResult, TagQuery, TaggedKind};
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::{
    request::{Request, Service, encode},
    session::Session,
};

/// Returns the path of the tags of an object of Neutron.
pub(crate) fn tags_path(kind: TaggedKind, id: &str) -> String {
    let collection = match kind {
        TaggedKind::Network => "networks",
        TaggedKind::Subnet => "subnets",
        TaggedKind::Router => "routers",
        TaggedKind::SecurityGroup => "security-groups",
        TaggedKind::Port => "ports",
        TaggedKind::FloatingIp => "floatingips",
        TaggedKind::Trunk => "trunks",
        TaggedKind::Server => "servers",
        TaggedKind::LoadBalancer => "loadbalancers",
    };
    format!("{}/tags", path(collection, id))
}

/// Replaces all tags of an object of Neutron.
pub(crate) async fn set_tags(
    session: &Session,
    kind: TaggedKind,
    id: &str,
    tags: &[String],
) -> CloudResult<()> {
    let path = tags_path(kind, id);
    session.done(&Request::put(Service::Network, path, json!({"tags": tags}))).await.map(drop)
}

/// Returns true if the object has another revision than the request requires: another client has changed it since.
fn is_changed(error: &CloudError) -> bool {
    error.status == Some(StatusCode::PRECONDITION_FAILED.as_u16())
}

async fn delete(session: &Session, collection: &str, id: &str) -> CloudResult<()> {
    session.done(&Request::delete(Service::Network, path(collection, id))).await.map(drop)
}

fn path(collection: &str, id: &str) -> String {
    format!("/{collection}/{}", encode(id))
}

/// Adds Neutron's four tag filters.
fn tagged(request: Request, query: &TagQuery) -> Request {
    request
        .with_list("tags", &query.tags)
        .with_list("tags-any", &query.tags_any)
        .with_list("not-tags", &query.not_tags)
        .with_list("not-tags-any", &query.not_tags_any)
}

/// Returns a JSON object of the fields that have a value.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn text(value: Option<&String>) -> Option<Value> {
    value.map(|text| json!(text))
}
