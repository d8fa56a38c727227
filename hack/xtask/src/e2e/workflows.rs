//! Workflows of operators and users, through the host and directly.

use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::lab::{Lab, until};
use crate::run;

/// Group-versions that the host serves through Capstan.
const GROUP_VERSIONS: [&str; 17] = [
    "cluster.x-k8s.io/v1beta2",
    "cluster.x-k8s.io/v1beta1",
    "bootstrap.cluster.x-k8s.io/v1beta2",
    "bootstrap.cluster.x-k8s.io/v1beta1",
    "controlplane.cluster.x-k8s.io/v1beta2",
    "controlplane.cluster.x-k8s.io/v1beta1",
    "addons.cluster.x-k8s.io/v1beta2",
    "addons.cluster.x-k8s.io/v1beta1",
    "ipam.cluster.x-k8s.io/v1beta2",
    "ipam.cluster.x-k8s.io/v1beta1",
    "ipam.cluster.x-k8s.io/v1alpha1",
    "runtime.cluster.x-k8s.io/v1beta2",
    "runtime.cluster.x-k8s.io/v1alpha1",
    "infrastructure.cluster.x-k8s.io/v1beta2",
    "infrastructure.cluster.x-k8s.io/v1beta1",
    "infrastructure.cluster.x-k8s.io/v1alpha1",
    "capstan.dev/v1alpha1",
];

const OBJECTS: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c1, namespace: team}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.0.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackCluster, name: c1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: m1, namespace: team}
spec:
  clusterName: c1
  version: v1.30.0
  bootstrap: {dataSecretName: s1}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachine, name: m1}
";

pub(super) fn available(lab: &Lab) -> anyhow::Result<()> {
    for group_version in GROUP_VERSIONS {
        let (group, version) = group_version.split_once('/').context("a group and a version")?;
        let name = format!("apiservice/{version}.{group}");
        lab.kubectl("admin", &["wait", &name, "--for=condition=Available", "--timeout=90s"])?;
    }
    Ok(())
}

pub(super) fn no_duplicates(lab: &Lab) -> anyhow::Result<()> {
    let crd = lab.kubectl("admin", &["get", "crd", "machines.cluster.x-k8s.io", "-o", "json"])?;
    let crd: Value = serde_json::from_str(&crd)?;
    ensure!(
        crd.pointer("/spec/versions/0/served") == Some(&Value::Bool(false)),
        "the CRD object has a served version"
    );
    for (group, kinds) in [("cluster.x-k8s.io", 8), ("infrastructure.cluster.x-k8s.io", 7)] {
        let names = lab.kubectl("admin", &["api-resources", "--api-group", group, "-o", "name"])?;
        let mut lines: Vec<&str> = names.lines().collect();
        let count = lines.len();
        lines.sort_unstable();
        lines.dedup();
        ensure!(count == kinds && lines.len() == kinds, "{group} has {names:?} instead of {kinds} kinds");
    }
    let definitions = documents(lab)?.get("definitions").cloned().unwrap_or_default();
    for version in ["v1beta2", "v1beta1"] {
        let machine = format!(".{version}.Machine");
        let machines =
            definitions.as_object().into_iter().flatten().filter(|(name, _)| name.ends_with(&machine));
        let count = machines.count();
        ensure!(count == 1, "the host's OpenAPI has Machine in {version} {count} times");
    }
    Ok(())
}

/// Returns the host's OpenAPI document after it contains all of Capstan's groups.
///
/// The host fetches Capstan's document about once a minute. If a fetch fails during a restart, the groups are missing
/// for that long.
pub(super) fn documents(lab: &Lab) -> anyhow::Result<Value> {
    let mut document = Value::Null;
    until("the host's OpenAPI has every group of Capstan", || {
        document = serde_json::from_str(&lab.kubectl("admin", &["get", "--raw", "/openapi/v2"])?)?;
        let paths =
            document.get("paths").and_then(Value::as_object).context("the host's OpenAPI has no paths")?;
        let has = |group_version: &&str| {
            let root = format!("/apis/{group_version}/");
            paths.keys().any(|path| path.starts_with(&root))
        };
        Ok(GROUP_VERSIONS.iter().all(has))
    })?;
    Ok(document)
}

pub(super) fn permitted_user(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["create", "namespace", "team"])?;
    // The manifests aggregate Capstan's roles to the host's own `edit`.
    lab.kubectl(
        "admin",
        &["create", "rolebinding", "alice", "--clusterrole=capstan:edit", "--user=alice", "-n", "team"],
    )?;
    let file = lab.file("objects.yaml", OBJECTS)?;
    until("alice's permission takes effect in the host", || {
        Ok(lab.try_kubectl("alice", &["apply", "-f", &file])?.0)
    })?;
    let found = lab.kubectl("alice", &["get", "machines", "-n", "team", "-o", "name"])?;
    ensure!(found.trim() == "machine.cluster.x-k8s.io/m1", "{found}");
    let refused = lab.try_kubectl(
        "alice",
        &["apply", "-f", &lab.file("bad.yaml", &OBJECTS.replace("clusterName", "clusterNam"))?],
    )?;
    ensure!(!refused.0 && refused.2.contains("unknown field \"spec.clusterNam\""), "{}", refused.2);
    let missing = lab.file("missing.yaml", &OBJECTS.replace("namespace: team", "namespace: nowhere"))?;
    let refused = lab.try_kubectl("admin", &["create", "-f", &missing])?;
    ensure!(!refused.0 && refused.2.contains("namespaces \"nowhere\" not found"), "{}", refused.2);
    Ok(())
}

pub(super) fn reading(lab: &Lab) -> anyhow::Result<()> {
    let explained = lab.kubectl("alice", &["explain", "machine.spec.bootstrap.dataSecretName"])?;
    ensure!(explained.contains("FIELD: dataSecretName <string>"), "{explained}");
    let described = lab.kubectl("alice", &["describe", "machine", "m1", "-n", "team"])?;
    ensure!(described.contains("Cluster Name:") && described.contains("v1.30.0"), "{described}");
    let table = lab.kubectl("alice", &["get", "machines", "-n", "team"])?;
    ensure!(table.starts_with("NAME   CLUSTER   NODE NAME"), "{table}");
    // No controller of Capstan knows this condition, so it stays.
    let status = r#"{"status":{"conditions":[{"type":"Inspected","status":"True","reason":"Ok","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    lab.kubectl(
        "admin",
        &["patch", "machine", "m1", "-n", "team", "--subresource=status", "--type=merge", "-p", status],
    )?;
    lab.kubectl(
        "alice",
        &["wait", "machine/m1", "-n", "team", "--for=condition=Inspected", "--timeout=20s"],
    )?;
    lab.kubectl("alice", &["delete", "machine", "m1", "-n", "team", "--timeout=20s"])?;
    let gone = lab.try_kubectl("alice", &["get", "machine", "m1", "-n", "team"])?;
    ensure!(!gone.0 && gone.2.contains("machines.cluster.x-k8s.io \"m1\" not found"), "{}", gone.2);
    Ok(())
}

pub(super) fn refused_user(lab: &Lab) -> anyhow::Result<()> {
    let by_host = lab.try_kubectl("bob", &["get", "machines", "-n", "team"])?;
    ensure!(!by_host.0 && by_host.2.contains("Forbidden"), "{}", by_host.2);
    // A request as the host sends it, with the front proxy's certificate and bob's name. Capstan itself refuses it.
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
    let (code, body) = curl(
        lab,
        path,
        "front-proxy-client",
        &["X-Remote-User: bob", "X-Remote-Group: system:authenticated"],
    )?;
    ensure!(code == "403", "{code} {body}");
    ensure!(
        body.contains("machines.cluster.x-k8s.io is forbidden: User \\\"bob\\\" cannot list resource"),
        "{body}"
    );
    let (code, body) = curl(
        lab,
        path,
        "front-proxy-client",
        &["X-Remote-User: alice", "X-Remote-Group: system:authenticated"],
    )?;
    ensure!(code == "200", "{code} {body}");
    Ok(())
}

pub(super) fn forged_headers(lab: &Lab) -> anyhow::Result<()> {
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
    let forged = ["X-Remote-User: admin", "X-Remote-Group: system:masters"];
    // A certificate of a host user: Capstan does not trust its CA for clients.
    let (code, body) = curl(lab, path, "bob", &forged)?;
    ensure!(code == "401" && body.contains("Unauthorized"), "a certificate of another CA: {code} {body}");
    // No certificate: only health and the version need no credentials.
    let (code, body) = curl(lab, path, "", &forged)?;
    ensure!(code == "401" && body.contains("Unauthorized"), "{code} {body}");
    // A certificate of Capstan's own CA without permissions: the headers are ignored, and the user is the one in it.
    mint(lab, "carol", "nobody")?;
    let refused = lab.try_kubectl("carol", &["get", "machines", "-n", "team"])?;
    ensure!(!refused.0 && refused.2.contains("User \"carol\" cannot list"), "{}", refused.2);
    Ok(())
}

pub(super) fn direct_endpoint(lab: &Lab) -> anyhow::Result<()> {
    mint(lab, "direct", "system:masters")?;
    let view = |user| {
        lab.kubectl(
            user,
            &[
                "get",
                "cluster",
                "c1",
                "-n",
                "team",
                "-o",
                "jsonpath={.metadata.uid} {.metadata.resourceVersion}",
            ],
        )
    };
    let (through_host, direct) = (view("alice")?, view("direct")?);
    ensure!(through_host == direct, "the host shows {through_host:?}, the direct endpoint {direct:?}");
    Ok(())
}

pub(super) fn core_kinds_stay_in_the_host(lab: &Lab) -> anyhow::Result<()> {
    let (code, body) = curl(
        lab,
        "/api/v1/secrets",
        "front-proxy-client",
        &["X-Remote-User: a", "X-Remote-Group: system:masters"],
    )?;
    ensure!(code == "404", "{code} {body}");
    let namespaces = lab.kubectl("direct", &["get", "namespaces", "-o", "name"])?;
    ensure!(namespaces.contains("namespace/default"), "{namespaces}");
    Ok(())
}

pub(super) fn restart(lab: &Lab) -> anyhow::Result<()> {
    let before =
        lab.kubectl("direct", &["get", "cluster", "c1", "-n", "team", "-o", "jsonpath={.metadata.uid}"])?;
    lab.stop_capstan();
    let down = lab.try_kubectl("alice", &["get", "clusters", "-n", "team"])?;
    ensure!(!down.0, "the host responded although Capstan is down: {}", down.1);
    lab.start_capstan()?;
    until("the host reaches Capstan again", || {
        Ok(lab.try_kubectl("alice", &["get", "clusters", "-n", "team"])?.0)
    })?;
    let after =
        lab.kubectl("alice", &["get", "cluster", "c1", "-n", "team", "-o", "jsonpath={.metadata.uid}"])?;
    ensure!(before == after, "the UID {before} has changed to {after}");
    Ok(())
}

/// Kinds of several groups, each with its group-version.
const OF_EACH_GROUP: [(&str, &str); 5] = [
    ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate"),
    ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "OpenStackCluster"),
    ("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim"),
];

/// Checks that each kind responds after `capstan host wait`: no request gets a 503. The APIServices are registered
/// again, so that the host checks them at once. Available APIServices are not enough: kube-apiserver's proxy updates
/// later.
pub(super) fn responds_after_wait(lab: &Lab) -> anyhow::Result<()> {
    let names: Vec<String> = GROUP_VERSIONS
        .iter()
        .filter_map(|it| it.split_once('/'))
        .map(|(group, version)| format!("apiservice/{version}.{group}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for round in 1..=ROUNDS {
        lab.stop_capstan();
        lab.kubectl("admin", &[&["delete"][..], &names].concat())?;
        lab.register()?;
        lab.start_capstan()?;
        lab.host_wait("admin")?;
        for (version, kind) in OF_EACH_GROUP {
            let plural = format!("{}s", kind.to_lowercase());
            let path = format!("/apis/{version}/namespaces/default/{plural}");
            let (served, _, error) = lab.try_kubectl("admin", &["get", "--raw", &path])?;
            ensure!(served, "round {round}, {path}: {error}");
        }
    }
    // The host itself rejects this user, so the wait must not report success.
    match lab.host_wait("bob") {
        Ok(()) => bail!("`capstan host wait` succeeded for a user without permission"),
        Err(error) => ensure!(format!("{error:#}").contains("administrator"), "{error:#}"),
    }
    Ok(())
}

/// Number of starts. With APIServices that are Available as the only condition, most runs of five starts had a 503.
const ROUNDS: usize = 3;

/// Writes a kubeconfig for the direct endpoint.
pub(super) fn mint(lab: &Lab, user: &str, group: &str) -> anyhow::Result<()> {
    mint_for("1h", lab, user, group)
}

/// Creates the same for another time.
pub(super) fn mint_for(time: &str, lab: &Lab, user: &str, group: &str) -> anyhow::Result<()> {
    let server = format!("https://127.0.0.1:{}", lab.capstan_port);
    let mut command = Command::new(&lab.tools.capstan);
    command.args(["kubeconfig", "--user", user, "--expires", time, "--server", &server]);
    if group == "system:masters" {
        command.args(["--break-glass", "--reason", "end-to-end test"]);
    } else {
        command.args(["--group", group]);
    }
    command.arg("--data-dir");
    let text = run::output(command.arg(lab.data()))?;
    std::fs::write(lab.certificates.path(&format!("{user}.kubeconfig")), text)?;
    Ok(())
}

/// Sends a request to the direct endpoint with a certificate of the host. Returns the status code and the body.
fn curl(lab: &Lab, path: &str, certificate: &str, headers: &[&str]) -> anyhow::Result<(String, String)> {
    let mut command = Command::new("curl");
    let ca = lab.data().join("pki/ca.crt");
    command
        .args(["--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{http_code}", "--cacert"])
        .arg(ca);
    if !certificate.is_empty() {
        let file = |end: &str| lab.certificates.path(&format!("{certificate}.{end}"));
        command.args(["--cert", &file("crt"), "--key", &file("key")]);
    }
    for header in headers {
        command.args(["--header", header]);
    }
    let output = command.arg(format!("https://127.0.0.1:{}{path}", lab.capstan_port)).output()?;
    if !output.status.success() {
        bail!("curl: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, code) = text.rsplit_once('\n').context("curl printed no code")?;
    Ok((code.to_owned(), body.to_owned()))
}
