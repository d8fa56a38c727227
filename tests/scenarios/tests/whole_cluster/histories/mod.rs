//! Random lives of a cluster: it is made, changed, upgraded, healed and deleted while processes crash, and the cloud and
//! the workload API fail.
//!
//! Nothing of the cluster is left afterwards, nothing of others is touched, and etcd never loses its quorum.
//! `CAPSTAN_HISTORIES` is the number of lives, `CAPSTAN_SEED` the first seed, `CAPSTAN_CONCURRENT` the number of lives at
//! the same time. A failure prints its seed and its plan.

mod change;
mod judge;
mod life;
mod plan;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::number;
use life::live;
use plan::planned;

/// Lives in a run of all tests. A life takes 5 to 120 s, since calls that hang take ten seconds each, and about seven
/// seconds of CPU, so more lives do not fit into the time of all tests.
const LIVES: u64 = 100;

/// Number of concurrent lives: a life mostly waits for intervals and boots, and eight use two cores. More would only slow
/// the tests beside them.
const CONCURRENT: u64 = 8;

/// Longest duration of a life, eight times that of the longest one on a quiet machine. A life that never ended would end
/// the whole run without its seed.
const LONGEST: Duration = Duration::from_mins(16);

#[tokio::test(flavor = "multi_thread")]
async fn clusters_with_crashes_and_failures_come_change_and_go_without_a_trace() {
    let first = number("CAPSTAN_SEED", 1);
    let lives = number("CAPSTAN_HISTORIES", LIVES);
    let begun = Instant::now();
    let seeds = Arc::new(Mutex::new(first..first + lives));
    let mut workers = JoinSet::new();
    for _ in 0..number("CAPSTAN_CONCURRENT", CONCURRENT) {
        workers.spawn(work(Arc::clone(&seeds)));
    }
    let failed: BTreeMap<u64, String> = workers.join_all().await.into_iter().flatten().collect();
    let seconds = begun.elapsed().as_secs();
    eprintln!("{lives} lives from seed {first} on in {seconds} s, {} failed", failed.len());
    let lines = failed.iter().map(|(seed, error)| {
        format!("CAPSTAN_SEED={seed} CAPSTAN_HISTORIES=1: {error}\n{:?}", planned(*seed))
    });
    assert!(failed.is_empty(), "{}", lines.collect::<Vec<_>>().join("\n"));
}

/// Lives one life after another. Returns the seeds that failed, with the reason.
async fn work(seeds: Arc<Mutex<Range<u64>>>) -> Vec<(u64, String)> {
    let next = || seeds.lock().unwrap().next();
    let mut failed = Vec::new();
    while let Some(seed) = next() {
        let begun = Instant::now();
        // A task of its own, so that the lives after one that ends in a panic are lived, too.
        let mut life = JoinSet::new();
        life.spawn(async move { Box::pin(timeout(LONGEST, live(&planned(seed)))).await });
        let result = match life.join_next().await {
            Some(Ok(Ok(stages))) => Ok(stages),
            Some(Ok(Err(_))) => Err(format!("it has not ended after {} s", LONGEST.as_secs())),
            Some(Err(error)) => Err(reason(error)),
            None => Ok(Vec::new()),
        };
        let outcome = match result {
            Ok(stages) => format!("lived ({})", stages.join(", ")),
            Err(reason) => {
                failed.push((seed, reason));
                "failed".to_owned()
            }
        };
        eprintln!("seed {seed} {outcome}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    failed
}

/// Returns the text of a panic.
fn reason(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}
