//! Test programs: built by cargo, and run without it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::passed;
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

/// Runs the tests that the arguments of a test program select, and shows its standard error.
///
/// # Errors
/// A test fails, or the arguments select none: a test that has another name now would otherwise count as passed.
pub(crate) fn run_selected(command: &mut Command) -> anyhow::Result<()> {
    let output = run::output(command)?;
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    ensure!(passed(&output) > 0, "no test was run; the arguments were {}:\n{output}", arguments.join(" "));
    Ok(())
}

/// The test programs, and the warnings of the compiler and of clippy about the crates of the workspace.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) programs: Vec<Program>,
    /// Each as the compiler renders it. Cargo keeps the warnings of what is up to date.
    pub(crate) warnings: BTreeSet<String>,
}

/// Builds all test programs with one call of cargo, so that nothing is built twice. It also builds the binaries that
/// these programs start, such as `capstan`.
///
/// # Errors
/// The programs cannot be built. The errors of the compiler are on standard error.
pub(crate) fn build() -> anyhow::Result<Build> {
    let mut output = build_once(&[])?;
    if !output.status.success() && errors(&output.stdout).is_empty() {
        // Two linkers at once need gigabytes. One that finds no memory or no space crashes without a reason.
        eprintln!("xtask: the build failed; once more, with one job. Memory and space:");
        show_resources();
        output = build_once(&["--jobs", "1"])?;
    }
    if !output.status.success() {
        errors(&output.stdout).iter().for_each(|error| eprintln!("{error}"));
        bail!("the tests cannot be built ({})", output.status);
    }
    let programs = messages(&output.stdout).filter_map(|message| program(&message)).collect();
    Ok(Build { programs, warnings: diagnostics(&output.stdout, "warning") })
}

fn build_once(flags: &[&str]) -> anyhow::Result<Output> {
    let mut command = run::linting_cargo(&["test", "--locked", "--workspace", "--no-run"])?;
    command.args(["--message-format", "json"]).args(flags);
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cargo cannot be run")
}

/// The messages of cargo, one on each line.
fn messages(stdout: &[u8]) -> impl Iterator<Item = Value> {
    stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())
}

fn errors(stdout: &[u8]) -> BTreeSet<String> {
    diagnostics(stdout, "error")
}

/// The diagnostics of one level, once each: a library is compiled with its unit tests and without them.
fn diagnostics(stdout: &[u8], level: &str) -> BTreeSet<String> {
    let rendered = |message: Value| {
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        // The message without a code counts the others.
        let counts = message.pointer("/message/code").is_some_and(Value::is_null) && level == "warning";
        let is_it = text("/reason")? == "compiler-message" && text("/message/level")? == level && !counts;
        is_it.then(|| text("/message/rendered").map(str::to_owned)).flatten()
    };
    messages(stdout).filter_map(rendered).collect()
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
    use std::process::Command;

    use super::{diagnostics, package, run_selected};

    #[test]
    fn a_filter_that_selects_no_test_is_an_error() {
        let run = |count: usize| {
            let line = format!("test result: ok. {count} passed; 0 failed; 0 ignored; 9 filtered out");
            run_selected(Command::new("echo").arg(line))
        };
        assert!(run(1).is_ok());
        let error = run(0).unwrap_err().to_string();
        assert!(error.contains("no test was run"), "{error}");
    }

    #[test]
    fn a_diagnostic_is_listed_once_and_their_count_is_not() {
        let unused = r#"{"reason":"compiler-message","message":{"level":"warning","code":{"code":"unused"},"rendered":"a"}}"#;
        let count = r#"{"reason":"compiler-message","message":{"level":"warning","code":null,"rendered":"2 warnings"}}"#;
        let error = r#"{"reason":"compiler-message","message":{"level":"error","code":null,"rendered":"b"}}"#;
        let stdout = [unused, unused, count, error, "no JSON"].join("\n");
        assert_eq!(diagnostics(stdout.as_bytes(), "warning"), ["a".to_owned()].into());
        assert_eq!(diagnostics(stdout.as_bytes(), "error"), ["b".to_owned()].into());
    }

    #[test]
    fn both_forms_of_a_package_id_are_parsed() {
        assert_eq!(package("path+file:///src/apiserver/http#apiserver-http@0.1.0"), "apiserver-http");
        assert_eq!(package("path+file:///src/hack/xtask#0.1.0"), "xtask");
    }
}
