//! Time until another server acts, after the leader or its etcd was lost in one of several ways (HV-01).
//!
//! `CAPSTAN_TAKEOVERS=50` repeats each way 50 times and prints the distribution.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::relay::Relay;
use crate::rolling_restart::share_secrets;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";

/// Longest time until a server acts, if the leader could not give up its Lease.
const LOST: Duration = Duration::from_secs(10);

/// Longest time after a leader has given up its Lease. The others watch it; the rest is for a busy machine.
const RELEASED: Duration = Duration::from_secs(2);

/// Servers on one etcd cluster, each with relays to its members.
struct Scene {
    etcd: Vec<Etcd>,
    relays: Vec<Vec<Relay>>,
    data: Vec<tempfile::TempDir>,
    servers: Vec<Capstan>,
}

impl Scene {
    async fn start() -> Self {
        let etcd = Etcd::members(3);
        let mut scene = Self { etcd, relays: Vec::new(), data: Vec::new(), servers: Vec::new() };
        for number in 0..2 {
            let mut relays = Vec::new();
            for member in &scene.etcd {
                relays.push(Relay::start(member.port()).await);
            }
            scene.relays.push(relays);
            scene.data.push(tempfile::tempdir().unwrap());
            if number > 0 {
                share_secrets(scene.data[0].path(), scene.data[number].path());
            }
            let server = scene.server(number, crate::etcd::free_port());
            server.ready().await;
            scene.servers.push(server);
        }
        scene
    }

    fn server(&self, number: usize, port: u16) -> Capstan {
        let endpoints: Vec<String> =
            self.relays[number].iter().map(|relay| format!("http://127.0.0.1:{}", relay.port)).collect();
        let flags = ["--etcd-endpoints", &endpoints.join(","), "--shutdown-delay", "0s"];
        Capstan::start_on(port, self.data[number].path(), &flags)
    }

    /// Returns the number of the leader, once there is one.
    async fn leader(&self) -> usize {
        let end = Instant::now() + PATIENCE;
        loop {
            for (number, server) in self.servers.iter().enumerate() {
                let metrics = server.client().get("/metrics").await;
                if metrics.is_ok_and(|metrics| metrics.text().contains("\ncapstan_leader 1\n")) {
                    return number;
                }
            }
            assert!(Instant::now() < end, "no leader");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts a server again on its port.
    async fn restart(&mut self, number: usize) {
        let port = self.servers[number].port;
        self.servers[number].ended().await;
        self.servers[number] = self.server(number, port);
        self.servers[number].ready().await;
    }
}

/// Returns holder and time of the last renewal of the Lease.
async fn lease(client: &Client) -> Option<(String, String)> {
    let answer = client.get(LEASE).await.ok().filter(|answer| answer.code == 200)?;
    let lease: Value = serde_json::from_slice(&answer.body).ok()?;
    let text = |path: &str| lease.pointer(path).and_then(Value::as_str).map(str::to_owned);
    Some((text("/spec/holderIdentity")?, text("/spec/renewTime")?))
}

/// Returns the time until the Lease differs in this way.
async fn until(client: &Client, begun: Instant, differs: impl Fn(&(String, String)) -> bool) -> Duration {
    loop {
        if lease(client).await.is_some_and(|lease| differs(&lease)) {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < PATIENCE, "no server holds the Lease");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Ends the leader by a signal. Returns the time until the other server has the Lease.
async fn ended(scene: &mut Scene, signal: &str) -> Duration {
    let leader = scene.leader().await;
    let client = scene.servers[1 - leader].client();
    let (before, _) = lease(&client).await.unwrap();
    let begun = Instant::now();
    scene.servers[leader].signal(signal);
    let taken = until(&client, begun, |(holder, _)| *holder != before && !holder.is_empty()).await;
    scene.restart(leader).await;
    taken
}

/// Cuts the leader off from etcd. Returns the time until the other server has the Lease.
async fn cut(scene: &mut Scene) -> Duration {
    let leader = scene.leader().await;
    let client = scene.servers[1 - leader].client();
    let (before, _) = lease(&client).await.unwrap();
    let begun = Instant::now();
    scene.relays[leader].iter().for_each(|relay| relay.set_cut(true));
    let taken = until(&client, begun, |(holder, _)| *holder != before && !holder.is_empty()).await;
    scene.relays[leader].iter().for_each(|relay| relay.set_cut(false));
    scene.servers[leader].ready().await;
    taken
}

/// Kills a member of etcd, in turn: each third one is the leader of etcd. Returns the time until the Lease was renewed.
async fn etcd_member(scene: &mut Scene, round: usize) -> Duration {
    let leader = scene.leader().await;
    let client = scene.servers[leader].client();
    let member = round % scene.etcd.len();
    let (_, before) = lease(&client).await.unwrap();
    let begun = Instant::now();
    scene.etcd[member].stop();
    let taken = until(&client, begun, |(_, renewed)| *renewed != before).await;
    scene.etcd[member].start();
    for server in &scene.servers {
        server.ready().await;
    }
    taken
}

fn summary(way: &str, mut taken: Vec<Duration>, longest: Duration) {
    taken.sort();
    let (median, last) = (taken[taken.len() / 2], taken[taken.len() - 1]);
    eprintln!("{way}: {} times, median {median:.1?}, longest {last:.1?}", taken.len());
    assert!(last < longest, "{way}: {taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_01_a_server_acts_soon_after_the_leader_or_its_etcd_was_lost() {
    let rounds = std::env::var("CAPSTAN_TAKEOVERS").map_or(1, |rounds| rounds.parse().unwrap());
    let mut scene = Scene::start().await;
    let [mut killed, mut released, mut disconnected, mut members] = [const { Vec::new() }; 4];
    for round in 0..rounds {
        killed.push(ended(&mut scene, "KILL").await);
        released.push(ended(&mut scene, "TERM").await);
        disconnected.push(cut(&mut scene).await);
        for member in 0..scene.etcd.len() {
            members.push(etcd_member(&mut scene, round + member).await);
        }
    }
    summary("kill -9 of the leader", killed, LOST);
    summary("SIGTERM to the leader", released, RELEASED);
    summary("the leader without its etcd", disconnected, LOST);
    summary("kill -9 of a member of etcd", members, LOST);
}
