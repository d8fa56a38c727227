//! Test of a rolling restart: two servers are replaced one after the other, while clients write and watch.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::Client;
use crate::etcd::{Etcd, free_port};
use crate::process::{Capstan, PATIENCE};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// Clients that write all the time.
const WRITERS: usize = 6;

/// Shutdown delay: longer than the load balancer needs to notice that a server is not ready.
const FLAGS: [&str; 2] = ["--shutdown-delay", "2s"];

/// Load balancer, as a Service of a host is one: it sends new connections to servers that are ready.
struct Balancer {
    ports: [u16; 2],
    ready: [AtomicBool; 2],
    turn: AtomicU16,
}

impl Balancer {
    fn port(&self) -> u16 {
        let turn = usize::from(self.turn.fetch_add(1, Ordering::Relaxed));
        let order = [turn % 2, (turn + 1) % 2];
        let ready = order.into_iter().find(|index| self.ready[*index].load(Ordering::Relaxed));
        self.ports[ready.unwrap_or(order[0])]
    }

    /// Looks at every server as a kubelet does.
    async fn follow(self: Arc<Self>, clients: [Client; 2]) {
        loop {
            for (index, client) in clients.iter().enumerate() {
                let answer = tokio::time::timeout(Duration::from_secs(1), client.get("/readyz")).await;
                let is_ready = matches!(answer, Ok(Ok(answer)) if answer.code == 200);
                self.ready[index].store(is_ready, Ordering::Relaxed);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn lease(name: &str, number: u64) -> String {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", "labels": {"number": number.to_string()}}, "spec": {}})
    .to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_fails_and_no_event_is_lost_while_each_server_is_replaced() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let url = etcd.url();
    let flags = [&["--etcd-endpoints", url.as_str()][..], &FLAGS].concat();
    let ports = [free_port(), free_port()];
    let first = Capstan::start_on(ports[0], directories[0].path(), &flags);
    first.ready().await;
    share_secrets(directories[0].path(), directories[1].path());
    let second = Capstan::start_on(ports[1], directories[1].path(), &flags);
    second.ready().await;
    let identity = first.identity.clone();
    let balancer = Balancer { ports, ready: [AtomicBool::new(true), AtomicBool::new(true)], turn: 0.into() };
    let balancer = Arc::new(balancer);
    tokio::spawn(Arc::clone(&balancer).follow([first.client(), second.client()]));
    let client = {
        let (balancer, identity) = (Arc::clone(&balancer), identity.clone());
        move || {
            let balancer = Arc::clone(&balancer);
            Client::balanced(move || balancer.port(), identity.clone())
        }
    };
    let load = Load::start(&client).await;
    let mut running = [Some(first), Some(second)];
    for index in [0, 1] {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut old = running[index].take().unwrap();
        old.signal("TERM");
        let status = old.ended().await;
        assert_eq!(status.code(), Some(0), "server {index}: {status}");
        drop(old);
        let new = Capstan::start_on(ports[index], directories[index].path(), &flags);
        new.ready().await;
        running[index] = Some(new);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.check().await;
}

/// Servers on one store have one CA and one key.
pub(crate) fn share_secrets(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("pki")).unwrap();
    for name in ["pki/ca.crt", "pki/ca.key", "encryption.yaml"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Writers and a watcher.
struct Load {
    over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    failed: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<(u64, String)>>>,
    watches: Arc<AtomicU64>,
    writers: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn start(client: &impl Fn() -> Client) -> Self {
        let mut load = Self {
            over: Arc::default(),
            written: Arc::default(),
            failed: Arc::default(),
            seen: Arc::default(),
            watches: Arc::default(),
            writers: Vec::new(),
        };
        let list = client().with_retries("GET", LEASES, "").await.unwrap();
        let list: Value = serde_json::from_slice(&list.body).unwrap();
        let from = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        tokio::spawn(watch(client(), from, Arc::clone(&load.seen), Arc::clone(&load.watches)));
        for number in 0..WRITERS {
            let (over, written, failed) =
                (Arc::clone(&load.over), Arc::clone(&load.written), Arc::clone(&load.failed));
            load.writers.push(tokio::spawn(write(client(), number, over, written, failed)));
        }
        load
    }

    async fn check(self) {
        self.over.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await.unwrap();
        }
        let failed = self.failed.lock().unwrap().clone();
        let written = self.written.load(Ordering::Relaxed);
        assert!(failed.is_empty(), "of {written}: {failed:?}");
        assert!(written > 500, "only {written} writes");
        let end = Instant::now() + PATIENCE;
        while self.seen.lock().unwrap().iter().filter(|(_, kind)| kind == "ADDED").count()
            < usize::try_from(written).unwrap()
        {
            assert!(Instant::now() < end, "{} of {written} events", self.seen.lock().unwrap().len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seen = self.seen.lock().unwrap().clone();
        let created = seen.iter().filter(|(_, kind)| kind == "ADDED").count();
        assert_eq!(created, usize::try_from(written).unwrap(), "each once");
        assert!(seen.is_sorted_by(|(a, _), (b, _)| a < b), "in order");
        assert!(self.watches.load(Ordering::Relaxed) >= 2, "no watch was ended");
    }
}

async fn write(
    client: Client,
    writer: usize,
    over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    failed: Arc<Mutex<Vec<String>>>,
) {
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("load-{writer}-{number}");
        match client.with_retries("POST", LEASES, &lease(&name, number)).await {
            Ok(answer) if answer.code == 201 => {
                written.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer) => failed.lock().unwrap().push(format!("{name}: {} {}", answer.code, answer.text())),
            Err(lost) => failed.lock().unwrap().push(format!("{name}: {lost:?}")),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Watches for ever, each watch going on where the last one ended.
async fn watch(client: Client, mut from: u64, seen: Arc<Mutex<Vec<(u64, String)>>>, watches: Arc<AtomicU64>) {
    loop {
        let path = format!("{LEASES}?watch=true&labelSelector=number&resourceVersion={from}");
        let Ok(answer) = client.send("GET", &path, "").await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if answer.status() != 200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        watches.fetch_add(1, Ordering::Relaxed);
        let (mut body, mut rest) = (answer.into_body(), Vec::new());
        while let Some(Ok(frame)) = body.frame().await {
            rest.extend_from_slice(frame.data_ref().unwrap());
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let event: Value = serde_json::from_slice(&rest.drain(..=end).collect::<Vec<u8>>()).unwrap();
                let version = &event["object"]["metadata"]["resourceVersion"];
                let version = version.as_str().unwrap_or_else(|| panic!("{event}")).parse().unwrap();
                from = version;
                seen.lock().unwrap().push((version, event["type"].as_str().unwrap().to_owned()));
            }
        }
    }
}
