//! Tests of error injection: every kind of call to the cloud fails in every way, once during the creation of a cluster,
//! once during a change, and once during its deletion. All succeed in the end.
//!
//! A part of the cases is run, selected by a seed that is printed: `CAPSTAN_SEED` selects the same again,
//! `CAPSTAN_FAULTS=all` runs all of them, and `CAPSTAN_FAULTS=317` the one of this number.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster_run;
mod injection;
mod scene;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tests_scenarios::World;
use tokio::task::JoinSet;

use cluster_run::{CleanRun, NO_CALL, run_with_failures, run_without_failures};
use injection::{FAILURE_MODES, FailureMode, Spot};
use scene::Scene;

/// Number of concurrent clouds: a case mostly waits for intervals that the cloud or the provider sets.
const CLOUDS: usize = 6;

/// Attempts of a case whose call another order of the calls has moved.
const ATTEMPTS: usize = 3;

/// Call that is made only if a list is older than a server. How many lists precede it depends on time.
const UNSTEADY: &str = "GET /compute/v2.1/servers/{}";

/// Number of cases of which one is selected.
const DRAWN: usize = 8;

/// Calls of the clusters that must be among the cases: a part of the path of each kind of resource and of each lookup.
const COVERED: [(&str, &str); 38] = [
    ("GET", "/compute/v2.1/flavors"),
    ("GET", "/compute/v2.1/limits"),
    ("GET", "/compute/v2.1/os-availability-zone"),
    ("GET", "/compute/v2.1/os-keypairs"),
    ("GET", "/compute/v2.1/os-server-groups"),
    ("POST", "/compute/v2.1/os-server-groups"),
    ("DELETE", "/compute/v2.1/os-server-groups"),
    ("GET", "/compute/v2.1/servers"),
    ("POST", "/compute/v2.1/servers"),
    ("DELETE", "/compute/v2.1/servers"),
    ("GET", "/image/v2/images"),
    ("GET", "/network/v2.0/quotas"),
    ("GET", "/network/v2.0/extensions"),
    ("POST", "/network/v2.0/networks"),
    ("PUT", "/network/v2.0/subnets"),
    ("PUT", "/network/v2.0/routers"),
    ("POST", "/network/v2.0/security-group-rules"),
    ("DELETE", "/network/v2.0/security-group-rules"),
    ("POST", "/network/v2.0/floatingips"),
    ("PUT", "/network/v2.0/floatingips"),
    ("DELETE", "/network/v2.0/floatingips"),
    ("GET", "/network/v2.0/trunks"),
    ("POST", "/network/v2.0/trunks"),
    ("DELETE", "/network/v2.0/trunks"),
    ("GET", "/volume/v3/"),
    ("POST", "/volume/v3/"),
    ("GET", "/load-balancer/v2/lbaas/flavors"),
    ("GET", "/load-balancer/v2/lbaas/providers"),
    ("GET", "/load-balancer/v2/lbaas/availabilityzones"),
    ("GET", "/load-balancer/v2/lbaas/quotas"),
    ("POST", "/load-balancer/v2/lbaas/loadbalancers"),
    ("DELETE", "/load-balancer/v2/lbaas/loadbalancers"),
    ("POST", "/load-balancer/v2/lbaas/listeners"),
    ("PUT", "/load-balancer/v2/lbaas/listeners"),
    ("POST", "/load-balancer/v2/lbaas/pools"),
    ("POST", "/load-balancer/v2/lbaas/healthmonitors"),
    ("PUT", "/load-balancer/v2/lbaas/healthmonitors"),
    ("GET", "/members"),
];

/// Calls that fail during the stages of a cluster, and the way of failure.
#[derive(Debug, Clone)]
struct Case {
    number: usize,
    /// Place of the run without failures.
    run: usize,
    mode: FailureMode,
    creating: Option<Spot>,
    changing: Option<Spot>,
    deleting: Option<Spot>,
}

/// Returns the cases of all runs. A kind of call that a stage of an earlier run has is not repeated.
fn cases(runs: &[CleanRun]) -> VecDeque<Case> {
    let mut cases = VecDeque::new();
    for (run, whole) in runs.iter().enumerate() {
        let new = |of: fn(&CleanRun) -> &Vec<Spot>| -> Vec<Spot> {
            let known = |spot: &&Spot| !runs[..run].iter().any(|it| of(it).iter().any(|it| it.is_like(spot)));
            let steady = |spot: &&Spot| spot.to_string() != UNSTEADY;
            of(whole).iter().filter(known).filter(steady).cloned().collect()
        };
        let stages = [new(|it| &it.creating), new(|it| &it.changing), new(|it| &it.deleting)];
        let longest = stages.iter().map(Vec::len).max().unwrap_or_default();
        for mode in FAILURE_MODES {
            for index in 0..longest {
                let [creating, changing, deleting] = stages.clone().map(|spots| spots.get(index).cloned());
                cases.push_back(Case { number: cases.len(), run, mode, creating, changing, deleting });
            }
        }
    }
    cases
}

/// Returns the cases of this run.
fn selected(cases: VecDeque<Case>) -> VecDeque<Case> {
    let which = std::env::var("CAPSTAN_FAULTS").unwrap_or_default();
    if which == "all" {
        return cases;
    }
    if let Ok(number) = which.parse::<usize>() {
        return cases.into_iter().filter(|case| case.number == number).collect();
    }
    let given = std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| usize::try_from(std::process::id()).unwrap_or_default());
    eprintln!("CAPSTAN_SEED={seed}");
    // One of each block, at another place in each, so that the runs of one seed have all ways of failure.
    let place = |case: &Case| (case.number / DRAWN).wrapping_add(seed) % DRAWN;
    cases.into_iter().filter(|case| case.number % DRAWN == place(case)).collect()
}

/// Runs one case after another in a cloud of its own. Returns the failures.
async fn work(queue: Arc<Mutex<VecDeque<Case>>>, runs: Arc<Vec<CleanRun>>) -> Vec<String> {
    let next = || queue.lock().map(|mut queue| queue.pop_front()).unwrap_or_default();
    let mut wrong = Vec::new();
    let mut world = World::start().await.unwrap();
    while let Some(case) = next() {
        let mut result = run_with_failures(&world, &runs[case.run], &case).await;
        for _ in 1..ATTEMPTS {
            if !result.as_ref().is_err_and(|error| error.to_string().starts_with(NO_CALL)) {
                break;
            }
            world = World::start().await.unwrap();
            result = run_with_failures(&world, &runs[case.run], &case).await;
        }
        if let Err(error) = result {
            eprintln!("{case:?}: {error:#}");
            wrong.push(format!("{case:?}: {error:#}"));
            // Resources that this case left must not count against the next.
            world = World::start().await.unwrap();
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_created_changed_and_deleted_despite_any_cloud_error() {
    let begun = Instant::now();
    let mut runs = Vec::new();
    for scene in Scene::ALL {
        runs.push(run_without_failures(scene).await.unwrap());
    }
    every_kind_of_call_is_covered(&runs);
    let cases = selected(cases(&runs));
    let count = cases.len();
    assert!(count > 0, "no run was selected");
    let (queue, runs) = (Arc::new(Mutex::new(cases)), Arc::new(runs));
    let mut workers = JoinSet::new();
    for _ in 0..CLOUDS {
        workers.spawn(work(Arc::clone(&queue), Arc::clone(&runs)));
    }
    let wrong = workers.join_all().await.concat();
    for run in runs.iter() {
        let counts = [&run.creating, &run.changing, &run.deleting].map(Vec::len);
        eprintln!("{:?}: {counts:?} kinds of calls of a creation, a change and a deletion", run.scene);
    }
    eprintln!("{} failure modes each: {count} runs in {:?}", FAILURE_MODES.len(), begun.elapsed());
    assert!(wrong.is_empty(), "{} of {count} runs failed:\n{}", wrong.len(), wrong.join("\n"));
}

fn every_kind_of_call_is_covered(runs: &[CleanRun]) {
    let spots = || runs.iter().flat_map(|run| [&run.creating, &run.changing, &run.deleting]).flatten();
    let covered = |(method, path): &&(&str, &str)| spots().any(|spot| spot.is_call(method, path));
    let missing: Vec<&(&str, &str)> = COVERED.iter().filter(|call| !covered(call)).collect();
    let all: BTreeSet<String> = spots().map(ToString::to_string).collect();
    let all: Vec<String> = all.into_iter().collect();
    assert!(missing.is_empty(), "no cluster makes {missing:?}, but:\n{}", all.join("\n"));
}
