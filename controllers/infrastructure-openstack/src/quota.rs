//! Quotas of the project, in the four services that have some.

use std::collections::BTreeMap;

use controllers_infrastructure::{CloudResult, ErrorClass, Quota, QuotaService};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
};

/// Nova's limits and uses, with the name of the resource in a quota.
const NOVA: [(&str, &str, Option<&str>); 5] = [
    ("instances", "maxTotalInstances", Some("totalInstancesUsed")),
    ("cores", "maxTotalCores", Some("totalCoresUsed")),
    ("ram", "maxTotalRAMSize", Some("totalRAMUsed")),
    ("server_groups", "maxServerGroups", Some("totalServerGroupsUsed")),
    // A limit of each group, so the project has no use.
    ("server_group_members", "maxServerGroupMembers", None),
];

/// Cinder's limits and uses, as a user sees them who may not read quotas.
const CINDER: [(&str, &str, Option<&str>); 2] = [
    ("volumes", "maxTotalVolumes", Some("totalVolumesUsed")),
    ("gigabytes", "maxTotalVolumeGigabytes", Some("totalGigabytesUsed")),
];

/// Octavia's resources with their older names in a quota, and their collections, which show the use.
const OCTAVIA: [(&str, &str, &str); 5] = [
    ("load_balancer", "loadbalancer", "loadbalancers"),
    ("listener", "listener", "listeners"),
    ("pool", "pool", "pools"),
    ("health_monitor", "healthmonitor", "healthmonitors"),
    // Octavia has no list of all members. Each pool shows its own.
    (MEMBER, MEMBER, "pools"),
];

/// Octavia's name of members in a quota.
const MEMBER: &str = "member";

/// Lists the quotas of the project in a service.
pub(crate) async fn quotas(session: &Session, service: QuotaService) -> CloudResult<Vec<Quota>> {
    match service {
        QuotaService::Compute => limits(session, Service::Compute, &NOVA).await,
        QuotaService::Network => network(session).await,
        QuotaService::Volume => volume(session).await,
        QuotaService::LoadBalancer => load_balancer(session).await,
    }
}

/// Reads the limits that every role may read.
async fn limits(
    session: &Session,
    service: Service,
    fields: &[(&str, &str, Option<&str>)],
) -> CloudResult<Vec<Quota>> {
    let found: Value = session.under(&Request::get(service, "/limits"), "limits").await?;
    let absolute = found.get("absolute").cloned().unwrap_or_default();
    let number = |key: &str| absolute.get(key).and_then(Value::as_i64);
    let quota = |(resource, limit, used): &(&str, &str, Option<&str>)| {
        let used = used.and_then(number).unwrap_or_default();
        Some(Quota { resource: (*resource).to_owned(), limit: number(limit)?, used })
    };
    Ok(fields.iter().filter_map(quota).collect())
}

/// Limit of a resource in Neutron and Cinder, with its use.
#[derive(Deserialize)]
struct Detail {
    limit: i64,
    /// Neutron's word.
    #[serde(default)]
    used: i64,
    /// Cinder's word.
    #[serde(default)]
    in_use: i64,
    #[serde(default)]
    reserved: i64,
}

fn detailed(found: BTreeMap<String, Value>) -> Vec<Quota> {
    let quota = |(resource, value)| {
        // The project's id is among the limits of Cinder.
        let detail: Detail = serde_json::from_value(value).ok()?;
        let used = detail.used.saturating_add(detail.in_use).saturating_add(detail.reserved);
        Some(Quota { resource, limit: detail.limit, used })
    };
    found.into_iter().filter_map(quota).collect()
}

async fn network(session: &Session) -> CloudResult<Vec<Quota>> {
    let path = format!("/quotas/{}/details.json", encode(session.project()));
    Ok(detailed(session.under(&Request::get(Service::Network, path), "quota").await?))
}

async fn volume(session: &Session) -> CloudResult<Vec<Quota>> {
    let path = format!("/os-quota-sets/{}", encode(session.project()));
    let request = Request::get(Service::Volume, path).with("usage", "True");
    match session.under(&request, "quota_set").await {
        Ok(found) => Ok(detailed(found)),
        // Its policy may be stricter than that of the limits, which lack the volume types.
        Err(error) if error.class == ErrorClass::Forbidden => limits(session, Service::Volume, &CINDER).await,
        Err(error) => Err(error),
    }
}

/// Reads Octavia's limits. Octavia does not show their use, so the resources with a limit are counted.
async fn load_balancer(session: &Session) -> CloudResult<Vec<Quota>> {
    let path = format!("/lbaas/quotas/{}", encode(session.project()));
    let request = Request::get(Service::LoadBalancer, path);
    let found: BTreeMap<String, Value> = session.under(&request, "quota").await?;
    let mut quotas = Vec::new();
    for (resource, older, collection) in OCTAVIA {
        let limit = found.get(resource).or_else(|| found.get(older)).and_then(Value::as_i64);
        // Null is the default of the cloud, which a project cannot read.
        let Some(limit) = limit.filter(|limit| *limit >= 0) else { continue };
        let request = Request::get(Service::LoadBalancer, format!("/lbaas/{collection}"))
            .with("project_id", session.project());
        let found = list::<Value>(session, request, collection).await?;
        let used = if resource == MEMBER { members(&found) } else { found.len() };
        let used = i64::try_from(used).unwrap_or(i64::MAX);
        quotas.push(Quota { resource: resource.to_owned(), limit, used });
    }
    Ok(quotas)
}

/// Returns the number of members of some pools.
fn members(pools: &[Value]) -> usize {
    pools.iter().filter_map(|pool| pool.get("members")?.as_array()).map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_counted_by_pool() {
        let pools =
            [json!({"members": [{"id": "a"}, {"id": "b"}]}), json!({"members": []}), json!({"id": "p"})];
        assert_eq!(members(&pools), 2);
    }

    #[test]
    fn limits_of_neutron_and_cinder_count_what_is_reserved() {
        let found: BTreeMap<String, Value> = serde_json::from_value(json!({
            "id": "p",
            "port": {"limit": 10, "used": 3, "reserved": 1},
            "gigabytes_ssd": {"limit": -1, "in_use": 5, "reserved": 2, "allocated": 0},
            "subnetpool": -1,
        }))
        .unwrap();
        let quota = |resource: &str, limit, used| Quota { resource: resource.to_owned(), limit, used };
        assert_eq!(detailed(found), [quota("gigabytes_ssd", -1, 7), quota("port", 10, 4)]);
    }
}
