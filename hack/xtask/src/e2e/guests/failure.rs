//! Scenario of a planted failure: a worker whose preKubeadmCommand fails.

use serde_json::Value;

use super::cluster::{Cluster, NAMESPACE};
use crate::e2e::openstack::text;

/// Name of the Machine, its bootstrap configuration and its infrastructure.
pub(super) const NAME: &str = "broken";

/// Program that the image does not have. The shell's message names it on the console.
const MISSING: &str = "prepare-storage";

/// Condition of Capstan that explains failed bootstraps.
const CONDITION: &str = "BootstrapSucceeded";

const MANIFEST: &str = r#"
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  preKubeadmCommands: ["/usr/local/sbin/MISSING --disk /dev/vdb || exit 1"]
  joinConfiguration:
    nodeRegistration: {name: "{{ local_hostname }}", ignorePreflightErrors: [all], imagePullPolicy: Never}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackMachine
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  flavor: {filter: {name: m1.small}}
  image: {filter: {name: IMAGE}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  clusterName: guests
  version: KUBERNETES_VERSION
  failureDomain: guests
  bootstrap:
    configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: NAME}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachine, name: NAME}
"#;

/// Creates the Machine. It fails while other scenarios run.
pub(super) fn plant(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let manifest = MANIFEST.replace("NAMESPACE", NAMESPACE).replace("NAME", NAME).replace("MISSING", MISSING);
    let manifest = cluster.filled(&manifest);
    let file = cluster.lab.file("broken.yaml", &manifest)?;
    cluster.host(&["apply", "-f", &file]).map(|_| ())
}

/// The condition must name the missing program, which only the console log of Nova shows. The Machine can be deleted.
pub(super) fn explained(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    cluster.until(&format!("the condition {CONDITION} names {MISSING}"), || {
        let object = cluster.host_json(&["get", "openstackmachine", NAME])?;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let explains = |it: &Value| {
            text(it, "/type") == CONDITION
                && text(it, "/status") == "False"
                && text(it, "/message").contains(MISSING)
        };
        Ok(conditions.into_iter().flatten().any(explains))
    })?;
    cluster.host(&["delete", "machine", NAME, "--timeout=120s"]).map(|_| ())
}
