//! Limits and usage of Nova per project.

use http::StatusCode;
use serde_json::{Value, json};

use super::model::Flavor;
use super::refusal;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::Object;
use crate::state::CloudState;

/// Resources of a quota set.
const RESOURCES: [&str; 7] =
    ["cores", "instances", "key_pairs", "metadata_items", "ram", "server_group_members", "server_groups"];

/// A resource, its requested amount, its used amount, and the limit.
type Excess<'a> = (&'a str, i64, i64, i64);

/// Returns an error if `count` servers of `flavor` exceed the project's quota.
pub(super) fn check(state: &CloudState, project: &str, flavor: &Flavor, count: i64) -> Result<(), Reply> {
    let [instances, cores, ram] = state.servers.usage(project);
    let requested = [
        ("cores", flavor.vcpus * count, cores),
        ("instances", count, instances),
        ("ram", flavor.ram * count, ram),
    ];
    let exceeded: Vec<Excess<'_>> = requested
        .iter()
        .map(|(resource, requested, used)| (*resource, *requested, *used, state.quota(project, resource)))
        .filter(|(_, requested, used, limit)| *limit >= 0 && requested + used > *limit)
        .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let join = |part: fn(&Excess<'_>) -> String| exceeded.iter().map(part).collect::<Vec<_>>().join(", ");
    let names = join(|(name, ..)| (*name).to_owned());
    let message = format!(
        "Quota exceeded for {names}: Requested {}, but already used {} of {} {names}",
        join(|(_, requested, ..)| requested.to_string()),
        join(|(_, _, used, _)| used.to_string()),
        join(|(.., limit)| limit.to_string()),
    );
    Err(refusal(StatusCode::FORBIDDEN, &message))
}

/// `GET /limits`.
pub(super) fn limits(state: &CloudState, context: &Context<'_>) -> Reply {
    let admin_asks = context.request.query.get("tenant_id").filter(|_| context.caller.admin);
    let project = admin_asks.unwrap_or(&context.caller.project_id);
    let quota = |resource| state.quota(project, resource);
    let [instances, cores, ram] = state.servers.usage(project);
    let groups = state.server_groups.iter().filter(|group| group.project_id == project).count();
    Reply::ok(&json!({"limits": {"rate": [], "absolute": {
        "maxTotalInstances": quota("instances"), "maxTotalCores": quota("cores"),
        "maxTotalRAMSize": quota("ram"), "maxServerMeta": quota("metadata_items"),
        "maxTotalKeypairs": quota("key_pairs"), "maxServerGroups": quota("server_groups"),
        "maxServerGroupMembers": quota("server_group_members"),
        "totalInstancesUsed": instances, "totalCoresUsed": cores, "totalRAMUsed": ram,
        "totalServerGroupsUsed": groups,
    }}}))
}

fn forbidden(action: &str) -> Reply {
    let message = format!("Policy doesn't allow os_compute_api:os-quota-sets:{action} to be performed.");
    refusal(StatusCode::FORBIDDEN, &message)
}

fn view(state: &CloudState, project: &str, detail: bool) -> Value {
    let [instances, cores, ram] = state.servers.usage(project);
    let used = |resource: &str| match resource {
        "instances" => instances,
        "cores" => cores,
        "ram" => ram,
        _ => 0,
    };
    let mut view: Object = RESOURCES
        .iter()
        .map(|resource| {
            let limit = state.quota(project, resource);
            let detailed = json!({"limit": limit, "in_use": used(resource), "reserved": 0});
            ((*resource).to_owned(), if detail { detailed } else { json!(limit) })
        })
        .collect();
    view.insert("id".to_owned(), json!(project));
    Value::Object(view)
}

/// `GET /os-quota-sets/{project}`, `/detail` and `/defaults`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, project: &str) -> HandlerResult {
    if !context.caller.owns(project) {
        return Err(forbidden("show"));
    }
    let detail = context.request.path.ends_with("/detail");
    Ok(Reply::ok(&json!({"quota_set": view(state, project, detail)})))
}

/// `PUT /os-quota-sets/{project}`: for admins.
pub(super) fn set(state: &mut CloudState, context: &Context<'_>, project: &str) -> HandlerResult {
    if !context.caller.admin {
        return Err(forbidden("update"));
    }
    let quotas = state.quotas.entry(project.to_owned()).or_default();
    for (resource, limit) in context.body("quota_set").unwrap_or_default() {
        if let Some(limit) = limit.as_i64().filter(|_| RESOURCES.contains(&resource.as_str())) {
            quotas.insert(resource, limit);
        }
    }
    Ok(Reply::ok(&json!({"quota_set": view(state, project, false)})))
}
