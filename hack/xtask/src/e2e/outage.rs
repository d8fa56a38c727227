//! The host dies and returns under load, while the leader of three replicas is killed and another one is frozen.
//!
//! The program `outage` of `tests/outage` has the cluster, the load and the verdict. This part runs the processes.

mod load;
mod replicas;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use self::load::Load;
use self::replicas::Replicas;
use super::balancer::Balancer;
use super::lab::{Lab, Tools, ports, until};
use super::workflows;
use crate::run;

/// Number of scenarios.
pub(super) const COUNT: usize = 1;

const SENTENCE: &str =
    "the host dies under load and returns, three replicas hand over, and a rollout goes on";

/// Pause between two events. Each has an effect of its own before the next one.
const PAUSE: Duration = Duration::from_secs(10);

/// Time for which a leader is frozen. It is longer than all terms and time limits of calls to the host.
const FROZEN: Duration = Duration::from_secs(30);

/// Time for which the load goes on after the host has returned. The verdict is strict after
/// forty seconds.
const AFTER: Duration = Duration::from_secs(50);

/// Longest time from the readiness of the host's kube-apiserver until it serves all of Capstan's APIs. It probes each
/// APIService every 30 s.
const AVAILABLE: Duration = Duration::from_secs(45);

/// Largest growth of a replica that has lived through the outage. Unit: MiB.
const GROWTH: u64 = 64;

/// Number of looks at the memory. What a replica frees soon does not count: other parts run on the same machine, and what waits
/// for a processor takes room.
const LOOKS: usize = 3;

/// Environment variable with a longer duration of the outage, in seconds.
const DURATION: &str = "CAPSTAN_OUTAGE_SECONDS";

/// Runs the scenario in a lab of its own.
pub(super) fn run(tools: Tools) -> anyhow::Result<()> {
    let lab = Lab::host(tools)?;
    super::one(&lab, SENTENCE, || scenario(&lab))
}

fn scenario(lab: &Lab) -> anyhow::Result<()> {
    let [cloud, etcd, peer, one, two, three] = ports()?;
    run::output(
        std::process::Command::new(&lab.tools.capstan).args(["keys", "create", "--output"]).arg(lab.data()),
    )?;
    lab.register()?;
    for (user, group) in [("direct", "system:masters"), ("carol", "carols"), ("dave", "daves")] {
        workflows::mint(lab, user, group)?;
    }
    let mut load = Load::start(lab, cloud)?;
    let mut replicas = Replicas::start(lab, [etcd, peer], cloud, [one, two, three])?;
    let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let _balancer = Balancer::start(address(lab.capstan_port), &[one, two, three].map(address))?;
    lab.host_wait("admin")?;
    load::identities(lab, cloud)?;
    create_cluster(lab, "gone")?;
    until("the Secret of a Cluster is in the host", || {
        Ok(lab.try_kubectl("admin", &["get", "secret", "gone-kubeconfig", "-n", "team"])?.0)
    })?;
    load.ask("clients", "clients")?;

    load.roll()?;
    load.wait_for_rollout()?;
    std::thread::sleep(PAUSE);
    load.roll()?;
    let (begun, memory) = (Instant::now(), replicas.memory()?);
    host_dies(lab, &mut load)?;
    replicas_end(lab, &mut load, &mut replicas)?;
    load.wait_for_rollout()?;
    load.roll()?;
    leader_freezes(lab, &mut load, &mut replicas)?;
    load.wait_for_rollout()?;
    let wanted = std::env::var(DURATION).ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    std::thread::sleep(wanted.unwrap_or_default().saturating_sub(begun.elapsed()));
    compare_memory(&memory, &replicas)?;
    host_returns(lab, &mut load)?;
    std::thread::sleep(AFTER);
    let report = load.end()?;
    eprint!("{report}");
    Ok(())
}

/// Compares the memory of the replica that has lived through the outage, frozen for a while, with the largest one before: it may
/// have become the leader, which has more than the others.
fn compare_memory(before: &[(u32, u64)], replicas: &Replicas) -> anyhow::Result<()> {
    let most = before.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
    for look in 1..=LOOKS {
        let after = replicas.memory()?;
        let lived = after.iter().filter(|(id, _)| before.iter().any(|(other, _)| other == id));
        let bytes = lived.map(|(_, bytes)| *bytes).max();
        let bytes = bytes.context("no replica has lived through the outage")?;
        let grown = bytes.saturating_sub(most) >> 20;
        eprintln!("        a replica has {} MiB, {grown} MiB more than before the outage", bytes >> 20);
        if grown <= GROWTH {
            return Ok(());
        }
        if look < LOOKS {
            std::thread::sleep(PAUSE);
        }
    }
    bail!("a replica has grown by more than {GROWTH} MiB while the host was down")
}

fn host_dies(lab: &Lab, load: &mut Load) -> anyhow::Result<()> {
    std::thread::sleep(PAUSE / 2);
    lab.kill_host()?;
    load.mark("host killed")?;
    lab.kill_etcd()?;
    std::thread::sleep(PAUSE);
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "outage", "namespace": "team"},
        "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
            "name": "carol", "namespace": "team"},
        "reason": "Outage", "message": "written while the host was down", "type": "Normal", "count": 1});
    let file = lab.file("outage.json", &event.to_string())?;
    lab.kubectl("direct", &["create", "-f", &file])?;
    create_cluster(lab, "late")?;
    // The leader, which is killed soon, and its successor know of the copy by its record alone.
    lab.kubectl("direct", &["delete", "cluster/gone", "secret/gone-kubeconfig", "-n", "team"]).map(drop)
}

/// Creates a Cluster without machines, and its kubeconfig.
fn create_cluster(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let label = json!({"cluster.x-k8s.io/cluster-name": name});
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "team"}, "spec": {"paused": true}},
        {"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {"name": format!("{name}-kubeconfig"), "namespace": "team", "labels": label},
            "stringData": {"value": "made on the direct endpoint"}}]});
    let file = lab.file(&format!("{name}.json"), &objects.to_string())?;
    lab.kubectl("direct", &["create", "-f", &file]).map(drop)
}

/// The leader is killed, and another replica restarts in order.
fn replicas_end(lab: &Lab, load: &mut Load, replicas: &mut Replicas) -> anyhow::Result<()> {
    let leader = replicas.leader(lab)?;
    replicas.kill(leader)?;
    load.mark("leader killed")?;
    std::thread::sleep(PAUSE);
    replicas.begin(lab, leader)?;
    load.mark("replica started")?;
    std::thread::sleep(PAUSE);
    let next = replicas.leader(lab)?;
    let other = (0..replicas::COUNT).find(|index| ![leader, next].contains(index));
    let other = other.context("no replica is left to restart")?;
    load.mark("replica stopped")?;
    replicas.stop(other);
    replicas.begin(lab, other)?;
    load.mark("replica started")
}

fn leader_freezes(lab: &Lab, load: &mut Load, replicas: &mut Replicas) -> anyhow::Result<()> {
    std::thread::sleep(PAUSE / 2);
    let next = replicas.leader(lab)?;
    replicas.signal(next, "STOP")?;
    load.mark("leader frozen")?;
    std::thread::sleep(FROZEN);
    replicas.signal(next, "CONT")?;
    load.mark("frozen leader continues")
}

/// The host returns with another front proxy CA, as if it had been rotated during the outage.
fn host_returns(lab: &Lab, load: &mut Load) -> anyhow::Result<()> {
    lab.certificates.replace_front_proxy()?;
    load.mark("host started")?;
    lab.restart_etcd()?;
    lab.start_host()?;
    load.mark("host returned")?;
    let ready = Instant::now();
    lab.host_wait("admin")?;
    let taken = ready.elapsed();
    load.mark("the host serves all APIs of Capstan")?;
    ensure!(taken < AVAILABLE, "the host serves all APIs of Capstan after {taken:?}");
    until("the Event of the outage is in the host", || {
        let (found, count, _) =
            lab.try_kubectl("admin", &["get", "event", "outage", "-n", "team", "-o", "jsonpath={.count}"])?;
        Ok(found && count == "1")
    })?;
    load.mark("the Event of the outage is in the host")?;
    for (namespace, secret) in [("team", "late-kubeconfig"), ("quickstart", "quickstart-kubeconfig")] {
        until("the Secrets of clusters are in the host", || {
            Ok(lab.try_kubectl("admin", &["get", "secret", secret, "-n", namespace])?.0)
        })?;
    }
    load.mark("the Secrets of clusters are in the host")?;
    until("the Secret of the deleted Cluster is gone from the host", || {
        let get = ["get", "secret", "gone-kubeconfig", "-n", "team", "--ignore-not-found", "-o", "name"];
        let (found, name, _) = lab.try_kubectl("admin", &get)?;
        Ok(found && name.is_empty())
    })?;
    load.mark("the Secret of the deleted Cluster is gone from the host")
}
