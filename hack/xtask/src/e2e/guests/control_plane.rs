//! Scenario of the control plane: three members and back to one, counted by etcd.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::cluster::Cluster;
use super::nodes::ready;
use crate::e2e::openstack::text;

/// Certificates of kubeadm with which etcd accepts clients, in the pod of etcd.
const PKI: &str = "/etc/kubernetes/pki/etcd";

/// Scales the control plane to three and back to one.
pub(super) fn scale(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let workers = cluster.workers()?.len();
    for replicas in [3, 1] {
        cluster.host(&[
            "scale",
            "kubeadmcontrolplane",
            "guests-control-plane",
            &format!("--replicas={replicas}"),
        ])?;
        ready(cluster, replicas + workers)?;
        cluster.until(&format!("etcd has {replicas} started members"), || {
            Ok(members(cluster)?.iter().filter(|it| !text(it, "/name").is_empty()).count() == replicas)
        })?;
        let all = members(cluster)?;
        ensure!(all.len() == replicas, "etcd has {} members: {all:?}", all.len());
        let learners = all.iter().filter(|it| it.pointer("/isLearner") == Some(&Value::Bool(true)));
        ensure!(learners.count() == 0, "etcd has a learner: {all:?}");
    }
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
