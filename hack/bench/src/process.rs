//! Process statistics of the kernel: CPU time, memory, written bytes.

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

/// Ticks of CPU time per second in `/proc`: the kernel's interface has 100 on all platforms of the benchmark.
const TICKS: f64 = 100.0;

/// Processes that are observed while the load runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct Processes {
    /// `name=pid` of a process whose CPU time is reported; may be given more than once
    #[arg(long = "pid", value_parser = parse)]
    pids: Vec<(String, u32)>,
}

fn parse(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("name=pid is expected")?;
    Ok((name.to_owned(), pid.parse().map_err(|error| format!("{error}"))?))
}

/// CPU seconds and written bytes up to now, of each process and of this one.
#[derive(Debug)]
pub(crate) struct Reading(Vec<(String, f64, u64)>);

impl Processes {
    /// Observes these processes, by name and id.
    pub(crate) fn of(pids: &[(&str, u32)]) -> Self {
        Self { pids: pids.iter().map(|(name, pid)| ((*name).to_owned(), *pid)).collect() }
    }

    /// Reads the statistics of all processes.
    pub(crate) fn read(&self) -> anyhow::Result<Reading> {
        let own = ("load".to_owned(), std::process::id());
        let all = self.pids.iter().chain([&own]);
        all.map(|(name, pid)| Ok((name.clone(), cpu(*pid)?, written(*pid)?)))
            .collect::<anyhow::Result<_>>()
            .map(Reading)
    }

    /// Returns the CPU seconds and the bytes written to disk since an earlier reading, by name.
    pub(crate) fn since(&self, earlier: &Reading) -> anyhow::Result<Value> {
        let now = self.read()?;
        let used = now.0.iter().zip(&earlier.0).map(|(now, before)| {
            (now.0.clone(), json!({"cpu": now.1 - before.1, "written": now.2.saturating_sub(before.2)}))
        });
        Ok(Value::Object(used.collect()))
    }

    /// Returns the resident memory of the process with this name, its anonymous part, and its peak since
    /// [`Self::reset_peak`], in bytes.
    pub(crate) fn memory(&self, name: &str) -> anyhow::Result<Option<Value>> {
        let Some((_, pid)) = self.pids.iter().find(|(own, _)| own == name) else { return Ok(None) };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        let (resident, anonymous, peak) = (field("VmRSS:"), field("RssAnon:"), field("VmHWM:"));
        Ok(Some(json!({"resident": resident, "anonymous": anonymous, "peak": peak})))
    }

    /// Makes the kernel take the current memory as the peak.
    pub(crate) fn reset_peak(&self) {
        for (_, pid) in &self.pids {
            // The kernel refuses this for the process of another user: then the peak is the one since its
            // start.
            let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }
}

/// Returns the average number of processes in the last minute that run or wait for a core.
pub(crate) fn load_average() -> Option<f64> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    averages.split_whitespace().next()?.parse().ok()
}

fn cpu(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The second field is a name in brackets that may contain blanks.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>().context(path)?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

fn written(pid: u32) -> anyhow::Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
}
