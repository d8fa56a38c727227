//! Scenario of the commands `describe` and `kubeconfig` with a kubeconfig of the host.

use std::process::Command;

use anyhow::ensure;

use super::cluster::{Cluster, NAMESPACE};
use crate::e2e::openstack::text;
use crate::run;

/// `describe` must name each Machine as Running, and `kubeconfig` must return what the Secret contains.
pub(super) fn through_the_host(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let tree = capstan(cluster, &["describe", "cluster", "guests"])?;
    for machine in cluster.machines()? {
        let name = text(&machine, "/metadata/name");
        let row = tree.lines().find(|line| line.contains("Machine") && line.contains(name));
        ensure!(row.is_some_and(|row| row.contains("Running")), "Machine {name} is not Running in\n{tree}");
    }
    let kubeconfig = capstan(cluster, &["kubeconfig", "--cluster", "guests"])?;
    let template = "go-template={{.data.value|base64decode}}";
    let secret = cluster.host(&["get", "secret", "guests-kubeconfig", "-o", template])?;
    ensure!(kubeconfig.trim() == secret.trim(), "the command does not return the kubeconfig of the Secret");
    Ok(())
}

/// Runs a command of Capstan as the administrator of the host.
fn capstan(cluster: &Cluster<'_>, arguments: &[&str]) -> anyhow::Result<String> {
    let kubeconfig = cluster.lab.certificates.path("admin.kubeconfig");
    let mut command = Command::new(&cluster.lab.tools.capstan);
    run::output(command.args(arguments).args(["--namespace", NAMESPACE, "--kubeconfig", &kubeconfig]))
}
