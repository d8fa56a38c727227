//! What an operation costs as there is more of everything: objects, watchers, replicas.

use serde_json::json;

use super::Extent;
use super::results::Results;
use super::servers::Contestant;
use super::testbed::{Grounds, House};

/// What is written and read: a create and a patch grow with what a write looks at, a get with what finds an object.
const OPERATIONS: &str = "create,get,patch";

/// Requests in flight.
const IN_FLIGHT: &str = "16";

/// Updates for a number of watchers: five thousand take a second each.
const UPDATES: &str = "50";

/// What operations cost a server that holds so many objects by now.
pub(super) fn by_objects(
    grounds: &Grounds,
    one: &Contestant,
    extent: &Extent,
    results: &mut Results,
) -> anyhow::Result<()> {
    let run = format!("g{}", one.filled);
    let more = [one.target(grounds), grounds.pids(one.pid())].concat();
    let mut measured = operations(grounds, one.kind, &run, extent, &more)?;
    for row in measured.as_array_mut().into_iter().flatten() {
        row["objects"] = one.filled.into();
    }
    results.add("growth", one.name, 0, measured);
    Ok(())
}

/// What a change costs that so many watch.
pub(super) fn by_watchers(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    let seconds = extent.watch_seconds.to_string();
    for one in contestants.iter().filter(|one| one.name == CAPSTAN) {
        for watchers in extent.growing_watchers {
            let (watchers, namespace) = (watchers.to_string(), format!("watched-by-{watchers}"));
            let words = ["watches", "--kind", one.kind, "--namespace", &namespace, "--watchers", &watchers];
            let words = [&words[..], &["--updates", UPDATES, "--seconds", &seconds]].concat();
            let more = [one.target(grounds), grounds.pids(one.pid())].concat();
            results.add("growth-watchers", one.name, 0, grounds.bench(&words, &more)?);
        }
    }
    Ok(())
}

/// What operations at one of several servers on one etcd cost all of them.
pub(super) fn by_replicas(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    let Some(first) = contestants.iter().find(|one| one.name == CAPSTAN) else { return Ok(()) };
    let mut others: Vec<Contestant> = Vec::new();
    for replicas in 1..=3_u32 {
        if replicas > 1 {
            let mut other = Contestant::replica(grounds, first, others.len())?;
            other.start(grounds, "/readyz")?;
            others.push(other);
        }
        let pids =
            others.iter().flat_map(|other| ["--pid".to_owned(), format!("{}={}", other.name, other.pid())]);
        let more = [first.target(grounds), grounds.pids(first.pid()), pids.collect()].concat();
        let run = format!("r{replicas}");
        let mut measured = operations(grounds, first.kind, &run, extent, &more)?;
        for row in measured.as_array_mut().into_iter().flatten() {
            row["replicas"] = json!(replicas);
        }
        results.add("growth", first.name, 0, measured);
    }
    Ok(())
}

/// The one that grows here; what others do with more watchers is measured at two numbers of them.
const CAPSTAN: &str = "capstan";

fn operations(
    grounds: &Grounds,
    kind: &str,
    run: &str,
    extent: &Extent,
    more: &[String],
) -> anyhow::Result<serde_json::Value> {
    let seconds = extent.seconds.to_string();
    let words = ["operations", "--kind", kind, "--in-flight", IN_FLIGHT, "--only", OPERATIONS];
    grounds.bench(&[&words[..], &["--seconds", &seconds, "--run", run]].concat(), more)
}
