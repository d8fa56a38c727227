//! What a Cluster and a Machine are: the wire types, one file per kind.
//!
//! Shapes, defaults and constraints are Cluster API's and its OpenStack provider's own; see
//! `docs/decisions/0006-types-from-structs.md`. No async, no I/O: clients link this crate.

mod cluster;
mod cluster_class;
mod cluster_resource_set;
mod cluster_resource_set_binding;
mod conditions;
mod core_kinds;
mod deprecated;
mod descriptor;
mod extension_config;
mod ip_address;
mod ip_address_claim;
mod kubeadm_config;
mod kubeadm_config_template;
mod kubeadm_control_plane;
mod kubeadm_control_plane_template;
mod label_selector;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_operation;
mod machine_pool;
mod machine_set;
mod network;
mod object;
mod open_stack_cluster;
mod open_stack_machine;
mod scalar;
mod schema;
mod shared;
pub mod v1alpha1;
pub mod v1beta1;
pub mod version;

pub use cluster::*;
pub use cluster_class::*;
pub use cluster_resource_set::*;
pub use cluster_resource_set_binding::*;
pub use conditions::{condition, remove_condition, set_condition};
pub use deprecated::*;
pub use descriptor::{Column, Described, Descriptor, Scale, descriptors};
pub use extension_config::*;
pub use ip_address::*;
pub use ip_address_claim::*;
pub use kubeadm_config::*;
pub use kubeadm_config_template::*;
pub use kubeadm_control_plane::*;
pub use kubeadm_control_plane_template::*;
pub use label_selector::*;
pub use machine::*;
pub use machine_deployment::*;
pub use machine_drain_rule::*;
pub use machine_health_check::*;
pub use machine_operation::*;
pub use machine_pool::*;
pub use machine_set::*;
pub use network::*;
pub use open_stack_cluster::*;
pub use open_stack_machine::*;
pub use scalar::*;
pub use schema::structural;
pub use shared::*;
