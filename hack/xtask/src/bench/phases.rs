//! Phases of a measurement, in order. A round measures every server before the next round begins, so a slow minute of
//! the machine affects all servers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::results::Results;
use super::testbed::Testbed;
use super::{Extent, backups, growth, lists};
use crate::{prerequisites, run};

/// Requests in flight.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];

/// Writes to a store alone, as operation and size in bytes: a new Machine, a Machine with a status and its managed
/// fields, and the same Machine as Capstan encodes it for etcd.
const LIMITS: [(&str, &str); 3] = [("create", "1550"), ("update", "5600"), ("update", "2000")];

/// Pause after a start, in which a server releases the memory that it needed only to start.
pub(super) const PAUSE: Duration = Duration::from_secs(3);

/// Runs the phases whose name contains `only`.
pub(super) fn all(
    testbed: &mut Testbed,
    extent: &Extent,
    only: &str,
    results: &mut Results,
) -> anyhow::Result<()> {
    type Phase = fn(&mut Testbed, &Extent, &mut Results) -> anyhow::Result<()>;
    let phases: [(&str, Phase); 7] = [
        ("operations", operations),
        ("watches", watches),
        ("lists", lists::all),
        ("fairness", fairness),
        ("growth", growth),
        ("backups", backups::all),
        ("restarts", restarts),
    ];
    start(testbed, results)?;
    note(testbed, results)?;
    for (name, phase) in phases.iter().filter(|(name, _)| name.contains(only)) {
        let begun = Instant::now();
        phase(testbed, extent, results)?;
        eprintln!("ok      {name} ({:.0} s)", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Records the versions of the measured programs.
fn note(testbed: &Testbed, results: &mut Results) -> anyhow::Result<()> {
    let version = |program: &Path, argument: &str| run::output(Command::new(program).arg(argument));
    let etcd = version(&prerequisites::current_etcd()?, "--version")?;
    results.note("etcd", etcd.lines().next().unwrap_or_default());
    results.note("go", &version(Path::new("go"), "version")?);
    for one in &testbed.servers {
        match one.name {
            "kube-apiserver" => results.note(one.name, &version(&one.program, "--version")?),
            // It has no version command, but its directory has the version in its name.
            "sample-apiserver" => {
                let directory = one.program.parent().and_then(Path::file_name).unwrap_or_default();
                results.note(one.name, &directory.to_string_lossy());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Starts every server on an empty store.
fn start(testbed: &mut Testbed, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    for one in servers.iter_mut() {
        let measured = one.start(environment, "/readyz")?;
        if one.name == "kube-apiserver" {
            environment.define_machines()?;
        }
        results.add("start", one.name, 0, measured);
        let bytes = std::fs::metadata(&one.program)?.len();
        results.add("binary", one.name, 0, json!({"bytes": bytes}));
    }
    std::thread::sleep(PAUSE);
    for one in servers.iter() {
        results.add("idle", one.name, 0, json!({"resident": resident(one.pid())}));
    }
    Ok(())
}

/// Measures the operations. Each round also measures the limits that etcd and the network set.
fn operations(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    for round in 0..extent.rounds {
        for in_flight in IN_FLIGHT {
            let load = Load {
                round,
                in_flight: in_flight.to_string(),
                seconds: extent.seconds.to_string(),
                run: format!("r{round}f{in_flight}"),
            };
            limits(testbed, &load, results)?;
            let Testbed { servers, environment, .. } = &*testbed;
            for one in servers {
                let words = [&["operations", "--kind", one.kind], &load.words()[..]].concat();
                let more = [one.target(environment), environment.pids(one.pid())].concat();
                results.add("operations", one.name, round, environment.bench(&words, &more)?);
            }
        }
    }
    Ok(())
}

/// Load of one measurement: a number of requests in flight, in one round.
struct Load {
    round: usize,
    in_flight: String,
    seconds: String,
    /// Part of object names, so that measurements do not share objects.
    run: String,
}

impl Load {
    fn words(&self) -> [&str; 6] {
        ["--in-flight", &self.in_flight, "--seconds", &self.seconds, "--run", &self.run]
    }
}

/// Measures the limits that etcd, the embedded store and the network set.
fn limits(testbed: &mut Testbed, load: &Load, results: &mut Results) -> anyhow::Result<()> {
    let (pid, target) = testbed.floor()?;
    let words = load.words();
    let mut etcd = vec!["--endpoint".to_owned(), testbed.environment.etcd_url.clone()];
    etcd.extend(testbed.environment.pids(pid));
    for (operation, size) in LIMITS {
        let what = ["etcd", "--operation", operation, "--size", size];
        let measured = testbed.environment.bench(&[&what, &words[..]].concat(), &etcd)?;
        results.add("limit", "etcd", load.round, measured);
    }
    let directory = testbed.environment.home.join("limit").display().to_string();
    let words_embedded = [&["embedded", "--directory", &directory], &words[..]].concat();
    results.add("limit", "embedded", load.round, testbed.environment.bench(&words_embedded, &[])?);
    let floor = [target, testbed.environment.pids(pid)].concat();
    let words = [&["operations", "--only", "create,get"], &words[..]].concat();
    results.add("operations", "floor", load.round, testbed.environment.bench(&words, &floor)?);
    Ok(())
}

fn watches(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    let (updates, seconds) = (extent.updates.to_string(), extent.watch_seconds.to_string());
    for round in 0..extent.rounds {
        for watchers in extent.watchers {
            for one in servers.iter() {
                let watchers = watchers.to_string();
                let words = ["watches", "--kind", one.kind, "--watchers", &watchers];
                let words = [&words[..], &["--updates", &updates, "--seconds", &seconds]].concat();
                let more = [one.target(environment), environment.pids(one.pid())].concat();
                results.add("watches", one.name, round, environment.bench(&words, &more)?);
            }
        }
    }
    Ok(())
}

/// Measures how long one user waits while another lists everything and a third creates objects.
fn fairness(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    // The largest size that every server has.
    let Some(size) = extent.sizes.iter().filter(|size| **size <= 10_000).max() else { return Ok(()) };
    let (namespace, seconds) = (lists::namespace(*size), extent.seconds.to_string());
    for round in 0..extent.rounds {
        for one in servers.iter().filter(|one| one.kind == "machine" && one.filled >= *size) {
            let words = ["fairness", "--kind", one.kind, "--namespace", &namespace, "--seconds", &seconds];
            let more = [one.target(environment), environment.pids(one.pid())].concat();
            results.add("fairness", one.name, round, environment.bench(&words, &more)?);
        }
    }
    Ok(())
}

fn growth(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    growth::by_watchers(testbed, extent, results)?;
    growth::by_replicas(testbed, extent, results)
}

/// Stops each server and starts it again with all objects that it stores.
fn restarts(testbed: &mut Testbed, _: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    for one in servers.iter_mut().rev() {
        one.stop();
        let mut measured = one.start(environment, "/readyz")?;
        measured["objects"] = one.filled.into();
        results.add("restart", one.name, 0, measured);
    }
    Ok(())
}

/// Returns the resident memory of a process. Unit: bytes.
pub(super) fn resident(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// Returns the peak memory of a process since the peak was last reset. Unit: bytes.
pub(super) fn peak(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|text| text.strip_prefix(line))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
