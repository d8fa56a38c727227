//! `capstan version`.

use std::io::Write;

/// The Kubernetes release whose API behaviour this server has; clients decide by it what to ask.
pub(crate) const KUBERNETES: &str = "v1.36.0";

/// What `/version` answers as `gitVersion`.
pub(crate) fn git_version() -> String {
    format!("{KUBERNETES}+capstan-{}", env!("CARGO_PKG_VERSION"))
}

/// Prints both versions.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "capstan {} (Kubernetes API {KUBERNETES})", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
