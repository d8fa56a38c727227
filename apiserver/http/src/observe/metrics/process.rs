//! Metrics of the process, from the operating system. Without `/proc` they are left out.

use std::fs;

use apiserver_executor::TaskName;

/// Unit of processor times in `/proc`: the same on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the metrics that client libraries of Prometheus have for every process.
pub(super) fn write(text: &mut String) {
    let mut metric = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let name = format!("process_{name}");
            text.push_str(&format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {value}\n"));
        }
    };
    let stat = Stat::read();
    metric("cpu_seconds_total", "counter", "Processor time used", stat.as_ref().and_then(Stat::cpu_seconds));
    metric("start_time_seconds", "gauge", "When it began, since 1970", stat.as_ref().and_then(Stat::started));
    metric("resident_memory_bytes", "gauge", "Memory in use", kilobytes("VmRSS:"));
    metric("anonymous_memory_bytes", "gauge", "Memory in use that is of no file", kilobytes("RssAnon:"));
    metric("virtual_memory_bytes", "gauge", "Addresses in use", kilobytes("VmSize:"));
    metric("open_fds", "gauge", "Files and connections open", open_files());
    metric("max_fds", "gauge", "Files and connections that may be open", most_files());
}

/// Appends the restarts of each supervised task.
pub(super) fn write_restarts(text: &mut String, restarts: &[(TaskName, u64)]) {
    if restarts.is_empty() {
        return;
    }
    const NAME: &str = "capstan_task_restarts_total";
    text.push_str(&format!("# HELP {NAME} Restarts of supervised tasks.\n# TYPE {NAME} counter\n"));
    for (task, count) in restarts {
        text.push_str(&format!("{NAME}{{task=\"{task}\"}} {count}\n"));
    }
}

/// Fields of `/proc/self/stat` after the program's name, which may contain anything.
struct Stat(Vec<f64>);

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = text.rsplit_once(')')?;
        Some(Self(fields.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect()))
    }

    /// Returns a field by its number in `proc(5)`.
    fn field(&self, number: usize) -> Option<f64> {
        self.0.get(number.checked_sub(3)?).copied()
    }

    fn cpu_seconds(&self) -> Option<f64> {
        Some((self.field(14)? + self.field(15)?) / TICKS_PER_SECOND)
    }

    fn started(&self) -> Option<f64> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        let booted: f64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(booted + self.field(22)? / TICKS_PER_SECOND)
    }
}

fn kilobytes(field: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: f64 = value.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024.0)
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

fn most_files() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    limit.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_all_of_it() {
        let mut text = String::new();
        write(&mut text);
        let samples: Vec<(&str, f64)> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect();
        assert_eq!(samples.len(), 7, "{text}");
        assert!(samples.iter().all(|(_, value)| *value >= 0.0), "{text}");
        let of = |name: &str| samples.iter().find(|(found, _)| *found == name).unwrap().1;
        assert!(of("process_resident_memory_bytes") > 1e6 && of("process_open_fds") >= 3.0, "{text}");
        assert!(of("process_anonymous_memory_bytes") <= of("process_resident_memory_bytes"), "{text}");
        assert!(of("process_start_time_seconds") > 1.6e9, "{text}");
    }
}
