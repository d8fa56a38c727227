//! Provider objects: the inventory in which clusterctl looks up the providers of a management cluster.

use apiserver_machinery::resource::Registry;
use apiserver_machinery::strategy::Strategy;
use serde_json::{Value, json};

use crate::definitions::EPOCH;

/// Namespace of the objects: that of the host's manifests.
const NAMESPACE: &str = "capstan-system";

/// Version of Cluster API whose kinds and behaviour the server has. `clusterctl move` refuses a target with an older
/// version than the source.
const CLUSTER_API: &str = "v1.14.0";

/// Version of the OpenStack provider whose kinds the server has.
const OPENSTACK: &str = "v0.15.0";

/// Name, provider, type and version of each object, in the words of clusterctl.
const PROVIDERS: [(&str, &str, &str, &str); 4] = [
    ("bootstrap-kubeadm", "kubeadm", "BootstrapProvider", CLUSTER_API),
    ("cluster-api", "cluster-api", "CoreProvider", CLUSTER_API),
    ("control-plane-kubeadm", "kubeadm", "ControlPlaneProvider", CLUSTER_API),
    ("infrastructure-openstack", "openstack", "InfrastructureProvider", OPENSTACK),
];

/// Strategy of Provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProviderStrategy;

impl Strategy for ProviderStrategy {
    fn is_read_only(&self) -> bool {
        true
    }

    fn fixed_objects(&self, _registry: &Registry) -> Vec<Value> {
        let provider = |(name, provider, kind, version): (&str, &str, &str, &str)| {
            json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
                "metadata": {"name": name, "namespace": NAMESPACE, "creationTimestamp": EPOCH, "generation": 1,
                    "labels": {"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory",
                        "cluster.x-k8s.io/provider": name}},
                "providerName": provider, "type": kind, "version": version})
        };
        PROVIDERS.map(provider).into()
    }
}
