//! Scenarios with clusterctl, which finds the kinds in CRD objects: those of the host, or Capstan's own.

use anyhow::{Context, ensure};
use serde_json::json;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::clusterctl::clusterctl;
use crate::e2e::lab::Lab;
use crate::prerequisites;
use crate::test::programs::{Program, run_selected};

/// Scenario with live clusters, which a simulated cloud in the test program makes.
pub(in crate::e2e) const MOVE: &str =
    "clusterctl describes a live cluster, rolls it out, and moves it to a second Capstan and back";

/// Crate with the test of that scenario, its test program, and the test.
const CRATE: &str = "tests-scenarios";
const TEST: &str = "whole_cluster";
const CASE: &str = "clusterctl_describes_rolls_out_and_moves_a_cluster_to_a_second_capstan_and_back";

/// Runs the test, which needs no host.
pub(in crate::e2e) fn moves(programs: &[Program]) -> anyhow::Result<()> {
    let program = programs.iter().find(|it| it.package == CRATE && it.name == TEST);
    let mut command = program.context("the test with clusterctl was not built")?.command();
    command.args(["--ignored", "--nocapture", CASE]);
    command.env("CAPSTAN_CLUSTERCTL", prerequisites::clusterctl()?);
    run_selected(&mut command)
}

pub(in crate::e2e) fn describe_through_host(lab: &Lab) -> anyhow::Result<()> {
    describe(lab, &HOST, "described")
}

pub(in crate::e2e) fn describe_directly(lab: &Lab) -> anyhow::Result<()> {
    describe(lab, &DIRECT, "described-directly")
}

fn describe(lab: &Lab, endpoint: &Endpoint, namespace: &str) -> anyhow::Result<()> {
    endpoint.namespace(lab, namespace)?;
    let reference =
        |kind: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "c"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": namespace},
        "spec": {"infrastructureRef": reference("OpenStackCluster")}});
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "worker-0", "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference("OpenStackMachine")}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "c-kubeconfig", "namespace": namespace,
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "stringData": {"value": "apiVersion: v1\nkind: Config\n"}});
    for object in [cluster, machine, secret] {
        let file = lab.file("described.json", &object.to_string())?;
        lab.kubectl(endpoint.user, &["apply", "-f", &file])?;
    }
    for object in ["clusters.cluster.x-k8s.io/c", "machines.cluster.x-k8s.io/worker-0"] {
        let observed = "--for=jsonpath={.status.observedGeneration}=1";
        lab.kubectl(endpoint.user, &["wait", object, "-n", namespace, observed, "--timeout=20s"])?;
    }
    let arguments = ["describe", "cluster", "c", "--show-conditions", "all", "--namespace", namespace];
    let tree = clusterctl(lab, endpoint.user, &arguments)?;
    // Names, and conditions of both objects with their reasons.
    let (cluster, machine) = (format!("Cluster {namespace}/c"), format!("Machine {namespace}/worker-0"));
    for text in [cluster.as_str(), &machine, "ObjectDoesNotExist", "NodeHealthy"] {
        ensure!(tree.contains(text), "describe prints no {text:?}:\n{tree}");
    }
    let kubeconfig = clusterctl(lab, endpoint.user, &["get", "kubeconfig", "c", "--namespace", namespace])?;
    ensure!(kubeconfig.contains("kind: Config"), "get kubeconfig prints\n{kubeconfig}");
    Ok(())
}
