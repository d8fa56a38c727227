//! Test of the suite: the latency of a client, alone and beside strangers, and the memory of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::flood::Flood;
use crate::process::Capstan;
use crate::target::Target;

const PATH: &str = "/api/v1/namespaces/default";

/// Duration of a measurement: some 400 requests, and twice the time for which the strangers hold their connections. All
/// rounds together take half a minute at most.
const MEASURED: Duration = Duration::from_millis(2500);

/// Pause between two requests of the client.
const PAUSE: Duration = Duration::from_millis(5);

/// Latency that is never too much: a busy machine delays a request by time slices of other processes, and of the threads of
/// the strangers, which run on it, too. A flood that takes the places of requests, or a core, delays it by seconds.
const FLOOR: Duration = Duration::from_millis(100);

/// Largest growth of the server's memory. Unit: KiB.
const GROWTH: u64 = 50 * 1024;

/// Number of rounds, of which one must meet the limit of latency. All must meet the others.
const ROUNDS: usize = 5;

/// Sends requests for a time, each of which must succeed. Returns the 99th percentile of their latency.
async fn measure(client: &Client) -> Duration {
    let (end, mut latencies) = (Instant::now() + MEASURED, Vec::new());
    while Instant::now() < end {
        let answer = client.get(PATH).await.unwrap();
        assert_eq!(answer.code, 200, "{}", answer.text());
        latencies.push(answer.took);
        tokio::time::sleep(PAUSE).await;
    }
    latencies.sort_unstable();
    latencies[latencies.len() * 99 / 100]
}

/// Returns the resident memory of the server, in KiB.
fn memory(server: &Capstan) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

/// Returns the largest memory of the server until `end`.
async fn largest_memory(server: &Capstan, end: Instant) -> u64 {
    let mut largest = memory(server);
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
        largest = largest.max(memory(server));
    }
    largest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tm_18_strangers_delay_no_client_and_take_no_memory() {
    let data = tempfile::tempdir().unwrap();
    let server = Capstan::start(data.path(), &[]);
    server.ready().await;
    let client = server.client();
    let target = Arc::new(Target::new(server.port, data.path()));
    // Code and caches that the first connections need are no growth.
    let warm = Flood::start(&target);
    tokio::time::sleep(Duration::from_secs(1)).await;
    warm.stop().await;
    let before = memory(&server);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let alone = measure(&client).await;
        let flood = Flood::start(&target);
        let end = Instant::now() + MEASURED;
        let (beside, largest) = tokio::join!(measure(&client), largest_memory(&server, end));
        let tries = flood.stop().await;
        println!(
            "alone {alone:?}, beside strangers {beside:?}, memory {before} to {largest} KiB: {tries:#?}"
        );
        assert!(tries.values().all(|tries| tries.good > 0 && tries.bad == 0), "{tries:#?}");
        assert!(largest < before + GROWTH, "the memory grows from {before} to {largest} KiB");
        rounds.push((alone, beside));
        if beside <= FLOOR.max(2 * alone) {
            return;
        }
    }
    panic!("strangers delay a client; 99th percentiles alone and beside them: {rounds:?}");
}
