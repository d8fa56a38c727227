//! Scenario of credentials: the Secret of the Cluster gets others, and Keystone revokes the earlier ones.

use serde_json::json;

use super::cluster::{Cluster, NAMESPACE};
use super::nodes::ready;
use crate::e2e::openstack::text;

/// Replaces the password in the Secret by an application credential, and that by another one. After each, a worker comes
/// or goes. The first credential is revoked before the second one has made its first call.
pub(super) fn rotated(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let (count, workers) = (cluster.machines()?.len(), cluster.workers()?.len());
    let password = std::fs::read_to_string(cluster.openstack.clouds_yaml())?;
    let first = cluster.openstack.credential("guests-first")?;
    write(cluster, &cluster.openstack.clouds_with(&first)?)?;
    cluster.scale_workers(workers + 1)?;
    ready(cluster, count + 1)?;
    let second = cluster.openstack.credential("guests-second")?;
    write(cluster, &cluster.openstack.clouds_with(&second)?)?;
    cluster.openstack.records(&["revoke", text(&first, "/id")])?;
    cluster.scale_workers(workers)?;
    ready(cluster, count)?;
    write(cluster, &password)?;
    cluster.openstack.records(&["revoke", text(&second, "/id")])?;
    cluster.scale_workers(workers + 1)?;
    ready(cluster, count + 1)?;
    cluster.scale_workers(workers)?;
    ready(cluster, count)
}

/// Writes the Secret of the Cluster's credentials.
fn write(cluster: &Cluster<'_>, clouds: &str) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "guests-cloud-config", "namespace": NAMESPACE},
        "stringData": {"clouds.yaml": clouds},
    });
    let file = cluster.lab.file("credentials.json", &secret.to_string())?;
    cluster.host(&["apply", "-f", &file]).map(|_| ())
}
