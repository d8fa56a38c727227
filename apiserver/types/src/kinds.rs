//! List of all kinds in all versions.

use serde_json::Value;

use crate::admission_kinds;
use crate::core_kinds;
use crate::csr_kinds;
use crate::descriptor::{Described, Descriptor};
use crate::rbac_kinds;

/// Defines the descriptors and the schemas of a list of types.
macro_rules! kinds {
    ($($kind:ty,)*) => {
        /// Every kind in every version, in the order of discovery. The first version of a kind is the stored one.
        pub const DESCRIPTORS: &[Descriptor] = &[$(<$kind>::DESCRIPTOR,)*];

        /// Returns the structural OpenAPI v3 schema of the whole object of a kind; `None` if the kind is not in
        /// [`DESCRIPTORS`].
        pub fn schema(descriptor: &Descriptor) -> Option<Value> {
            $(
                if *descriptor == <$kind>::DESCRIPTOR {
                    return Some(<$kind>::schema());
                }
            )*
            None
        }
    };
}

kinds! {
    // cluster.x-k8s.io
    crate::Cluster,
    crate::ClusterClass,
    crate::Machine,
    crate::MachineSet,
    crate::MachineDeployment,
    crate::MachinePool,
    crate::MachineHealthCheck,
    crate::MachineDrainRule,
    crate::v1beta1::Cluster,
    crate::v1beta1::ClusterClass,
    crate::v1beta1::Machine,
    crate::v1beta1::MachineSet,
    crate::v1beta1::MachineDeployment,
    crate::v1beta1::MachinePool,
    crate::v1beta1::MachineHealthCheck,
    crate::v1beta1::MachineDrainRule,
    // bootstrap.cluster.x-k8s.io
    crate::KubeadmConfig,
    crate::KubeadmConfigTemplate,
    crate::v1beta1::KubeadmConfig,
    crate::v1beta1::KubeadmConfigTemplate,
    // controlplane.cluster.x-k8s.io
    crate::KubeadmControlPlane,
    crate::KubeadmControlPlaneTemplate,
    crate::v1beta1::KubeadmControlPlane,
    crate::v1beta1::KubeadmControlPlaneTemplate,
    // addons.cluster.x-k8s.io
    crate::ClusterResourceSet,
    crate::ClusterResourceSetBinding,
    crate::v1beta1::ClusterResourceSet,
    crate::v1beta1::ClusterResourceSetBinding,
    // ipam.cluster.x-k8s.io
    crate::IPAddressClaim,
    crate::IPAddress,
    crate::v1beta1::IPAddressClaim,
    crate::v1beta1::IPAddress,
    crate::v1alpha1::IPAddressClaim,
    crate::v1alpha1::IPAddress,
    // runtime.cluster.x-k8s.io
    crate::ExtensionConfig,
    crate::v1alpha1::ExtensionConfig,
    // infrastructure.cluster.x-k8s.io
    crate::OpenStackCluster,
    crate::OpenStackClusterTemplate,
    crate::OpenStackMachine,
    crate::OpenStackMachineTemplate,
    crate::OpenStackServer,
    crate::OpenStackFloatingIPPool,
    crate::OpenStackClusterIdentity,
    crate::v1beta1::OpenStackCluster,
    crate::v1beta1::OpenStackClusterTemplate,
    crate::v1beta1::OpenStackMachine,
    crate::v1beta1::OpenStackMachineTemplate,
    // openstack.k-orc.cloud
    crate::Image,
    // capstan.dev
    crate::MachineOperation,
    crate::MachineDeploymentRevision,
    crate::CapstanRemediation,
    crate::CapstanRemediationTemplate,
    crate::CertificateRevocation,
    // Kubernetes' own
    core_kinds::Namespace,
    core_kinds::Secret,
    core_kinds::ConfigMap,
    core_kinds::Event,
    core_kinds::Lease,
    core_kinds::ServiceAccount,
    core_kinds::ResourceQuota,
    rbac_kinds::Role,
    rbac_kinds::RoleBinding,
    rbac_kinds::ClusterRole,
    rbac_kinds::ClusterRoleBinding,
    admission_kinds::MutatingWebhookConfiguration,
    admission_kinds::ValidatingWebhookConfiguration,
    admission_kinds::ValidatingAdmissionPolicy,
    admission_kinds::ValidatingAdmissionPolicyBinding,
    admission_kinds::MutatingAdmissionPolicy,
    admission_kinds::MutatingAdmissionPolicyBinding,
    csr_kinds::CertificateSigningRequest,
}
