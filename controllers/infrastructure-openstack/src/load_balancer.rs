//! Octavia calls for load balancers.

mod children;

pub(crate) use children::*;

use controllers_infrastructure::{
    CloudError, CloudResult, ErrorClass, LoadBalancer, LoadBalancerFlavor, LoadBalancerLimits,
    LoadBalancerQuery, NewLoadBalancer,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    /// Absent before version 2.5.
    #[serde(default)]
    tags: Vec<String>,
    provisioning_status: String,
    #[serde(default)]
    vip_address: Option<String>,
    #[serde(default)]
    vip_port_id: Option<String>,
    #[serde(default)]
    vip_network_id: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    admin_state_up: Option<bool>,
    #[serde(default)]
    created_at: Option<String>,
    /// Absent before the first change.
    #[serde(default)]
    updated_at: Option<String>,
}

impl From<ResponseBody> for LoadBalancer {
    fn from(body: ResponseBody) -> Self {
        Self {
            id: body.id,
            name: body.name.unwrap_or_default(),
            description: body.description.unwrap_or_default(),
            tags: body.tags,
            provisioning_status: body.provisioning_status,
            vip_address: body.vip_address.unwrap_or_default(),
            vip_port_id: body.vip_port_id.unwrap_or_default(),
            vip_network_id: body.vip_network_id.unwrap_or_default(),
            provider: body.provider.unwrap_or_default(),
            admin_state_up: body.admin_state_up.unwrap_or(true),
            changed_at: changed_at(body.updated_at, body.created_at),
        }
    }
}

/// Returns the time of the last change.
fn changed_at(updated: Option<String>, created: Option<String>) -> String {
    utc(&updated.or(created).unwrap_or_default())
}

fn path(collection: &str, id: &str) -> String {
    format!("/lbaas/{collection}/{}", encode(id))
}

fn get(collection: &str) -> Request {
    Request::get(Service::LoadBalancer, format!("/lbaas/{collection}"))
}

fn post(collection: &str, key: &str, body: &Map<String, Value>) -> Request {
    Request::post(Service::LoadBalancer, format!("/lbaas/{collection}"), json!({key: body}))
}

/// Returns a JSON object of the fields that have a value.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn text(value: Option<&String>) -> Option<Value> {
    value.map(|text| json!(text))
}

/// First minor version of Octavia with timeouts of listeners.
const TIMEOUTS: u32 = 1;

/// First minor version of Octavia with tags.
const TAGS: u32 = 5;

/// First minor version of Octavia with the clients that may connect.
const ALLOWED_CIDRS: u32 = 12;

/// Returns which attributes Octavia does not have. One that does not show its versions counts as new: the list of clients
/// must not be left out by mistake, and an old Octavia refuses it.
///
/// # Errors
/// Octavia does not answer now. A version that was not read says nothing about what Octavia has.
pub(crate) async fn limits(session: &Session) -> CloudResult<LoadBalancerLimits> {
    let minor = match session.octavia_minor().await {
        Ok(minor) => minor,
        Err(error) if hides_versions(&error) => None,
        Err(error) => return Err(error),
    };
    let lacks = |since: u32| minor.is_some_and(|minor| minor < since);
    Ok(LoadBalancerLimits {
        lacks_tags: lacks(TAGS),
        lacks_idle_timeouts: lacks(TIMEOUTS),
        lacks_allowed_cidrs: lacks(ALLOWED_CIDRS),
    })
}

/// Reports whether a cloud does not show the versions of Octavia. A proxy before the API may refuse or lack their path.
fn hides_versions(error: &CloudError) -> bool {
    use ErrorClass::{Forbidden, Invalid, NotFound, Unauthorized};
    matches!(error.class, Forbidden | Invalid | NotFound | Unauthorized)
}

/// Returns tags for a body, if Octavia has tags.
async fn tags(session: &Session, tags: &[String]) -> CloudResult<Option<Value>> {
    Ok((!limits(session).await?.lacks_tags).then(|| json!(tags)))
}

pub(crate) async fn load_balancers(
    session: &Session,
    query: &LoadBalancerQuery,
) -> CloudResult<Vec<LoadBalancer>> {
    let request = get("loadbalancers")
        .with_some("id", query.id.as_deref())
        .with_some("name", query.name.as_deref())
        .with_some("vip_port_id", query.vip_port_id.as_deref())
        .with_some("vip_subnet_id", query.vip_subnet_id.as_deref());
    let found: Vec<ResponseBody> = list(session, request, "loadbalancers").await?;
    Ok(found.into_iter().map(LoadBalancer::from).collect())
}

pub(crate) async fn create_load_balancer(
    session: &Session,
    new: &NewLoadBalancer,
) -> CloudResult<LoadBalancer> {
    let body = object([
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("tags", tags(session, &new.tags).await?),
        ("admin_state_up", Some(json!(true))),
        ("vip_port_id", text(new.vip_port_id.as_ref())),
        ("vip_subnet_id", text(new.vip_subnet_id.as_ref())),
        ("vip_address", text(new.vip_address.as_ref())),
        ("provider", text(new.provider.as_ref())),
        ("flavor_id", text(new.flavor_id.as_ref())),
        ("availability_zone", text(new.availability_zone.as_ref())),
    ]);
    let request = post("loadbalancers", "loadbalancer", &body);
    Ok(session.under::<ResponseBody>(&request, "loadbalancer").await?.into())
}

pub(crate) async fn enable_load_balancer(session: &Session, id: &str) -> CloudResult<()> {
    let body = json!({"loadbalancer": {"admin_state_up": true}});
    session.done(&Request::put(Service::LoadBalancer, path("loadbalancers", id), body)).await.map(drop)
}

pub(crate) async fn set_tags(session: &Session, id: &str, tags: &[String]) -> CloudResult<()> {
    let body = json!({"loadbalancer": {"tags": tags}});
    session.done(&Request::put(Service::LoadBalancer, path("loadbalancers", id), body)).await.map(drop)
}

pub(crate) async fn fail_over_load_balancer(session: &Session, id: &str) -> CloudResult<()> {
    let path = format!("{}/failover", path("loadbalancers", id));
    session.done(&Request::put(Service::LoadBalancer, path, json!({}))).await.map(drop)
}

pub(crate) async fn delete_load_balancer(session: &Session, id: &str) -> CloudResult<()> {
    let request = Request::delete(Service::LoadBalancer, path("loadbalancers", id)).with("cascade", "true");
    session.done(&request).await.map(drop)
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

pub(crate) async fn load_balancer_providers(session: &Session) -> CloudResult<Vec<String>> {
    let found: Vec<Named> = list(session, get("providers"), "providers").await?;
    Ok(found.into_iter().map(|provider| provider.name).collect())
}

pub(crate) async fn load_balancer_zones(session: &Session) -> CloudResult<Vec<String>> {
    let found: Vec<Named> = list(session, get("availabilityzones"), "availability_zones").await?;
    Ok(found.into_iter().map(|zone| zone.name).collect())
}

#[derive(Deserialize)]
struct FlavorBody {
    id: String,
    name: String,
    #[serde(default)]
    enabled: bool,
}

pub(crate) async fn load_balancer_flavors(session: &Session) -> CloudResult<Vec<LoadBalancerFlavor>> {
    let found: Vec<FlavorBody> = list(session, get("flavors"), "flavors").await?;
    let flavor =
        |body: FlavorBody| LoadBalancerFlavor { id: body.id, name: body.name, enabled: body.enabled };
    Ok(found.into_iter().map(flavor).collect())
}
