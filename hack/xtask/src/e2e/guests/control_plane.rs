//! Scenarios of the control plane, as etcd counts its members: three and back to one, and two of five lost.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::nodes::ready;
use crate::e2e::openstack::text;

/// Certificates of kubeadm with which etcd accepts clients, in the pod of etcd.
const PKI: &str = "/etc/kubernetes/pki/etcd";

/// Health check of the control plane.
const HEALTH_CHECK: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: guests-control-plane}
spec:
  clusterName: guests
  selector: {matchExpressions: [{key: cluster.x-k8s.io/control-plane, operator: Exists}]}
  checks:
    nodeStartupTimeoutSeconds: 0
    unhealthyNodeConditions:
      - {type: Ready, status: Unknown, timeoutSeconds: 5}
      - {type: Ready, status: 'False', timeoutSeconds: 30}
";

/// Scales the control plane to three and back to one.
pub(super) fn scale(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let workers = cluster.workers()?.len();
    for replicas in [3, 1] {
        scale_to(cluster, replicas, workers)?;
    }
    Ok(())
}

fn scale_to(cluster: &Cluster<'_>, replicas: usize, workers: usize) -> anyhow::Result<()> {
    let number = format!("--replicas={replicas}");
    cluster.host(&["scale", "kubeadmcontrolplane", "guests-control-plane", &number])?;
    ready(cluster, replicas + workers)?;
    has_members(cluster, replicas)
}

/// Stops the servers of two of five control plane Machines at once. Both must be replaced, one after the other, and etcd
/// must have five members again.
pub(super) fn two_of_five(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let workers = cluster.workers()?.len();
    for replicas in [3, 5] {
        scale_to(cluster, replicas, workers)?;
    }
    let file = cluster.lab.file("health-check-control-plane.yaml", HEALTH_CHECK)?;
    cluster.host(&["apply", "-f", &file])?;
    let lost: Vec<Value> = newest(cluster)?.into_iter().take(2).collect();
    for machine in &lost {
        cluster.openstack.records(&["stop", super::cluster::server_of(machine)?])?;
    }
    let lost: Vec<&str> = lost.iter().map(|it| text(it, "/metadata/name")).collect();
    cluster.until(&format!("{} are gone", lost.join(" and ")), || {
        Ok(!cluster.machines()?.iter().any(|it| lost.contains(&text(it, "/metadata/name"))))
    })?;
    ready(cluster, 5 + workers)?;
    has_members(cluster, 5)?;
    cluster.host(&["delete", "-f", &file])?;
    for replicas in [3, 1] {
        scale_to(cluster, replicas, workers)?;
    }
    Ok(())
}

/// Returns the Machines of the control plane, the newest first. The endpoint is a floating IP of the oldest one.
fn newest(cluster: &Cluster<'_>) -> anyhow::Result<Vec<Value>> {
    let mut machines = cluster.machines()?;
    machines.retain(|it| it.pointer("/metadata/labels/cluster.x-k8s.io~1control-plane").is_some());
    machines
        .sort_by(|a, b| text(b, "/metadata/creationTimestamp").cmp(text(a, "/metadata/creationTimestamp")));
    Ok(machines)
}

/// Waits until etcd has exactly this number of started members. None may be a learner.
pub(super) fn has_members(cluster: &Cluster<'_>, count: usize) -> anyhow::Result<()> {
    cluster.until(&format!("etcd has {count} started members"), || {
        Ok(members(cluster)?.iter().filter(|it| !text(it, "/name").is_empty()).count() == count)
    })?;
    let all = members(cluster)?;
    ensure!(all.len() == count, "etcd has {} members: {all:?}", all.len());
    let learners = all.iter().filter(|it| it.pointer("/isLearner") == Some(&Value::Bool(true)));
    ensure!(learners.count() == 0, "etcd has a learner: {all:?}");
    Ok(())
}

/// Asks an etcd for its members, with its own client in its own pod.
fn members(cluster: &Cluster<'_>) -> anyhow::Result<Vec<Value>> {
    let pods = cluster.workload_items(&["-n", "kube-system", "get", "pods", "-l", "component=etcd"])?;
    let pod =
        pods.iter().find(|it| super::cluster::is_true(it, "Ready")).context("no pod of etcd is ready")?;
    let answer = cluster.workload(&[
        "-n",
        "kube-system",
        "exec",
        text(pod, "/metadata/name"),
        "--",
        "etcdctl",
        &format!("--cacert={PKI}/ca.crt"),
        &format!("--cert={PKI}/healthcheck-client.crt"),
        &format!("--key={PKI}/healthcheck-client.key"),
        "member",
        "list",
        "--write-out=json",
    ])?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(answer.pointer("/members").and_then(Value::as_array).cloned().unwrap_or_default())
}
