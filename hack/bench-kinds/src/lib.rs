//! Objects of the benchmark: a Machine as in a running cluster, and a Flunder of the same size for Kubernetes'
//! aggregated sample server in Go.

mod template;

use std::sync::LazyLock;

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

use template::{Fields, ITERATION, NAME, NAMESPACE, REVISION, SHARD, Template};

/// Kind of the objects that are created, read and changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchKind {
    /// `cluster.x-k8s.io/v1beta2` Machine
    Machine,
    /// `wardle.example.com/v1alpha1` Flunder, the kind of the Go project's sample server
    Flunder,
}

impl BenchKind {
    /// Returns the path of the objects of a namespace.
    pub fn collection(self, namespace: &str) -> String {
        let (group_version, resource) = match self {
            Self::Machine => ("cluster.x-k8s.io/v1beta2", "machines"),
            Self::Flunder => ("wardle.example.com/v1alpha1", "flunders"),
        };
        format!("/apis/{group_version}/namespaces/{namespace}/{resource}")
    }

    /// Returns the path through which an object's status is written.
    pub fn status(self, namespace: &str, name: &str) -> String {
        let object = format!("{}/{name}", self.collection(namespace));
        match self {
            Self::Machine => format!("{object}/status"),
            // A Flunder has no status subresource.
            Self::Flunder => object,
        }
    }

    /// Returns an object in the form in which it is created.
    pub fn object(self, namespace: &str, name: &str) -> Bytes {
        self.templates().created.filled(fields(namespace, name, "", 0))
    }

    /// Returns the object with the status of one iteration, as a controller writes it.
    pub fn with_status(self, namespace: &str, name: &str, revision: &str, iteration: u64) -> Bytes {
        self.templates().with_status.filled(fields(namespace, name, revision, iteration))
    }

    /// Returns a merge patch that changes one annotation.
    pub fn patch(iteration: u64) -> Bytes {
        Bytes::from(
            json!({"metadata": {"annotations": {"lab.example.com/turn": iteration.to_string()}}}).to_string(),
        )
    }

    /// Returns the configuration that a delivery tool applies in one iteration.
    pub fn configuration(self, namespace: &str, name: &str, iteration: u64) -> Bytes {
        self.templates().configuration.filled(fields(namespace, name, "", iteration))
    }

    fn templates(self) -> &'static Templates {
        static MACHINE: LazyLock<Templates> = LazyLock::new(|| Templates::of(BenchKind::Machine));
        static FLUNDER: LazyLock<Templates> = LazyLock::new(|| Templates::of(BenchKind::Flunder));
        match self {
            Self::Machine => &MACHINE,
            Self::Flunder => &FLUNDER,
        }
    }
}

/// Templates of the bodies for one kind, with a placeholder for each variable value.
#[derive(Debug)]
struct Templates {
    created: Template,
    with_status: Template,
    configuration: Template,
}

impl Templates {
    fn of(kind: BenchKind) -> Self {
        let created = object(kind);
        let mut with_status = created.clone();
        with_status["metadata"]["resourceVersion"] = REVISION.into();
        match kind {
            BenchKind::Machine => with_status["status"] = machine_status(),
            BenchKind::Flunder => {
                let status = machine_status().to_string();
                with_status["metadata"]["annotations"]["lab.example.com/status"] = status.into();
            }
        }
        let mut configuration = created.clone();
        configuration["metadata"]["labels"]["lab.example.com/commit"] = format!("c{ITERATION}").into();
        Self {
            created: Template::new(&created),
            with_status: Template::new(&with_status),
            configuration: Template::new(&configuration),
        }
    }
}

fn fields<'a>(namespace: &'a str, name: &'a str, revision: &'a str, iteration: u64) -> Fields<'a> {
    let number = name.rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
    Fields { namespace, name, shard: number.unwrap_or(0) % SHARDS, revision, iteration }
}

fn object(kind: BenchKind) -> Value {
    let metadata = json!({"name": NAME, "namespace": NAMESPACE, "labels": labels()});
    match kind {
        BenchKind::Machine => json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
            "spec": machine_spec()}),
        BenchKind::Flunder => {
            let mut metadata = metadata;
            // The annotation has as many bytes as the spec of a Machine.
            metadata["annotations"] = json!({"lab.example.com/spec": machine_spec().to_string()});
            json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": metadata,
                "spec": {"reference": NAME, "referenceType": "Flunder"}})
        }
    }
}

/// Number of values of the label by which lists select.
pub const SHARDS: usize = 100;

/// Returns the labels: one object in [`SHARDS`] has the same shard.
fn labels() -> Value {
    json!({
        "cluster.x-k8s.io/cluster-name": "production",
        "cluster.x-k8s.io/deployment-name": "production-workers",
        "lab.example.com/shard": SHARD,
    })
}

fn machine_spec() -> Value {
    json!({
        "clusterName": "production",
        "version": "v1.34.2",
        "failureDomain": "nova",
        "providerID": format!("openstack:///RegionOne/{NAME}"),
        "bootstrap": {
            "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": NAME},
            "dataSecretName": format!("{NAME}-bootstrap"),
        },
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": NAME},
        "deletion": {
            "nodeDrainTimeoutSeconds": 300, "nodeVolumeDetachTimeoutSeconds": 300,
            "nodeDeletionTimeoutSeconds": 60},
    })
}

fn machine_status() -> Value {
    let time = "2026-03-04T05:06:07Z";
    let condition = |kind: &str, reason: &str, message: String| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": time})
    };
    json!({
        "phase": "Running",
        "observedGeneration": 1,
        "lastUpdated": time,
        "nodeRef": {"name": NAME},
        "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
        "addresses": [
            {"type": "InternalIP", "address": "10.6.0.17"}, {"type": "ExternalIP", "address": "203.0.113.17"},
            {"type": "InternalDNS", "address": NAME}, {"type": "Hostname", "address": NAME}],
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
            condition("InfrastructureReady", "Ready", format!("seen {ITERATION} times")),
            condition("NodeHealthy", "NodeHealthy", String::new()),
            condition("NodeReady", "NodeReady", "* Node.Ready: kubelet is posting ready status".to_owned()),
            condition("Paused", "NotPaused", String::new()),
            condition("Deleting", "NotDeleting", String::new()),
        ],
    })
}
