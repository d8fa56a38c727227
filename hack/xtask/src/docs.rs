//! Check of the docs: links and lints of all libraries, private items included.
//!
//! `cargo doc` would compile every dependency and every crate once more. The calls with which `cargo test --doc` runs the
//! tests in docs have the arguments for the libraries that the tests have compiled, so `rustdoc.sh` keeps these calls, and
//! this module makes the docs with them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail, ensure};

use crate::run;

/// Arguments of rustdoc that belong to tests in docs. The first ones have no value, the others have one.
const OF_TESTS: ([&str; 2], [&str; 2]) = (["--test", "--nocapture"], ["--test-run-directory", "--test-args"]);

/// Makes the docs of all libraries, and fails for a warning.
pub(crate) fn check() -> anyhow::Result<()> {
    let directory = run::target()?.join("docs");
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let mut command = run::linting_cargo(&["test", "--quiet", "--locked", "--workspace", "--doc"])?;
    command
        .env("RUSTDOC", run::root()?.join("hack/xtask/rustdoc.sh"))
        .env("CAPSTAN_RUSTDOC_CALLS", &directory);
    run::shown(&mut command)?;
    let calls = calls(&directory)?;
    ensure!(!calls.is_empty(), "cargo called rustdoc for no library");
    all(&calls, &directory)
}

/// The files with the calls.
fn calls(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "call"));
    paths.sort();
    Ok(paths)
}

/// Makes all calls, as many at a time as there are cores, and names the crates that failed.
fn all(calls: &[PathBuf], directory: &Path) -> anyhow::Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = document(call, directory) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// Makes the docs of one crate.
fn document(call: &Path, directory: &Path) -> anyhow::Result<()> {
    let name = call.file_stem().unwrap_or_default();
    let mut words = texts(call)?.into_iter();
    let place = words.next().context("a call without its directory")?;
    let mut command = Command::new("rustdoc");
    command.current_dir(place).stdin(Stdio::null()).env_clear();
    for variable in texts(&call.with_extension("environment"))? {
        let variable = variable.into_string().unwrap_or_default();
        command.envs(variable.split_once('='));
    }
    command.args(of_docs(words)).args(["--document-private-items", "-D", "warnings", "--out-dir"]);
    // In a shared directory, each crate waits for the others to read and write the index of all.
    let status = command.arg(directory.join(name)).status().context("rustdoc cannot be run")?;
    ensure!(status.success(), "{}: {status}", name.display());
    Ok(())
}

/// Reads texts that each end with a zero byte.
fn texts(path: &Path) -> anyhow::Result<Vec<OsString>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let parts = bytes.split(|byte| *byte == 0);
    let mut texts: Vec<OsString> = parts.map(|part| OsString::from_vec(part.to_vec())).collect();
    texts.pop();
    Ok(texts)
}

/// Returns the arguments without those that only a test in docs has.
fn of_docs(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (alone, valued) = OF_TESTS;
    let (mut kept, mut words) = (Vec::new(), words);
    while let Some(word) = words.next() {
        let is = |names: &[&str]| names.iter().any(|name| word == *name);
        if is(&valued) {
            words.next();
        } else if !is(&alone) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::of_docs;

    #[test]
    fn arguments_of_tests_are_left_out() {
        let call = ["--crate-name", "a", "--test", "src/lib.rs", "--test-run-directory", "/b", "-L", "c"];
        let kept = of_docs(call.into_iter().map(Into::into));
        assert_eq!(kept, ["--crate-name", "a", "src/lib.rs", "-L", "c"]);
    }
}
