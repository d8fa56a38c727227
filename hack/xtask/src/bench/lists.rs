//! List measurements: namespaces of several sizes, in every format, by one reader and by several.

use serde_json::Value;

use super::phases::{PAUSE, peak, resident};
use super::results::Results;
use super::testbed::Testbed;
use super::{Extent, growth};

/// Numbers of readers that list at the same time.
const READERS: [usize; 2] = [1, 8];

/// Number of informers that start at the same time.
const INFORMERS: usize = 100;

/// Safety factor on the memory that a server needs for a number of objects. With less free memory it does not get them.
const HEADROOM: f64 = 1.3;

/// Fills a namespace of each size, and lists it.
pub(super) fn all(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    for size in extent.sizes {
        fill(testbed, *size, results)?;
        for round in 0..extent.rounds {
            for readers in READERS {
                list(testbed, extent, (*size, readers, round), results)?;
            }
        }
        informers(testbed, *size, results)?;
        for one in testbed.servers.iter().filter(|one| one.filled >= *size) {
            growth::by_objects(&testbed.environment, one, extent, results)?;
        }
    }
    Ok(())
}

/// Fills a namespace with so many objects on each server whose memory suffices.
pub(super) fn fill(testbed: &mut Testbed, size: usize, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    for one in servers.iter_mut() {
        let fits = fits(one.name, one.pid(), size);
        // Without objects, only the namespace is created: the sample-apiserver uses the namespaces of its host.
        let (namespace, count) = (namespace(size), if fits { size } else { 0 }.to_string());
        let words = ["populate", "--kind", one.kind, "--namespace", &namespace, "--count", &count];
        let mut more = one.target(environment);
        if !fits {
            environment.bench(&words, &more)?;
            continue;
        }
        if one.has_etcd {
            more.extend(["--etcd".to_owned(), environment.etcd_url.clone()]);
        }
        let mut measured = environment.bench(&words, &more)?;
        std::thread::sleep(PAUSE);
        measured["resident"] = resident(one.pid()).into();
        one.filled += size;
        results.add("populate", one.name, 0, measured);
    }
    Ok(())
}

pub(super) fn namespace(size: usize) -> String {
    format!("list-{size}")
}

/// Measures each server in each form, one after the other. The floor then returns as many bytes as Capstan's whole
/// list.
fn list(
    testbed: &mut Testbed,
    extent: &Extent,
    (size, readers, round): (usize, usize, usize),
    results: &mut Results,
) -> anyhow::Result<()> {
    let floor = testbed.floor()?;
    let Testbed { servers, environment, .. } = testbed;
    let (namespace, seconds) = (namespace(size), extent.list_seconds.to_string());
    let in_parallel = readers.to_string();
    let measure = |pid: u32, target: Vec<String>, words: &[&str]| {
        let common = ["lists", "--readers", &in_parallel, "--seconds", &seconds];
        let more = [target, environment.pids(pid)].concat();
        let mut measured = environment.bench(&[&common[..], words].concat(), &more)?;
        for row in measured.as_array_mut().into_iter().flatten() {
            row["size"] = size.into();
        }
        anyhow::Ok(measured)
    };
    let mut bytes = 0;
    // Sizes grow by a factor of ten, so a server with fewer objects did not get this size.
    for one in servers.iter().filter(|one| one.filled >= size) {
        // Eight readers of ten thousand objects in every form take minutes on a kube-apiserver.
        let is_long = size >= 10_000 && readers == READERS[1] && !extent.every_form;
        let mut words = vec!["--kind", one.kind, "--namespace", &namespace];
        if is_long {
            words.extend(["--forms", "whole"]);
        }
        let measured = measure(one.pid(), one.target(environment), &words)?;
        let number =
            |name: &str| measured.pointer(&format!("/0/{name}")).and_then(Value::as_u64).unwrap_or(0);
        if one.name == "capstan" {
            bytes = number("bytes") / number("count").max(1);
        }
        results.add("lists", one.name, round, measured);
    }
    let path = format!("bytes-{bytes}");
    let measured = measure(floor.0, floor.1, &["--namespace", &path, "--forms", "whole"])?;
    results.add("lists", "floor", round, measured);
    Ok(())
}

fn informers(testbed: &Testbed, size: usize, results: &mut Results) -> anyhow::Result<()> {
    let Testbed { servers, environment, .. } = testbed;
    // A hundred informers with more objects show nothing new, and take minutes.
    if size > 1_000 {
        return Ok(());
    }
    let (namespace, informers) = (namespace(size), INFORMERS.to_string());
    for one in servers.iter() {
        let words = ["informers", "--kind", one.kind, "--namespace", &namespace, "--informers", &informers];
        let more = [one.target(environment), environment.pids(one.pid())].concat();
        let mut measured = environment.bench(&words, &more)?;
        measured["size"] = size.into();
        results.add("informers", one.name, 0, measured);
    }
    Ok(())
}

/// Reports whether the machine has enough memory for so many objects. The estimate is the peak memory of the server
/// with fewer objects.
fn fits(server: &str, pid: u32, size: usize) -> bool {
    // Every server can hold this many. Above that, the estimate is the peak with ten thousand objects.
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
            "skipping {size} objects on {server}: they need about {:.0} GiB, and {:.0} GiB are free",
            needed / 1_073_741_824.0,
            free / 1_073_741_824.0
        );
    }
    needed <= free
}
