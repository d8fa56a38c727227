//! Scenario with clusterctl, which finds the kinds in the host's CRD objects.

use std::process::Command;

use anyhow::ensure;
use serde_json::json;

use super::HOST;
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

pub(in crate::e2e) fn describe(lab: &Lab) -> anyhow::Result<()> {
    HOST.namespace(lab, "described")?;
    let reference =
        |kind: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "c"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "described"},
        "spec": {"paused": true, "infrastructureRef": reference("OpenStackCluster")}});
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "worker-0", "namespace": "described",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference("OpenStackMachine")}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "c-kubeconfig", "namespace": "described",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "stringData": {"value": "apiVersion: v1\nkind: Config\n"}});
    for object in [cluster, machine, secret] {
        let file = lab.file("described.json", &object.to_string())?;
        lab.kubectl(HOST.user, &["apply", "-f", &file])?;
    }
    let tree = clusterctl(lab, &["describe", "cluster", "c", "--show-conditions", "all"])?;
    ensure!(
        tree.contains("Cluster described/c") && tree.contains("Machine described/worker-0"),
        "describe prints\n{tree}"
    );
    let kubeconfig = clusterctl(lab, &["get", "kubeconfig", "c"])?;
    ensure!(kubeconfig.contains("kind: Config"), "get kubeconfig prints\n{kubeconfig}");
    Ok(())
}

fn clusterctl(lab: &Lab, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(prerequisites::clusterctl()?);
    command.args(arguments).args(["--namespace", "described", "--kubeconfig", &HOST.kubeconfig(lab)]);
    run::output(
        command.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true").env("XDG_CONFIG_HOME", lab.directory("xdg")),
    )
}
