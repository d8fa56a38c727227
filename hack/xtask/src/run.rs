//! Running commands, and where things are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The root of the checkout.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    // Asked at run time: checkouts that share a target directory share this binary, too.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    Path::new(&here).ancestors().nth(2).map(Path::to_owned).context("the checkout has no root")
}

/// Where downloads and builds are kept between checkouts.
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
        .context("there is no HOME to keep a cache in: set CAPSTAN_CACHE")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> anyhow::Result<PathBuf> {
    let root = root()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into))
}

/// The machine that is built on, and for.
pub(crate) fn host() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV").current_dir(root()?))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say what it builds for")
}

/// A cargo command in the checkout.
pub(crate) fn cargo(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root()?);
    Ok(command)
}

/// Runs a command with its output shown.
pub(crate) fn shown(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("{} cannot be run", name(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", line(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("{} cannot be run", name(command)))?;
    if !output.status.success() {
        bail!("{} failed ({})", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program can be found.
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
