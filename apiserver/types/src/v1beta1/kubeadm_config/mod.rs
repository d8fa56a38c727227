//! KubeadmConfig in v1beta1: bootstrap settings that turn a machine into a node.

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

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "Cluster that the machine joins.",
    ),
    AGE,
];

fn schema() -> Value {
    object(
        "Bootstrap settings that turn a machine into a node by kubeadm.",
        Some(structural::<KubeadmConfigSpec>()),
        Some(structural::<KubeadmConfigStatus>()),
        false,
    )
}

kind! {
    /// Bootstrap settings that turn a machine into a node by kubeadm.
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
    /// kubeadm settings, and the setup of the machine before and after kubeadm.
    KubeadmConfigSpec {
        optional {
            /// Shell commands that run early in every boot.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            boot_commands: Vec<String>,
            /// kubeadm ClusterConfiguration: settings of the whole workload cluster.
            cluster_configuration: ClusterConfiguration,
            /// Partition tables and filesystems that are created before kubeadm runs.
            disk_setup: DiskSetup,
            /// Files that are written to the machine before kubeadm runs.
            #[schemars(length(max = 200))]
            files: Vec<BootstrapFile>,
            /// Format of the bootstrap data: `cloud-config` or `ignition`. Default: `cloud-config`.
            format: BootstrapFormat,
            /// Settings of machines that boot with Ignition. Used only if `format` is `ignition`.
            ignition: IgnitionSpec,
            /// kubeadm InitConfiguration: settings of the first control plane node.
            init_configuration: InitConfiguration,
            /// kubeadm JoinConfiguration: settings of every node that joins.
            join_configuration: JoinConfiguration,
            /// Mounts of the machine. Each entry is a list of the fields of a line in fstab.
            #[schemars(length(max = 100), inner(inner(length(min = 1, max = 512))))]
            mounts: Vec<Vec<String>>,
            /// Time synchronisation settings.
            ntp: Ntp,
            /// Shell commands that run after kubeadm.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            post_kubeadm_commands: Vec<String>,
            /// Shell commands that run before kubeadm.
            #[schemars(length(max = 1000), inner(length(min = 1, max = 10240)))]
            pre_kubeadm_commands: Vec<String>,
            /// Join method. If true, a script joins step by step and retries each step. Deprecated. Default:
            /// false.
            use_experimental_retry_join: bool,
            /// User accounts of the operating system that are created.
            #[schemars(length(max = 100))]
            users: Vec<BootstrapUser>,
            /// Log level of kubeadm. Greater values log more.
            verbosity: i32,
        }
    }

    /// Observed state of a KubeadmConfig.
    KubeadmConfigStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Name of the Secret with the bootstrap data, under the key `value`.
            #[schemars(length(min = 1, max = 253))]
            data_secret_name: String,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            #[schemars(length(min = 1, max = 256))]
            failure_reason: String,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Availability of the bootstrap data. True after the Secret was created.
            ready: bool,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
        }
    }
}
