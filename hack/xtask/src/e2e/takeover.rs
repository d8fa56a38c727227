//! Switch of an API group from the host's own CRDs to Capstan, and back.

use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::lab::{Lab, until};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const API_SERVICE: &str = "v1beta2.infrastructure.cluster.x-k8s.io";
const CRDS: [&str; 2] = [
    "openstackclusters.infrastructure.cluster.x-k8s.io",
    "openstackmachines.infrastructure.cluster.x-k8s.io",
];

/// Longest deletion of a CRD. It usually takes seconds. kube-apiserver's finalizer can fail with "storage is
/// (re)initializing"; one such deletion was not complete after a minute.
const DELETION: &str = "--timeout=180s";

const COLLECTION: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/openstackclusters";

pub(super) fn switch_and_switch_back(lab: &Lab) -> anyhow::Result<()> {
    serve_from_crds(lab)?;
    create(lab, "direct", "ours")?;
    let (manifests, advice) = manifests(lab)?;
    let is_crd = |document: &&str| document.contains(GROUP) && document.contains("CustomResourceDefinition");
    ensure!(
        !manifests.split("---\n").any(|document| is_crd(&document)),
        "the manifests would overwrite the CRDs of the host"
    );
    ensure!(
        !manifests.contains(API_SERVICE),
        "the manifests would switch the group-version without a decision of the operator"
    );
    apply(lab, &manifests)?;
    ensure!(
        served(lab)? == Some(vec!["theirs".to_owned()]),
        "applying the manifests has switched the group-version: {:?}",
        served(lab)?
    );

    run(lab, command(&advice, "kubectl patch apiservice")?)?;
    until("Capstan serves the group-version", || Ok(served(lab)? == Some(vec!["ours".to_owned()])))?;
    run(lab, command(&advice, "kubectl delete apiservice")?)?;
    until("the CRDs serve the group-version again", || Ok(served(lab)? == Some(vec!["theirs".to_owned()])))?;
    restore(lab)
}

/// Makes the host serve the group from its own CRD, with one object.
fn serve_from_crds(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["delete", "apiservice", API_SERVICE])?;
    for crd in CRDS {
        lab.kubectl("admin", &["delete", "crd", crd, DELETION])?;
    }
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": CRDS[0]},
        "spec": {"group": GROUP, "scope": "Namespaced",
            "names": {"plural": "openstackclusters", "singular": "openstackcluster", "kind": "OpenStackCluster"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true, "schema": schema}]}});
    lab.kubectl("admin", &["create", "-f", &lab.file("crd.json", &crd.to_string())?])?;
    until("the host serves its own CRD", || Ok(served(lab)? == Some(Vec::new())))?;
    create(lab, "admin", "theirs")
}

fn create(lab: &Lab, user: &str, name: &str) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"identityRef": {"name": "cloud-config", "cloudName": "openstack"}}});
    let file = lab.file(&format!("{name}.json"), &object.to_string())?;
    lab.kubectl(user, &["create", "--raw", COLLECTION, "-f", &file]).map(|_| ())
}

/// Returns the names of the objects in the collection, or `None` if the host does not serve it.
fn served(lab: &Lab) -> anyhow::Result<Option<Vec<String>>> {
    let (is_served, list, _) = lab.try_kubectl("admin", &["get", "--raw", COLLECTION])?;
    if !is_served {
        return Ok(None);
    }
    let list: Value = serde_json::from_str(&list)?;
    let items = list.get("items").and_then(Value::as_array).context("the list has no items")?;
    let names = items.iter().filter_map(|item| item.pointer("/metadata/name")?.as_str());
    Ok(Some(names.map(str::to_owned).collect()))
}

/// Returns the output of `capstan host manifests` for this host: the objects, and the advice on standard error.
fn manifests(lab: &Lab) -> anyhow::Result<(String, String)> {
    let port = lab.capstan_port.to_string();
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["host", "manifests", "--external-name", "127.0.0.1", "--port", &port, "--kubeconfig"]);
    command.arg(lab.certificates.path("admin.kubeconfig")).arg("--data-dir").arg(lab.data());
    let output = command.output()?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(output.status.success(), "capstan host manifests: {error}");
    Ok((String::from_utf8(output.stdout)?, error))
}

fn apply(lab: &Lab, manifests: &str) -> anyhow::Result<()> {
    lab.kubectl("admin", &["apply", "-f", &lab.file("again.yaml", manifests)?]).map(|_| ())
}

/// Returns the only command in the advice that begins with `begin` and the name of the APIService.
fn command<'a>(advice: &'a str, begin: &str) -> anyhow::Result<&'a str> {
    let begin = format!("{begin} {API_SERVICE}");
    let mut lines = advice.lines().map(str::trim).filter(|line| line.starts_with(&begin));
    let line = lines.next().with_context(|| format!("no `{begin}` in: {advice}"))?;
    ensure!(lines.next().is_none(), "more than one `{begin}` in: {advice}");
    Ok(line)
}

/// Runs a command exactly as printed.
fn run(lab: &Lab, line: &str) -> anyhow::Result<()> {
    let tools = lab.tools.kubectl.parent().context("the path of kubectl has no directory")?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env("KUBECONFIG", lab.certificates.path("admin.kubeconfig"));
    let output = shell.env("PATH", tools).stdin(std::process::Stdio::null()).output()?;
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Restores the lab.
fn restore(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["delete", "crd", CRDS[0], DELETION])?;
    until("the host no longer serves the CRD", || Ok(served(lab)?.is_none()))?;
    apply(lab, &manifests(lab)?.0)?;
    until("Capstan serves the group-version again", || Ok(served(lab)? == Some(vec!["ours".to_owned()])))?;
    lab.kubectl("direct", &["delete", "openstackcluster", "ours", "-n", "default"]).map(|_| ())
}
