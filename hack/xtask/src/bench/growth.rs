//! Growth measurements: cost of an operation with more objects, more watchers and more replicas.

use serde_json::json;

use super::Extent;
use super::results::Results;
use super::servers::MeasuredServer;
use super::testbed::{Environment, Testbed};

/// Operations that are measured. The cost of a create and a patch grows with the data that a write reads, and the cost
/// of a get with the lookup of an object.
const OPERATIONS: &str = "create,get,patch";

/// Requests in flight.
const IN_FLIGHT: &str = "16";

/// Updates for each number of watchers. With five thousand watchers an update takes a second.
const UPDATES: &str = "50";

/// Measures operations on a server with the number of objects that it holds now.
pub(super) fn by_objects(
    environment: &Environment,
    one: &MeasuredServer,
    extent: &Extent,
    results: &mut Results,
) -> anyhow::Result<()> {
    let run = format!("g{}", one.filled);
    let more = [one.target(environment), environment.pids(one.pid())].concat();
    let mut measured = operations(environment, one.kind, &run, extent, &more)?;
    for row in measured.as_array_mut().into_iter().flatten() {
        row["objects"] = one.filled.into();
    }
    results.add("growth", one.name, 0, measured);
    Ok(())
}

/// Measures updates with growing numbers of watchers.
pub(super) fn by_watchers(
    testbed: &mut Testbed,
    extent: &Extent,
    results: &mut Results,
) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    let seconds = extent.watch_seconds.to_string();
    for one in servers.iter().filter(|one| one.name == CAPSTAN) {
        for watchers in extent.growing_watchers {
            let (watchers, namespace) = (watchers.to_string(), format!("watched-by-{watchers}"));
            let words = ["watches", "--kind", one.kind, "--namespace", &namespace, "--watchers", &watchers];
            let words = [&words[..], &["--updates", UPDATES, "--seconds", &seconds]].concat();
            let more = [one.target(environment), environment.pids(one.pid())].concat();
            results.add("growth-watchers", one.name, 0, environment.bench(&words, &more)?);
        }
    }
    Ok(())
}

/// Measures operations on one of several replicas on one etcd, with the cost of all replicas.
pub(super) fn by_replicas(
    testbed: &mut Testbed,
    extent: &Extent,
    results: &mut Results,
) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    let Some(first) = servers.iter().find(|one| one.name == CAPSTAN) else { return Ok(()) };
    let mut others: Vec<MeasuredServer> = Vec::new();
    for replicas in 1..=3_u32 {
        if replicas > 1 {
            let mut other = MeasuredServer::replica(environment, first, others.len())?;
            other.start(environment, "/readyz")?;
            others.push(other);
        }
        let pids =
            others.iter().flat_map(|other| ["--pid".to_owned(), format!("{}={}", other.name, other.pid())]);
        let more = [first.target(environment), environment.pids(first.pid()), pids.collect()].concat();
        let run = format!("r{replicas}");
        let mut measured = operations(environment, first.kind, &run, extent, &more)?;
        for row in measured.as_array_mut().into_iter().flatten() {
            row["replicas"] = json!(replicas);
        }
        results.add("growth", first.name, 0, measured);
    }
    Ok(())
}

/// Name of the only server whose growth is measured. The other servers are measured with two numbers of watchers.
const CAPSTAN: &str = "capstan";

fn operations(
    environment: &Environment,
    kind: &str,
    run: &str,
    extent: &Extent,
    more: &[String],
) -> anyhow::Result<serde_json::Value> {
    let seconds = extent.seconds.to_string();
    let words = ["operations", "--kind", kind, "--in-flight", IN_FLIGHT, "--only", OPERATIONS];
    environment.bench(&[&words[..], &["--seconds", &seconds, "--run", run]].concat(), more)
}
