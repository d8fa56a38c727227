//! Tree view of the cluster while it is created.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_types::{Cluster, Machine, MachinePhase, OpenStackCluster, OpenStackMachine};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::server::CapstanProcess;

/// The namespace of the example.
pub(crate) const NAMESPACE: &str = "quickstart";

/// Interval between two reads: short enough to look live.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time until the cluster is ready: a slow machine needs a tenth of it.
const READY_TIMEOUT: Duration = Duration::from_mins(3);

/// One line of the tree.
struct TreeLine {
    text: String,
    done: bool,
}

/// Shows the tree until the cluster is ready. With `live`, the tree is redrawn in place; otherwise each
/// changed line is printed.
pub(crate) async fn follow(client: &Client, server: &mut CapstanProcess, live: bool) -> anyhow::Result<()> {
    let end = Instant::now() + READY_TIMEOUT;
    let mut shown: Vec<String> = Vec::new();
    loop {
        server.check()?;
        let lines = read(client).await?;
        let texts: Vec<String> = lines.iter().map(|line| line.text.clone()).collect();
        draw(&shown, &texts, live)?;
        shown = texts;
        if !lines.is_empty() && lines.iter().all(|line| line.done) {
            return Ok(());
        }
        if Instant::now() > end {
            let waiting = lines.iter().filter(|line| !line.done).map(|line| line.text.as_str());
            bail!(
                "the cluster is not ready after {} s; not ready are:\n{}",
                READY_TIMEOUT.as_secs(),
                waiting.collect::<Vec<_>>().join("\n")
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn draw(shown: &[String], lines: &[String], live: bool) -> anyhow::Result<()> {
    if shown == lines {
        return Ok(());
    }
    let mut out = std::io::stderr().lock();
    if live {
        if !shown.is_empty() {
            // Moves up to the first line of the tree, and clears everything below.
            write!(out, "\x1b[{}A\x1b[J", shown.len())?;
        }
        for line in lines {
            writeln!(out, "{line}")?;
        }
    } else {
        for line in lines.iter().filter(|line| !shown.contains(line)) {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()?;
    Ok(())
}

async fn read(client: &Client) -> anyhow::Result<Vec<TreeLine>> {
    let all = ListParams::default();
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), NAMESPACE);
    let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let networks: Api<OpenStackCluster> = Api::namespaced(client.clone(), NAMESPACE);
    let servers: Api<OpenStackMachine> = Api::namespaced(client.clone(), NAMESPACE);
    let mut lines: Vec<TreeLine> = clusters.list(&all).await?.iter().map(cluster).collect();
    lines.extend(networks.list(&all).await?.iter().map(network));
    let machines = machines.list(&all).await?.items;
    let servers = servers.list(&all).await?.items;
    let last = machines.len();
    for (index, machine) in machines.iter().enumerate() {
        let (branch, trunk) = if index + 1 == last { ("└─", "  ") } else { ("├─", "│ ") };
        lines.push(machine_line(branch, machine));
        let server = servers.iter().find(|it| it.name_any() == machine.spec.infrastructure_ref.name);
        lines.extend(server.map(|server| server_line(trunk, server)));
    }
    Ok(lines)
}

fn row(done: bool, prefix: &str, kind: &str, name: &str, state: &str, more: &str) -> TreeLine {
    let sign = if done { "●" } else { "○" };
    let name = format!("{prefix}{sign} {kind} {name}");
    TreeLine { text: format!("{name:<44} {state:<13} {more}").trim_end().to_owned(), done }
}

fn cluster(cluster: &Cluster) -> TreeLine {
    let phase = cluster.status.as_ref().and_then(|status| status.phase);
    let phase = phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    let endpoint = cluster.spec.control_plane_endpoint.clone().unwrap_or_default();
    let endpoint = match (endpoint.host, endpoint.port) {
        (Some(host), Some(port)) => format!("https://{host}:{port}"),
        _ => String::new(),
    };
    row(phase == "Provisioned", "", "Cluster", &cluster.name_any(), &phase, &endpoint)
}

fn network(network: &OpenStackCluster) -> TreeLine {
    let ready = network.condition("Ready");
    let status = network.status.as_ref().and_then(|status| status.network.as_ref());
    let subnet = status.and_then(|it| it.subnets.as_ref()).and_then(|subnets| subnets.first());
    let (done, more) = match ready {
        Some(ready) if ready.holds() => {
            (true, subnet.map(|subnet| format!("network {}", subnet.cidr)).unwrap_or_default())
        }
        Some(ready) => (false, ready.message.clone()),
        None => (false, String::new()),
    };
    row(done, "├─ ", "OpenStackCluster", &network.name_any(), if done { "Ready" } else { "Creating" }, &more)
}

fn machine_line(branch: &str, machine: &Machine) -> TreeLine {
    let phase = machine.status.as_ref().and_then(|status| status.phase);
    let done = matches!(phase, Some(MachinePhase::Provisioned | MachinePhase::Running));
    let phase = phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    let version = machine.spec.version.as_deref().unwrap_or_default();
    row(done, &format!("{branch} "), "Machine", &machine.name_any(), &phase, version)
}

fn server_line(trunk: &str, server: &OpenStackMachine) -> TreeLine {
    let status = server.status.clone().unwrap_or_default();
    let ready = server.condition("Ready");
    let done = ready.is_some_and(apiserver_types::Condition::holds);
    let addresses = status.addresses.unwrap_or_default();
    let address = addresses.iter().filter(|it| it.kind.ends_with("IP")).map(|it| it.address.as_str());
    let more = match ready {
        Some(ready) if !done => ready.message.clone(),
        _ => address.collect::<Vec<_>>().join(", "),
    };
    let id: String = status.instance_id.unwrap_or_default().chars().take(8).collect();
    let state = status.instance_state.unwrap_or_default();
    row(done, &format!("{trunk} └─ "), "server", &id, &state, &more)
}
