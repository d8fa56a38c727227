//! Scenario of the fields of a KubeadmConfig: the worker reports on its console how they came out.

use anyhow::{Context, ensure};

use super::cluster::Cluster;
use crate::e2e::openstack::text;

/// Field and its effect. The last field of a list is the last one that a worker reports.
pub(super) type Effect = (&'static str, &'static str);

/// Effects of the cluster's manifest, as `report` in `hack/guests/cluster/files.yaml` writes them.
pub(super) const EFFECTS: [Effect; 13] = [
    ("secret", "640 daemon:adm from-a-secret"),
    ("base64", "decoded"),
    ("gzip", "gzipped"),
    ("appended", "one line more"),
    ("user", "Operations:/home/ops:/bin/sh ops adm users"),
    ("locked", "L"),
    ("sudo", "root"),
    ("key", "ssh-ed25519 ops@lab"),
    ("ntp", "192.0.2.123"),
    ("partitions", "gpt part 38.4M part 24M "),
    ("disk", "ext4 rw,noatime node-data"),
    ("proxy", "HTTPS_PROXY=http://192.0.2.3:3128 NO_PROXY=10.0.0.0/8,.svc,.cluster.local"),
    ("commands", "boot before after "),
];

/// Maximum of pods that the manifest's patch of the kubelet configuration sets.
const MAX_PODS: u64 = 64;

/// The console of the worker must show each effect. Its kubelet must run with the patched configuration and the label.
pub(super) fn on_the_worker(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let workers = cluster.workers()?;
    on(cluster, workers.first().context("the cluster has no worker")?, &EFFECTS)
}

/// Checks the effects on one worker.
pub(super) fn on(
    cluster: &Cluster<'_>,
    worker: &serde_json::Value,
    effects: &[Effect],
) -> anyhow::Result<()> {
    let (last, _) = effects.last().context("no field is checked")?;
    cluster.until("the worker has reported its fields", || {
        Ok(effect(&cluster.console(worker)?, last).is_some())
    })?;
    let console = cluster.console(worker)?;
    for (field, expected) in effects {
        let found = effect(&console, field).with_context(|| format!("the console does not name {field}"))?;
        ensure!(found == expected.trim_end(), "field {field} has the effect {found:?}, not {expected:?}");
    }
    let node = text(worker, "/status/nodeRef/name");
    let path = format!("/api/v1/nodes/{node}/proxy/configz");
    // The kubelet may be between its first and its second start.
    cluster.until(&format!("the kubelet of {node} allows {MAX_PODS} pods"), || {
        let configuration: serde_json::Value =
            serde_json::from_str(&cluster.workload(&["get", "--raw", &path])?)?;
        let pods = configuration.pointer("/kubeletconfig/maxPods").and_then(serde_json::Value::as_u64);
        Ok(pods == Some(MAX_PODS))
    })?;
    let labels =
        cluster.workload(&["get", "node", node, "-o", "jsonpath={.metadata.labels.example\\.org/rack}"])?;
    ensure!(labels == "r7", "Node {node} has the label example.org/rack={labels:?}");
    Ok(())
}

/// Returns the effect of a field in a console log. cloud-init puts a prefix before each line.
fn effect<'a>(console: &'a str, field: &str) -> Option<&'a str> {
    let name = format!("field {field}: ");
    console.lines().rev().find_map(|line| line.split_once(name.as_str())).map(|(_, effect)| effect.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_the_rest_of_its_last_line() {
        let console = "[   8.1] cloud-init[94]: field ntp: 192.0.2.1\r\nfield ntp: 192.0.2.123\r\n";
        assert_eq!(effect(console, "ntp"), Some("192.0.2.123"));
        assert_eq!(effect(console, "sudo"), None);
    }
}
