//! Tests of error injection: every kind of call to the cloud fails in every way, once during the creation of a cluster
//! and once during its deletion. Both succeed in the end.
//!
//! A third of the cases is run, selected by a seed that is printed: `CAPSTAN_SEED` selects the same again,
//! and `CAPSTAN_FAULTS=all` runs all of them, which takes four minutes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster_run;
mod injection;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tests_scenarios::World;
use tokio::task::JoinSet;

use cluster_run::{CleanRun, run_with_failures, run_without_failures};
use injection::{FAILURE_MODES, FailureMode, Spot};

/// Number of concurrent clouds: a case mostly waits for intervals that the cloud or the provider sets.
const CLOUDS: usize = 6;

/// Number of cases of which one is selected.
const DRAWN: usize = 3;

/// Call of the creation that fails, call of the deletion that fails, and the way of failure.
#[derive(Debug, Clone)]
struct Case {
    number: usize,
    mode: FailureMode,
    creating: Option<Spot>,
    deleting: Option<Spot>,
}

fn cases(whole: &CleanRun) -> VecDeque<Case> {
    let mut cases = VecDeque::new();
    for mode in FAILURE_MODES {
        for index in 0..whole.creating.len().max(whole.deleting.len()) {
            let spot = |spots: &[Spot]| spots.get(index).cloned();
            let (creating, deleting) = (spot(&whole.creating), spot(&whole.deleting));
            cases.push_back(Case { number: cases.len(), mode, creating, deleting });
        }
    }
    cases
}

/// Returns the cases of this run.
fn selected(cases: VecDeque<Case>) -> VecDeque<Case> {
    if std::env::var("CAPSTAN_FAULTS").is_ok_and(|which| which == "all") {
        return cases;
    }
    let given = std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| usize::try_from(std::process::id()).unwrap_or_default());
    eprintln!("CAPSTAN_SEED={seed}");
    // By a step without a common divisor with the number of calls, so that each call fails in some way.
    cases.into_iter().filter(|case| (case.number + case.number / 7 + seed).is_multiple_of(DRAWN)).collect()
}

/// Runs one case after another in a cloud of its own. Returns the failures.
async fn work(queue: Arc<Mutex<VecDeque<Case>>>, whole: Arc<CleanRun>) -> Vec<String> {
    let next = || queue.lock().map(|mut queue| queue.pop_front()).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut world = World::start().await.unwrap();
    while let Some(case) = next() {
        if let Err(error) = run_with_failures(&world, &whole, &case).await {
            eprintln!("{case:?}: {error:#}");
            wrong.push(format!("{case:?}: {error:#}"));
            // Resources that this case left must not count against the next.
            world = World::start().await.unwrap();
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_and_deleted_despite_any_cloud_error() {
    let begun = Instant::now();
    let whole = Arc::new(run_without_failures().await.unwrap());
    let cases = selected(cases(&whole));
    let runs = cases.len();
    let queue = Arc::new(Mutex::new(cases));
    let mut workers = JoinSet::new();
    for _ in 0..CLOUDS {
        workers.spawn(work(Arc::clone(&queue), Arc::clone(&whole)));
    }
    let wrong = workers.join_all().await.concat();
    eprintln!(
        "{} kinds of calls of a creation and {} of a deletion, {} failure modes each: {runs} runs in {:?}",
        whole.creating.len(),
        whole.deleting.len(),
        FAILURE_MODES.len(),
        begun.elapsed()
    );
    assert!(whole.creating.len() > 25 && whole.deleting.len() > 18, "{whole:#?}");
    assert!(wrong.is_empty(), "{} of {runs} runs failed:\n{}", wrong.len(), wrong.join("\n"));
}
