//! `cargo xtask release`: the program, built for what it does most.
//!
//! A compiler guesses which branches are taken and which functions are called all the time. Here it is told: the
//! program is built to count them, serves the load of the benchmark, and is built again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::Context;

use crate::{bench, prerequisites, run};

/// The program's package, and its name.
const PACKAGE: [&str; 2] = ["apiserver-server", "capstan"];

/// Builds it, and says where it is.
pub(crate) fn run() -> anyhow::Result<()> {
    eprintln!("{}", built()?.display());
    Ok(())
}

/// Builds it; returns where it is. What was learned is kept for as long as the program that learned it is the same.
pub(crate) fn built() -> anyhow::Result<PathBuf> {
    prerequisites::build()?;
    let tool = prerequisites::llvm_profdata()?;
    let target = run::target()?;
    let (learning, guided) = (target.join("learning"), target.join("guided"));
    let counts = learning.join("counts");
    // What counts is put in before anything is linked as a whole, which takes the longest.
    let loose = Some(("CARGO_PROFILE_RELEASE_LTO", "off"));
    let learner = compile(&learning, &format!("-Cprofile-generate={}", counts.display()), loose)?;
    let profile = guided.join("capstan.profdata");
    if !is_newer(&profile, &learner) {
        // cargo does not see that a profile has changed.
        remove(&guided)?;
        remove(&counts)?;
        bench::load(&learner)?;
        std::fs::create_dir_all(&guided).with_context(|| guided.display().to_string())?;
        let half = guided.join("capstan.profdata.half");
        run::shown(Command::new(tool).args(["merge", "--output"]).arg(&half).arg(&counts))?;
        std::fs::rename(&half, &profile).with_context(|| profile.display().to_string())?;
    }
    compile(&guided, &format!("-Cprofile-use={}", profile.display()), None)
}

/// Builds the program with `flag` and a setting of cargo's, into a directory of its own; returns where it is. With a target, since flags are
/// otherwise those of what runs while building, too.
fn compile(directory: &Path, flag: &str, setting: Option<(&str, &str)>) -> anyhow::Result<PathBuf> {
    let (host, [package, program]) = (run::host()?, PACKAGE);
    let mut cargo = run::cargo(&["build", "--quiet", "--locked", "--release", "--package", package])?;
    cargo.args(["--bin", program, "--target", &host]).arg("--target-dir").arg(directory);
    run::shown(cargo.env("RUSTFLAGS", flag).envs(setting))?;
    Ok(directory.join(host).join("release").join(program))
}

fn is_newer(one: &Path, other: &Path) -> bool {
    let made = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    made(one).zip(made(other)).is_some_and(|(one, other)| one > other)
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| directory.display().to_string())
        }
        _ => Ok(()),
    }
}
