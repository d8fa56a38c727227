//! The objects that servers are loaded with: a Machine as a running cluster has it, and for the Go server of
//! the aggregated kind its own Flunder, made as large.

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

/// What is created, read and changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// `cluster.x-k8s.io/v1beta2` Machine
    Machine,
    /// `wardle.example.com/v1alpha1` Flunder, the kind of the Go project's sample server
    Flunder,
}

impl Kind {
    /// Path of the objects of a namespace.
    pub fn collection(self, namespace: &str) -> String {
        let (group_version, resource) = match self {
            Self::Machine => ("cluster.x-k8s.io/v1beta2", "machines"),
            Self::Flunder => ("wardle.example.com/v1alpha1", "flunders"),
        };
        format!("/apis/{group_version}/namespaces/{namespace}/{resource}")
    }

    /// Path of what holds an object's status.
    pub fn status(self, namespace: &str, name: &str) -> String {
        let object = format!("{}/{name}", self.collection(namespace));
        match self {
            Self::Machine => format!("{object}/status"),
            // It has no such subresource.
            Self::Flunder => object,
        }
    }

    /// An object as it is created.
    pub fn object(self, namespace: &str, name: &str) -> Value {
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels(name)});
        match self {
            Self::Machine => json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
                "spec": machine_spec(name)}),
            Self::Flunder => {
                let mut metadata = metadata;
                // As many bytes as the spec of a Machine.
                metadata["annotations"] = json!({"lab.example.com/spec": machine_spec(name).to_string()});
                json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": metadata,
                    "spec": {"reference": name, "referenceType": "Flunder"}})
            }
        }
    }

    /// The object with its `turn`th status, as a controller writes it.
    pub fn with_status(self, namespace: &str, name: &str, revision: &str, turn: u64) -> Bytes {
        let mut object = self.object(namespace, name);
        object["metadata"]["resourceVersion"] = revision.into();
        match self {
            Self::Machine => object["status"] = machine_status(name, turn),
            Self::Flunder => {
                let status = machine_status(name, turn).to_string();
                object["metadata"]["annotations"]["lab.example.com/status"] = status.into();
            }
        }
        Bytes::from(object.to_string())
    }

    /// A merge patch that changes one annotation.
    pub fn patch(turn: u64) -> Bytes {
        Bytes::from(
            json!({"metadata": {"annotations": {"lab.example.com/turn": turn.to_string()}}}).to_string(),
        )
    }

    /// The configuration that a delivery tool applies for the `turn`th time.
    pub fn configuration(self, namespace: &str, name: &str, turn: u64) -> Bytes {
        let mut object = self.object(namespace, name);
        object["metadata"]["labels"]["lab.example.com/commit"] = format!("c{turn}").into();
        Bytes::from(object.to_string())
    }
}

/// Values of the label that lists select by.
pub const SHARDS: usize = 100;

/// Labels: one in [`SHARDS`] has the same shard.
fn labels(name: &str) -> Value {
    let shard = name.rsplit('-').next().and_then(|number| number.parse::<usize>().ok()).unwrap_or(0) % SHARDS;
    json!({
        "cluster.x-k8s.io/cluster-name": "production",
        "cluster.x-k8s.io/deployment-name": "production-workers",
        "lab.example.com/shard": shard.to_string(),
    })
}

fn machine_spec(name: &str) -> Value {
    json!({
        "clusterName": "production",
        "version": "v1.34.2",
        "failureDomain": "nova",
        "providerID": format!("openstack:///RegionOne/{name}"),
        "bootstrap": {
            "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name},
            "dataSecretName": format!("{name}-bootstrap"),
        },
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name},
        "deletion": {
            "nodeDrainTimeoutSeconds": 300, "nodeVolumeDetachTimeoutSeconds": 300,
            "nodeDeletionTimeoutSeconds": 60},
    })
}

fn machine_status(name: &str, turn: u64) -> Value {
    let time = "2026-03-04T05:06:07Z";
    let condition = |kind: &str, reason: &str, message: String| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": time})
    };
    json!({
        "phase": "Running",
        "observedGeneration": 1,
        "lastUpdated": time,
        "nodeRef": {"name": name},
        "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
        "addresses": [
            {"type": "InternalIP", "address": "10.6.0.17"}, {"type": "ExternalIP", "address": "203.0.113.17"},
            {"type": "InternalDNS", "address": name}, {"type": "Hostname", "address": name}],
        "nodeInfo": {
            "machineID": "9f3a4c1e7b8d4f56a1b2c3d4e5f60718", "systemUUID": "9f3a4c1e-7b8d-4f56-a1b2-c3d4e5f60718",
            "bootID": "0d5c8f0e-3d0b-4b0e-9a55-6c1a3f1f7f4e", "kernelVersion": "6.1.0-32-amd64",
            "osImage": "Debian GNU/Linux 12 (bookworm)", "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": "v1.34.2", "kubeProxyVersion": "", "operatingSystem": "linux",
            "architecture": "amd64"},
        "conditions": [
            condition("Available", "Available", String::new()),
            condition("Ready", "Ready", String::new()),
            condition("UpToDate", "UpToDate", String::new()),
            condition("BootstrapConfigReady", "Ready", String::new()),
            condition("InfrastructureReady", "Ready", format!("seen {turn} times")),
            condition("NodeHealthy", "NodeHealthy", String::new()),
            condition("NodeReady", "NodeReady", "* Node.Ready: kubelet is posting ready status".to_owned()),
            condition("Paused", "NotPaused", String::new()),
            condition("Deleting", "NotDeleting", String::new()),
        ],
    })
}
