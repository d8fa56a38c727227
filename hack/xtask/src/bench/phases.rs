//! What is measured, in which order. Within a round every server has its turn before anything is repeated, so
//! that a slower minute of the machine falls on all of them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::results::Results;
use super::testbed::House;
use super::{Extent, growth, lists};
use crate::{prerequisites, run};

/// Requests in flight.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];

/// What a store is given, in bytes: a Machine when it was created, and when it has a status and the owners of that; and
/// what Capstan makes of the latter before etcd has it.
const LIMITS: [(&str, &str); 3] = [("create", "1550"), ("update", "5600"), ("update", "2000")];

/// Until a server that was just started has put away what it needed for that.
pub(super) const REST: Duration = Duration::from_secs(3);

/// Runs the phases with `only` in their names.
pub(super) fn all(
    house: &mut House,
    extent: &Extent,
    only: &str,
    results: &mut Results,
) -> anyhow::Result<()> {
    type Phase = fn(&mut House, &Extent, &mut Results) -> anyhow::Result<()>;
    let phases: [(&str, Phase); 6] = [
        ("operations", operations),
        ("watches", watches),
        ("lists", lists::all),
        ("fairness", fairness),
        ("growth", growth),
        ("restarts", restarts),
    ];
    start(house, results)?;
    note(house, results)?;
    for (name, phase) in phases.iter().filter(|(name, _)| name.contains(only)) {
        let begun = Instant::now();
        phase(house, extent, results)?;
        eprintln!("ok      {name} ({:.0} s)", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Which versions are measured.
fn note(house: &House, results: &mut Results) -> anyhow::Result<()> {
    let said = |program: &Path, argument: &str| run::output(Command::new(program).arg(argument));
    let etcd = said(&prerequisites::current_etcd()?, "--version")?;
    results.note("etcd", etcd.lines().next().unwrap_or_default());
    results.note("go", &said(Path::new("go"), "version")?);
    for one in &house.contestants {
        match one.name {
            "kube-apiserver" => results.note(one.name, &said(&one.program, "--version")?),
            // It does not say; the directory it was built into does.
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
fn start(house: &mut House, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    for one in contestants.iter_mut() {
        let measured = one.start(grounds, "/readyz")?;
        if one.name == "kube-apiserver" {
            grounds.define_machines()?;
        }
        results.add("start", one.name, 0, measured);
        let bytes = std::fs::metadata(&one.program)?.len();
        results.add("binary", one.name, 0, json!({"bytes": bytes}));
    }
    std::thread::sleep(REST);
    for one in contestants.iter() {
        results.add("idle", one.name, 0, json!({"resident": resident(one.pid())}));
    }
    Ok(())
}

/// In each round, what etcd and the wire allow has its turn beside the servers'.
fn operations(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    for round in 0..extent.rounds {
        for in_flight in IN_FLIGHT {
            let turn = Turn {
                round,
                in_flight: in_flight.to_string(),
                seconds: extent.seconds.to_string(),
                run: format!("r{round}f{in_flight}"),
            };
            limits(house, &turn, results)?;
            let House { contestants, grounds, .. } = &*house;
            for one in contestants {
                let words = [&["operations", "--kind", one.kind], &turn.words()[..]].concat();
                let more = [one.target(grounds), grounds.pids(one.pid())].concat();
                results.add("operations", one.name, round, grounds.bench(&words, &more)?);
            }
        }
    }
    Ok(())
}

/// So many requests in flight, in one round.
struct Turn {
    round: usize,
    in_flight: String,
    seconds: String,
    /// Put into names, so that turns do not meet.
    run: String,
}

impl Turn {
    fn words(&self) -> [&str; 6] {
        ["--in-flight", &self.in_flight, "--seconds", &self.seconds, "--run", &self.run]
    }
}

/// What etcd and the wire allow.
fn limits(house: &mut House, turn: &Turn, results: &mut Results) -> anyhow::Result<()> {
    let (pid, target) = house.floor()?;
    let words = turn.words();
    let mut etcd = vec!["--endpoint".to_owned(), house.grounds.etcd_url.clone()];
    etcd.extend(house.grounds.pids(pid));
    for (operation, size) in LIMITS {
        let what = ["etcd", "--operation", operation, "--size", size];
        let measured = house.grounds.bench(&[&what, &words[..]].concat(), &etcd)?;
        results.add("limit", "etcd", turn.round, measured);
    }
    let directory = house.grounds.home.join("limit").display().to_string();
    let words_embedded = [&["embedded", "--directory", &directory], &words[..]].concat();
    results.add("limit", "embedded", turn.round, house.grounds.bench(&words_embedded, &[])?);
    let floor = [target, house.grounds.pids(pid)].concat();
    let words = [&["operations", "--only", "create,get"], &words[..]].concat();
    results.add("operations", "floor", turn.round, house.grounds.bench(&words, &floor)?);
    Ok(())
}

fn watches(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    let (updates, seconds) = (extent.updates.to_string(), extent.watch_seconds.to_string());
    for round in 0..extent.rounds {
        for watchers in extent.watchers {
            for one in contestants.iter() {
                let watchers = watchers.to_string();
                let words = ["watches", "--kind", one.kind, "--watchers", &watchers];
                let words = [&words[..], &["--updates", &updates, "--seconds", &seconds]].concat();
                let more = [one.target(grounds), grounds.pids(one.pid())].concat();
                results.add("watches", one.name, round, grounds.bench(&words, &more)?);
            }
        }
    }
    Ok(())
}

/// What a user waits for while another lists everything and a third creates.
fn fairness(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    // The largest that every server was given.
    let Some(size) = extent.sizes.iter().filter(|size| **size <= 10_000).max() else { return Ok(()) };
    let (namespace, seconds) = (lists::namespace(*size), extent.seconds.to_string());
    for round in 0..extent.rounds {
        for one in contestants.iter().filter(|one| one.kind == "machine" && one.filled >= *size) {
            let words = ["fairness", "--kind", one.kind, "--namespace", &namespace, "--seconds", &seconds];
            let more = [one.target(grounds), grounds.pids(one.pid())].concat();
            results.add("fairness", one.name, round, grounds.bench(&words, &more)?);
        }
    }
    Ok(())
}

fn growth(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    growth::by_watchers(house, extent, results)?;
    growth::by_replicas(house, extent, results)
}

/// Ends each server and starts it again with all that it stores by now.
fn restarts(house: &mut House, _: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    for one in contestants.iter_mut().rev() {
        one.stop();
        let mut measured = one.start(grounds, "/readyz")?;
        measured["objects"] = one.filled.into();
        results.add("restart", one.name, 0, measured);
    }
    Ok(())
}

/// Resident memory of a process, in bytes.
pub(super) fn resident(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// The most memory that a process has held since that was last forgotten. Unit: bytes.
pub(super) fn peak(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|text| text.strip_prefix(line))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
