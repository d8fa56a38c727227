//! Users of a real Keystone, who log in with kubectl's plug-in on the direct endpoint.

mod endpoint;
mod stopped;
mod tokens;

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::lab::{Lab, until};
use super::openstack::{OpenStack, text};
use crate::run;

pub(super) use tokens::tokens;

/// Entries of `clouds.yaml` with the same user and project: a password, and an application credential.
const CLOUDS: [&str; 2] = ["lab", "lab-appcred"];

/// Name of the kubeconfig that runs the plug-in.
const USER: &str = "keystone";

/// The user has the name and the groups of its project, and the permissions that a binding gives to the project.
pub(super) fn log_in(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<()> {
    let clouds: Value = serde_json::from_str(&std::fs::read_to_string(openstack.clouds_yaml())?)?;
    let auth = clouds.pointer("/clouds/lab/auth").context("clouds.yaml has no cloud lab")?;
    lab.restart_with(&format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nkeystone: {{authURL: '{}', allowInsecureHTTP: true}}\n",
        text(auth, "/auth_url")
    ))?;
    let project = format!("keystone:project:{}", text(auth, "/project_id"));
    for cloud in CLOUDS {
        write_kubeconfig(lab, openstack, cloud)?;
        let (ok, shown, error) = kubectl(lab, openstack, &["auth", "whoami", "-o", "json"])?;
        ensure!(ok, "{cloud}: {error}");
        let review: Value = serde_json::from_str(&shown)?;
        let user = text(&review, "/status/userInfo/username");
        ensure!(user == "keystone:Default/demo", "{cloud}: the user is {user}");
        let groups = review.pointer("/status/userInfo/groups").map(Value::to_string).unwrap_or_default();
        ensure!(groups.contains(&format!("\"{project}\"")), "{cloud}: the groups are {groups}");
    }
    let get = ["get", "machines", "-n", "default"];
    let (ok, _, error) = kubectl(lab, openstack, &get)?;
    ensure!(!ok && error.contains("Forbidden"), "without a binding: {error}");
    lab.kubectl(
        "direct",
        &["create", "rolebinding", USER, "-n", "default", "--clusterrole=view", "--group", &project],
    )?;
    until("the members of the project may list Machines", || Ok(kubectl(lab, openstack, &get)?.0))?;
    let (ok, _, error) = kubectl(lab, openstack, &["get", "secrets", "-n", "default"])?;
    ensure!(!ok && error.contains("Forbidden"), "the role view has no Secrets: {error}");
    lab.kubectl("direct", &["delete", "rolebinding", USER, "-n", "default"])?;
    lab.stop_capstan();
    lab.start_capstan()?;
    lab.host_wait("admin")
}

fn write_kubeconfig(lab: &Lab, openstack: &OpenStack, cloud: &str) -> anyhow::Result<()> {
    let mut command = Command::new(&lab.tools.capstan);
    command.args([
        "login",
        "keystone",
        "--cloud",
        cloud,
        "--write-kubeconfig",
        &lab.certificates.path("keystone.kubeconfig"),
    ]);
    command.args(["--server", &format!("https://127.0.0.1:{}", lab.capstan_port), "--certificate-authority"]);
    command.arg(lab.data().join("pki/ca.crt")).env("OS_CLIENT_CONFIG_FILE", openstack.clouds_yaml());
    run::output(&mut command).map(|_| ())
}

/// Runs kubectl, which finds the plug-in and the login in its environment.
fn kubectl(lab: &Lab, openstack: &OpenStack, arguments: &[&str]) -> anyhow::Result<(bool, String, String)> {
    let directory = lab.tools.capstan.parent().context("the program has no directory")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(&lab.tools.kubectl);
    command.args(["--kubeconfig", &lab.certificates.path("keystone.kubeconfig"), "--cache-dir"]);
    command.arg(lab.directory("cache").join(USER)).args(arguments).stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}", directory.display()));
    command.env("OS_CLIENT_CONFIG_FILE", openstack.clouds_yaml());
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), text(&output.stdout), text(&output.stderr)))
}
