//! KubeadmConfig: how a machine becomes a node, in v1beta1.

mod cluster_configuration;
mod discovery;
mod machine;
mod node;

use serde_json::Value;

pub use cluster_configuration::*;
pub use discovery::*;
pub use machine::*;
pub use node::*;

use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::kubeadm_config::{BootstrapFile, BootstrapFormat};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::v1beta1::shared::V1Beta2Conditions;

const COLUMNS: &[Column] =
    &[column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"), AGE];

fn schema() -> Value {
    object(
        "How one machine becomes a node by kubeadm: made into a Secret that its server is booted with.",
        Some(structural::<KubeadmConfigSpec>()),
        Some(structural::<KubeadmConfigStatus>()),
        false,
    )
}

kind! {
    /// How a machine becomes a node by kubeadm.
    bare KubeadmConfig, KubeadmConfigSpec, KubeadmConfigStatus, schema, Descriptor {
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta1", kind: "KubeadmConfig", plural: "kubeadmconfigs", singular: "kubeadmconfig",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: Some(
            "bootstrap.cluster.x-k8s.io/v1beta1 KubeadmConfig is deprecated; use bootstrap.cluster.x-k8s.io/v1beta2 KubeadmConfig",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// Everything that a machine does to become a node.
    KubeadmConfigSpec {
        optional {
            /// Commands that run early in every boot.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            boot_commands: Vec<String>,
            /// Kubeadm ClusterConfiguration.
            cluster_configuration: ClusterConfiguration,
            /// Partitions and filesystems.
            disk_setup: DiskSetup,
            /// Files that are written.
            #[schemars(length(max = 200))]
            files: Vec<BootstrapFile>,
            /// Which program reads the data on the machine.
            format: BootstrapFormat,
            /// Ignition extras.
            ignition: IgnitionSpec,
            /// Kubeadm InitConfiguration.
            init_configuration: InitConfiguration,
            /// Kubeadm JoinConfiguration.
            join_configuration: JoinConfiguration,
            /// What is mounted: fields of fstab.
            #[schemars(length(max = 100), inner(inner(length(min = 1, max = 512))))]
            mounts: Vec<Vec<String>>,
            /// Time servers.
            ntp: Ntp,
            /// Commands after kubeadm.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            post_kubeadm_commands: Vec<String>,
            /// Commands before kubeadm.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            pre_kubeadm_commands: Vec<String>,
            /// Whether joining is retried step by step.
            use_experimental_retry_join: bool,
            /// Users of the operating system.
            #[schemars(length(max = 100))]
            users: Vec<BootstrapUser>,
            /// How much kubeadm logs.
            verbosity: i32,
        }
    }

    /// What was observed of a KubeadmConfig.
    KubeadmConfigStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The Secret with the data, under the key `value`.
            #[schemars(length(min = 1, max = 253))]
            data_secret_name: String,
            /// Why it cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Why it cannot be mended, for machines.
            #[schemars(length(min = 1, max = 256))]
            failure_reason: String,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Whether the data is there.
            ready: bool,
            /// What `v1beta2` shows under other names.
            v1beta2: V1Beta2Conditions,
        }
    }
}
