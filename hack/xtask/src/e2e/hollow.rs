//! Suite of hollow clusters in both forms. In the heavy one each cluster has a real kube-apiserver and a real etcd.

use std::time::Instant;

use anyhow::Context;

use crate::test::programs::{Program, run_selected};
use crate::{prerequisites, run};

/// Number of scenarios.
pub(super) const COUNT: usize = 1;

/// Crate with the suite, its test program, and the part of it that both forms pass.
const CRATE: &str = "tests-hollow-cluster";
const TEST: &str = "clusters";
const SUITE: &str = "forms::";

/// Runs the suite. Without the test programs, cargo builds the one that is needed.
pub(super) fn run(tests: &[Program]) -> anyhow::Result<()> {
    let started = Instant::now();
    let built = tests.iter().find(|it| it.package == CRATE && it.name == TEST);
    let mut command = match built {
        Some(program) => program.command(),
        None => run::cargo(&["test", "--locked", "--quiet", "--package", CRATE, "--test", TEST])?,
    };
    command.arg(SUITE);
    command.env("CAPSTAN_HOLLOW_KUBE_APISERVER", prerequisites::kubernetes("kube-apiserver")?);
    command.env("CAPSTAN_HOLLOW_ETCD", prerequisites::current_etcd()?);
    run_selected(&mut command).context("hollow clusters differ in their forms")?;
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("ok      hollow clusters live alike with a real API server and without ({seconds:.1} s)");
    Ok(())
}
