//! Scenarios with Helm: a chart with a Cluster is installed, upgraded and rolled back.

use std::process::Command;

use anyhow::ensure;

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::Lab;
use crate::{prerequisites, run};

const CHART: &str = "apiVersion: v2\nname: cluster\nversion: 0.1.0\n";

const TEMPLATE: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {{ .Release.Name }}
  labels: {tier: {{ .Values.tier | quote }}}
spec:
  paused: true
  clusterNetwork: {pods: {cidrBlocks: [{{ .Values.pods | quote }}]}}
";

pub(in crate::e2e) fn through_host(lab: &Lab) -> anyhow::Result<()> {
    release(lab, &HOST)
}

pub(in crate::e2e) fn directly(lab: &Lab) -> anyhow::Result<()> {
    release(lab, &DIRECT)
}

fn release(lab: &Lab, endpoint: &Endpoint) -> anyhow::Result<()> {
    endpoint.namespace(lab, "helm")?;
    let name = format!("by-{}", endpoint.user);
    lab.file("chart/Chart.yaml", CHART)?;
    lab.file("chart/values.yaml", "tier: silver\npods: 10.1.0.0/16\n")?;
    let template = lab.file("chart/templates/cluster.yaml", TEMPLATE)?;
    let chart = template.replace("/templates/cluster.yaml", "");
    helm(lab, endpoint, &["install", &name, &chart])?;
    expect(lab, endpoint, &name, "silver 10.1.0.0/16")?;
    helm(lab, endpoint, &["upgrade", &name, &chart, "--set", "tier=gold,pods=10.2.0.0/16"])?;
    expect(lab, endpoint, &name, "gold 10.2.0.0/16")?;
    helm(lab, endpoint, &["rollback", &name, "1"])?;
    expect(lab, endpoint, &name, "silver 10.1.0.0/16")?;
    helm(lab, endpoint, &["uninstall", &name, "--wait"])?;
    let (found, _, _) = lab.try_kubectl(endpoint.user, &["get", "cluster", &name, "-n", "helm"])?;
    ensure!(!found, "the Cluster still exists after its release was uninstalled");
    Ok(())
}

fn helm(lab: &Lab, endpoint: &Endpoint, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(prerequisites::helm()?);
    command.args(["--kubeconfig", &endpoint.kubeconfig(lab), "--namespace", "helm"]).args(arguments);
    run::output(command.env("HELM_CACHE_HOME", lab.directory("helm"))).map(|_| ())
}

fn expect(lab: &Lab, endpoint: &Endpoint, name: &str, expected: &str) -> anyhow::Result<()> {
    let path = "jsonpath={.metadata.labels.tier} {.spec.clusterNetwork.pods.cidrBlocks[0]}";
    let found = lab.kubectl(endpoint.user, &["get", "cluster", name, "-n", "helm", "-o", path])?;
    ensure!(found == expected, "the Cluster has {found:?} instead of {expected:?}");
    Ok(())
}
