//! clusterctl with the providers that `capstan host manifests --providers` writes, in a host without Capstan and with it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;
use serde_json::{Value, json};

use super::lab::Lab;
use crate::{prerequisites, run};

/// Scenario in a host without Capstan.
pub(super) const SENTENCE: &str = "clusterctl installs Capstan's providers, and finds them up to date";

/// Labels of the providers, which are the names of their folders and of their objects in the inventory.
const PROVIDERS: [&str; 4] =
    ["bootstrap-kubeadm", "cluster-api", "control-plane-kubeadm", "infrastructure-openstack"];

/// Namespace in which clusterctl tests cert-manager.
const TEST: &str = "cert-manager-test";

/// Installs the providers in a host without Capstan, and then starts Capstan.
pub(super) fn installs(lab: &Lab) -> anyhow::Result<()> {
    let providers = write(lab)?;
    cert_manager(lab)?;
    let log = init(lab, &providers)?;
    for provider in PROVIDERS {
        let line = format!("Installing provider=\"{provider}\"");
        ensure!(log.contains(&line), "clusterctl init does not install {provider}:\n{log}");
        for components in components(&providers.join(provider))? {
            lab.kubectl("admin", &["get", "-f", &components])?;
        }
    }
    let kind = "providers.clusterctl.cluster.x-k8s.io";
    let inventory = lab.kubectl("admin", &["get", kind, "-n", "capstan-system", "-o", "name"])?;
    ensure!(
        inventory == PROVIDERS.map(|name| format!("provider.clusterctl.cluster.x-k8s.io/{name}\n")).concat(),
        "{inventory}"
    );

    lab.start_capstan()?;
    lab.host_wait("admin")?;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "default"}, "spec": {"paused": true}});
    lab.kubectl("admin", &["create", "-f", &lab.file("cluster.json", &cluster.to_string())?])?;
    installs_nothing(lab, &providers)?;
    let plan = clusterctl(lab, "admin", &["upgrade", "plan", "--config", &configuration(&providers)])?;
    ensure!(plan.contains("already up to date"), "clusterctl upgrade plan:\n{plan}");
    Ok(())
}

/// Finds Capstan's own inventory in a host that Capstan serves, and installs nothing.
pub(super) fn finds(lab: &Lab) -> anyhow::Result<()> {
    let providers = write(lab)?;
    cert_manager(lab)?;
    installs_nothing(lab, &providers)
}

fn installs_nothing(lab: &Lab, providers: &Path) -> anyhow::Result<()> {
    let log = init(lab, providers)?;
    ensure!(!log.contains("Installing"), "clusterctl init installs in a host that has the providers:\n{log}");
    Ok(())
}

/// Writes the providers as docs/installation.md says.
fn write(lab: &Lab) -> anyhow::Result<PathBuf> {
    let providers = lab.directory("providers");
    let mut command = Command::new(&lab.tools.capstan);
    command.args([
        "host",
        "manifests",
        "--external-name",
        "127.0.0.1",
        "--port",
        &lab.capstan_port.to_string(),
    ]);
    command.arg("--data-dir").arg(lab.data()).arg("--providers").arg(&providers);
    run::output(&mut command)?;
    Ok(providers)
}

fn configuration(providers: &Path) -> String {
    providers.join("clusterctl.yaml").display().to_string()
}

/// Returns the paths of a provider's components.
fn components(provider: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for version in std::fs::read_dir(provider)? {
        for file in std::fs::read_dir(version?.path())? {
            let path = file?.path().display().to_string();
            found.extend(path.ends_with("-components.yaml").then_some(path));
        }
    }
    ensure!(!found.is_empty(), "{} has no components", provider.display());
    Ok(found)
}

/// Runs `clusterctl init`. Returns its log.
fn init(lab: &Lab, providers: &Path) -> anyhow::Result<String> {
    let config = configuration(providers);
    let log = clusterctl(lab, "admin", &["init", "--config", &config, "--infrastructure", "openstack"])?;
    // The host has no namespace controller, which would complete the deletion.
    let namespace = lab.kubectl("admin", &["get", "namespace", TEST, "-o", "json"])?;
    let mut namespace: Value = serde_json::from_str(&namespace)?;
    namespace["spec"]["finalizers"] = json!([]);
    let path = format!("/api/v1/namespaces/{TEST}/finalize");
    lab.kubectl(
        "admin",
        &["replace", "--raw", &path, "-f", &lab.file("namespace.json", &namespace.to_string())?],
    )?;
    Ok(log)
}

/// Creates the kinds of cert-manager that clusterctl writes before it installs a provider. Without them it would install
/// cert-manager, whose Pods run nowhere here.
fn cert_manager(lab: &Lab) -> anyhow::Result<()> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    for (plural, kind) in [("issuers", "Issuer"), ("certificates", "Certificate")] {
        let name = format!("{plural}.cert-manager.io");
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}, "spec": {"group": "cert-manager.io", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind}, "versions": versions}});
        lab.kubectl("admin", &["apply", "-f", &lab.file("crd.json", &crd.to_string())?])?;
        let crd = format!("crd/{name}");
        lab.kubectl("admin", &["wait", "--for=condition=Established", &crd, "--timeout=30s"])?;
    }
    Ok(())
}

/// Runs clusterctl as a user. Returns its output, and its log, which it writes to standard error.
pub(super) fn clusterctl(lab: &Lab, user: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(prerequisites::clusterctl()?);
    command.args(arguments).args(["--kubeconfig", &lab.certificates.path(&format!("{user}.kubeconfig"))]);
    command.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true").env("XDG_CONFIG_HOME", lab.directory("xdg"));
    let output = command.output()?;
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    ensure!(output.status.success(), "clusterctl {}: {text}", arguments.join(" "));
    Ok(text)
}
