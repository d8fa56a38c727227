//! Scenario with kubectl and hollow clusters: actions on Machines, and verbs of rollouts.

use anyhow::Context;

use super::{DIRECT, HOST};
use crate::e2e::lab::Lab;
use crate::test::programs::{Program, run_selected};

/// Sentence that must hold.
pub(in crate::e2e) const ACTIONS: &str =
    "kubectl starts actions on Nodes and verbs of rollouts, and the workload cluster shows their effects";

/// Crate with the test, its test program, and the test.
const CRATE: &str = "tests-scenarios";
const TEST: &str = "whole_cluster";
const CASE: &str = "kubectl_starts_actions_and_verbs_whose_effects_the_workload_cluster_shows";

/// Runs the test at both endpoints. Its simulated cloud has the nodes.
pub(in crate::e2e) fn actions(lab: &Lab, programs: &[Program]) -> anyhow::Result<()> {
    // The scenario before may have restarted Capstan.
    lab.host_wait(HOST.user)?;
    let program = programs.iter().find(|it| it.package == CRATE && it.name == TEST);
    let mut command = program.context("the test with kubectl was not built")?.command();
    command.args(["--ignored", "--nocapture", CASE]);
    command.env("CAPSTAN_KUBECTL", &lab.tools.kubectl);
    command.env("CAPSTAN_HOST_KUBECONFIG", HOST.kubeconfig(lab));
    command.env("CAPSTAN_DIRECT_KUBECONFIG", DIRECT.kubeconfig(lab));
    run_selected(&mut command)
}
