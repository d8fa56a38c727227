//! A leader that is frozen while its calls are on their way to the cloud, one of each kind. Another server takes over,
//! the calls reach the cloud late, and then the former leader continues (HV-06).
//!
//! `frozen_leader.rs` freezes it earlier. `CAPSTAN_FREEZE_SECONDS` is a longer time of each freeze.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests_openstack_simulator::{
    FaultEffect, InjectedFault, Inventory, InventoryItem, Simulator, SimulatorOptions,
};

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

/// Objects of a cluster, and of a worker. They are those of the scenarios of operations.
pub(crate) const CLUSTER: &str = include_str!("../../../../tests/scenarios/tests/operations/cluster.yaml");
const WORKER: &str = include_str!("../../../../tests/scenarios/tests/operations/machine.yaml");

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";
pub(crate) const CAPI: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces";
const OPERATIONS: &str = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";

/// Longest time for which the cloud holds a call: longer than a takeover, and shorter than the time limit of a call.
const HELD: Duration = Duration::from_secs(50);

/// Longest time until all objects are settled: a new leader waits 65 seconds for a call that it does not find. The rest is
/// for a busy machine.
pub(crate) const SETTLED: Duration = Duration::from_secs(150);

/// Calls that create: method, and a part of the path.
const CREATES: [(&str, &str); 4] =
    [("POST", "/floatingips"), ("POST", "/ports"), ("POST", "/volumes"), ("POST", "/servers")];

/// Calls that delete, and the verb of a server. Each object has one of these in flight at a time. Nova deletes the volumes
/// with their servers.
const DELETES: [(&str, &str); 4] =
    [("POST", "/action"), ("DELETE", "/floatingips/"), ("DELETE", "/servers/"), ("DELETE", "/ports/")];

/// Returns the least time for which a leader is frozen. By default it ends as soon as another server has taken over: a
/// longer one changes nothing but the time until a call is given up, which is a minute.
pub(crate) fn freeze_time() -> Duration {
    let seconds = std::env::var("CAPSTAN_FREEZE_SECONDS").ok();
    Duration::from_secs(seconds.map_or(0, |seconds| seconds.parse().unwrap()))
}

struct Scene {
    simulator: Simulator,
    servers: [Capstan; 2],
    _etcd: Etcd,
    _data: [tempfile::TempDir; 2],
}

impl Scene {
    async fn start() -> Self {
        let options =
            SimulatorOptions { build_time: Duration::from_millis(1), ..SimulatorOptions::default() };
        let simulator = Simulator::start(options).await.unwrap();
        let (etcd, data) = (Etcd::started(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
        let url = etcd.url();
        let flags = ["--etcd-endpoints", url.as_str()];
        let first = Capstan::start(data[0].path(), &flags);
        first.ready().await;
        share_secrets(data[0].path(), data[1].path());
        let second = Capstan::start(data[1].path(), &flags);
        second.ready().await;
        Self { simulator, servers: [first, second], _etcd: etcd, _data: data }
    }

    /// Holds the next call of each kind, for as long as [`HELD`] at most.
    fn hold(&self, calls: &[(&str, &str)]) {
        for (method, path) in calls {
            let milliseconds = u64::try_from(HELD.as_millis()).unwrap();
            self.simulator.inject(InjectedFault {
                method: Some((*method).to_owned()),
                path: Some((*path).to_owned()),
                count: Some(1),
                ..InjectedFault::new(FaultEffect::Delay { milliseconds })
            });
        }
    }

    /// Waits until all of these calls are held, freezes the leader, and lets them reach the cloud after the other server
    /// has taken over. Then the former leader continues.
    async fn freeze_until_the_calls_are_late(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.simulator.faults().is_empty() {
            assert!(Instant::now() < end, "no such calls: {:#?}", self.simulator.faults());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let former = leader(&self.servers).await;
        let next = self.servers[1 - former].client();
        let holder = holder(&next).await;
        self.servers[former].signal("STOP");
        let frozen = Instant::now();
        taken_over(&next, &holder).await;
        // The next leader looks at the cloud before the calls are there.
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.simulator.clear_faults();
        tokio::time::sleep(Duration::from_millis(500).max(freeze_time().saturating_sub(frozen.elapsed())))
            .await;
        self.servers[former].signal("CONT");
        term_ended(&self.servers[former].client()).await;
        assert_eq!(leader(&self.servers).await, 1 - former);
    }

    /// Creates the objects of a manifest.
    async fn create(&self, manifest: &str, namespace: &str) {
        let clouds = self.simulator.clouds_yaml("demo");
        create(&self.servers[0].client(), &clouds, manifest, namespace).await;
    }

    /// Creates a worker with a volume.
    async fn create_worker(&self, name: &str) {
        self.create(&worker(name), "ns").await;
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut(&Client) -> bool) {
        let (client, end) = (self.servers[0].client(), Instant::now() + SETTLED);
        while !is_so(&client).await {
            assert!(Instant::now() < end, "{what}: {:#?}", self.simulator.inventory("demo"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn until_provisioned(&self, paths: &[&str]) {
        for path in paths {
            let what = format!("{path} is not provisioned");
            self.until(&what, async |client| text(client, path, "/status/phase").await == "Provisioned")
                .await;
        }
    }

    fn inventory(&self) -> Inventory {
        self.simulator.inventory("demo")
    }
}

/// Returns the number of the leader. All servers must answer.
pub(crate) async fn leader(servers: &[Capstan; 2]) -> usize {
    let end = Instant::now() + PATIENCE;
    loop {
        for (number, server) in servers.iter().enumerate() {
            let metrics = server.client().get("/metrics").await;
            if metrics.is_ok_and(|metrics| metrics.text().contains("\ncapstan_leader 1\n")) {
                return number;
            }
        }
        assert!(Instant::now() < end, "no leader");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the holder of the Lease.
pub(crate) async fn holder(client: &Client) -> String {
    text(client, LEASE, "/spec/holderIdentity").await
}

/// Waits until the Lease has another holder than this one.
pub(crate) async fn taken_over(client: &Client, before: &str) {
    let end = Instant::now() + PATIENCE;
    while ["", before].contains(&holder(client).await.as_str()) {
        assert!(Instant::now() < end, "no server took the Lease");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until a server knows that its term has ended.
pub(crate) async fn term_ended(client: &Client) {
    let end = Instant::now() + PATIENCE;
    while !client.get("/metrics").await.is_ok_and(|it| it.text().contains("\ncapstan_leader 0\n")) {
        assert!(Instant::now() < end, "the former leader does not notice the end of its term");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Creates the objects of a manifest, with these credentials of the cloud.
pub(crate) async fn create(client: &Client, clouds: &str, manifest: &str, namespace: &str) {
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let text = manifest.replace("CLOUDS\n", &clouds).replace("NAMESPACE", namespace);
    for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
        let answer = client.once("POST", &collection(&document), &document.to_string()).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.text());
    }
}

/// Returns the manifest of a worker with a volume.
pub(crate) fn worker(name: &str) -> String {
    let text = WORKER.replace("ROOT", "  rootVolume: {sizeGiB: 5}");
    text.replace("name: w", &format!("name: {name}"))
}

/// Returns a text of an object; empty if there is none.
pub(crate) async fn text(client: &Client, path: &str, pointer: &str) -> String {
    let Ok(answer) = client.get(path).await else { return String::new() };
    let object: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) async fn delete(client: &Client, path: &str) {
    let answer = client.once("DELETE", path, "").await.unwrap();
    assert!(answer.code < 300, "{path}: {}", answer.text());
}

/// Returns the path of the collection of a document.
fn collection(document: &Value) -> String {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = format!("{}s", text("/kind").to_lowercase());
    match text("/metadata/namespace") {
        "" => format!("{root}/{plural}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}"),
    }
}

/// Checks that no two resources have the same name.
pub(crate) fn assert_one_of_each(kind: &str, items: &[InventoryItem], count: usize) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for item in items {
        *names.entry(item.name.as_str()).or_default() += 1;
    }
    assert!(items.len() == count && names.values().all(|found| *found == 1), "{count} {kind}: {names:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_06_late_calls_of_a_frozen_leader_leave_one_of_each_thing() {
    let scene = Scene::start().await;
    let (client, workers) = (scene.servers[0].client(), ["w1", "w2", "w3"]);
    let machine = |name: &str| format!("{CAPI}/ns/machines/{name}");
    scene.create(CLUSTER, "ns").await;
    scene.create_worker("w0").await;
    let first = machine("w0");
    scene.until_provisioned(&[&format!("{CAPI}/ns/clusters/c"), &first]).await;
    let whole = scene.inventory();

    scene.hold(&CREATES);
    scene.create(CLUSTER, "other").await;
    for name in workers {
        scene.create_worker(name).await;
    }
    scene.freeze_until_the_calls_are_late().await;
    scene.until_provisioned(&[&format!("{CAPI}/other/clusters/c")]).await;
    for name in workers {
        scene.until_provisioned(&[&machine(name)]).await;
    }
    let found = scene.inventory();
    assert_one_of_each("servers", &found.servers, 4);
    assert_one_of_each("volumes", &found.volumes, 4);
    assert_eq!(found.floating_ips.len(), 2 * whole.floating_ips.len(), "{:?}", found.floating_ips);
    // One of each worker, and those of the second cluster, which has as many as the first one without its worker.
    assert_eq!(found.ports.len(), 2 * whole.ports.len() + 2, "{:#?}", found.ports);

    scene.hold(&DELETES);
    scene.simulator.clear_log();
    let reboot = client.once("POST", &format!("{first}/reboot"), r#"{"type": "Hard"}"#).await.unwrap();
    assert_eq!(reboot.code, 201, "{}", reboot.text());
    let operation: Value = serde_json::from_slice(&reboot.body).unwrap();
    let operation = operation.pointer("/metadata/name").and_then(Value::as_str).unwrap().to_owned();
    delete(&client, &format!("{CAPI}/other/clusters/c")).await;
    for name in workers {
        delete(&client, &machine(name)).await;
    }
    scene.freeze_until_the_calls_are_late().await;
    let operation = format!("{OPERATIONS}/{operation}");
    scene
        .until("the reboot", async |client| text(client, &operation, "/status/phase").await == "Complete")
        .await;
    let mut gone: Vec<String> = workers.map(machine).to_vec();
    gone.push(format!("{CAPI}/other/clusters/c"));
    for path in &gone {
        let is_gone = async |client: &Client| client.get(path).await.is_ok_and(|answer| answer.code == 404);
        scene.until(&format!("{path} is not deleted"), is_gone).await;
    }
    assert_eq!(json!(scene.inventory()), json!(whole), "something is left, or is deleted that should live");
    let log = scene.simulator.log();
    let reboots = log.iter().filter(|call| call.action.as_deref() == Some("reboot") && call.status == 202);
    assert_eq!(reboots.count(), 1);
}
