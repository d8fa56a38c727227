//! Scenarios of an upgrade: the control plane, and then the workers, are replaced by nodes of a newer release.

use std::time::Duration;

use anyhow::{Context, ensure};

use super::cluster::{Cluster, is_true, names};
use super::control_plane::has_members;
use super::nodes::{ready, web_responds};
use super::probe::Probe;
use crate::e2e::openstack::text;

/// Longest time without an answer of the API server. Without a load balancer, the endpoint is a floating IP, which moves
/// to the new server before the old one goes. One request of the probe may end by its timeout of two seconds.
pub(super) const LONGEST_GAP: Duration = Duration::from_secs(15);

/// Template with the image of the newer release.
const TEMPLATE: &str = r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackMachineTemplate
metadata: {name: NAME}
spec:
  template:
    spec:
      flavor: {filter: {name: FLAVOR}}
      image: {filter: {name: NEW_IMAGE}}
";

/// Creates a template, and returns its name.
fn template(cluster: &Cluster<'_>, name: &str, flavor: &str) -> anyhow::Result<String> {
    let name = format!("{name}-newer");
    let manifest =
        TEMPLATE.replace("NAME", &name).replace("FLAVOR", flavor).replace("NEW_IMAGE", &cluster.image.name);
    let file = cluster.lab.file(&format!("{name}.yaml"), &manifest)?;
    cluster.host(&["apply", "-f", &file])?;
    Ok(name)
}

/// Upgrades the control plane while its API server is probed.
pub(super) fn control_plane(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let count = cluster.machines()?.len();
    let name = template(cluster, "guests-control-plane", "m1.medium")?;
    let patch = format!(
        r#"{{"spec": {{"version": "{}", "machineTemplate": {{"spec": {{"infrastructureRef": {{"name": "{name}"}}}}}}}}}}"#,
        cluster.image.kubernetes
    );
    let probe = Probe::start(cluster)?;
    cluster.host(&["patch", "kubeadmcontrolplane", "guests-control-plane", "--type=merge", "-p", &patch])?;
    cluster.until("the control plane has the newer release", || {
        let found = cluster.host_json(&["get", "kubeadmcontrolplane", "guests-control-plane"])?;
        let is_there = text(&found, "/status/version") == cluster.image.kubernetes;
        Ok(is_there && is_true(&found, "MachinesUpToDate") && !is_true(&found, "RollingOut"))
    })?;
    ready(cluster, count)?;
    let seen = probe.end()?;
    eprintln!(
        "  API server during the upgrade: {} answers, longest gap {:.1} s",
        seen.answered,
        seen.longest_gap.as_secs_f64()
    );
    ensure!(
        seen.answered > 0 && seen.longest_gap <= LONGEST_GAP,
        "the API server did not answer for {:?}",
        seen.longest_gap
    );
    has_members(cluster, 1)?;
    add_ons(cluster, &cluster.image.kubernetes)?;
    web_responds(cluster)
}

/// Configuration and add-ons of kubeadm must have the newer release.
pub(super) fn add_ons(cluster: &Cluster<'_>, release: &str) -> anyhow::Result<()> {
    cluster.until("kube-proxy has the newer release", || {
        let proxy = cluster.workload_json(&["-n", "kube-system", "get", "daemonset", "kube-proxy"])?;
        Ok(text(&proxy, "/spec/template/spec/containers/0/image").ends_with(&format!(":{release}")))
    })?;
    let config = cluster.workload_json(&["-n", "kube-system", "get", "configmap", "kubeadm-config"])?;
    let config = text(&config, "/data/ClusterConfiguration");
    ensure!(config.contains(&format!("kubernetesVersion: {release}")), "kubeadm-config: {config}");
    Ok(())
}

/// Upgrades the workers.
pub(super) fn workers(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let (count, before) = (cluster.machines()?.len(), names(&cluster.workers()?));
    let name = template(cluster, "guests-md-0", "m1.small")?;
    let release = &cluster.image.kubernetes;
    let patch = format!(
        r#"{{"spec": {{"template": {{"spec": {{"version": "{release}", "infrastructureRef": {{"name": "{name}"}}}}}}}}}}"#
    );
    cluster.host(&["patch", "machinedeployment", "guests-md-0", "--type=merge", "-p", &patch])?;
    cluster.until("all workers are others", || {
        let now = names(&cluster.workers()?);
        Ok(!now.is_empty() && now.iter().all(|name| !before.contains(name)))
    })?;
    ready(cluster, count)?;
    has_release(cluster, release)?;
    web_responds(cluster)
}

/// Returns an error if a kubelet has another release.
pub(super) fn has_release(cluster: &Cluster<'_>, release: &str) -> anyhow::Result<()> {
    for node in cluster.workload_items(&["get", "nodes"])? {
        let found = text(&node, "/status/nodeInfo/kubeletVersion");
        ensure!(found == release, "kubelet of {} has version {found}", text(&node, "/metadata/name"));
    }
    Ok(())
}

/// Manifest of the health check of the workers.
const HEALTH_CHECK: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: guests-md-0}
spec:
  clusterName: guests
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: guests-md-0}}
  checks:
    nodeStartupTimeoutSeconds: 0
    unhealthyNodeConditions:
      - {type: Ready, status: Unknown, timeoutSeconds: 5}
      - {type: Ready, status: 'False', timeoutSeconds: 30}
";

/// Stops the server of a worker with the API of Nova. The health check finds its Node, and the worker is replaced.
pub(super) fn dead_worker(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let count = cluster.machines()?.len();
    let file = cluster.lab.file("health-check.yaml", HEALTH_CHECK)?;
    cluster.host(&["apply", "-f", &file])?;
    let workers = cluster.workers()?;
    let worker = workers.first().context("no worker exists")?;
    let name = text(worker, "/metadata/name");
    cluster.openstack.records(&["stop", super::cluster::server_of(worker)?])?;
    cluster.until(&format!("worker {name} is gone"), || {
        Ok(!cluster.machines()?.iter().any(|it| text(it, "/metadata/name") == name))
    })?;
    ready(cluster, count)?;
    web_responds(cluster)?;
    cluster.host(&["delete", "-f", &file]).map(|_| ())
}
