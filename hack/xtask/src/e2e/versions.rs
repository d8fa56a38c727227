//! Two releases side by side: three replicas on an etcd, and an embedded store, go up, down and up again between the last
//! release with stored form 3 and this one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::{prerequisites, run};

/// Number of scenarios.
pub(super) const COUNT: usize = TESTS.len();

/// Last commit with stored form 3. A change of the newest form moves it to the last commit with the form before.
const PREVIOUS: &str = "10a6705536c2ae7d597d143353a5f691ce5dae3f";

/// Crate and program of the tests, and their names.
const CRATE: &str = "apiserver-server";
const PROGRAM: &str = "guest";
const TESTS: [&str; 3] = [
    "stored_form::hv_25_three_replicas_go_up_down_and_up_again_between_two_releases",
    "stored_form::hv_25_an_embedded_store_goes_up_down_and_up_again_between_two_releases",
    "stored_form::hv_25_a_store_that_moved_from_etcd_to_a_file_goes_back_to_the_last_release",
];

/// Runs the tests with a program of the last release.
pub(super) fn run(previous: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut command = run::linting_cargo(&["test", "--locked", "--workspace", "--test", PROGRAM, "--"])?;
    command.args(["--ignored", "--exact"]).args(TESTS).env("CAPSTAN_PREVIOUS", previous);
    command.env("CAPSTAN_ETCD_CURRENT", prerequisites::current_etcd()?);
    let output = run::output(&mut command).context("two releases do not serve the same store")?;
    ensure!(output.contains(&format!("{COUNT} passed")), "not all of {TESTS:?} did run: {output}");
    let seconds = started.elapsed().as_secs_f64();
    eprintln!(
        "ok      replicas and an embedded store go up, down and up again between two releases ({seconds:.1} s)"
    );
    Ok(())
}

/// Returns the program of the last release. It is built once from the history of this repository, into the cache.
pub(super) fn previous() -> anyhow::Result<PathBuf> {
    let home = run::cache()?.join("previous").join(PREVIOUS);
    let program = home.join("capstan");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&home).with_context(|| format!("{}: cannot be created", home.display()))?;
    let lock = std::fs::File::create(home.join("lock"))?;
    lock.lock().with_context(|| format!("{}: cannot be locked", home.display()))?;
    if !program.exists() {
        eprintln!("building the program of the release {PREVIOUS:.8}, once (about ten minutes)");
        build(&home, &program)?;
    }
    Ok(program)
}

fn build(home: &Path, program: &Path) -> anyhow::Result<()> {
    let (source, target, archive) = (home.join("source"), home.join("target"), home.join("source.tar"));
    std::fs::create_dir_all(&source)?;
    let mut pack = Command::new("git");
    pack.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(PREVIOUS);
    run::shown(pack.current_dir(run::root()?)).context(
        "the commit of the last release is not in this clone; get its history with git fetch --unshallow",
    )?;
    run::shown(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&source))?;
    let mut compile = run::cargo(&["build", "--quiet", "--locked", "--package", CRATE, "--bin", "capstan"])?;
    compile.current_dir(&source).env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
    // This checkout's manifest directory is not that of the other one.
    run::shown(compile.env_remove("CARGO_MANIFEST_DIR"))?;
    // Renamed at the end: an interrupted build must not look like a finished one.
    std::fs::rename(target.join("debug/capstan"), program)?;
    std::fs::remove_file(&archive)?;
    std::fs::remove_dir_all(&source)?;
    std::fs::remove_dir_all(&target).with_context(|| format!("{}", target.display()))
}
