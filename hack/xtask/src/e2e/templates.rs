//! Templates of clusters, applied through the host. A simulated cloud in the test program turns their servers into
//! hollow nodes.

use anyhow::Context;

use super::lab::Lab;
use crate::test::programs::{Program, run_selected};

/// Sentence that must hold.
pub(super) const SENTENCE: &str =
    "templates of clusters become Available through the host, and are deleted without a trace";

/// Crate with the test, its test program, and the test.
const CRATE: &str = "tests-scenarios";
const TEST: &str = "templates";
const CASE: &str = "templates_become_available_clusters_through_the_host";

/// Runs the test as an administrator of the host.
pub(super) fn run(lab: &Lab, programs: &[Program]) -> anyhow::Result<()> {
    let program = programs.iter().find(|it| it.package == CRATE && it.name == TEST);
    let mut command = program.context("the test of the templates was not built")?.command();
    command.args(["--ignored", "--nocapture", CASE]);
    command.env("CAPSTAN_HOST_KUBECONFIG", lab.certificates.path("admin.kubeconfig"));
    run_selected(&mut command)
}
