//! Test programs: built by cargo, and run without it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::run;

/// A test program of the workspace.
#[derive(Debug)]
pub(crate) struct Program {
    /// The package that it tests.
    pub(crate) package: String,
    /// The target's name: `lib`, or the name of the file under `tests/`.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The package's directory, in which cargo would run it.
    pub(crate) directory: PathBuf,
}

impl Program {
    /// Returns the command that runs the program, in the place and environment in which cargo would run it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory).stdin(Stdio::null());
        command
    }
}

/// Builds all test programs with one call of cargo, so that nothing is built twice. It also builds the binaries that
/// these programs start, such as `capstan`.
pub(crate) fn build() -> anyhow::Result<Vec<Program>> {
    let mut output = build_once(&[])?;
    if !output.status.success() {
        // Two linkers at once need gigabytes. One that finds no memory or no space crashes without a reason.
        eprintln!("xtask: the build failed; once more, with one job. Memory and space:");
        show_resources();
        output = build_once(&["--jobs", "1"])?;
    }
    if !output.status.success() {
        bail!("the tests cannot be built ({})", output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(|line| program(&serde_json::from_str(line).ok()?)).collect())
}

fn build_once(flags: &[&str]) -> anyhow::Result<Output> {
    let mut command = run::cargo(&["test", "--locked", "--workspace", "--no-run"])?;
    command.args(["--message-format", "json-render-diagnostics"]).args(flags);
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cargo cannot be run")
}

/// Shows the free memory and the free space of the target directory. That one of them cannot be shown is no failure.
fn show_resources() {
    let target = run::target().unwrap_or_default();
    let _ = Command::new("free").arg("--mebi").status();
    let _ = Command::new("df").arg("--human-readable").arg(target).status();
}

fn program(message: &Value) -> Option<Program> {
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
    if text("/reason")? != "compiler-artifact" || !message.pointer("/profile/test")?.as_bool()? {
        return None;
    }
    let executable = PathBuf::from(text("/executable")?);
    let directory = PathBuf::from(text("/manifest_path")?).parent()?.to_owned();
    let is_test = text("/target/kind/0")? == "test";
    let name = if is_test { text("/target/name")? } else { text("/target/kind/0")? };
    Some(Program { package: package(text("/package_id")?), name: name.to_owned(), executable, directory })
}

/// The name within a package id, `path+file:///…/directory#name@version` or `…/name#version`.
fn package(id: &str) -> String {
    let (path, fragment) = id.rsplit_once('#').unwrap_or((id, id));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::package;

    #[test]
    fn both_forms_of_a_package_id_are_parsed() {
        assert_eq!(package("path+file:///src/apiserver/http#apiserver-http@0.1.0"), "apiserver-http");
        assert_eq!(package("path+file:///src/hack/xtask#0.1.0"), "xtask");
    }
}
