//! Backups of a running server: their duration, and the rate of requests beside them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use serde_json::{Value, json};

use super::results::Results;
use super::servers::MeasuredServer;
use super::testbed::{Environment, Testbed};
use super::{Extent, lists};
use crate::run;

/// Operations beside a backup: one that the cache answers, and one that the store answers.
const OPERATIONS: &str = "get,patch";

/// Requests in flight.
const IN_FLIGHT: &str = "16";

/// Duration of each operation, as a multiple of that of other phases: a backup takes seconds.
const LONGER: f64 = 5.0;

/// Longest time for 100,000 objects. Unit: seconds.
const BOUND: f64 = 20.0;

/// Largest part by which requests may become slower.
const SLOWER: f64 = 0.05;

/// Pause after an attempt that failed: the server still sends the backup before.
const PAUSE: Duration = Duration::from_millis(200);

/// Measures each Capstan with the objects that it has, or with those of the largest list.
pub(super) fn all(testbed: &mut Testbed, extent: &Extent, results: &mut Results) -> anyhow::Result<()> {
    if testbed.servers.iter().any(|one| is_capstan(one) && one.filled == 0) {
        lists::fill(testbed, extent.sizes.last().copied().unwrap_or_default(), results)?;
    }
    let Testbed { servers, environment, .. } = &*testbed;
    for one in servers.iter().filter(|one| is_capstan(one)) {
        for round in 0..extent.rounds {
            results.add("backup", one.name, round, measure(environment, one, extent, round)?);
        }
    }
    Ok(())
}

fn is_capstan(one: &MeasuredServer) -> bool {
    one.name.starts_with("capstan")
}

/// Measures the operations without backups, and then beside one backup after the other.
fn measure(
    environment: &Environment,
    one: &MeasuredServer,
    extent: &Extent,
    round: usize,
) -> anyhow::Result<Value> {
    let without = load(environment, one, extent, &format!("w{round}"))?;
    let kubeconfig = kubeconfig(environment, one)?;
    let is_over = AtomicBool::new(false);
    let (beside, backups) = std::thread::scope(|scope| {
        let running = scope.spawn(|| back_up(environment, one, &kubeconfig, &is_over));
        let beside = load(environment, one, extent, &format!("b{round}"));
        is_over.store(true, Ordering::Relaxed);
        let backups = running.join().map_err(|_| anyhow!("the thread of the backups panicked"))??;
        anyhow::Ok((beside?, backups))
    })?;
    let objects = f64::from(u32::try_from(one.filled).unwrap_or(u32::MAX));
    let seconds = backups.iter().copied().fold(0.0, f64::max);
    let rows = without.iter().zip(&beside).map(|((operation, without), (_, beside))| {
        let slower = 1.0 - beside / without;
        let is_good = seconds <= BOUND * (objects / 100_000.0).max(1.0) && slower <= SLOWER;
        let verdict = if is_good { "" } else { " (missed)" };
        eprintln!(
            "        {}: backup of {objects} objects in {seconds:.1} s, {operation} {:.1} % slower{verdict}",
            one.name,
            slower * 100.0
        );
        json!({"objects": one.filled, "seconds": seconds, "backups": backups.len(), "operation": operation,
            "perSecond": without, "perSecondBeside": beside})
    });
    Ok(Value::Array(rows.collect()))
}

/// Returns each operation with its number per second.
fn load(
    environment: &Environment,
    one: &MeasuredServer,
    extent: &Extent,
    run: &str,
) -> anyhow::Result<Vec<(String, f64)>> {
    let seconds = (extent.seconds * LONGER).to_string();
    let words = ["operations", "--kind", one.kind, "--in-flight", IN_FLIGHT, "--only", OPERATIONS];
    let words = [&words[..], &["--seconds", &seconds, "--run", run]].concat();
    let measured = environment.bench(&words, &one.target(environment))?;
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_f64();
        Some((row["operation"].as_str()?.to_owned(), number("count")? / number("seconds")?))
    };
    let rows: Option<Vec<_>> = measured.as_array().and_then(|rows| rows.iter().map(row).collect());
    rows.with_context(|| format!("the load generator printed {measured}"))
}

/// Writes backups until the load is over, and at least one. Returns the seconds of each.
fn back_up(
    environment: &Environment,
    one: &MeasuredServer,
    kubeconfig: &Path,
    is_over: &AtomicBool,
) -> anyhow::Result<Vec<f64>> {
    let file = environment.home.join(format!("{}.backup", one.name));
    let mut all = Vec::new();
    loop {
        let begun = Instant::now();
        let mut command = Command::new(&one.program);
        command.args(["backup", "--kubeconfig"]).arg(kubeconfig).arg("--to").arg(&file);
        let written = run::output(&mut command);
        let seconds = begun.elapsed().as_secs_f64();
        match written {
            Ok(_) => {
                all.push(seconds);
                std::fs::remove_file(&file)?;
            }
            Err(error) if is_over.load(Ordering::Relaxed) => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
        if is_over.load(Ordering::Relaxed) && !all.is_empty() {
            return Ok(all);
        }
    }
}

/// Writes a kubeconfig of the administrator.
fn kubeconfig(environment: &Environment, one: &MeasuredServer) -> anyhow::Result<PathBuf> {
    let file = |name: &str| environment.certificates.path(name);
    let server = format!("https://127.0.0.1:{}", one.port);
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": server, "certificate-authority": file("kube-ca.crt")}}],
        "users": [{"name": "admin", "user": {"client-certificate": file("admin.crt"), "client-key": file("admin.key")}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "admin"}}]});
    let path = environment.home.join(format!("{}.kubeconfig", one.name));
    std::fs::write(&path, document.to_string())?;
    Ok(path)
}
