//! What the server does with each kind: one folder per kind, one list.

mod conversion;
mod kinds;
mod rules;
mod schemas;

use crate::kinds::cluster;
use crate::kinds::cluster_class;
use crate::kinds::cluster_resource_set;
use crate::kinds::cluster_resource_set_binding;
use crate::kinds::event;
use crate::kinds::extension_config;
use crate::kinds::ip_address;
use crate::kinds::ip_address_claim;
use crate::kinds::kubeadm_config;
use crate::kinds::kubeadm_config_template;
use crate::kinds::kubeadm_control_plane;
use crate::kinds::kubeadm_control_plane_template;
use crate::kinds::lease;
use crate::kinds::machine;
use crate::kinds::machine_deployment;
use crate::kinds::machine_drain_rule;
use crate::kinds::machine_health_check;
use crate::kinds::machine_operation;
use crate::kinds::machine_pool;
use crate::kinds::machine_set;
use crate::kinds::namespace;
use crate::kinds::openstack_cluster;
use crate::kinds::openstack_cluster_template;
use crate::kinds::openstack_machine;
use crate::kinds::openstack_machine_template;
use crate::kinds::openstack_server;
use crate::kinds::secret;
use std::sync::{Arc, LazyLock};

use apiserver_machinery::resource::{Column, Registry, Resource, Scale};
use apiserver_machinery::strategy::{Plain, Strategy};
use apiserver_schema::KindSchema;
use apiserver_types::Descriptor;

/// Every kind this server serves. To add one, write its type and its strategy, and add its line.
pub fn registry() -> Registry {
    // Made once: schemas and their rules are the same for every server of a process.
    static SERVED: LazyLock<Registry> = LazyLock::new(all);
    SERVED.clone()
}

fn all() -> Registry {
    let resources = apiserver_types::descriptors().into_iter().map(|descriptor| match descriptor.kind {
        "Cluster" => served(descriptor, cluster::ClusterStrategy),
        "ClusterClass" => served(descriptor, cluster_class::ClusterClassStrategy),
        "MachineSet" => served(descriptor, machine_set::MachineSetStrategy),
        "MachineDeployment" => served(descriptor, machine_deployment::MachineDeploymentStrategy),
        "MachinePool" => served(descriptor, machine_pool::MachinePoolStrategy),
        "MachineHealthCheck" => served(descriptor, machine_health_check::MachineHealthCheckStrategy),
        "MachineDrainRule" => served(descriptor, machine_drain_rule::MachineDrainRuleStrategy),
        "Machine" => Resource { verbs: machine::verbs(), ..served(descriptor, machine::MachineStrategy) },
        "KubeadmConfig" => served(descriptor, kubeadm_config::KubeadmConfigStrategy),
        "KubeadmConfigTemplate" => served(descriptor, kubeadm_config_template::KubeadmConfigTemplateStrategy),
        "KubeadmControlPlane" => served(descriptor, kubeadm_control_plane::KubeadmControlPlaneStrategy),
        "KubeadmControlPlaneTemplate" => {
            served(descriptor, kubeadm_control_plane_template::KubeadmControlPlaneTemplateStrategy)
        }
        "ClusterResourceSet" => served(descriptor, cluster_resource_set::ClusterResourceSetStrategy),
        "ClusterResourceSetBinding" => {
            served(descriptor, cluster_resource_set_binding::ClusterResourceSetBindingStrategy)
        }
        "IPAddressClaim" => served(descriptor, ip_address_claim::IPAddressClaimStrategy),
        "IPAddress" => served(descriptor, ip_address::IPAddressStrategy),
        "ExtensionConfig" => served(descriptor, extension_config::ExtensionConfigStrategy),
        "OpenStackCluster" => served(descriptor, openstack_cluster::OpenStackClusterStrategy),
        "OpenStackClusterTemplate" => {
            served(descriptor, openstack_cluster_template::OpenStackClusterTemplateStrategy)
        }
        "OpenStackMachine" => served(descriptor, openstack_machine::OpenStackMachineStrategy),
        "OpenStackMachineTemplate" => {
            served(descriptor, openstack_machine_template::OpenStackMachineTemplateStrategy)
        }
        "OpenStackServer" => served(descriptor, openstack_server::OpenStackServerStrategy),
        "OpenStackFloatingIPPool" | "OpenStackClusterIdentity" => served(descriptor, Plain),
        "MachineOperation" => served(descriptor, machine_operation::MachineOperationStrategy),
        "Namespace" => core(descriptor, namespace::NamespaceStrategy, &["status.phase"]),
        "Secret" => core(descriptor, secret::SecretStrategy, &["type"]),
        "Event" => core(descriptor, event::EventStrategy, EVENT_FIELDS),
        "Lease" => core(descriptor, lease::LeaseStrategy, &[]),
        _ => core(descriptor, Plain, &[]),
    });
    Registry::new(resources.collect())
}

/// What `kubectl describe` and others select Events by.
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source.component",
];

/// A kind of ours, served on both faces.
fn served(descriptor: Descriptor, strategy: impl Strategy) -> Resource {
    let mut resource = resource(&descriptor, Arc::new(strategy));
    resource.hosted = true;
    resource.generation = true;
    resource
}

/// A kind of Kubernetes' own: a host has its own, so it is on the direct face alone.
fn core(descriptor: Descriptor, strategy: impl Strategy, selectable: &[&'static str]) -> Resource {
    let mut resource = resource(&descriptor, Arc::new(strategy));
    resource.selectable = selectable.to_vec();
    resource
}

fn resource(descriptor: &Descriptor, strategy: Arc<dyn Strategy>) -> Resource {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let columns = descriptor.columns.iter().map(|column| Column {
        name: column.name.to_owned(),
        kind: column.kind.to_owned(),
        json_path: column.json_path.to_owned(),
        priority: column.priority,
        description: column.json_path.trim_start_matches('.').to_owned(),
    });
    Resource {
        group: descriptor.group.to_owned(),
        version: descriptor.version.to_owned(),
        kind: descriptor.kind.to_owned(),
        plural: descriptor.plural.to_owned(),
        singular: descriptor.singular.to_owned(),
        short_names: names(descriptor.short_names),
        categories: names(descriptor.categories),
        namespaced: descriptor.namespaced,
        status_subresource: descriptor.status_subresource,
        scale: descriptor.scale.map(|scale| Scale {
            spec_replicas: scale.spec_replicas.to_owned(),
            status_replicas: scale.status_replicas.to_owned(),
            selector: scale.selector.map(str::to_owned),
        }),
        deprecation: descriptor.deprecation.map(str::to_owned),
        conversion: conversion::of(descriptor),
        generation: false,
        hosted: false,
        columns: columns.collect(),
        selectable: Vec::new(),
        schema: schema(*descriptor),
        strategy,
        verbs: Vec::new(),
    }
}

fn schema(descriptor: Descriptor) -> KindSchema {
    KindSchema::of_typed(apiserver_machinery::metadata::RULES, move || schemas::of(&descriptor))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kind_can_be_served() {
        let registry = super::registry();
        for resource in registry.resources() {
            let checked = resource.schema.check();
            checked.unwrap_or_else(|error| panic!("{} {}: {error}", resource.version, resource.kind));
        }
        let served: Vec<(String, String)> = registry
            .resources()
            .iter()
            .map(|resource| (resource.version.clone(), resource.kind.clone()))
            .collect();
        let described: Vec<(String, String)> = apiserver_types::descriptors()
            .into_iter()
            .map(|descriptor| (descriptor.version.to_owned(), descriptor.kind.to_owned()))
            .collect();
        assert_eq!(served, described);
        let forgotten = registry
            .resources()
            .iter()
            .filter(|resource| resource.group == "cluster.x-k8s.io" && !resource.hosted);
        assert_eq!(forgotten.map(|resource| resource.kind.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
