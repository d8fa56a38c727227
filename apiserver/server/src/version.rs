//! Command `capstan version`, and the version that the server reports.

use std::io::Write;

/// Kubernetes release whose API behaviour the server has. Clients choose their requests by it.
pub(crate) const KUBERNETES: &str = "v1.36.0";

/// Returns the `gitVersion` of `/version`.
pub(crate) fn git_version() -> String {
    format!("{KUBERNETES}+capstan-{}", env!("CARGO_PKG_VERSION"))
}

/// Prints both versions.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "capstan {} (Kubernetes API {KUBERNETES})", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
