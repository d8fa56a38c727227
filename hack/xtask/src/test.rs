//! `cargo xtask test`.

use crate::{prerequisites, run};

/// Runs every test of the workspace on real etcds.
pub(crate) fn run() -> anyhow::Result<()> {
    prerequisites::build()?;
    let distribution = prerequisites::distribution_etcd()?;
    let current = prerequisites::current_etcd()?;
    let mut command = run::cargo(&["test", "--workspace", "--no-fail-fast"])?;
    command.env("CAPSTAN_ETCD_DISTRIBUTION", distribution).env("CAPSTAN_ETCD_CURRENT", current);
    run::shown(&mut command)
}
