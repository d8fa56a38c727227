//! Lists: of namespaces of several sizes, in every form, by one and by many.

use serde_json::Value;

use super::phases::{REST, peak, resident};
use super::results::Results;
use super::testbed::House;
use super::{Extent, growth};

/// Those who list at the same time.
const READERS: [usize; 2] = [1, 8];

/// Informers that start at once.
const INFORMERS: usize = 100;

/// What a server may need per object and more: with less memory free it is not given so many.
const HEADROOM: f64 = 1.3;

/// Fills a namespace of each size, and lists it.
pub(super) fn all(house: &mut House, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
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
    for one in contestants.iter_mut() {
        let fits = fits(one.name, one.pid(), size);
        // Else the namespace alone: the Go sample server's are in its host.
        let (namespace, count) = (namespace(size), if fits { size } else { 0 }.to_string());
        let words = ["populate", "--kind", one.kind, "--namespace", &namespace, "--count", &count];
        let mut more = one.target(grounds);
        if !fits {
            grounds.bench(&words, &more)?;
            continue;
        }
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

pub(super) fn namespace(size: usize) -> String {
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
        let mut words = vec!["--kind", one.kind, "--namespace", &namespace];
        if is_long {
            words.extend(["--forms", "whole"]);
        }
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

/// Whether so many objects leave memory free, as far as it tells what the server held at most while fewer were listed.
fn fits(server: &str, pid: u32, size: usize) -> bool {
    // Below this everybody's can be held; above it, what ten thousand took tells.
    if size <= 10_000 {
        return true;
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free =
        free.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0;
    let held = peak(pid).unwrap_or(0);
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
