//! The host dies and returns under load, while the leader of three replicas is killed and another one is frozen.
//!
//! The program `outage` of `tests/outage` has the clusters, the load and the verdict. This part runs the processes.
//! `CAPSTAN_OUTAGE_SECONDS=600` selects a long form with twenty clusters, in which the host returns after ten minutes.

mod clock;
mod extent;
mod load;
mod members;
mod owned;
mod replicas;
mod returned;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use self::extent::Extent;
use self::load::Load;
use self::members::Members;
use self::replicas::Replicas;
use self::returned::OutageEvent;
use super::balancer::Balancer;
use super::clients;
use super::lab::{Lab, Tools, ports, until};
use super::process::Process;
use crate::{prerequisites, run};

/// Number of scenarios.
pub(super) const COUNT: usize = 1;

const SENTENCE: &str =
    "the host dies under load and returns, three replicas hand over, and a rollout goes on";

/// Pause between two events. Each has an effect of its own before the next one.
const PAUSE: Duration = Duration::from_secs(10);

/// Time for which the load goes on after the host has returned. The verdict is strict after
/// forty seconds.
const AFTER: Duration = Duration::from_secs(50);

/// Time by which the clocks are set forward: between the bounds of the copies of the host for writes and for reads.
const FORWARD: Duration = Duration::from_hours(5);

/// Time for which the load goes on with these clocks. The verdict is strict after ten seconds.
const EXPIRED: Duration = Duration::from_secs(20);

/// Largest growth of a replica that has lived through the outage. Unit: MiB.
const GROWTH: u64 = 64;

/// Number of looks at the memory. What a replica frees soon does not count: other parts run on the same machine, and what waits
/// for a processor takes room.
const LOOKS: usize = 3;

/// Builds and downloads what only this part needs, which may take minutes.
pub(super) fn prepare() -> anyhow::Result<()> {
    prerequisites::kubernetes("kube-controller-manager")?;
    prerequisites::faketime().map(drop)
}

/// Runs the scenario in a lab of its own.
pub(super) fn run(tools: Tools) -> anyhow::Result<()> {
    prepare()?;
    let lab = Lab::host(tools)?;
    super::one(&lab, SENTENCE, || scenario(&lab))
}

fn scenario(lab: &Lab) -> anyhow::Result<()> {
    let extent = Extent::of_environment()?;
    let mut scene = Scene::start(lab, &extent)?;
    scene.load.roll()?;
    scene.load.wait_for_rollout()?;
    owned::wait(lab)?;
    std::thread::sleep(PAUSE);
    scene.load.roll()?;
    let (script, memory) = (Script(Instant::now()), scene.replicas.memory()?);
    let event = host_dies(&mut scene, &extent, &script)?;
    replicas_end(&mut scene, &extent, &script)?;
    scene.load.wait_for_rollout()?;
    scene.load.roll()?;
    leader_freezes(&mut scene, &extent, &script)?;
    scene.load.wait_for_rollout()?;
    copies_expire(&mut scene)?;
    script.wait_until(extent.host_returns);
    compare_memory(&memory, &scene.replicas)?;
    scene.replicas.wait_for_the_certificate(lab)?;
    host_returns(&mut scene, &extent, &event)?;
    std::thread::sleep(AFTER);
    owned::check(lab)?;
    scene.replicas.check()?;
    let report = scene.load.end()?;
    eprint!("{report}");
    Ok(())
}

/// Times since the begin of the rollout.
struct Script(Instant);

impl Script {
    fn wait_until(&self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.0.elapsed()));
    }
}

/// All processes beside those of the host. Those that use others end first.
struct Scene<'l> {
    lab: &'l Lab,
    _controllers: Process,
    _balancer: Balancer,
    replicas: Replicas,
    load: Load,
}

impl<'l> Scene<'l> {
    /// Starts all processes, and waits until the clients make their calls.
    fn start(lab: &'l Lab, extent: &Extent) -> anyhow::Result<Self> {
        let [cloud, one, two, three, stores @ ..] = ports::<10>()?;
        let [first, second, third, first_peer, second_peer, third_peer] = stores;
        let mut keys = std::process::Command::new(&lab.tools.capstan);
        run::output(keys.args(["keys", "create", "--output"]).arg(lab.data()))?;
        lab.register_with(&["--mirror"])?;
        load::certificates(lab)?;
        let load = Load::start(lab, cloud, extent)?;
        let store = Members::start(lab, [[first, first_peer], [second, second_peer], [third, third_peer]])?;
        let replicas = Replicas::start(lab, store, cloud, [one, two, three])?;
        let address = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let balancer = Balancer::start(address(lab.capstan_port), &[one, two, three].map(address))?;
        lab.host_wait("admin")?;
        let controllers = clients::start_host_controllers(lab)?;
        load::identities(lab, cloud, extent)?;
        let mut scene = Self { lab, _controllers: controllers, _balancer: balancer, replicas, load };
        create_cluster(lab, "gone")?;
        until("the Secret of a Cluster is in the host", || {
            Ok(lab.try_kubectl("admin", &["get", "secret", "gone-kubeconfig", "-n", "team"])?.0)
        })?;
        scene.load.ask("clients", "clients")?;
        owned::create(lab)?;
        scene.replicas.wait_for_the_mirror(lab)?;
        Ok(scene)
    }
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

/// The host dies. Later, an Event happens, a Cluster is created, and another one deleted.
fn host_dies(scene: &mut Scene<'_>, extent: &Extent, script: &Script) -> anyhow::Result<OutageEvent> {
    let lab = scene.lab;
    script.wait_until(extent.host_dies);
    // Before it is: a call that meets its end must not count as one beside a host that runs.
    scene.load.mark("host killed")?;
    lab.kill_host()?;
    script.wait_until(extent.etcd_dies);
    lab.kill_etcd()?;
    std::thread::sleep(PAUSE);
    let event = OutageEvent::happen(lab)?;
    create_cluster(lab, "late")?;
    // The leader, which is killed soon, and its successor know of the copy by its record alone.
    lab.kubectl("direct", &["delete", "cluster/gone", "secret/gone-kubeconfig", "-n", "team"])?;
    Ok(event)
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

/// The leader is killed, certificates change as if they were rotated, and another replica restarts in order.
fn replicas_end(scene: &mut Scene<'_>, extent: &Extent, script: &Script) -> anyhow::Result<()> {
    let Scene { lab, replicas, load, .. } = scene;
    script.wait_until(extent.leader_dies);
    let leader = replicas.leader(lab)?;
    replicas.kill(leader)?;
    load.mark("leader killed")?;
    std::thread::sleep(PAUSE);
    start_replica(lab, replicas, load, leader)?;
    script.wait_until(extent.files_change);
    lab.certificates.serving(&lab.data().join("pki"))?;
    // The host has another front proxy when it returns.
    lab.certificates.replace_front_proxy()?;
    load.mark("certificates changed")?;
    script.wait_until(extent.replica_restarts);
    let next = replicas.leader(lab)?;
    let other = (0..replicas::COUNT).find(|index| ![leader, next].contains(index));
    let other = other.context("no replica is left to restart")?;
    load.mark("replica stopped")?;
    replicas.stop(other);
    start_replica(lab, replicas, load, other)
}

/// Starts a replica. It may get requests before this program has noticed that it is ready.
fn start_replica(lab: &Lab, replicas: &mut Replicas, load: &mut Load, index: usize) -> anyhow::Result<()> {
    load.mark("replica starts")?;
    replicas.begin(lab, index)?;
    load.mark("replica started")
}

fn leader_freezes(scene: &mut Scene<'_>, extent: &Extent, script: &Script) -> anyhow::Result<()> {
    let Scene { lab, replicas, load, .. } = scene;
    std::thread::sleep(PAUSE / 2);
    script.wait_until(extent.leader_freezes);
    let next = replicas.leader(lab)?;
    replicas.signal(next, "STOP")?;
    load.mark("leader frozen")?;
    std::thread::sleep(extent.frozen);
    replicas.signal(next, "CONT")?;
    load.mark("frozen leader continues")
}

/// The copies of the host become too old for writes. No Machine is in work, whose time limits would pass, too.
fn copies_expire(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.load.mark("clocks set forward")?;
    scene.replicas.clock().set_forward(FORWARD)?;
    std::thread::sleep(EXPIRED);
    Ok(())
}

/// The host returns on the same data.
fn host_returns(scene: &mut Scene<'_>, extent: &Extent, event: &OutageEvent) -> anyhow::Result<()> {
    let Scene { lab, load, .. } = scene;
    load.mark("host started")?;
    lab.restart_etcd()?;
    lab.start_host()?;
    load.mark("host returned")?;
    let ready = Instant::now();
    lab.host_wait("admin")?;
    let (taken, available) = (ready.elapsed(), extent.available);
    load.mark("the host serves all APIs of Capstan")?;
    ensure!(
        taken < available,
        "the host serves all APIs of Capstan after {taken:?} instead of {available:?}"
    );
    returned::wait(lab, load, event)?;
    let (taken, copied) = (ready.elapsed(), extent.copied);
    ensure!(taken < copied, "the host has all copies after {taken:?} instead of {copied:?}");
    Ok(())
}
