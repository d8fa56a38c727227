//! Handlers of `GET /servers` and `GET /servers/detail`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{Server, VmState};
use super::{bad_request, view};
use crate::context::Context;
use crate::http::{HandlerResult, Query, Reply};
use crate::neutron::ResourceKind;
use crate::object::{list as items, set};
use crate::pattern::Pattern;
use crate::state::CloudState;

/// Largest number of servers on one page.
const PAGE: usize = 1000;

/// All status values; Nova returns 400 for any other.
const STATUSES: [&str; 19] = [
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "VERIFY_RESIZE",
];

/// Query parameters that filter nothing.
const PLAIN: [&str; 5] = ["limit", "marker", "sort_key", "sort_dir", "all_tenants"];

/// Filters of one list call.
struct Filters<'a> {
    query: &'a Query,
    name: Option<Pattern>,
    statuses: Vec<String>,
    since: Option<Timestamp>,
    before: Option<Timestamp>,
    /// Deleted servers, for admins who request them and for calls with `changes-since`.
    deleted: bool,
    all_projects: bool,
}

/// Lists servers, newest first.
pub(super) fn list(state: &CloudState, context: &Context<'_>, detail: bool) -> HandlerResult {
    let query = &context.request.query;
    let filters = filters(context)?;
    let mut servers: Vec<&Server> =
        state.servers.values().filter(|server| matches(state, server, &filters, context)).collect();
    servers.sort_by_key(|server| std::cmp::Reverse((server.created, server.sequence)));
    if let Some(key) = query.get("sort_key") {
        sort(&mut servers, key, query.get("sort_dir") == Some("asc"));
    }
    let start = match query.get("marker") {
        Some(marker) => {
            let position = servers.iter().position(|server| server.id == marker);
            position.ok_or_else(|| bad_request(&format!("marker [{marker}] not found")))? + 1
        }
        None => 0,
    };
    let limit = limit(query)?;
    let page: Vec<&Server> = servers.iter().skip(start).take(limit).copied().collect();
    let views: Vec<Value> = page
        .iter()
        .map(|server| match (server.unreachable, detail) {
            (true, _) => view::of_unreachable_cell(server, context),
            (false, true) => view::full(state, server, context).into(),
            (false, false) => view::brief(server, context),
        })
        .collect();
    let mut body = json!({"servers": views}).as_object().cloned().unwrap_or_default();
    // Nova adds a next page whenever the page is full, even if no servers are left.
    let is_full = page.len() == limit && limit > 0;
    if let Some(last) = page.last().filter(|_| is_full) {
        let link =
            format!("{}{}?{}", context.request.base_url, context.request.path, query.with_marker(&last.id));
        set(&mut body, "servers_links", json!([{"rel": "next", "href": link}]));
    }
    Ok(Reply::ok(&Value::Object(body)))
}

fn limit(query: &Query) -> Result<usize, Reply> {
    let Some(text) = query.get("limit") else { return Ok(PAGE) };
    let limit: usize = text.parse().map_err(|_| invalid("limit", text, "does not match '^[0-9]*$'"))?;
    Ok(limit.min(PAGE))
}

fn invalid(parameter: &str, value: &str, reason: &str) -> Reply {
    bad_request(&format!(
        "Invalid input for query parameters {parameter}. Value: {value}. '{value}' {reason}"
    ))
}

fn filters<'a>(context: &'a Context<'_>) -> Result<Filters<'a>, Reply> {
    let query = &context.request.query;
    let pattern = |text| Pattern::compile(text).ok_or_else(|| invalid("name", text, "is not a 'regex'"));
    let time = |parameter: &str| {
        let parse = |text: &str| {
            text.parse::<Timestamp>().map_err(|_| invalid(parameter, text, "is not a 'date-time'"))
        };
        query.get(parameter).map(parse).transpose()
    };
    let statuses: Vec<String> = query.all("status").map(str::to_uppercase).collect();
    if statuses.iter().any(|status| !STATUSES.contains(&status.as_str())) {
        return Err(bad_request("Invalid status value"));
    }
    let since = time("changes-since")?;
    let before = time("changes-before")?;
    let is_true = |key: &str| query.get(key).is_some_and(|value| matches!(value, "1" | "true" | "True"));
    let admin = context.caller.admin;
    Ok(Filters {
        query,
        name: query.get("name").map(pattern).transpose()?,
        deleted: since.is_some() || before.is_some() || (admin && is_true("deleted")),
        statuses,
        since,
        before,
        all_projects: admin && is_true("all_tenants"),
    })
}

fn matches(state: &CloudState, server: &Server, filters: &Filters<'_>, context: &Context<'_>) -> bool {
    let query = filters.query;
    let project = filters.all_projects || server.project_id == context.caller.project_id;
    let equal = |key: &str, value: &str| query.get(key).is_none_or(|requested| requested == value);
    // Only a list without filters has the servers of a cell that Nova cannot reach.
    let is_plain = context.microversion >= 69 && query.keys().iter().all(|key| PLAIN.contains(key));
    project
        && (!server.unreachable || is_plain)
        && (filters.deleted || !matches!(server.vm_state, VmState::SoftDeleted | VmState::Deleted))
        && filters.since.is_none_or(|since| server.updated >= since)
        && filters.before.is_none_or(|before| server.updated <= before)
        && filters.name.as_ref().is_none_or(|pattern| pattern.is_match(&server.name))
        && (filters.statuses.is_empty() || filters.statuses.iter().any(|status| status == server.status()))
        && equal("uuid", &server.id)
        && equal("image", server.image.as_deref().unwrap_or_default())
        && equal("flavor", &server.flavor.id)
        && equal("key_name", server.key_name.as_deref().unwrap_or_default())
        && equal("availability_zone", &server.zone)
        && equal("vm_state", server.vm_state.as_str())
        && matches_tags(server, query)
        && matches_addresses(state, server, query)
}

fn matches_tags(server: &Server, query: &Query) -> bool {
    let check = |key: &str, all: bool| {
        query.get(key).map(|requested| {
            let mut requested = requested.split(',');
            let has = |tag: &str| server.tags.iter().any(|held| held == tag);
            if all { requested.all(has) } else { requested.any(has) }
        })
    };
    check("tags", true).unwrap_or(true)
        && check("tags-any", false).unwrap_or(true)
        && !check("not-tags", true).unwrap_or(false)
        && !check("not-tags-any", false).unwrap_or(false)
}

/// Matches the filters `ip` and `ip6`, which are expressions on the fixed addresses.
fn matches_addresses(state: &CloudState, server: &Server, query: &Query) -> bool {
    let Some(requested) = query.get("ip").or_else(|| query.get("ip6")) else { return true };
    let Some(pattern) = Pattern::compile(requested) else { return false };
    let ports = state.with(ResourceKind::Port, "device_id", &server.id).into_iter();
    let mut addresses = ports.flat_map(|port| items(port, "fixed_ips"));
    addresses.any(|fixed| {
        let address = fixed.get("ip_address").and_then(Value::as_str).unwrap_or_default();
        pattern.is_match(address)
    })
}

fn sort(servers: &mut [&Server], key: &str, ascending: bool) {
    servers.sort_by(|one, other| {
        let order = match key {
            "display_name" | "name" => one.name.cmp(&other.name),
            "uuid" => one.id.cmp(&other.id),
            "updated_at" => one.updated.cmp(&other.updated),
            _ => (one.created, one.sequence).cmp(&(other.created, other.sequence)),
        };
        if ascending { order } else { order.reverse() }
    });
}
