//! Process of the simulated cloud and of its hollow clusters, which the measurement controls by lines of JSON.
//!
//! It is a process of its own, so that Capstan's memory and CPU time are Capstan's alone.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tests_hollow_cluster::{HollowClusters, HollowOptions, WorkloadEffect, WorkloadFault, loopback_range};
use tests_openstack_simulator::{LoggedCall, Simulator, SimulatorOptions};
use tokio::sync::mpsc;

/// Project of all clusters that are measured.
pub(super) const PROJECT: &str = "demo";

/// Project of a neighbour that fails.
const REFUSED: &str = "demo2";

/// Quotas of which hundreds of clusters need more than the cloud grants at first.
const QUOTAS: [&str; 12] = [
    "cores",
    "instances",
    "ram",
    "network",
    "subnet",
    "port",
    "router",
    "floatingip",
    "security_group",
    "security_group_rule",
    "server_groups",
    "volumes",
];

/// Latency of each call to the slow cloud: that of an overloaded one, below the time limit of a call.
const SLOW: Duration = Duration::from_secs(2);

/// Durations of the cloud and of the nodes. All are in milliseconds.
#[derive(Debug, Clone, Args)]
#[group(id = "cloud-times")]
pub(crate) struct Arguments {
    /// Duration of each call, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(super) latency: u64,
    /// Time until a server is ACTIVE, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(super) boot: u64,
    /// Time until a deleted server is gone, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(super) delete_time: u64,
    /// Time from the start of a server until its Node is Ready, in milliseconds
    #[arg(long, default_value_t = 0)]
    pub(super) node: u64,
}

/// Request of the measurement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    /// Returns the calls since the last request of this kind, and forgets them.
    TakeCalls,
    /// Returns the number of resources of the project.
    Resources,
    /// Lets the workload API at an endpoint accept calls and never answer them.
    Silence(SocketAddr),
}

/// Cloud with its nodes.
struct Cloud {
    simulator: Simulator,
    nodes: HollowClusters,
}

impl Cloud {
    async fn start(arguments: &Arguments, latency: Duration) -> anyhow::Result<Self> {
        let [boot, delete, node] =
            [arguments.boot, arguments.delete_time, arguments.node].map(Duration::from_millis);
        let options = SimulatorOptions {
            latency,
            build_time: boot,
            delete_time: delete,
            external_cidr: loopback_range(),
            ..SimulatorOptions::default()
        };
        let simulator =
            Simulator::start(options).await.context("the simulated OpenStack cannot be started")?;
        for resource in QUOTAS {
            ensure!(simulator.set_quota(PROJECT, resource, -1), "there is no project {PROJECT}");
        }
        ensure!(simulator.set_quota(REFUSED, "instances", 0), "there is no project {REFUSED}");
        let options = HollowOptions {
            boot_delay: Duration::ZERO,
            ready_delay: node,
            promotion_delay: Duration::ZERO,
            ..HollowOptions::default()
        };
        let nodes = HollowClusters::start(simulator.hypervisor(), options);
        Ok(Self { simulator, nodes })
    }

    fn answer(&self, request: &Request) -> Value {
        match request {
            Request::TakeCalls => {
                let calls = self.simulator.log();
                self.simulator.clear_log();
                counted(&calls)
            }
            Request::Resources => resources(&self.simulator),
            Request::Silence(endpoint) => {
                let (endpoint, effect) = (Some(*endpoint), WorkloadEffect::Hang);
                self.nodes.inject(WorkloadFault { endpoint, call: None, effect, count: None });
                Value::Null
            }
        }
    }
}

/// Runs the cloud, and a slow one beside it, until standard input ends.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    super::install_crypto();
    let cloud = Cloud::start(arguments, Duration::from_millis(arguments.latency)).await?;
    let slow = Cloud::start(arguments, SLOW).await?;
    let mut lines = requests();
    let credentials = json!({
        "normal": cloud.simulator.clouds_yaml(PROJECT),
        "refused": cloud.simulator.clouds_yaml(REFUSED),
        "slow": slow.simulator.clouds_yaml(PROJECT),
    });
    print(&credentials)?;
    while let Some(line) = lines.recv().await {
        let request: Request = serde_json::from_str(&line).context(line)?;
        print(&cloud.answer(&request))?;
    }
    for Cloud { simulator, nodes } in [cloud, slow] {
        nodes.shutdown().await;
        simulator.shutdown().await?;
    }
    Ok(Value::Null)
}

/// Reads the lines of standard input in a thread of its own, until it ends.
fn requests() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Prints a value as one line.
fn print(value: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{value}")?;
    Ok(out.flush()?)
}

/// Returns the number of all resources of the project.
fn resources(simulator: &Simulator) -> Value {
    let inventory = json!(simulator.inventory(PROJECT));
    let kinds = inventory.as_object().into_iter().flat_map(|kinds| kinds.values());
    json!(kinds.filter_map(|things| Some(things.as_array()?.len())).sum::<usize>())
}

/// Counts calls by their shape.
fn counted(calls: &[LoggedCall]) -> Value {
    let mut shapes: BTreeMap<String, u64> = BTreeMap::new();
    for call in calls {
        *shapes.entry(shape(call)).or_default() += 1;
    }
    json!({"count": calls.len(), "shapes": shapes})
}

/// Returns the method and path of a call, without ids, and the names of its parameters.
fn shape(call: &LoggedCall) -> String {
    let is_id = |text: &str| text.len() >= 32 && text.chars().all(|it| it == '-' || it.is_ascii_hexdigit());
    // A tag ends with the id of an object.
    let prefix = |part: &str| {
        let mut prefixes = ["capstan-cluster-", "capstan-"].into_iter();
        prefixes.find(|prefix| part.strip_prefix(*prefix).is_some_and(is_id))
    };
    let part = |part: &str| match prefix(part) {
        _ if is_id(part) => "ID".to_owned(),
        Some(prefix) => format!("{prefix}ID"),
        None => part.to_owned(),
    };
    let path: Vec<String> = call.path.split('/').map(part).collect();
    let mut names: Vec<&str> = call.query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.dedup();
    let query = if names.is_empty() { String::new() } else { format!("?{}", names.join("&")) };
    format!("{} {}{query}", call.method, path.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(path: &str, query: &str) -> LoggedCall {
        LoggedCall {
            time: "2026-01-01T00:00:00Z".parse().unwrap(),
            project: None,
            method: "PUT".to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            action: None,
            status: 200,
            request_id: String::new(),
        }
    }

    #[test]
    fn calls_that_differ_in_ids_and_values_have_one_shape() {
        let id = "1625b217-c93c-466e-8d8d-4e4b87459b68";
        for (tag, shown) in
            [("capstan-", "capstan-ID"), ("capstan-cluster-", "capstan-cluster-ID"), ("", "ID")]
        {
            let call = call(&format!("/network/v2.0/ports/{id}/tags/{tag}{id}"), "name=a&limit=1&name=b");
            assert_eq!(shape(&call), format!("PUT /network/v2.0/ports/ID/tags/{shown}?limit&name"));
        }
        assert_eq!(shape(&call("/tags/capstan-x", "")), "PUT /tags/capstan-x");
    }
}
