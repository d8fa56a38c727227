//! Two servers on one etcd, of which the leader is frozen or killed.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";

/// Longest time from the end of a leader to the next one.
const TAKEOVER: Duration = Duration::from_secs(10);

async fn holder(client: &Client) -> Option<String> {
    let answer = client.get(LEASE).await.ok().filter(|answer| answer.code == 200)?;
    let lease: Value = serde_json::from_slice(&answer.body).unwrap();
    lease.pointer("/spec/holderIdentity").and_then(Value::as_str).map(str::to_owned)
}

/// Waits until the holder is another one than `before`, and returns it.
async fn next_holder(client: &Client, before: Option<&str>) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(holder) = holder(client).await.filter(|holder| Some(holder.as_str()) != before) {
            return holder;
        }
        assert!(Instant::now() < end, "no server took the Lease");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn log(data: &Path, server: &Capstan) -> String {
    std::fs::read_to_string(data.join(format!("{}.log", server.port))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_takes_over_from_a_frozen_or_killed_leader_within_ten_seconds() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first_data, second_data] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let first = Capstan::start(first_data, &flags);
    first.ready().await;
    let frozen = next_holder(&first.client(), None).await;
    share_secrets(first_data, second_data);
    let second = Capstan::start(second_data, &flags);
    second.ready().await;
    let client = second.client();

    let begun = Instant::now();
    first.signal("STOP");
    let next = next_holder(&client, Some(&frozen)).await;
    assert!(begun.elapsed() < TAKEOVER, "frozen leader: {:?}", begun.elapsed());
    first.signal("CONT");
    let end = Instant::now() + PATIENCE;
    while !log(first_data, &first).contains("no longer elected") {
        assert!(Instant::now() < end, "the former leader does not notice the end of its term");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(holder(&client).await.as_deref(), Some(next.as_str()));

    let metrics = client.get("/metrics").await.unwrap().text();
    assert!(metrics.contains("\ncapstan_leader 1\n"), "{metrics}");
    let metrics = first.client().get("/metrics").await.unwrap().text();
    assert!(metrics.contains("\ncapstan_leader 0\n"), "{metrics}");
    let begun = Instant::now();
    second.signal("KILL");
    next_holder(&first.client(), Some(&next)).await;
    assert!(begun.elapsed() < TAKEOVER, "killed leader: {:?}", begun.elapsed());
}
