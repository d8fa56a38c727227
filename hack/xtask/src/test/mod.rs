//! `cargo xtask test`.

use crate::{prerequisites, run};

/// Runs every test of the workspace on real etcds.
pub(crate) fn run() -> anyhow::Result<()> {
    prerequisites::build()?;
    let distribution = prerequisites::distribution_etcd()?;
    let current = prerequisites::current_etcd()?;
    let mut command =
        run::cargo(&["test", "--locked", "--workspace", "--exclude", "tests-scenarios", "--no-fail-fast"])?;
    command.env("CAPSTAN_ETCD_DISTRIBUTION", distribution).env("CAPSTAN_ETCD_CURRENT", current);
    let parts = run::shown(&mut command);
    // Each scenario has a server and a cloud of its own and mostly waits for them, so more run side by
    // side than there are cores.
    let mut command = run::cargo(&["test", "--locked", "--package", "tests-scenarios", "--no-fail-fast"])?;
    let scenarios = run::shown(command.args(["--", "--test-threads", SCENARIOS]));
    parts.and(scenarios)
}

/// Scenarios side by side.
const SCENARIOS: &str = "6";
