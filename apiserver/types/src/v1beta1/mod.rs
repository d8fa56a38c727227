//! Kinds in v1beta1, for older clients. They are stored in v1beta2. Structures that both versions share are
//! those of v1beta2.

mod cluster;
mod cluster_class;
mod machine;
mod machine_deployment;
mod machine_drain_rule;
mod machine_health_check;
mod machine_pool;
mod machine_set;
mod shared;

pub use cluster::*;
pub use cluster_class::*;
pub use machine::*;
pub use machine_deployment::*;
pub use machine_drain_rule::*;
pub use machine_health_check::*;
pub use machine_pool::*;
pub use machine_set::*;
mod cluster_resource_set;
mod cluster_resource_set_binding;
mod ip_address;
mod ip_address_claim;
mod kubeadm_config;
mod kubeadm_config_template;
mod kubeadm_control_plane;
mod kubeadm_control_plane_template;

pub use cluster_resource_set::*;
pub use cluster_resource_set_binding::*;
pub use ip_address::*;
pub use ip_address_claim::*;
pub use kubeadm_config::*;
pub use kubeadm_config_template::*;
pub use kubeadm_control_plane::*;
pub use kubeadm_control_plane_template::*;
mod openstack_cluster;
mod openstack_cluster_status;
mod openstack_machine;
mod openstack_port;

pub use openstack_cluster::*;
pub use openstack_cluster_status::*;
pub use openstack_machine::*;
pub use openstack_port::*;
pub use shared::*;
