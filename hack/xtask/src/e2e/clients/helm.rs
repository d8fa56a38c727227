//! Helm: a chart with a Cluster is installed, upgraded and rolled back.

use std::process::Command;

use anyhow::ensure;

use super::{DIRECT, Face, HOST};
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

fn release(lab: &Lab, face: &Face) -> anyhow::Result<()> {
    face.namespace(lab, "helm")?;
    let name = format!("by-{}", face.user);
    lab.file("chart/Chart.yaml", CHART)?;
    lab.file("chart/values.yaml", "tier: silver\npods: 10.1.0.0/16\n")?;
    let template = lab.file("chart/templates/cluster.yaml", TEMPLATE)?;
    let chart = template.replace("/templates/cluster.yaml", "");
    helm(lab, face, &["install", &name, &chart])?;
    expect(lab, face, &name, "silver 10.1.0.0/16")?;
    helm(lab, face, &["upgrade", &name, &chart, "--set", "tier=gold,pods=10.2.0.0/16"])?;
    expect(lab, face, &name, "gold 10.2.0.0/16")?;
    helm(lab, face, &["rollback", &name, "1"])?;
    expect(lab, face, &name, "silver 10.1.0.0/16")?;
    helm(lab, face, &["uninstall", &name, "--wait"])?;
    let (found, _, _) = lab.try_kubectl(face.user, &["get", "cluster", &name, "-n", "helm"])?;
    ensure!(!found, "the Cluster outlives its release");
    Ok(())
}

fn helm(lab: &Lab, face: &Face, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(prerequisites::helm()?);
    command.args(["--kubeconfig", &face.kubeconfig(lab), "--namespace", "helm"]).args(arguments);
    run::output(command.env("HELM_CACHE_HOME", lab.directory("helm"))).map(|_| ())
}

fn expect(lab: &Lab, face: &Face, name: &str, wanted: &str) -> anyhow::Result<()> {
    let path = "jsonpath={.metadata.labels.tier} {.spec.clusterNetwork.pods.cidrBlocks[0]}";
    let found = lab.kubectl(face.user, &["get", "cluster", name, "-n", "helm", "-o", path])?;
    ensure!(found == wanted, "the Cluster has {found:?} instead of {wanted:?}");
    Ok(())
}
