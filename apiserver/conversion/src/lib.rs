//! Conversion between the versions of a Cluster API kind: pure functions on JSON, one file per kind.
//!
//! The rules of a kind map fields between two versions. [`Lossless`] makes every conversion lossless, for all kinds
//! alike.

mod cluster;
mod cluster_class;
mod cluster_resource_set;
mod cluster_resource_set_binding;
mod core_status;
mod durations;
mod empty;
mod extension_config;
mod fields;
mod health_check;
mod ip_address;
mod ip_address_claim;
mod kubeadm;
mod kubeadm_config;
mod kubeadm_config_template;
mod kubeadm_control_plane;
mod kubeadm_control_plane_template;
mod lossless;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_pool;
mod machine_set;
mod machine_spec;
mod openstack_cluster;
mod openstack_conditions;
mod openstack_machine;
mod references;
mod replicas;
mod round_trip;
mod status;
mod timeouts;
mod unconvertible;

use serde_json::Value;

pub use lossless::Lossless;
pub use unconvertible::Unconvertible;

/// Rules of the conversion between one older version of a kind and its stored version.
///
/// The functions get the whole object with `metadata`, change it in place, and do not change `apiVersion`. They drop
/// fields without a counterpart, and skip fields of the wrong shape.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Older version.
    pub version: &'static str,
    /// Stored version.
    pub stored: &'static str,
    /// Sets the defaults of the older version, so that an absent field equals its default.
    pub default: fn(&mut Value),
    /// Converts from the older version to the stored one.
    pub to_stored: fn(&mut Value),
    /// Converts from the stored version to the older one.
    pub from_stored: fn(&mut Value),
}

/// Rules of every kind with an older version.
const RULES: &[Rules] = &[
    kubeadm_config::V1BETA1,
    kubeadm_config_template::V1BETA1,
    kubeadm_control_plane::V1BETA1,
    kubeadm_control_plane_template::V1BETA1,
    cluster_resource_set::V1BETA1,
    cluster_resource_set_binding::V1BETA1,
    ip_address_claim::V1BETA1,
    ip_address_claim::V1ALPHA1,
    ip_address::V1BETA1,
    ip_address::V1ALPHA1,
    extension_config::V1ALPHA1,
    openstack_cluster::CLUSTER,
    openstack_cluster::TEMPLATE,
    openstack_machine::MACHINE,
    openstack_machine::TEMPLATE,
    cluster::V1BETA1,
    cluster_class::V1BETA1,
    machine::V1BETA1,
    machine_deployment::V1BETA1,
    machine_drain_rule::V1BETA1,
    machine_health_check::V1BETA1,
    machine_pool::V1BETA1,
    machine_set::V1BETA1,
];

/// Returns the conversion between this version of a kind and the stored one, or `None` if there is none.
pub fn conversion(group: &str, kind: &str, version: &str) -> Option<Lossless> {
    let found =
        RULES.iter().find(|rules| rules.group == group && rules.kind == kind && rules.version == version);
    found.copied().map(Lossless::new)
}

/// Defaults of a version that has none.
pub(crate) fn no_defaults(_: &mut Value) {}
