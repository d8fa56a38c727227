//! Table of phases: wall time and CPU time of each.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Ticks per second of the counters in `/proc/stat`. Linux has this value on all machines.
const TICKS: f64 = 100.0;

/// File with the CPU time of all containers of libvirt, with cgroup v1. Unit: nanoseconds.
const GUESTS: &str = "/sys/fs/cgroup/cpuacct/machine/cpuacct.usage";

/// CPU seconds since the machine has started.
#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    machine: f64,
    guests: f64,
}

impl Cpu {
    fn now() -> Self {
        let number = |text: &str| text.trim().parse::<f64>().unwrap_or_default();
        let guests = std::fs::read_to_string(GUESTS).map(|text| number(&text) / 1e9).unwrap_or_default();
        let machine = std::fs::read_to_string("/proc/stat").map(|text| busy(&text)).unwrap_or_default();
        Self { machine, guests }
    }
}

/// Returns the busy seconds of all processors: user, nice, system and interrupts, without idle and waiting time.
fn busy(stat: &str) -> f64 {
    let counters: Vec<f64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|index| counters.get(index));
    busy.sum::<f64>() / TICKS
}

struct Phase {
    name: String,
    wall: Duration,
    cpu: Cpu,
}

/// Phases in the order in which they ended. The table is printed when this is dropped, also after a failure.
#[derive(Default)]
pub(super) struct Phases {
    ended: RefCell<Vec<Phase>>,
}

impl Phases {
    /// Runs one phase.
    pub(super) fn measure<T>(
        &self,
        name: &str,
        phase: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let (started, before) = (Instant::now(), Cpu::now());
        let result = phase();
        let after = Cpu::now();
        let cpu = Cpu { machine: after.machine - before.machine, guests: after.guests - before.guests };
        self.ended.borrow_mut().push(Phase { name: name.to_owned(), wall: started.elapsed(), cpu });
        result
    }

    fn table(&self) -> String {
        let mut table = format!("{:<58} {:>8} {:>8} {:>8}\n", "guests", "wall s", "CPU s", "guests");
        let mut sum = (0.0, Cpu::default());
        for phase in self.ended.borrow().iter() {
            let wall = phase.wall.as_secs_f64();
            let _ = writeln!(
                table,
                "  {:<56} {wall:>8.1} {:>8.1} {:>8.1}",
                phase.name, phase.cpu.machine, phase.cpu.guests
            );
            sum.0 += wall;
            sum.1.machine += phase.cpu.machine;
            sum.1.guests += phase.cpu.guests;
        }
        let _ = write!(table, "  {:<56} {:>8.1} {:>8.1} {:>8.1}", "sum", sum.0, sum.1.machine, sum.1.guests);
        table
    }
}

impl Drop for Phases {
    fn drop(&mut self) {
        if !self.ended.borrow().is_empty() {
            eprintln!("{}", self.table());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let stat = "cpu  100 50 30 9000 400 10 10 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert!((busy(stat) - 2.0).abs() < 1e-9, "{}", busy(stat));
    }

    #[test]
    fn each_phase_has_a_row_and_the_sum_is_last() {
        let phases = Phases::default();
        phases.measure("a node is Ready", || Ok(())).unwrap();
        let table = phases.table();
        assert!(
            table.contains("a node is Ready") && table.lines().last().unwrap().contains("sum"),
            "{table}"
        );
    }
}
