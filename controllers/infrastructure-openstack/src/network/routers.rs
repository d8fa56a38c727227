//! Neutron calls for routers.

use std::net::IpAddr;

use controllers_infrastructure::{CloudError, CloudResult, ErrorClass, NetworkQuery, NewRouter, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{delete, is_changed, networks::filtered, object, path, text};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
    time::utc,
};

/// Largest number of attempts to change a router that other clients change at the same time.
const ATTEMPTS: u32 = 3;

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    name: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    external_gateway_info: Option<Gateway>,
    /// Absent without Neutron's extension.
    #[serde(default)]
    routes: Vec<Route>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    created_at: String,
    /// Number of the changes so far. Absent without Neutron's extension.
    #[serde(default)]
    revision_number: Option<u64>,
}

#[derive(Deserialize)]
struct Route {
    destination: String,
    nexthop: String,
}

#[derive(Deserialize)]
struct Gateway {
    #[serde(default)]
    network_id: Option<String>,
    #[serde(default)]
    external_fixed_ips: Vec<Address>,
    /// Absent without Neutron's extension.
    #[serde(default)]
    enable_snat: Option<bool>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(default)]
    subnet_id: String,
    ip_address: String,
}

impl From<ResponseBody> for Router {
    fn from(answer: ResponseBody) -> Self {
        let (network, addresses) = match answer.external_gateway_info {
            Some(gateway) => (gateway.network_id, gateway.external_fixed_ips),
            None => (None, Vec::new()),
        };
        Self {
            id: answer.id,
            name: answer.name,
            tags: answer.tags,
            external_network_id: network,
            external_ips: addresses.iter().map(|address| address.ip_address.clone()).collect(),
            external_fixed_ips: addresses.into_iter().map(|it| (it.subnet_id, it.ip_address)).collect(),
            routes: answer.routes.into_iter().map(|route| (route.destination, route.nexthop)).collect(),
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
        }
    }
}

pub(crate) async fn routers(session: &Session, query: &NetworkQuery) -> CloudResult<Vec<Router>> {
    let found: Vec<ResponseBody> = list(session, filtered("/routers", query), "routers").await?;
    Ok(found.into_iter().map(Router::from).collect())
}

pub(crate) async fn create_router(session: &Session, new: &NewRouter) -> CloudResult<Router> {
    let gateway = new.external_network_id.as_ref().map(|network| gateway(network, &new.external_ips, None));
    let router = object([
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("external_gateway_info", gateway),
    ]);
    let request = Request::post(Service::Network, "/routers", json!({"router": router}));
    Ok(session.under::<ResponseBody>(&request, "router").await?.into())
}

pub(crate) async fn set_router_gateway(
    session: &Session,
    router: &str,
    network: &str,
    external_ips: &[(String, Option<String>)],
) -> CloudResult<Router> {
    let (path, mut attempt) = (path("routers", router), 1);
    loop {
        // Neutron resets the parts of a gateway that the request leaves out.
        let read = Request::get(Service::Network, path.clone());
        let found = session.under::<ResponseBody>(&read, "router").await?;
        let gateway = replacement(network, external_ips, found.external_gateway_info.as_ref());
        let body = json!({"router": {"external_gateway_info": gateway}});
        let request = Request::put(Service::Network, path.clone(), body).guarded_by(found.revision_number);
        match session.under::<ResponseBody>(&request, "router").await {
            Err(error) if is_changed(&error) && attempt < ATTEMPTS => attempt += 1,
            other => return Ok(other?.into()),
        }
    }
}

/// Returns the gateway that replaces `known`. SNAT that is off stays off, also on another network.
fn replacement(network: &str, external_ips: &[(String, Option<String>)], known: Option<&Gateway>) -> Value {
    let is_same = |known: &&Gateway| known.network_id.as_deref() == Some(network);
    let kept = known.filter(is_same).map(|known| kept(external_ips, &known.external_fixed_ips));
    let external_ips: Vec<_> = external_ips.iter().cloned().chain(kept.into_iter().flatten()).collect();
    // In most clouds only an administrator may name SNAT, even with its default: on.
    let snat = known.and_then(|known| known.enable_snat).filter(|is_on| !is_on);
    gateway(network, &external_ips, snat)
}

/// Returns the addresses of a gateway that stay beside the requested ones: those of the other IP version. If a request
/// has no address, its version is unknown, and none stays.
fn kept(requested: &[(String, Option<String>)], held: &[Address]) -> Vec<(String, Option<String>)> {
    let versions: Option<Vec<bool>> =
        requested.iter().map(|(_, address)| is_ipv6(address.as_deref()?)).collect();
    let Some(versions) = versions.filter(|versions| !versions.is_empty()) else { return Vec::new() };
    let stays =
        |held: &&Address| is_ipv6(&held.ip_address).is_some_and(|version| !versions.contains(&version));
    held.iter().filter(stays).map(|held| (held.subnet_id.clone(), Some(held.ip_address.clone()))).collect()
}

fn is_ipv6(address: &str) -> Option<bool> {
    address.parse::<IpAddr>().ok().map(|address| address.is_ipv6())
}

fn gateway(network: &str, external_ips: &[(String, Option<String>)], snat: Option<bool>) -> Value {
    let fixed: Vec<Value> = external_ips.iter().map(fixed_ip).collect();
    // In most clouds only an administrator may name addresses, even an empty list of them.
    let fixed = (!fixed.is_empty()).then(|| json!(fixed));
    let snat = snat.map(Value::Bool);
    Value::Object(object([
        ("network_id", Some(json!(network))),
        ("external_fixed_ips", fixed),
        ("enable_snat", snat),
    ]))
}

fn fixed_ip((subnet, address): &(String, Option<String>)) -> Value {
    let subnet = (!subnet.is_empty()).then(|| json!(subnet));
    Value::Object(object([("subnet_id", subnet), ("ip_address", text(address.as_ref()))]))
}

/// Connects a router to a subnet. Neutron's bad request for a connected subnet becomes a conflict.
pub(crate) async fn add_router_interface(session: &Session, router: &str, subnet: &str) -> CloudResult<()> {
    interface(session, "add_router_interface", router, subnet).await.map_err(|error| {
        if error.class == ErrorClass::Invalid && error.message.contains("already has a port on subnet") {
            return CloudError { class: ErrorClass::Conflict, ..error };
        }
        error
    })
}

pub(crate) async fn remove_router_interface(
    session: &Session,
    router: &str,
    subnet: &str,
) -> CloudResult<()> {
    interface(session, "remove_router_interface", router, subnet).await
}

async fn interface(session: &Session, verb: &str, router: &str, subnet: &str) -> CloudResult<()> {
    let path = format!("{}/{verb}", path("routers", router));
    session.done(&Request::put(Service::Network, path, json!({"subnet_id": subnet}))).await.map(drop)
}

pub(crate) async fn set_routes(
    session: &Session,
    router: &str,
    routes: &[(String, String)],
) -> CloudResult<()> {
    let request = Request::put(Service::Network, path("routers", router), routes_body(routes));
    session.done(&request).await.map(drop)
}

fn routes_body(routes: &[(String, String)]) -> Value {
    let route = |(to, next): &(String, String)| json!({"destination": to, "nexthop": next});
    let routes: Vec<Value> = routes.iter().map(route).collect();
    json!({"router": {"routes": routes}})
}

/// Extension of Neutron that removes single routes. Without it, all routes of a router are replaced.
const ATOMIC_ROUTES: &str = "extraroute-atomic";

pub(crate) async fn remove_routes(
    session: &Session,
    router: &str,
    routes: &[(String, String)],
) -> CloudResult<()> {
    if session.network_extensions().await?.iter().any(|it| it == ATOMIC_ROUTES) {
        let path = format!("{}/remove_extraroutes", path("routers", router));
        return session.done(&Request::put(Service::Network, path, routes_body(routes))).await.map(drop);
    }
    let mut attempt = 1;
    loop {
        // The list is read again right before it is replaced, so that no route of another program is lost.
        let query = NetworkQuery { id: Some(router.to_owned()), ..NetworkQuery::default() };
        let found: Vec<ResponseBody> = list(session, filtered("/routers", &query), "routers").await?;
        let Some(found) = found.into_iter().next() else { return Ok(()) };
        let revision = found.revision_number;
        let known = Router::from(found).routes;
        let stays: Vec<_> = known.iter().filter(|route| !routes.contains(route)).cloned().collect();
        if stays.len() == known.len() {
            return Ok(());
        }
        let request = Request::put(Service::Network, path("routers", router), routes_body(&stays));
        match session.done(&request.guarded_by(revision)).await {
            Err(error) if is_changed(&error) && attempt < ATTEMPTS => attempt += 1,
            other => return other.map(drop),
        }
    }
}

pub(crate) async fn delete_router(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "routers", id).await
}
