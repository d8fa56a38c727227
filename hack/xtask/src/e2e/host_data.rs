//! Data that Capstan exchanges with the host: Secrets, tokens and Events. Also the election of the server that runs the
//! controllers.

use std::process::Command;

use anyhow::ensure;
use serde_json::json;

use super::lab::{Lab, until};

pub(super) fn secrets(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["create", "secret", "generic", "cloud", "--from-literal=a=b", "-n", "team"])?;
    // Capstan's user in the host, with the permissions of the manifests.
    let path = "jsonpath={.data.a}";
    let found = lab.kubectl("capstan", &["get", "secret", "cloud", "-n", "team", "-o", path])?;
    ensure!(found == "Yg==", "{found}");
    for more in [
        &["get", "secrets", "-n", "team"][..],
        &["create", "secret", "generic", "token", "-n", "team"],
        &["delete", "secret", "cloud", "-n", "team"],
    ] {
        let (is_allowed, _, error) = lab.try_kubectl("capstan", more)?;
        ensure!(
            !is_allowed && error.to_lowercase().contains("forbidden"),
            "{more:?} is not forbidden: {error}"
        );
    }
    Ok(())
}

pub(super) fn events(lab: &Lab) -> anyhow::Result<()> {
    let path = "jsonpath={.metadata.uid}";
    let uid = lab.kubectl("direct", &["get", "cluster", "c1", "-n", "team", "-o", path])?;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "copied", "namespace": "team"},
        "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c1",
            "namespace": "team", "uid": uid},
        "reason": "Copied", "message": "shown in the host", "type": "Normal", "count": 1});
    lab.kubectl("direct", &["create", "-f", &lab.file("event.json", &event.to_string())?])?;
    let in_host = |field: &str| {
        let path = format!("jsonpath={{{field}}}");
        lab.try_kubectl("admin", &["get", "event", "copied", "-n", "team", "-o", &path])
    };
    until("the Event is in the host", || Ok(in_host(".message")?.1 == "shown in the host"))?;
    lab.kubectl(
        "direct",
        &["patch", "event", "copied", "-n", "team", "--type=merge", "-p", r#"{"count":2}"#],
    )?;
    until("the count of the host's copy is updated", || Ok(in_host(".count")?.1 == "2"))?;
    let described = lab.kubectl("admin", &["describe", "cluster", "c1", "-n", "team"])?;
    ensure!(described.contains("shown in the host"), "{described}");
    Ok(())
}

pub(super) fn tokens(lab: &Lab) -> anyhow::Result<()> {
    lab.kubectl("admin", &["create", "serviceaccount", "robot", "-n", "team"])?;
    let token = lab.kubectl("admin", &["create", "token", "robot", "-n", "team"])?;
    let (code, found) = list_with_token(lab, token.trim())?;
    ensure!(code == "403", "{code} {found}");
    ensure!(found.contains("User \\\"system:serviceaccount:team:robot\\\" cannot list"), "{found}");
    let (code, found) = list_with_token(lab, "forged")?;
    ensure!(code == "401", "{code} {found}");
    Ok(())
}

/// Lists machines on the direct endpoint with a token. Returns the status code and the body.
pub(super) fn list_with_token(lab: &Lab, token: &str) -> anyhow::Result<(String, String)> {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--max-time",
        "20",
        "--write-out",
        "\n%{http_code}",
        "--cacert",
    ]);
    command.arg(lab.data().join("pki/ca.crt")).args(["--header", &format!("Authorization: Bearer {token}")]);
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
    let output = command.arg(format!("https://127.0.0.1:{}{path}", lab.capstan_port)).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (body, code) = text.rsplit_once('\n').unwrap_or_default();
    Ok((code.to_owned(), body.to_owned()))
}

pub(super) fn election(lab: &Lab) -> anyhow::Result<()> {
    let holder = || {
        let path = "jsonpath={.spec.holderIdentity}";
        let lease = ["get", "lease", "capstan-controllers", "-n", "capstan-system", "-o", path];
        Ok::<_, anyhow::Error>(lab.try_kubectl("direct", &lease)?.1)
    };
    until("a server runs the controllers", || Ok(!holder()?.is_empty()))?;
    let before = holder()?;
    lab.stop_capstan();
    lab.start_capstan()?;
    until(
        "the next server runs the controllers",
        || Ok(![String::new(), before.clone()].contains(&holder()?)),
    )
}
