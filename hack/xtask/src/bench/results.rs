//! Results of a measurement, as they are stored beside the report.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use crate::run;

/// Measured rows, and a description of the machine.
pub(crate) struct Results {
    machine: Value,
    rows: Vec<Value>,
}

impl Results {
    pub(super) fn new(quick: bool, rounds: usize) -> Self {
        let mut machine = machine(quick);
        machine["rounds"] = rounds.into();
        Self { machine, rows: Vec::new() }
    }

    /// Records the version of a program that is not part of Capstan.
    pub(super) fn note(&mut self, program: &str, version: &str) {
        self.machine["programs"][program] = version.trim().into();
    }

    /// Adds the measurement of a server. An array is several rows of the same phase.
    pub(super) fn add(&mut self, phase: &str, server: &str, round: usize, measured: Value) {
        let measured = match measured {
            Value::Array(rows) => rows,
            one => vec![one],
        };
        let rows = measured.into_iter().map(|mut row| {
            row["phase"] = phase.into();
            row["server"] = server.into();
            row["round"] = round.into();
            row
        });
        self.rows.extend(rows);
    }

    /// Writes all rows, one per line, so that a reader can compare two runs.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let rows: Vec<String> = self.rows.iter().map(|row| format!("  {row}")).collect();
        let text = format!("{{\"machine\": {},\n \"rows\": [\n{}\n]}}\n", self.machine, rows.join(",\n"));
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

/// Describes the machine. Without this the numbers have no meaning.
fn machine(quick: bool) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let output = |program: &str, argument: &str| {
        run::output(Command::new(program).arg(argument)).unwrap_or_default().trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "quick": quick,
        "date": output("date", "-uI"),
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "cores": cores,
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": output("uname", "-r"),
        "rustc": output("rustc", "--version"),
        "commit": commit(),
    })
}

fn commit() -> Option<String> {
    let root = run::root().ok()?;
    let mut git = Command::new("git");
    run::output(git.args(["describe", "--always", "--dirty"]).current_dir(root))
        .ok()
        .map(|it| it.trim().to_owned())
}
