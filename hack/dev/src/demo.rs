//! Demo: reboots one machine and upgrades another through the API, and checks both results.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use apiserver_types::{Machine, MachineOperation, OperationPhase};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

use crate::tree::NAMESPACE;

/// Longest time for an operation: the simulated cloud needs seconds.
const OPERATION_TIMEOUT: Duration = Duration::from_mins(2);

/// Interval between two reads of an operation.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Reboots one machine, upgrades another, and checks both against the cloud's own log.
pub(crate) async fn run(client: &Client, cloud: &Simulator) -> anyhow::Result<()> {
    reboot(client, cloud).await.context("reboot of worker-0")?;
    upgrade(client, cloud).await.context("upgrade of worker-1")
}

async fn reboot(client: &Client, cloud: &Simulator) -> anyhow::Result<()> {
    let machine = "worker-0";
    let before = server_of(client, machine).await?;
    let count = calls(cloud, &before, "reboot");
    let started = Instant::now();
    let operation = post(client, machine, "reboot", &json!({"type": "Hard"})).await?;
    let operation = finished(client, &operation).await?;
    let made = calls(cloud, &before, "reboot").saturating_sub(count);
    ensure!(made == 1, "Nova received {made} reboots of server {before} instead of one");
    ensure!(server_of(client, machine).await? == before, "Machine {machine} has another server now");
    let name = operation.name_any();
    let seconds = started.elapsed().as_secs_f32();
    writeln!(
        std::io::stdout(),
        "reboot   Machine {machine}: {name} is Complete after {seconds:.1} s; Nova rebooted server {before} once"
    )?;
    Ok(())
}

async fn upgrade(client: &Client, cloud: &Simulator) -> anyhow::Result<()> {
    let machine = "worker-1";
    let api: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let from = api.get(machine).await?.spec.version.context("Machine worker-1 has no version")?;
    let to = next_minor(&from).with_context(|| format!("version {from:?} has no minor"))?;
    let before = server_of(client, machine).await?;
    let count = calls(cloud, &before, "rebuild");
    let started = Instant::now();
    let operation = post(client, machine, "upgrade", &json!({"version": to})).await?;
    let operation = finished(client, &operation).await?;
    let made = calls(cloud, &before, "rebuild").saturating_sub(count);
    ensure!(made == 1, "Nova received {made} rebuilds of server {before} instead of one");
    let after = api.get(machine).await?;
    let version = after.spec.version.unwrap_or_default();
    ensure!(version == to, "Machine {machine} has version {version} instead of {to}");
    ensure!(server_of(client, machine).await? == before, "Machine {machine} has another server now");
    let name = operation.name_any();
    let seconds = started.elapsed().as_secs_f32();
    writeln!(
        std::io::stdout(),
        "upgrade  Machine {machine}: {name} is Complete after {seconds:.1} s; {from} to {to}, server {before} was rebuilt in place"
    )?;
    Ok(())
}

/// Calls an action, and returns the operation that it creates.
async fn post(
    client: &Client,
    machine: &str,
    action: &str,
    body: &Value,
) -> anyhow::Result<MachineOperation> {
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/machines/{machine}/{action}");
    let request = http::Request::post(path).header("content-type", "application/json");
    Ok(client.request(request.body(serde_json::to_vec(body)?)?).await?)
}

/// Waits until an operation has finished, and fails unless it is Complete.
async fn finished(client: &Client, operation: &MachineOperation) -> anyhow::Result<MachineOperation> {
    let api: Api<MachineOperation> = Api::namespaced(client.clone(), NAMESPACE);
    let name = operation.name_any();
    let end = Instant::now() + OPERATION_TIMEOUT;
    loop {
        let operation = api.get(&name).await?;
        let status = operation.status.clone().unwrap_or_default();
        let message = || {
            let conditions = status.conditions.iter().flatten();
            conditions.map(|it| format!("{}: {}", it.kind, it.message)).collect::<Vec<_>>().join("; ")
        };
        match status.phase {
            Some(OperationPhase::Complete) => return Ok(operation),
            Some(OperationPhase::Failed | OperationPhase::Cancelled) => bail!("{name}: {}", message()),
            _ if Instant::now() > end => {
                bail!("{name} has not finished after {} s: {}", OPERATION_TIMEOUT.as_secs(), message())
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Returns the id of a Machine's Nova server.
async fn server_of(client: &Client, machine: &str) -> anyhow::Result<String> {
    let api: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
    let provider_id = api.get(machine).await?.spec.provider_id;
    let id = provider_id.as_deref().and_then(|id| id.rsplit('/').next()).map(str::to_owned);
    id.with_context(|| format!("Machine {machine} has no providerID"))
}

/// Counts the successful calls of an action on a Nova server, according to the cloud's own log.
fn calls(cloud: &Simulator, server: &str, action: &str) -> usize {
    let log = cloud.log();
    let calls = log.iter().filter(|call| {
        call.action.as_deref() == Some(action) && call.path.contains(server) && call.status < 300
    });
    calls.count()
}

/// Returns the next minor version: `v1.29.0` gives `v1.30.0`.
fn next_minor(version: &str) -> Option<String> {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next()?, parts.next()?.parse::<u32>().ok()?);
    Some(format!("v{major}.{}.0", minor.checked_add(1)?))
}
