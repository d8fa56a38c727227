//! Scenarios of the first nodes: Ready, pods that respond, and one more worker.

use std::process::Command;

use anyhow::ensure;

use super::cluster::{Cluster, NAMESPACE, is_true};
use crate::e2e::openstack::text;

/// Port of the Deployment on every node.
const NODE_PORT: u16 = 30080;

/// Deployment with the only image of the guests that serves HTTP: the health endpoint of CoreDNS.
const WEB: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  Corefile: |
    .:1053 {
      health :8080
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      # An unreachable node must not keep its pods for minutes.
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers:
        - name: web
          image: registry.k8s.io/coredns/coredns:COREDNS_VERSION
          imagePullPolicy: Never
          args: [-conf, /etc/web/Corefile]
          readinessProbe: {httpGet: {path: /health, port: 8080}, periodSeconds: 1}
          volumeMounts: [{name: config, mountPath: /etc/web}]
      volumes: [{name: config, configMap: {name: web}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 8080, nodePort: NODE_PORT}]
";

/// Applies the manifest. The control plane and the worker must be Ready in both API servers.
pub(super) fn first(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let manifest = cluster.lab.file("guests.yaml", &cluster.manifest()?)?;
    cluster.until("the manifest is applied", || {
        cluster.lab.kubectl("admin", &["apply", "-f", &manifest]).map(|_| true)
    })?;
    cluster.lab.let_write_secrets(NAMESPACE)?;
    ready(cluster, 2)?;
    super::upgrade::has_release(cluster, &cluster.image.earlier)?;
    let found = cluster.host_json(&["get", "cluster", "guests"])?;
    ensure!(
        text(&found, "/status/phase") == "Provisioned",
        "the Cluster is {}",
        text(&found, "/status/phase")
    );
    Ok(())
}

/// Waits until exactly this number of Machines is Running with a Ready node, and no other node exists.
pub(super) fn ready(cluster: &Cluster<'_>, count: usize) -> anyhow::Result<()> {
    cluster.until(&format!("{count} Machines are Running with Ready nodes"), || {
        let machines = cluster.machines()?;
        let is_ready =
            |it: &&serde_json::Value| text(it, "/status/phase") == "Running" && is_true(it, "Ready");
        if machines.len() != count || machines.iter().filter(is_ready).count() != count {
            return Ok(false);
        }
        let nodes = cluster.workload_items(&["get", "nodes"])?;
        let are_ready = nodes.iter().all(|node| is_true(node, "Ready"));
        let mut refs: Vec<&str> = machines.iter().map(|it| text(it, "/status/nodeRef/name")).collect();
        let mut names: Vec<&str> = nodes.iter().map(|it| text(it, "/metadata/name")).collect();
        refs.sort_unstable();
        names.sort_unstable();
        Ok(are_ready && refs == names)
    })
}

/// Two pods must respond through the floating IP of the control plane, and each through the API server.
pub(super) fn web(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let web =
        WEB.replace("COREDNS_VERSION", &cluster.image.coredns).replace("NODE_PORT", &NODE_PORT.to_string());
    cluster.apply_in_workload("web.yaml", &web)?;
    web_responds(cluster)
}

/// Waits until both pods of the Deployment are available and respond over HTTP.
pub(super) fn web_responds(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let endpoint =
        cluster.host(&["get", "cluster", "guests", "-o", "jsonpath={.spec.controlPlaneEndpoint.host}"])?;
    let url = format!("http://{endpoint}:{NODE_PORT}/health");
    cluster.until("two pods respond over HTTP", || {
        let deployment = cluster.workload_json(&["get", "deployment", "web"])?;
        let available = deployment.pointer("/status/availableReplicas").and_then(serde_json::Value::as_i64);
        if available != Some(2) {
            return Ok(false);
        }
        let curl = Command::new("curl").args(["--silent", "--max-time", "5", &url]).output()?;
        if curl.stdout != b"OK" {
            return Ok(false);
        }
        let pods = cluster.workload_items(&["get", "pods", "-l", "app=web"])?;
        for pod in pods.iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none()) {
            let name = text(pod, "/metadata/name");
            let path = format!("/api/v1/namespaces/default/pods/{name}:8080/proxy/health");
            if cluster.workload(&["get", "--raw", &path])? != "OK" {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Scales the MachineDeployment through the host, by its scale subresource. The new worker joins with an approval.
pub(super) fn scale(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    super::join::attest(cluster)?;
    cluster.scale_workers(2)?;
    ready(cluster, 3)
}
