//! What the server is told of a kind.

use serde_json::Value;

/// One column of `kubectl get` after the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// Where the cell comes from.
    pub json_path: &'static str,
    /// 0 is always shown; larger only with `-o wide`.
    pub priority: i32,
}

/// Where `autoscaling/v1` Scale finds its numbers in a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Path of the wanted number, e.g. `.spec.replicas`.
    pub spec_replicas: &'static str,
    /// Path of the observed number, e.g. `.status.replicas`.
    pub status_replicas: &'static str,
    /// Path of the selector in its text form, when the kind has one.
    pub selector: Option<&'static str>,
}

/// Names, columns and schema of a kind in one version.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// API group; empty for core.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural.
    pub plural: &'static str,
    /// Singular.
    pub singular: &'static str,
    /// Short names.
    pub short_names: &'static [&'static str],
    /// Categories.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource.
    pub status_subresource: bool,
    /// Where the subresource `scale` finds its numbers, when there is one.
    pub scale: Option<Scale>,
    /// What a client of this version is warned of, when it should move on.
    pub deprecation: Option<&'static str>,
    /// Columns after the name.
    pub columns: &'static [Column],
    /// The structural OpenAPI v3 schema of the whole object.
    pub schema: fn() -> Value,
}

/// A kind that describes itself.
pub trait Described {
    /// The description.
    const DESCRIPTOR: Descriptor;
}

/// A column that is always shown.
pub(crate) const fn column(name: &'static str, kind: &'static str, json_path: &'static str) -> Column {
    Column { name, kind, json_path, priority: 0 }
}

/// A column that is shown with `-o wide`.
pub(crate) const fn wide(name: &'static str, kind: &'static str, json_path: &'static str) -> Column {
    Column { name, kind, json_path, priority: 10 }
}

/// The column every kind ends with.
pub(crate) const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");

/// Every kind in every version, in the order of discovery: a kind's first version is the one that
/// is stored.
pub fn descriptors() -> Vec<Descriptor> {
    let ours = [
        // cluster.x-k8s.io
        crate::Cluster::DESCRIPTOR,
        crate::ClusterClass::DESCRIPTOR,
        crate::Machine::DESCRIPTOR,
        crate::MachineSet::DESCRIPTOR,
        crate::MachineDeployment::DESCRIPTOR,
        crate::MachinePool::DESCRIPTOR,
        crate::MachineHealthCheck::DESCRIPTOR,
        crate::MachineDrainRule::DESCRIPTOR,
        crate::v1beta1::Cluster::DESCRIPTOR,
        crate::v1beta1::ClusterClass::DESCRIPTOR,
        crate::v1beta1::Machine::DESCRIPTOR,
        crate::v1beta1::MachineSet::DESCRIPTOR,
        crate::v1beta1::MachineDeployment::DESCRIPTOR,
        crate::v1beta1::MachinePool::DESCRIPTOR,
        crate::v1beta1::MachineHealthCheck::DESCRIPTOR,
        crate::v1beta1::MachineDrainRule::DESCRIPTOR,
        // bootstrap.cluster.x-k8s.io
        crate::KubeadmConfig::DESCRIPTOR,
        crate::KubeadmConfigTemplate::DESCRIPTOR,
        crate::v1beta1::KubeadmConfig::DESCRIPTOR,
        crate::v1beta1::KubeadmConfigTemplate::DESCRIPTOR,
        // controlplane.cluster.x-k8s.io
        crate::KubeadmControlPlane::DESCRIPTOR,
        crate::KubeadmControlPlaneTemplate::DESCRIPTOR,
        crate::v1beta1::KubeadmControlPlane::DESCRIPTOR,
        crate::v1beta1::KubeadmControlPlaneTemplate::DESCRIPTOR,
        // addons.cluster.x-k8s.io
        crate::ClusterResourceSet::DESCRIPTOR,
        crate::ClusterResourceSetBinding::DESCRIPTOR,
        crate::v1beta1::ClusterResourceSet::DESCRIPTOR,
        crate::v1beta1::ClusterResourceSetBinding::DESCRIPTOR,
        // ipam.cluster.x-k8s.io
        crate::IPAddressClaim::DESCRIPTOR,
        crate::IPAddress::DESCRIPTOR,
        crate::v1beta1::IPAddressClaim::DESCRIPTOR,
        crate::v1beta1::IPAddress::DESCRIPTOR,
        crate::v1alpha1::IPAddressClaim::DESCRIPTOR,
        crate::v1alpha1::IPAddress::DESCRIPTOR,
        // runtime.cluster.x-k8s.io
        crate::ExtensionConfig::DESCRIPTOR,
        crate::v1alpha1::ExtensionConfig::DESCRIPTOR,
        // infrastructure.cluster.x-k8s.io
        crate::OpenStackCluster::DESCRIPTOR,
        crate::OpenStackClusterTemplate::DESCRIPTOR,
        crate::OpenStackMachine::DESCRIPTOR,
        crate::OpenStackMachineTemplate::DESCRIPTOR,
        crate::OpenStackServer::DESCRIPTOR,
        crate::OpenStackFloatingIPPool::DESCRIPTOR,
        crate::OpenStackClusterIdentity::DESCRIPTOR,
        crate::v1beta1::OpenStackCluster::DESCRIPTOR,
        crate::v1beta1::OpenStackClusterTemplate::DESCRIPTOR,
        crate::v1beta1::OpenStackMachine::DESCRIPTOR,
        crate::v1beta1::OpenStackMachineTemplate::DESCRIPTOR,
        // capstan.dev
        crate::MachineOperation::DESCRIPTOR,
    ];
    ours.into_iter().chain(crate::core_kinds::DESCRIPTORS).collect()
}
