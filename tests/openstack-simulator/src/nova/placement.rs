//! Hosts, and the placement of servers on them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::context::Context;
use crate::http::Reply;
use crate::state::CloudState;

/// Hosts and their availability zones.
const HOSTS: [(&str, &str); 3] = [("fake-1", "az1"), ("fake-2", "az1"), ("fake-3", "az2")];

/// More memory than any host has, in MiB: it makes the flavor `x1.impossible` impossible.
const HOST_RAM: i64 = 1 << 21;

/// Error if placement has no host with enough memory.
const NO_MEMORY: &str = "No valid host was found. ";

/// Error if the scheduler's filters refused all hosts of placement.
const NO_HOST: &str = "No valid host was found. There are not enough hosts available.";

/// Returns true if the zone exists. Nova also accepts `zone:host`.
pub(super) fn zone_exists(zone: &str) -> bool {
    let name = zone.split(':').next().unwrap_or_default();
    HOSTS.iter().any(|(_, zone)| *zone == name)
}

/// `GET /os-availability-zone`.
pub(super) fn zones(_context: &Context<'_>) -> Reply {
    let names: BTreeSet<&str> = HOSTS.iter().map(|(_, zone)| *zone).collect();
    let zones: Vec<Value> = names
        .iter()
        .map(|zone| json!({"zoneName": zone, "zoneState": {"available": true}, "hosts": null}))
        .collect();
    Reply::ok(&json!({"availabilityZoneInfo": zones}))
}

/// Returns the host and zone for a new server, or the error if there is none.
pub(super) fn place(
    state: &CloudState,
    ram: i64,
    zone: Option<&str>,
    group: Option<&str>,
) -> Result<(String, String), &'static str> {
    if ram > HOST_RAM {
        return Err(NO_MEMORY);
    }
    let policy = state.server_groups.iter().find(|held| Some(held.id.as_str()) == group);
    let policy = policy.map(|group| group.policy.as_str()).unwrap_or_default();
    let used = hosts_of_group(state, group);
    let fits = |host: &str| match policy {
        "anti-affinity" => !used.contains(host),
        "affinity" => used.is_empty() || used.contains(host),
        _ => true,
    };
    let (zone, requested) = match zone.map(|zone| zone.split_once(':').unwrap_or((zone, ""))) {
        Some((zone, host)) => (Some(zone), host),
        None => (None, ""),
    };
    let candidates = HOSTS.iter().filter(|(host, of)| {
        zone.is_none_or(|zone| zone == *of) && (requested.is_empty() || requested == *host) && fits(host)
    });
    // The host with the fewest servers is chosen, among those that suit the soft policies.
    let chosen = candidates.min_by_key(|(host, _)| {
        let against = match policy {
            "soft-anti-affinity" => used.contains(*host),
            "soft-affinity" => !used.contains(*host),
            _ => false,
        };
        (against, state.servers.on_host(host))
    });
    chosen.map(|(host, zone)| ((*host).to_owned(), (*zone).to_owned())).ok_or(NO_HOST)
}

fn hosts_of_group(state: &CloudState, group: Option<&str>) -> BTreeSet<String> {
    let Some(group) = group else { return BTreeSet::new() };
    state.servers.in_group(group).filter_map(|server| server.host.clone()).collect()
}
