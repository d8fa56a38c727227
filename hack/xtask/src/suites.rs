//! Durations of the test suites, each compared with its budget.
//!
//! Two cores and ninety minutes are all that CI has. A suite that grows without being noticed takes that time from the
//! next one, so each has a budget in `hack/xtask/budgets.txt`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::run;

/// File with the budgets: a line for each suite, `command/suite seconds`.
const BUDGETS: &str = "hack/xtask/budgets.txt";

/// Factor on a budget above which a suite fails. Runs of one commit differ by a third on a shared machine.
const TOLERANCE: f64 = 1.5;

/// Duration below which no suite fails, because durations vary by a second between runs. Unit: seconds.
const SHORTEST: f64 = 5.0;

/// The suites of one command, in the order in which they ended.
#[derive(Debug)]
pub(crate) struct Suites {
    command: &'static str,
    started: Instant,
    taken: Vec<(String, f64)>,
    /// End of the last line of the table.
    note: &'static str,
}

impl Suites {
    /// Creates an empty list for the suites of a command.
    pub(crate) fn new(command: &'static str) -> Self {
        Self { command, started: Instant::now(), taken: Vec::new(), note: "" }
    }

    /// Records the duration of a suite.
    pub(crate) fn add(&mut self, name: &str, taken: Duration) {
        self.taken.push((name.to_owned(), taken.as_secs_f64()));
    }

    /// Adds a note to the last line of the table.
    pub(crate) fn note(&mut self, note: &'static str) {
        self.note = note;
    }

    /// Prints the table, keeps it for `cargo xtask times`, and compares it with the budgets.
    ///
    /// # Errors
    /// In CI, names each suite that took half as much again as its budget, or has none. Elsewhere the table says so:
    /// not every machine is as fast as CI's.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let budgets = budgets()?;
        let (mut table, over) = self.table(&budgets);
        table.push_str(self.note);
        eprintln!("{table}");
        let directory = kept()?;
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(self.command), &table)?;
        if over.is_empty() || !run::in_ci() { Ok(()) } else { bail!("over budget: {}", over.join("; ")) }
    }

    fn table(&self, budgets: &BTreeMap<String, f64>) -> (String, Vec<String>) {
        let (mut table, mut over) =
            (format!("{:<44} {:>9} {:>9}\n", self.command, "seconds", "budget"), Vec::new());
        for (name, taken) in &self.taken {
            let key = format!("{}/{name}", self.command);
            let (budget, verdict) = match budgets.get(&key) {
                None => {
                    over.push(format!("{key} has no budget in {BUDGETS}: it took {taken:.0} s"));
                    ("-".to_owned(), "  NO BUDGET")
                }
                Some(budget) if *taken > (budget * TOLERANCE).max(SHORTEST) => {
                    over.push(format!("{key} took {taken:.0} s of {budget:.0} s"));
                    (format!("{budget:.0}"), "  OVER BUDGET")
                }
                Some(budget) => (format!("{budget:.0}"), ""),
            };
            let _ = writeln!(table, "  {name:<42} {taken:>9.1} {budget:>9}{verdict}");
        }
        let total: f64 = self.taken.iter().map(|(_, taken)| taken).sum();
        let _ = writeln!(table, "  {:<42} {total:>9.1}", "sum (each concurrent suite counts in full)");
        let _ = write!(table, "  {:<42} {:>9.1}", "elapsed", self.started.elapsed().as_secs_f64());
        (table, over)
    }
}

/// Prints the tables of the last run of each command.
pub(crate) fn times() -> anyhow::Result<()> {
    for command in ["check", "test", "fuzz", "e2e"] {
        if let Ok(table) = std::fs::read_to_string(kept()?.join(command)) {
            eprintln!("{table}\n");
        }
    }
    Ok(())
}

fn kept() -> anyhow::Result<PathBuf> {
    Ok(run::target()?.join("suites"))
}

fn budgets() -> anyhow::Result<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(run::root()?.join(BUDGETS)).with_context(|| BUDGETS.to_owned())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, seconds) =
                line.trim().rsplit_once(' ').with_context(|| format!("{BUDGETS}: {line:?}"))?;
            let seconds = seconds.parse().with_context(|| format!("{BUDGETS}: {line:?}"))?;
            Ok((name.trim().to_owned(), seconds))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_far_over_its_budget_or_without_one_is_reported() {
        let mut suites = Suites::new("test");
        suites.add("fast", Duration::from_secs(14));
        suites.add("slow", Duration::from_secs(16));
        suites.add("new", Duration::from_secs(1));
        let budgets = BTreeMap::from([("test/fast".to_owned(), 10.0), ("test/slow".to_owned(), 10.0)]);
        let (_, over) = suites.table(&budgets);
        assert_eq!(over.len(), 2, "{over:?}");
        assert!(over.iter().any(|text| text.contains("test/slow took 16 s of 10 s")), "{over:?}");
    }
}
