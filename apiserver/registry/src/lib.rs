//! Registry of kinds: one folder per kind with its strategy, and one typed list.

mod conversion;
mod definitions;
mod host_status;
mod kinds;
mod providers;
mod read_only;
mod resource;
mod rules;
mod schemas;

use std::sync::LazyLock;

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::strategy::Plain;
use apiserver_types::admission_kinds::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
};
use apiserver_types::core_kinds::{
    ConfigMap, Event, Lease, Namespace, ResourceQuota, Secret, ServiceAccount,
};
use apiserver_types::csr_kinds::CertificateSigningRequest;
use apiserver_types::rbac_kinds::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use apiserver_types::{
    CapstanRemediation, CapstanRemediationTemplate, CertificateRevocation, Cluster, ClusterClass,
    ClusterResourceSet, ClusterResourceSetBinding, ExtensionConfig, IPAddress, IPAddressClaim, Image,
    KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane, KubeadmControlPlaneTemplate, Machine,
    MachineDeployment, MachineDeploymentRevision, MachineDrainRule, MachineHealthCheck, MachineOperation,
    MachinePool, MachineSet, OpenStackCluster, OpenStackClusterIdentity, OpenStackClusterTemplate,
    OpenStackFloatingIPPool, OpenStackMachine, OpenStackMachineTemplate, OpenStackServer,
};
use apiserver_types::{DESCRIPTORS, Described, Descriptor, v1alpha1, v1beta1};

pub use crate::definitions::{Serving, definitions};
pub use crate::host_status::{HostStatusSource, with_host_status};
pub use crate::kinds::cluster::{Advice, Advise, with_advice};
use crate::kinds::*;
pub use crate::providers::{PROVIDERS, Provider, provider_of};
use crate::resource::{core, counted, hosted, with_actions};
pub use crate::rules::grants::KEYSTONE_PROJECT;
pub use crate::rules::plan_verb::{PlanFailure, PlanLimits, Planner, PlannerSlot, with_planner};

/// Returns every kind that this server serves.
pub fn registry() -> Registry {
    // Built once: schemas and validation rules are the same for every server of a process.
    static SERVED: LazyLock<Registry> = LazyLock::new(|| {
        let mut resources = resources();
        resources.sort_by_key(|resource| {
            DESCRIPTORS.iter().position(|known| {
                (known.group, known.version, known.kind)
                    == (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str())
            })
        });
        resources.extend(read_only::resources());
        Registry::new(resources)
    });
    SERVED.clone()
}

/// Defines the resources of a list of kinds. An entry has the types of a kind's versions, the function that builds
/// their resources, and the strategy. A kind of `apiserver-types` that is not in the list does not compile.
macro_rules! kinds {
    ($([$($version:ty),+] => $builder:ident $arguments:tt,)*) => {
        fn resources() -> Vec<Resource> {
            vec![$($($builder::<$version> $arguments,)+)*]
        }

        const LISTED: &[Descriptor] = &[$($(<$version>::DESCRIPTOR,)+)*];
    };
}

kinds! {
    // cluster.x-k8s.io
    [Cluster, v1beta1::Cluster] => with_actions(cluster::ClusterStrategy, cluster::verbs()),
    [ClusterClass, v1beta1::ClusterClass] => hosted(cluster_class::ClusterClassStrategy),
    [Machine, v1beta1::Machine] => with_actions(machine::MachineStrategy, machine::actions()),
    [MachineSet, v1beta1::MachineSet] => hosted(machine_set::MachineSetStrategy),
    [MachineDeployment, v1beta1::MachineDeployment]
        => with_actions(machine_deployment::MachineDeploymentStrategy, machine_deployment::verbs()),
    [MachinePool, v1beta1::MachinePool] => hosted(machine_pool::MachinePoolStrategy),
    [MachineHealthCheck, v1beta1::MachineHealthCheck] => hosted(machine_health_check::MachineHealthCheckStrategy),
    [MachineDrainRule, v1beta1::MachineDrainRule] => hosted(machine_drain_rule::MachineDrainRuleStrategy),
    // bootstrap.cluster.x-k8s.io
    [KubeadmConfig, v1beta1::KubeadmConfig] => hosted(kubeadm_config::KubeadmConfigStrategy),
    [KubeadmConfigTemplate, v1beta1::KubeadmConfigTemplate]
        => hosted(kubeadm_config_template::KubeadmConfigTemplateStrategy),
    // controlplane.cluster.x-k8s.io
    [KubeadmControlPlane, v1beta1::KubeadmControlPlane]
        => with_actions(kubeadm_control_plane::KubeadmControlPlaneStrategy, kubeadm_control_plane::verbs()),
    [KubeadmControlPlaneTemplate, v1beta1::KubeadmControlPlaneTemplate]
        => hosted(kubeadm_control_plane_template::KubeadmControlPlaneTemplateStrategy),
    // addons.cluster.x-k8s.io
    [ClusterResourceSet, v1beta1::ClusterResourceSet] => hosted(cluster_resource_set::ClusterResourceSetStrategy),
    [ClusterResourceSetBinding, v1beta1::ClusterResourceSetBinding]
        => hosted(cluster_resource_set_binding::ClusterResourceSetBindingStrategy),
    // ipam.cluster.x-k8s.io
    [IPAddressClaim, v1beta1::IPAddressClaim, v1alpha1::IPAddressClaim]
        => hosted(ip_address_claim::IPAddressClaimStrategy),
    [IPAddress, v1beta1::IPAddress, v1alpha1::IPAddress] => hosted(ip_address::IPAddressStrategy),
    // runtime.cluster.x-k8s.io
    [ExtensionConfig, v1alpha1::ExtensionConfig] => hosted(extension_config::ExtensionConfigStrategy),
    // infrastructure.cluster.x-k8s.io
    [OpenStackCluster, v1beta1::OpenStackCluster] => hosted(openstack_cluster::OpenStackClusterStrategy),
    [OpenStackClusterTemplate, v1beta1::OpenStackClusterTemplate]
        => hosted(openstack_cluster_template::OpenStackClusterTemplateStrategy),
    [OpenStackMachine, v1beta1::OpenStackMachine] => hosted(openstack_machine::OpenStackMachineStrategy),
    [OpenStackMachineTemplate, v1beta1::OpenStackMachineTemplate]
        => hosted(openstack_machine_template::OpenStackMachineTemplateStrategy),
    [OpenStackServer] => hosted(openstack_server::OpenStackServerStrategy),
    [OpenStackFloatingIPPool] => hosted(openstack_floating_ip_pool::OpenStackFloatingIPPoolStrategy),
    [OpenStackClusterIdentity] => hosted(openstack_cluster_identity::OpenStackClusterIdentityStrategy),
    // openstack.k-orc.cloud
    [Image] => hosted(image::ImageStrategy),
    // capstan.dev
    [MachineOperation] => hosted(machine_operation::MachineOperationStrategy),
    [MachineDeploymentRevision]
        => hosted(machine_deployment_revision::MachineDeploymentRevisionStrategy),
    [CapstanRemediation] => hosted(Plain),
    [CapstanRemediationTemplate] => hosted(Plain),
    [CertificateRevocation] => hosted(certificate_revocation::CertificateRevocationStrategy),
    // Kubernetes' own
    [Namespace] => core(namespace::NamespaceStrategy, &["status.phase"]),
    [Secret] => core(secret::SecretStrategy, &["type"]),
    [ConfigMap] => core(config_map::ConfigMapStrategy, &[]),
    [Event] => core(event::EventStrategy, event::SELECTABLE),
    [Lease] => core(lease::LeaseStrategy, &[]),
    [ServiceAccount] => core(service_account::ServiceAccountStrategy, &[]),
    [ResourceQuota] => core(resource_quota::ResourceQuotaStrategy, &[]),
    [Role] => core(role::RoleStrategy { is_namespaced: true }, &[]),
    [RoleBinding] => core(role_binding::RoleBindingStrategy { is_namespaced: true }, &[]),
    [ClusterRole] => core(role::RoleStrategy { is_namespaced: false }, &[]),
    [ClusterRoleBinding] => core(role_binding::RoleBindingStrategy { is_namespaced: false }, &[]),
    [MutatingWebhookConfiguration]
        => counted(webhook_configuration::WebhookConfigurationStrategy { is_mutating: true }),
    [ValidatingWebhookConfiguration]
        => counted(webhook_configuration::WebhookConfigurationStrategy { is_mutating: false }),
    [ValidatingAdmissionPolicy] => counted(admission_policy::AdmissionPolicyStrategy),
    [MutatingAdmissionPolicy] => counted(admission_policy::mutating::MutatingPolicyStrategy),
    [MutatingAdmissionPolicyBinding]
        => counted(admission_policy::binding::AdmissionPolicyBindingStrategy { is_mutating: true }),
    [ValidatingAdmissionPolicyBinding] => counted(admission_policy::binding::AdmissionPolicyBindingStrategy { is_mutating: false }),
    [CertificateSigningRequest]
        => core(certificate_signing_request::CertificateSigningRequestStrategy, &["spec.signerName"]),
}

const _: () = assert!(
    LISTED.len() == DESCRIPTORS.len() && are_all_in(DESCRIPTORS, LISTED),
    "the list of the registry and the list of apiserver-types have different kinds"
);

const fn are_all_in(kinds: &[Descriptor], list: &[Descriptor]) -> bool {
    let mut index = 0;
    while index < kinds.len() {
        if !is_in(&kinds[index], list) {
            return false;
        }
        index += 1;
    }
    true
}

const fn is_in(kind: &Descriptor, list: &[Descriptor]) -> bool {
    let mut index = 0;
    while index < list.len() {
        let other = &list[index];
        if is_same(kind.group, other.group)
            && is_same(kind.version, other.version)
            && is_same(kind.kind, other.kind)
        {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_can_be_served() {
        let registry = registry();
        for resource in registry.resources() {
            let checked = resource.schema.check();
            checked.unwrap_or_else(|error| panic!("{} {}: {error}", resource.version, resource.kind));
        }
        let served: Vec<(&str, &str, &str)> = registry
            .resources()
            .iter()
            .filter(|resource| !resource.strategy.is_read_only())
            .map(|resource| (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str()))
            .collect();
        let described: Vec<(&str, &str, &str)> =
            DESCRIPTORS.iter().map(|known| (known.group, known.version, known.kind)).collect();
        assert_eq!(served, described);
    }

    #[test]
    fn all_kinds_are_hosted_except_those_of_kubernetes() {
        let registry = registry();
        for resource in registry.resources() {
            let admission = "admissionregistration.k8s.io";
            let core = [
                "",
                "apiextensions.k8s.io",
                "certificates.k8s.io",
                "coordination.k8s.io",
                "rbac.authorization.k8s.io",
            ];
            let is_core = resource.group == admission || core.contains(&resource.group.as_str());
            let has_generation = resource.group == admission || !is_core && !resource.strategy.is_read_only();
            assert_eq!(resource.hosted, !is_core, "{} {}", resource.version, resource.kind);
            assert_eq!(resource.generation, has_generation, "{} {}", resource.version, resource.kind);
        }
    }

    #[test]
    fn every_version_except_the_stored_one_has_a_conversion() {
        for (index, descriptor) in DESCRIPTORS.iter().enumerate() {
            let is_kind =
                |other: &Descriptor| (other.group, other.kind) == (descriptor.group, descriptor.kind);
            let is_stored = !DESCRIPTORS[..index].iter().any(is_kind);
            let is_converted = conversion::of(descriptor).is_some();
            assert_eq!(is_converted, !is_stored, "{} {}", descriptor.version, descriptor.kind);
        }
    }

    #[test]
    fn a_kind_missing_from_one_list_is_detected() {
        assert!(are_all_in(LISTED, DESCRIPTORS));
        assert!(!are_all_in(DESCRIPTORS, &LISTED[1..]));
        assert!(!are_all_in(DESCRIPTORS, &LISTED[..LISTED.len() - 1]));
    }
}
