//! Outcome of the end-to-end tests.

use std::io::Write;
use std::time::Duration;

use anyhow::ensure;

use crate::suites::Suites;

/// Counts of all parts, and the duration of each.
pub(super) struct Outcome {
    pub(super) passed: usize,
    pub(super) skipped: usize,
    /// Note on scenarios that did not run.
    pub(super) note: &'static str,
    pub(super) suites: Suites,
}

impl Outcome {
    pub(super) fn new() -> Self {
        Self { passed: 0, skipped: 0, note: "", suites: Suites::new("e2e") }
    }

    pub(super) fn add(&mut self, part: &str, taken: Duration) {
        self.suites.add(part, taken);
    }

    /// Prints the counts.
    ///
    /// # Errors
    /// No scenario has run, or a part took longer than its budget.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        ensure!(
            self.passed + self.skipped > 0,
            "no scenario was run: no sentence of this part contains the text of --scenario"
        );
        let budgets = self.suites.finish();
        writeln!(
            std::io::stdout(),
            "{} passed, 0 failed, {} skipped{}",
            self.passed,
            self.skipped,
            self.note
        )?;
        budgets
    }
}
