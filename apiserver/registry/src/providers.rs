//! Provider objects: the inventory in which clusterctl looks up the providers of a management cluster.

use apiserver_machinery::resource::Registry;
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

use crate::definitions::{EPOCH, INVENTORY};

/// Namespace of the objects: that of the host's manifests.
const NAMESPACE: &str = "capstan-system";

/// Name of the core provider.
pub(crate) const CORE: &str = "cluster-api";

/// Version of Cluster API whose kinds and behaviour the server has. `clusterctl move` refuses a target with an older
/// version than the source.
const CLUSTER_API: &str = "v1.14.0";

/// Version of the OpenStack provider whose kinds the server has.
const OPENSTACK: &str = "v0.15.0";

/// Provider of Cluster API, in the words of clusterctl.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    /// Name of the object, and value of the label `cluster.x-k8s.io/provider`.
    pub label: &'static str,
    /// Name among the providers of its type.
    pub name: &'static str,
    /// Type.
    pub kind: &'static str,
    /// Version.
    pub version: &'static str,
}

/// Providers whose kinds the server has.
pub const PROVIDERS: [Provider; 4] = [
    Provider { label: "bootstrap-kubeadm", name: "kubeadm", kind: "BootstrapProvider", version: CLUSTER_API },
    Provider { label: CORE, name: CORE, kind: "CoreProvider", version: CLUSTER_API },
    Provider {
        label: "control-plane-kubeadm",
        name: "kubeadm",
        kind: "ControlPlaneProvider",
        version: CLUSTER_API,
    },
    Provider {
        label: "infrastructure-openstack",
        name: "openstack",
        kind: "InfrastructureProvider",
        version: OPENSTACK,
    },
];

/// Returns the provider of a group's kinds. Kinds of no upstream provider come with the core.
pub fn provider_of(group: &str) -> Option<Provider> {
    let label = match crate::definitions::provider(group) {
        Some(INVENTORY) => return None,
        label => label.unwrap_or(CORE),
    };
    PROVIDERS.into_iter().find(|provider| provider.label == label)
}

/// Strategy of Provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProviderStrategy;

impl Strategy for ProviderStrategy {
    fn is_read_only(&self) -> bool {
        true
    }

    fn fixed_objects(&self, _registry: &Registry) -> Vec<Value> {
        let provider = |Provider { label, name, kind, version }: Provider| {
            json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
                "metadata": {"name": label, "namespace": NAMESPACE, "creationTimestamp": EPOCH, "generation": 1,
                    "labels": {"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory",
                        "cluster.x-k8s.io/provider": label}},
                "providerName": name, "type": kind, "version": version})
        };
        PROVIDERS.map(provider).into()
    }
}
