//! A release of the chart in the lab: installed, upgraded to other values, rolled back and uninstalled.

use std::process::Command;

use anyhow::{Context, ensure};

use super::Packaged;
use super::rendered::{self, EMBEDDED, HA, Shape};
use crate::prerequisites;

/// Options of all steps. The APIs have a scenario of their own, and the lab has no Pods that could become ready.
const OPTIONS: [&str; 4] = ["--namespace", "capstan-system", "--set", "host.apis=false"];

/// Scenario: a release moves from one replica to three and back.
pub(super) fn upgraded(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    helm(packaged, &["install"], Some((&EMBEDDED, &[])))?;
    expect(packaged, "statefulset/capstan", true)?;
    expect(packaged, "service/capstan-direct", false)?;
    let values = ["--set", "direct.enabled=true,mirror.enabled=true,replicas=5"];
    // The host checks an upgrade before it changes anything.
    helm(packaged, &["upgrade", "--dry-run=server"], Some((&HA, &values)))?;
    expect(packaged, "deployment/capstan", false)?;
    helm(packaged, &["upgrade"], Some((&HA, &values)))?;
    for (object, is_there) in [
        ("statefulset/capstan", false),
        ("deployment/capstan", true),
        ("statefulset/capstan-etcd", true),
        ("service/capstan-direct", true),
        ("clusterrole/capstan:mirror", true),
    ] {
        expect(packaged, object, is_there)?;
    }
    let replicas =
        ["get", "deployment", "capstan", "-n", "capstan-system", "-o", "jsonpath={.spec.replicas}"];
    let replicas = packaged.lab.kubectl("admin", &replicas)?;
    ensure!(replicas == "5", "the Deployment has {replicas} replicas");
    helm(packaged, &["rollback"], None)?;
    expect(packaged, "statefulset/capstan", true)?;
    expect(packaged, "clusterrole/capstan:mirror", false)?;
    helm(packaged, &["uninstall"], None)?;
    expect(packaged, "serviceaccount/capstan", false)
}

/// Runs Helm on the release, for a shape with values if the step renders the chart.
fn helm(packaged: &Packaged<'_>, step: &[&str], shape: Option<(&Shape, &[&str])>) -> anyhow::Result<()> {
    let mut command = Command::new(prerequisites::helm()?);
    command.args(step).arg("capstan");
    command.arg("--kubeconfig").arg(packaged.lab.certificates.path("admin.kubeconfig"));
    match shape {
        None => command.args(["--namespace", "capstan-system"]),
        Some((shape, values)) => {
            command.arg(packaged.manifests.join("chart"));
            command.args(rendered::values(&packaged.manifests, shape)).args(OPTIONS).args(values)
        }
    };
    // Helm reports each symbolic link of the chart to standard error.
    let output = command.env("HELM_CACHE_HOME", packaged.lab.directory("helm")).output().context("helm")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {}: {error}", step.join(" "));
    Ok(())
}

/// Checks whether the host has an object.
fn expect(packaged: &Packaged<'_>, object: &str, is_there: bool) -> anyhow::Result<()> {
    let (found, _, error) = packaged.lab.try_kubectl("admin", &["get", object, "-n", "capstan-system"])?;
    ensure!(found || error.contains("NotFound"), "{object}: {error}");
    ensure!(found == is_there, "{object}: exists is {found}");
    Ok(())
}
