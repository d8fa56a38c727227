//! Execution of commands, and the directories of the checkout.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Returns the root of the checkout.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    // Read at run time: checkouts that share a target directory also share this binary.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    Path::new(&here)
        .ancestors()
        .nth(2)
        .map(Path::to_owned)
        .context("cannot find the root of the checkout above CARGO_MANIFEST_DIR")
}

/// Returns the directory for downloads and builds that all checkouts share.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(cache) = from("CAPSTAN_CACHE") {
        return Ok(cache);
    }
    if let Some(cache) = from("XDG_CACHE_HOME") {
        return Ok(cache.join("capstan"));
    }
    from("HOME")
        .map(|home| home.join(".cache/capstan"))
        .context("cannot choose a cache directory: HOME is not set; set CAPSTAN_CACHE")
}

/// Returns the target directory of cargo.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let root = root()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into))
}

/// Returns the target triple of this machine.
pub(crate) fn host() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV").current_dir(root()?))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` prints no host triple")
}

/// Returns a cargo command in the checkout.
pub(crate) fn cargo(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Returns a cargo command that compiles the crates of the workspace with `clippy-driver`, which is rustc with clippy's
/// lints.
///
/// All commands that build tests use it: the lints, the docs and the tests are then made from one compilation, which
/// takes most of the time of CI. Cargo keeps the results of another compiler apart.
pub(crate) fn linting_cargo(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = cargo(arguments)?;
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    Ok(command)
}

/// Runs a command and shows its output.
pub(crate) fn shown(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("{} cannot be run", name(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{} cannot be run", name(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reports whether this is a run of CI.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Skips a check that this machine cannot run.
///
/// # Errors
/// In CI, a check that cannot run counts as failed.
pub(crate) fn skip(check: &str, why: anyhow::Error) -> anyhow::Result<()> {
    skip_unless(in_ci(), check, why)
}

fn skip_unless(in_ci: bool, check: &str, why: anyhow::Error) -> anyhow::Result<()> {
    if in_ci {
        return Err(why.context(format!("{check} cannot run, and CI skips none")));
    }
    eprintln!("skipped {check}: {why:#}");
    Ok(())
}

/// Reports whether a program is in a directory of PATH.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::skip_unless;

    #[test]
    fn a_check_that_cannot_run_is_skipped_and_fails_in_ci() {
        let skip = |in_ci| skip_unless(in_ci, "lintian", anyhow!("missing: lintian"));
        assert!(skip(false).is_ok());
        let error = format!("{:#}", skip(true).unwrap_err());
        assert_eq!(error, "lintian cannot run, and CI skips none: missing: lintian");
    }
}
