//! Octavia calls for the parts of a load balancer.

use controllers_infrastructure::{
    CloudResult, HealthMonitor, Listener, LoadBalancerPart, Member, MonitorCheck, MonitorTimes,
    NewHealthMonitor, NewListener, NewMember, NewPool, Pool,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{changed_at, get, limits, object, path, post, tags, text};
use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
};

#[derive(Deserialize)]
struct ListenerBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    provisioning_status: String,
    #[serde(default)]
    protocol: Option<String>,
    protocol_port: i32,
    #[serde(default)]
    default_pool_id: Option<String>,
    #[serde(default)]
    allowed_cidrs: Option<Vec<String>>,
    /// Absent before version 2.1.
    #[serde(default)]
    timeout_client_data: Option<i32>,
    #[serde(default)]
    timeout_member_data: Option<i32>,
}

impl From<ListenerBody> for Listener {
    fn from(body: ListenerBody) -> Self {
        Self {
            id: body.id,
            name: body.name.unwrap_or_default(),
            tags: body.tags,
            provisioning_status: body.provisioning_status,
            protocol: body.protocol.unwrap_or_default(),
            protocol_port: body.protocol_port,
            default_pool_id: body.default_pool_id,
            allowed_cidrs: body.allowed_cidrs.unwrap_or_default(),
            idle_timeout: body.timeout_client_data,
            member_timeout: body.timeout_member_data,
        }
    }
}

pub(crate) async fn listeners(session: &Session, load_balancer: &str) -> CloudResult<Vec<Listener>> {
    let request = get("listeners").with("loadbalancer_id", load_balancer);
    let found: Vec<ListenerBody> = list(session, request, "listeners").await?;
    Ok(found.into_iter().map(Listener::from).collect())
}

pub(crate) async fn create_listener(session: &Session, new: &NewListener) -> CloudResult<Listener> {
    let limits = limits(session).await?;
    let timeout = new.idle_timeout.filter(|_| !limits.lacks_idle_timeouts).map(|timeout| json!(timeout));
    let has_cidrs = !new.allowed_cidrs.is_empty() && !limits.lacks_allowed_cidrs;
    let cidrs = has_cidrs.then(|| json!(new.allowed_cidrs));
    let body = object([
        ("loadbalancer_id", Some(json!(new.load_balancer_id))),
        ("name", Some(json!(new.name))),
        ("description", Some(json!(new.description))),
        ("tags", (!limits.lacks_tags).then(|| json!(new.tags))),
        ("protocol", Some(json!("TCP"))),
        ("protocol_port", Some(json!(new.protocol_port))),
        ("allowed_cidrs", cidrs),
        ("timeout_client_data", timeout.clone()),
        ("timeout_member_data", timeout),
    ]);
    let request = post("listeners", "listener", &body);
    Ok(session.under::<ListenerBody>(&request, "listener").await?.into())
}

pub(crate) async fn set_allowed_cidrs(session: &Session, id: &str, cidrs: &[String]) -> CloudResult<()> {
    let body = json!({"listener": {"allowed_cidrs": cidrs}});
    session.done(&Request::put(Service::LoadBalancer, path("listeners", id), body)).await.map(drop)
}

pub(crate) async fn set_idle_timeout(session: &Session, id: &str, timeout: i32) -> CloudResult<()> {
    let body = json!({"listener": {"timeout_client_data": timeout, "timeout_member_data": timeout}});
    session.done(&Request::put(Service::LoadBalancer, path("listeners", id), body)).await.map(drop)
}

/// Enables a part, which is enabled: Octavia configures it again.
pub(crate) async fn set_again(session: &Session, part: &LoadBalancerPart) -> CloudResult<()> {
    let (path, word) = match part {
        LoadBalancerPart::Listener(id) => (path("listeners", id), "listener"),
        LoadBalancerPart::Pool(id) => (path("pools", id), "pool"),
        LoadBalancerPart::HealthMonitor(id) => (path("healthmonitors", id), "healthmonitor"),
        LoadBalancerPart::Member { pool, id } => (path(&members_of(pool), id), "member"),
    };
    let body = json!({word: {"admin_state_up": true}});
    session.done(&Request::put(Service::LoadBalancer, path, body)).await.map(drop)
}

pub(crate) async fn delete_listener(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, path("listeners", id)).await
}

async fn delete(session: &Session, path: String) -> CloudResult<()> {
    session.done(&Request::delete(Service::LoadBalancer, path)).await.map(drop)
}

#[derive(Deserialize)]
struct PoolBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    provisioning_status: String,
    #[serde(default)]
    healthmonitor_id: Option<String>,
    #[serde(default)]
    lb_algorithm: Option<String>,
}

impl From<PoolBody> for Pool {
    fn from(body: PoolBody) -> Self {
        Self {
            id: body.id,
            name: body.name.unwrap_or_default(),
            tags: body.tags,
            provisioning_status: body.provisioning_status,
            health_monitor_id: body.healthmonitor_id.filter(|id| !id.is_empty()),
            algorithm: body.lb_algorithm.unwrap_or_default(),
        }
    }
}

pub(crate) async fn pools(session: &Session, load_balancer: &str) -> CloudResult<Vec<Pool>> {
    let request = get("pools").with("loadbalancer_id", load_balancer);
    let found: Vec<PoolBody> = list(session, request, "pools").await?;
    Ok(found.into_iter().map(Pool::from).collect())
}

pub(crate) async fn create_pool(session: &Session, new: &NewPool) -> CloudResult<Pool> {
    let body = object([
        ("listener_id", Some(json!(new.listener_id))),
        ("name", Some(json!(new.name))),
        ("tags", tags(session, &new.tags).await?),
        ("protocol", Some(json!("TCP"))),
        ("lb_algorithm", Some(json!(new.algorithm))),
    ]);
    Ok(session.under::<PoolBody>(&post("pools", "pool", &body), "pool").await?.into())
}

pub(crate) async fn set_pool_algorithm(session: &Session, id: &str, algorithm: &str) -> CloudResult<()> {
    let body = json!({"pool": {"lb_algorithm": algorithm}});
    session.done(&Request::put(Service::LoadBalancer, path("pools", id), body)).await.map(drop)
}

pub(crate) async fn delete_pool(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, path("pools", id)).await
}

#[derive(Deserialize)]
struct MemberBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    provisioning_status: String,
    address: String,
    #[serde(default)]
    subnet_id: Option<String>,
    protocol_port: i32,
    #[serde(default)]
    weight: Option<i32>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    updated_at: Option<String>,
}

impl From<MemberBody> for Member {
    fn from(body: MemberBody) -> Self {
        Self {
            id: body.id,
            name: body.name.unwrap_or_default(),
            tags: body.tags,
            provisioning_status: body.provisioning_status,
            address: body.address,
            subnet_id: body.subnet_id,
            protocol_port: body.protocol_port,
            weight: body.weight.unwrap_or(1),
            changed_at: changed_at(body.updated_at, body.created_at),
        }
    }
}

fn members_of(pool: &str) -> String {
    format!("pools/{}/members", encode(pool))
}

pub(crate) async fn members(session: &Session, pool: &str) -> CloudResult<Vec<Member>> {
    let found: Vec<MemberBody> = list(session, get(&members_of(pool)), "members").await?;
    Ok(found.into_iter().map(Member::from).collect())
}

fn new_member(new: &NewMember, tags: Option<Value>) -> Map<String, Value> {
    object([
        ("name", Some(json!(new.name))),
        ("tags", tags),
        ("address", Some(json!(new.address))),
        ("protocol_port", Some(json!(new.protocol_port))),
        ("subnet_id", text(new.subnet_id.as_ref())),
        ("weight", Some(json!(1))),
    ])
}

pub(crate) async fn create_member(session: &Session, pool: &str, new: &NewMember) -> CloudResult<Member> {
    let tags = tags(session, &new.tags).await?;
    let request = post(&members_of(pool), "member", &new_member(new, tags));
    Ok(session.under::<MemberBody>(&request, "member").await?.into())
}

/// First minor version of Octavia that adds members without the removal of all others.
const ADDITIVE: u32 = 11;

/// Adds members. An older Octavia would take the list for the whole of the pool, so it gets only the first.
pub(crate) async fn create_members(session: &Session, pool: &str, new: &[NewMember]) -> CloudResult<usize> {
    // A cloud that does not show its versions counts as old.
    let minor = session.octavia_minor().await.ok().flatten();
    let several = new.len() > 1 && minor.unwrap_or_default() >= ADDITIVE;
    if !several {
        let Some(first) = new.first() else { return Ok(0) };
        return create_member(session, pool, first).await.map(|_| 1);
    }
    // An Octavia that adds several has tags.
    let members = new.iter().map(|new| new_member(new, Some(json!(new.tags))));
    let body = json!({"members": members.collect::<Vec<_>>()});
    let path = format!("/lbaas/{}", members_of(pool));
    let request = Request::put(Service::LoadBalancer, path, body).with("additive_only", "true");
    session.done(&request).await.map(|_| new.len())
}

pub(crate) async fn drain_member(session: &Session, pool: &str, id: &str) -> CloudResult<()> {
    let request =
        Request::put(Service::LoadBalancer, path(&members_of(pool), id), json!({"member": {"weight": 0}}));
    session.done(&request).await.map(drop)
}

pub(crate) async fn delete_member(session: &Session, pool: &str, id: &str) -> CloudResult<()> {
    delete(session, path(&members_of(pool), id)).await
}

#[derive(Deserialize)]
struct MonitorBody {
    id: String,
    provisioning_status: String,
    #[serde(default, rename = "type")]
    kind: String,
    delay: i32,
    timeout: i32,
    max_retries: i32,
    #[serde(default)]
    max_retries_down: i32,
}

impl From<MonitorBody> for HealthMonitor {
    fn from(body: MonitorBody) -> Self {
        let times = MonitorTimes {
            delay: body.delay,
            timeout: body.timeout,
            max_retries: body.max_retries,
            max_retries_down: body.max_retries_down,
        };
        let check = if body.kind == "HTTPS" { MonitorCheck::HttpsReadyz } else { MonitorCheck::Tcp };
        Self { id: body.id, provisioning_status: body.provisioning_status, check, times }
    }
}

fn numbers(times: &MonitorTimes) -> [(&'static str, Option<Value>); 4] {
    [
        ("delay", Some(json!(times.delay))),
        ("timeout", Some(json!(times.timeout))),
        ("max_retries", Some(json!(times.max_retries))),
        ("max_retries_down", Some(json!(times.max_retries_down))),
    ]
}

pub(crate) async fn health_monitor(session: &Session, id: &str) -> CloudResult<HealthMonitor> {
    let request = Request::get(Service::LoadBalancer, path("healthmonitors", id));
    Ok(session.under::<MonitorBody>(&request, "healthmonitor").await?.into())
}

pub(crate) async fn create_health_monitor(
    session: &Session,
    new: &NewHealthMonitor,
) -> CloudResult<HealthMonitor> {
    let (kind, path) = match new.check {
        MonitorCheck::Tcp => ("TCP", None),
        MonitorCheck::HttpsReadyz => ("HTTPS", Some(json!("/readyz"))),
    };
    let mut body = object([
        ("pool_id", Some(json!(new.pool_id))),
        ("name", Some(json!(new.name))),
        ("tags", tags(session, &new.tags).await?),
        ("type", Some(json!(kind))),
        ("http_method", path.as_ref().map(|_| json!("GET"))),
        ("expected_codes", path.as_ref().map(|_| json!("200"))),
        ("url_path", path),
    ]);
    body.extend(object(numbers(&new.times)));
    let request = post("healthmonitors", "healthmonitor", &body);
    Ok(session.under::<MonitorBody>(&request, "healthmonitor").await?.into())
}

pub(crate) async fn update_health_monitor(
    session: &Session,
    id: &str,
    times: &MonitorTimes,
) -> CloudResult<()> {
    let body = json!({"healthmonitor": object(numbers(times))});
    session.done(&Request::put(Service::LoadBalancer, path("healthmonitors", id), body)).await.map(drop)
}

pub(crate) async fn delete_health_monitor(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, path("healthmonitors", id)).await
}
