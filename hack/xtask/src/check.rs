//! Command `cargo xtask check`: format, lints, layers, language, dependencies and generated files.

use std::time::Instant;

use anyhow::{bail, ensure};

use crate::suites::Suites;
use crate::test::programs;
use crate::{docs, language, layers, modules, prerequisites, run, runbooks};

/// Check: its name, the remedy for a failure, and the function that runs it.
type Check = (&'static str, &'static str, fn() -> anyhow::Result<()>);

const CHECKS: [Check; 9] = [
    ("format", "cargo fmt --all", format),
    ("layers", "cargo xtask generate, or remove the dependency", layers::check),
    ("modules", "cargo xtask generate, or remove the import", modules::check),
    ("language", "use the terms of docs/glossary.md", language::check),
    ("runbooks", "write the page, then cargo xtask generate", runbooks::check),
    (
        "one TLS provider",
        "find the crate that enables `ring`: cargo tree -e features -i rustls",
        one_provider,
    ),
    ("lints", "cargo clippy --workspace --all-targets", lints),
    ("docs", "cargo doc --workspace --no-deps --document-private-items", docs::check),
    ("dependencies", "cargo deny check bans licenses sources", dependencies),
];

/// Runs all checks and names those that fail.
pub(crate) fn run() -> anyhow::Result<()> {
    let (mut failed, mut suites, started) = (Vec::new(), Suites::new("check"), Instant::now());
    prerequisites::build()?;
    prerequisites::cargo_deny()?;
    suites.add("tools", started.elapsed());
    for (name, remedy, check) in CHECKS {
        let started = Instant::now();
        let result = check();
        let seconds = started.elapsed().as_secs_f64();
        suites.add(name, started.elapsed());
        match result {
            Ok(()) => eprintln!("ok      {name} ({seconds:.1} s)"),
            Err(error) => {
                eprintln!("FAILED  {name} ({seconds:.1} s): {error:#}\n        try: {remedy}");
                failed.push(name);
            }
        }
    }
    let budgets = suites.finish();
    if failed.is_empty() { budgets } else { bail!("failed: {}", failed.join("; ")) }
}

fn format() -> anyhow::Result<()> {
    run::shown(&mut run::cargo(&["fmt", "--all", "--check"])?)
}

/// Compiles everything with clippy's lints. The tests, the docs and `e2e` use what this has compiled.
fn lints() -> anyhow::Result<()> {
    let warnings = programs::build()?.warnings;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    ensure!(warnings.is_empty(), "{} warnings", warnings.len());
    Ok(())
}

/// Checks that rustls has one crypto provider. With two providers in one binary, rustls panics.
fn one_provider() -> anyhow::Result<()> {
    let tree = run::output(&mut run::cargo(&[
        "tree",
        "--locked",
        "--workspace",
        "-e",
        "features",
        "-i",
        "rustls",
    ])?)?;
    let has = |feature: &str| tree.contains(&format!("rustls feature \"{feature}\""));
    if has("ring") {
        bail!("rustls is built with ring and aws-lc-rs");
    }
    if !has("aws_lc_rs") {
        bail!("rustls is built without aws-lc-rs");
    }
    Ok(())
}

fn dependencies() -> anyhow::Result<()> {
    let deny = prerequisites::cargo_deny()?;
    let mut command = std::process::Command::new(deny);
    command.args(["--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]);
    run::shown(command.current_dir(run::root()?))
}
