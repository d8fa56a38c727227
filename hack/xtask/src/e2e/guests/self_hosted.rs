//! Scenario of a self-hosted cluster: the host cluster of the Capstan that manages it. The process of that Capstan runs
//! outside.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE, is_true, items, names};
use super::join;
use super::nodes::ready;
use super::probe::Probe;
use super::topology::{HOST, MACHINES, NAME, WORKERS, are_running, kubeconfig, moves, servers};
use super::upgrade::LONGEST_GAP;
use crate::e2e::lab::{Lab, ports, until};
use crate::e2e::openstack::text;
use crate::e2e::process::Process;
use crate::run;

/// Administrator of the workload cluster. Its API server serves Capstan's kinds, too.
const THROUGH: &str = "self-hosted";

/// Administrator of the direct endpoint of the second Capstan.
const DIRECT: &str = "self-hosted-direct";

/// Service account of the second Capstan in the workload cluster. Its kubeconfig has the same name.
const ACCOUNT: &str = "capstan-outside";

/// Namespace of the service account, which the manifests contain.
const SYSTEM: &str = "capstan-system";

/// Time limit of a request. The API server of the workload cluster ends and comes back.
const PATIENCE: &str = "--request-timeout=10s";

/// Settings of the second Capstan. It listens on an address that the nodes reach, so loopback is not allowed by default, and
/// this OpenStack is there.
const SETTINGS: &str =
    "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ncloud: {allowedEndpoints: [127.0.0.0/8]}\n";

/// Has clusterctl move the Cluster to a Capstan whose host is the workload cluster. There, the control plane is replaced, which
/// is an outage of the host. Then the Cluster is moved back, and nothing of Capstan may be left in the workload cluster.
pub(super) fn itself(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let capstan = SelfHosted::start(cluster)?;
    let result = managed(cluster).with_context(|| state(cluster.lab));
    if result.is_err() {
        // The deletion after a failure needs the Cluster where it was.
        let _ = moves(cluster.lab, THROUGH, HOST);
    }
    result?;
    capstan.remove(cluster)
}

/// Moves the Cluster to the second Capstan and back, and changes it there.
fn managed(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let (lab, before, known) = (cluster.lab, servers(cluster)?, names(&cluster.machines()?));
    moves(lab, HOST, THROUGH)?;
    ensure!(cluster.machines()?.is_empty(), "the first Capstan still has Machines");
    until_running(cluster, MACHINES)?;
    let now = names(&machines(lab, THROUGH)?);
    ensure!(now == known, "the Machines {known:?} became {now:?}");
    ensure!(servers(cluster)? == before, "servers changed: {before} became {}", servers(cluster)?);
    patch(lab, &json!([{"op": "replace", "path": WORKERS, "value": 2}]))?;
    until_running(cluster, MACHINES + 1)?;
    replace_control_plane(cluster)?;
    moves(lab, THROUGH, HOST)?;
    ensure!(machines(lab, THROUGH)?.is_empty(), "the second Capstan still has Machines");
    ready(cluster, MACHINES)
}

/// Replaces the control plane by a date, while the number of workers goes back to one. The direct endpoint must answer
/// throughout, and the workload cluster must be a host that is up afterwards.
fn replace_control_plane(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let lab = cluster.lab;
    let probe = Probe::start(cluster)?;
    let before = machines(lab, DIRECT)?;
    let old = before.iter().find(|it| is_control_plane(it)).context("no Machine of the control plane")?;
    let old = text(old, "/metadata/name").to_owned();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    patch(
        lab,
        &json!([{"op": "add", "path": "/spec/topology/controlPlane/rollout", "value": {"after": now}},
            {"op": "replace", "path": WORKERS, "value": 1}]),
    )?;
    let mut refused = None;
    cluster.until(&format!("another Machine has replaced {old}"), || match machines(lab, DIRECT) {
        Ok(found) => Ok(are_running(&found, MACHINES) && !names(&found).contains(&old)),
        Err(error) => {
            refused = Some(error);
            Ok(false)
        }
    })?;
    if let Some(error) = refused {
        return Err(error).context("the direct endpoint has not always answered");
    }
    cluster.until("the control plane has rolled out, through the workload cluster", || {
        let name = format!("{NAME}-control-plane");
        let found = get(lab, THROUGH, &["kubeadmcontrolplane", &name])?;
        let seen = found.pointer("/metadata/generation") == found.pointer("/status/observedGeneration");
        Ok(seen && is_true(&found, "MachinesUpToDate") && !is_true(&found, "RollingOut"))
    })?;
    let seen = probe.end()?;
    eprintln!("  {} answers, longest gap {:.1} s", seen.answered, seen.longest_gap.as_secs_f64());
    ensure!(seen.longest_gap <= LONGEST_GAP, "the API server did not answer for {:?}", seen.longest_gap);
    cluster.until("the workload cluster is a host that is up", || {
        let metrics = lab.kubectl(DIRECT, &[PATIENCE, "get", "--raw", "/metrics"])?;
        Ok(metrics.lines().any(|line| line == "capstan_host_state{state=\"up\"} 1"))
    })?;
    until_running(cluster, MACHINES)
}

fn is_control_plane(machine: &Value) -> bool {
    machine.pointer("/metadata/labels/cluster.x-k8s.io~1control-plane").is_some()
}

/// Waits until the workload cluster lists this number of Machines, and all of them run.
fn until_running(cluster: &Cluster<'_>, count: usize) -> anyhow::Result<()> {
    cluster.until(&format!("{count} Machines are Running, through the workload cluster"), || {
        Ok(are_running(&machines(cluster.lab, THROUGH)?, count))
    })
}

fn machines(lab: &Lab, user: &str) -> anyhow::Result<Vec<Value>> {
    items(get(lab, user, &["machines"])?)
}

/// Returns a JSON document of the second Capstan.
fn get(lab: &Lab, user: &str, objects: &[&str]) -> anyhow::Result<Value> {
    let arguments = [&["-n", NAMESPACE, PATIENCE, "get"][..], objects, &["-o", "json"]].concat();
    Ok(serde_json::from_str(&lab.kubectl(user, &arguments)?)?)
}

/// Changes the Cluster through the workload cluster.
fn patch(lab: &Lab, patch: &Value) -> anyhow::Result<()> {
    let patch = patch.to_string();
    lab.kubectl(THROUGH, &["-n", NAMESPACE, "patch", "cluster", NAME, "--type=json", "-p", &patch]).map(drop)
}

/// Describes the state of the second Capstan for the message of a failure.
fn state(lab: &Lab) -> String {
    let kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machines,openstackmachines";
    let parts = [
        lab.kubectl(DIRECT, &["-n", NAMESPACE, "get", kinds]),
        lab.kubectl(DIRECT, &["describe", "hoststatus", "host"]),
        lab.kubectl(THROUGH, &[PATIENCE, "get", "apiservices,namespaces"]),
    ];
    let parts = parts.map(|part| part.unwrap_or_else(|error| format!("{error:#}")));
    format!("the second Capstan:\n{}", parts.join("\n"))
}

/// Second Capstan, with the embedded store, whose host is the workload cluster. Stops when dropped.
struct SelfHosted {
    process: Process,
    /// File with the manifests that the workload cluster has.
    manifests: String,
}

impl SelfHosted {
    fn start(cluster: &Cluster<'_>) -> anyhow::Result<Self> {
        let (lab, address) = (cluster.lab, join::address()?);
        let [port] = ports()?;
        std::fs::copy(cluster.kubeconfig()?, kubeconfig(lab, THROUGH)).context("kubeconfig")?;
        // Capstan may write Secrets only in namespaces that exist.
        lab.kubectl(THROUGH, &["create", "namespace", NAMESPACE])?;
        let data = lab.directory("self-hosted");
        let manifests = register(lab, &data, &address, port)?;
        write_host_kubeconfig(lab)?;
        let process = serve(lab, &data, &format!("{address}:{port}"))?;
        lab.host_wait(THROUGH)?;
        Ok(Self { process, manifests })
    }

    /// Removes Capstan from the workload cluster, as docs/installation.md says. No APIService of another server may be left.
    fn remove(self, cluster: &Cluster<'_>) -> anyhow::Result<()> {
        let Self { process, manifests } = self;
        let lab = cluster.lab;
        lab.kubectl(THROUGH, &["delete", "-f", &manifests, "--ignore-not-found", "--wait=false"])?;
        cluster.until("the workload cluster has no object of the manifests", || {
            let get = [PATIENCE, "get", "-f", &manifests, "--ignore-not-found", "-o", "name"];
            Ok(lab.kubectl(THROUGH, &get)?.trim().is_empty())
        })?;
        let services = ["get", "apiservices", "-o", "jsonpath={.items[*].spec.service.name}"];
        let left = lab.kubectl(THROUGH, &services)?;
        ensure!(left.trim().is_empty(), "APIServices lead to the Services {left}");
        drop(process);
        lab.kubectl(THROUGH, &["delete", "namespace", NAMESPACE, "--timeout=120s"]).map(drop)
    }
}

/// Applies the manifests to the workload cluster. Returns their file. The command makes the CA of the second Capstan.
fn register(lab: &Lab, data: &Path, address: &str, port: u16) -> anyhow::Result<String> {
    let user = format!("system:serviceaccount:{SYSTEM}:{ACCOUNT}");
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["host", "manifests", "--external-name", address, "--port", &port.to_string()]);
    command.args(["--user", &user, "--write-secrets", NAMESPACE]);
    command.args(["--kubeconfig", &kubeconfig(lab, THROUGH), "--data-dir"]).arg(data);
    let manifests = lab.file("self-hosted.yaml", &run::output(&mut command)?)?;
    lab.kubectl(THROUGH, &["apply", "-f", &manifests])?;
    Ok(manifests)
}

/// Creates the service account, and writes its kubeconfig: that of the administrator with another user.
fn write_host_kubeconfig(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl(THROUGH, &["-n", SYSTEM, "create", "serviceaccount", ACCOUNT])?;
    let token = lab.kubectl(THROUGH, &["-n", SYSTEM, "create", "token", ACCOUNT, "--duration=2h"])?;
    let shown = lab.kubectl(THROUGH, &["config", "view", "--raw", "--minify", "-o", "json"])?;
    let mut document: Value = serde_json::from_str(&shown)?;
    let user = json!([{"name": ACCOUNT, "user": {"token": token.trim()}}]);
    for (path, value) in [("/users", user), ("/contexts/0/context/user", json!(ACCOUNT))] {
        *document.pointer_mut(path).with_context(|| format!("the kubeconfig has no {path}"))? = value;
    }
    let file = kubeconfig(lab, ACCOUNT);
    std::fs::write(&file, serde_json::to_string_pretty(&document)?).context(file)
}

/// Starts the process, and writes the kubeconfig of its direct endpoint.
fn serve(lab: &Lab, data: &Path, listen: &str) -> anyhow::Result<Process> {
    let settings = lab.file("self-hosted-settings.yaml", SETTINGS)?;
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["serve", "--listen", listen, "--config", &settings]);
    command.args(["--host-kubeconfig", &kubeconfig(lab, ACCOUNT), "--data-dir"]).arg(data);
    let mut process = Process::start("self-hosted", &mut command, &lab.directory("log/self-hosted.log"))?;
    until("the second Capstan accepts connections", || {
        process.check()?;
        Ok(TcpStream::connect(listen).is_ok())
    })?;
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["kubeconfig", "--server", &format!("https://{listen}"), "--data-dir"]).arg(data);
    std::fs::write(kubeconfig(lab, DIRECT), run::output(&mut command)?)?;
    Ok(process)
}
