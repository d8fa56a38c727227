//! A host that serves one of our groups from CRDs of its own: taken over, and given back.

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
const COLLECTION: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/openstackclusters";

pub(super) fn back_and_forth(lab: &Lab) -> anyhow::Result<()> {
    make_the_hosts_own(lab)?;
    create(lab, "direct", "ours")?;
    let (manifests, advice) = manifests(lab)?;
    let theirs = |document: &&str| document.contains(GROUP) && document.contains("CustomResourceDefinition");
    ensure!(!manifests.split("---\n").any(|document| theirs(&document)), "their CRDs would be overwritten");
    ensure!(!manifests.contains(API_SERVICE), "their group-version would be taken without asking");
    apply(lab, &manifests)?;
    ensure!(served(lab)? == Some(vec!["theirs".to_owned()]), "applying has taken it: {:?}", served(lab)?);

    run(lab, command(&advice, "kubectl patch apiservice")?)?;
    until("the group-version is ours", || Ok(served(lab)? == Some(vec!["ours".to_owned()])))?;
    run(lab, command(&advice, "kubectl delete apiservice")?)?;
    until("the group-version is theirs again", || Ok(served(lab)? == Some(vec!["theirs".to_owned()])))?;
    restore(lab)
}

/// Turns the host into one that has the group for itself, with an object in it.
fn make_the_hosts_own(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["delete", "apiservice", API_SERVICE])?;
    for crd in CRDS {
        lab.kubectl("admin", &["delete", "crd", crd, "--timeout=60s"])?;
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

/// Names of what the host serves there, whoever does it; `None` while nobody does.
fn served(lab: &Lab) -> anyhow::Result<Option<Vec<String>>> {
    let (is_served, list, _) = lab.try_kubectl("admin", &["get", "--raw", COLLECTION])?;
    if !is_served {
        return Ok(None);
    }
    let list: Value = serde_json::from_str(&list)?;
    let items = list.get("items").and_then(Value::as_array).context("a list without items")?;
    let names = items.iter().filter_map(|item| item.pointer("/metadata/name")?.as_str());
    Ok(Some(names.map(str::to_owned).collect()))
}

/// What `capstan host manifests` prints for this host: the objects, and what it says about them.
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

/// The one command in the advice that begins like this and is about the group-version.
fn command<'a>(advice: &'a str, begin: &str) -> anyhow::Result<&'a str> {
    let begin = format!("{begin} {API_SERVICE}");
    let mut lines = advice.lines().map(str::trim).filter(|line| line.starts_with(&begin));
    let line = lines.next().with_context(|| format!("no `{begin}` in: {advice}"))?;
    ensure!(lines.next().is_none(), "more than one `{begin}` in: {advice}");
    Ok(line)
}

/// Runs a command as it is printed.
fn run(lab: &Lab, line: &str) -> anyhow::Result<()> {
    let tools = lab.tools.kubectl.parent().context("kubectl is in no directory")?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env("KUBECONFIG", lab.certificates.path("admin.kubeconfig"));
    let output = shell.env("PATH", tools).stdin(std::process::Stdio::null()).output()?;
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Leaves the lab as it was.
fn restore(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["delete", "crd", CRDS[0], "--timeout=60s"])?;
    until("the host has forgotten its CRD", || Ok(served(lab)?.is_none()))?;
    apply(lab, &manifests(lab)?.0)?;
    until("the group-version is ours for good", || Ok(served(lab)? == Some(vec!["ours".to_owned()])))?;
    lab.kubectl("direct", &["delete", "openstackcluster", "ours", "-n", "default"]).map(|_| ())
}
