//! `cargo xtask e2e`.

/// Nothing yet.
pub(crate) fn run() -> anyhow::Result<()> {
    Ok(())
}
