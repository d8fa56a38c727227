//! What is measured, in which order. Within a round every server has its turn before anything is repeated, so
//! that a slower minute of the machine falls on all of them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::House;
use super::results::Results;
use super::{Extent, growth};
use crate::{prerequisites, run};

/// Requests in flight.
const IN_FLIGHT: [usize; 3] = [1, 16, 64];

/// Those who list at the same time.
const READERS: [usize; 2] = [1, 8];

/// Informers that start at once.
const INFORMERS: usize = 100;

/// What a store is given, in bytes: a Machine when it was created, and when it has a status and the owners of that; and
/// what Capstan makes of the latter before etcd has it.
const LIMITS: [(&str, &str); 3] = [("create", "1550"), ("update", "5600"), ("update", "2000")];

/// Until a server that was just started has put away what it needed for that.
const REST: Duration = Duration::from_secs(3);

/// What a server may need per object and more: with less memory free it is not given so many.
const HEADROOM: f64 = 1.3;

/// Runs the phases with `only` in their names.
pub(super) fn all(
    house: &mut House,
    extent: &Extent,
    only: &str,
    results: &mut Results,
) -> anyhow::Result<()> {
    type Phase = fn(&mut House, &Extent, &mut Results) -> anyhow::Result<()>;
    let phases: [(&str, Phase); 7] = [
        ("limits", limits),
        ("operations", operations),
        ("watches", watches),
        ("lists", lists),
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

/// What etcd and the wire allow.
fn limits(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let (pid, target) = house.floor()?;
    let seconds = extent.seconds.to_string();
    for round in 0..extent.rounds {
        for in_flight in IN_FLIGHT {
            let (in_flight, run) = (in_flight.to_string(), format!("r{round}f{in_flight}"));
            let words = ["--in-flight", &in_flight, "--seconds", &seconds, "--run", &run];
            let mut etcd = vec!["--endpoint".to_owned(), house.grounds.etcd_url.clone()];
            etcd.extend(house.grounds.pids(pid));
            for (operation, size) in LIMITS {
                let what = ["etcd", "--operation", operation, "--size", size];
                let measured = house.grounds.bench(&[&what, &words[..]].concat(), &etcd)?;
                results.add("limit", "etcd", round, measured);
            }
            let directory = house.grounds.home.join("limit").display().to_string();
            let words_embedded = [&["embedded", "--directory", &directory], &words[..]].concat();
            results.add("limit", "embedded", round, house.grounds.bench(&words_embedded, &[])?);
            let floor = [target.clone(), house.grounds.pids(pid)].concat();
            let words = [&["operations", "--only", "create,get"], &words[..]].concat();
            let measured = house.grounds.bench(&words, &floor)?;
            results.add("operations", "floor", round, measured);
        }
    }
    Ok(())
}

fn operations(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    let seconds = extent.seconds.to_string();
    for round in 0..extent.rounds {
        for in_flight in IN_FLIGHT {
            for one in contestants.iter() {
                let (in_flight, run) = (in_flight.to_string(), format!("r{round}f{in_flight}"));
                let words = ["operations", "--kind", one.kind, "--in-flight", &in_flight];
                let words = [&words[..], &["--seconds", &seconds, "--run", &run]].concat();
                let more = [one.target(grounds), grounds.pids(one.pid())].concat();
                results.add("operations", one.name, round, grounds.bench(&words, &more)?);
            }
        }
    }
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
    let (namespace, seconds) = (namespace(*size), extent.seconds.to_string());
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

/// Fills a namespace of each size, and lists it.
fn lists(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    for size in extent.sizes {
        fill(house, *size, results)?;
        for round in 0..extent.rounds {
            for readers in READERS {
                list(house, extent, (*size, readers, round), results)?;
            }
        }
        informers(house, *size, results)?;
        for one in house.contestants.iter().filter(|one| one.filled >= *size) {
            growth::by_objects(&house.grounds, one, extent, results)?;
        }
    }
    Ok(())
}

fn fill(house: &mut House, size: usize, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    for one in contestants.iter_mut().filter(|one| fits(one.name, one.pid(), size)) {
        let (namespace, count) = (namespace(size), size.to_string());
        let words = ["populate", "--kind", one.kind, "--namespace", &namespace, "--count", &count];
        let mut more = one.target(grounds);
        if one.has_etcd {
            more.extend(["--etcd".to_owned(), grounds.etcd_url.clone()]);
        }
        let mut measured = grounds.bench(&words, &more)?;
        std::thread::sleep(REST);
        measured["resident"] = resident(one.pid()).into();
        one.filled += size;
        results.add("populate", one.name, 0, measured);
    }
    Ok(())
}

fn namespace(size: usize) -> String {
    format!("list-{size}")
}

/// One server in each form, then the next; the floor with as many bytes as Capstan's whole list has.
fn list(
    house: &mut House,
    extent: &Extent,
    (size, readers, round): (usize, usize, usize),
    results: &mut Results,
) -> anyhow::Result<()> {
    let floor = house.floor()?;
    let House { contestants, grounds, .. } = house;
    let (namespace, seconds) = (namespace(size), extent.list_seconds.to_string());
    let in_parallel = readers.to_string();
    let ask = |pid: u32, target: Vec<String>, words: &[&str]| {
        let common = ["lists", "--readers", &in_parallel, "--seconds", &seconds];
        let more = [target, grounds.pids(pid)].concat();
        let mut measured = grounds.bench(&[&common[..], words].concat(), &more)?;
        for row in measured.as_array_mut().into_iter().flatten() {
            row["size"] = size.into();
        }
        anyhow::Ok(measured)
    };
    let mut bytes = 0;
    // Sizes grow tenfold: who has less was not given this one.
    for one in contestants.iter().filter(|one| one.filled >= size) {
        // Eight in every form of ten thousand take a kube-apiserver minutes.
        let is_long = size >= 10_000 && readers == READERS[1] && !extent.every_form;
        let forms = if is_long { "whole" } else { "whole,chunked,label,metadata,table" };
        let words = ["--kind", one.kind, "--namespace", &namespace, "--forms", forms];
        let measured = ask(one.pid(), one.target(grounds), &words)?;
        let number =
            |name: &str| measured.pointer(&format!("/0/{name}")).and_then(Value::as_u64).unwrap_or(0);
        if one.name == "capstan" {
            bytes = number("bytes") / number("count").max(1);
        }
        results.add("lists", one.name, round, measured);
    }
    let path = format!("bytes-{bytes}");
    let measured = ask(floor.0, floor.1, &["--namespace", &path, "--forms", "whole"])?;
    results.add("lists", "floor", round, measured);
    Ok(())
}

fn informers(house: &House, size: usize, results: &mut Results) -> anyhow::Result<()> {
    let House { contestants, grounds, .. } = house;
    // A hundred copies of more than this tell nothing else, and take minutes.
    if size > 1_000 {
        return Ok(());
    }
    let (namespace, informers) = (namespace(size), INFORMERS.to_string());
    for one in contestants.iter() {
        let words = ["informers", "--kind", one.kind, "--namespace", &namespace, "--informers", &informers];
        let more = [one.target(grounds), grounds.pids(one.pid())].concat();
        let mut measured = grounds.bench(&words, &more)?;
        measured["size"] = size.into();
        results.add("informers", one.name, 0, measured);
    }
    Ok(())
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

/// Whether so many objects leave memory free, as far as what the server holds now tells.
fn fits(server: &str, pid: u32, size: usize) -> bool {
    // Below this everybody's can be held; above it, what ten thousand took tells.
    if size <= 10_000 {
        return true;
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free =
        free.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0;
    let held = resident(pid).unwrap_or(0);
    let needed = f64::from(u32::try_from(held / 10_000).unwrap_or(u32::MAX))
        * f64::from(u32::try_from(size).unwrap_or(u32::MAX))
        * HEADROOM;
    if needed > free {
        eprintln!(
            "{server} is not given {size} objects: they would take {:.0} GiB, and {:.0} are free",
            needed / 1_073_741_824.0,
            free / 1_073_741_824.0
        );
    }
    needed <= free
}

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
