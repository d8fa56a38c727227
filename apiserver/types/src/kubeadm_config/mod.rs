//! KubeadmConfig: bootstrap settings that turn a machine into a node.

mod cluster_configuration;
mod discovery;
mod environment;
mod machine;
mod node;

use serde_json::Value;

pub use cluster_configuration::*;
pub use discovery::*;
pub use environment::*;
pub use machine::*;
pub use node::*;

use crate::deprecated::{Deprecated, DeprecatedCondition};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[
    column(
        "Cluster",
        "string",
        ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
        "Cluster that the machine joins.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Data secret created",
        "string",
        ".status.initialization.dataSecretCreated",
        "The Secret with the bootstrap data exists.",
    ),
    AGE,
];

fn schema() -> Value {
    let mut spec = structural::<KubeadmConfigSpec>();
    spec["minProperties"] = 1.into();
    let mut status = structural::<KubeadmConfigStatus>();
    status["minProperties"] = 1.into();
    object("Bootstrap settings that turn a machine into a node by kubeadm.", Some(spec), Some(status), false)
}

kind! {
    /// Bootstrap settings that turn a machine into a node by kubeadm.
    KubeadmConfig, KubeadmConfigSpec, KubeadmConfigStatus, schema, Descriptor {
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmConfig", plural: "kubeadmconfigs", singular: "kubeadmconfig",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// kubeadm settings, and the setup of the machine before and after kubeadm.
    KubeadmConfigSpec {
        optional {
            /// Shell commands that run early in every boot.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            boot_commands: Vec<String>,
            /// kubeadm ClusterConfiguration: settings of the whole workload cluster.
            #[schemars(extend("minProperties" = 1))]
            cluster_configuration: ClusterConfiguration,
            /// Partition tables and filesystems that are created before kubeadm runs.
            #[schemars(extend("minProperties" = 1))]
            disk_setup: DiskSetup,
            /// Files that are written to the machine before kubeadm runs.
            #[schemars(length(min = 1, max = 200), extend("x-kubernetes-list-type" = "atomic"))]
            files: Vec<BootstrapFile>,
            /// Format of the bootstrap data: `cloud-config` or `ignition`. Default: `cloud-config`.
            format: BootstrapFormat,
            /// Settings of machines that boot with Ignition. Used only if `format` is `ignition`.
            #[schemars(extend("minProperties" = 1))]
            ignition: IgnitionSpec,
            /// kubeadm InitConfiguration: settings of the first control plane node.
            #[schemars(extend("minProperties" = 1))]
            init_configuration: InitConfiguration,
            /// kubeadm JoinConfiguration: settings of every node that joins.
            #[schemars(extend("minProperties" = 1))]
            join_configuration: JoinConfiguration,
            /// Mounts of the machine. Each entry is a list of the fields of a line in fstab.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 100), inner(length(min = 1, max = 512))), extend("x-kubernetes-list-type" = "atomic"))]
            mounts: Vec<Vec<String>>,
            /// Time synchronisation settings.
            #[schemars(extend("minProperties" = 1))]
            ntp: Ntp,
            /// Shell commands that run after kubeadm.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            post_kubeadm_commands: Vec<String>,
            /// Shell commands that run before kubeadm.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            pre_kubeadm_commands: Vec<String>,
            /// User accounts of the operating system that are created.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            users: Vec<BootstrapUser>,
            /// Log level of kubeadm. Greater values log more.
            verbosity: i32,
        }
    }

    /// Observed state of a KubeadmConfig.
    KubeadmConfigStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Name of the Secret with the bootstrap data, under the key `value`.
            #[schemars(length(min = 1, max = 253))]
            data_secret_name: String,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<KubeadmConfigDeprecated>,
            /// Provisioning milestones. A milestone stays true after it is reached.
            #[schemars(extend("minProperties" = 1))]
            initialization: KubeadmConfigInitialization,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
        }
    }

    /// Provisioning milestones of a KubeadmConfig.
    KubeadmConfigInitialization {
        optional {
            /// True after the Secret with the bootstrap data was created.
            data_secret_created: bool,
        }
    }

    /// Status of a KubeadmConfig in the form of v1beta1.
    KubeadmConfigDeprecated {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            #[schemars(length(min = 1, max = 256))]
            failure_reason: String,
        }
    }
}

words! {
    /// Format of the bootstrap data.
    BootstrapFormat {
        /// Data for cloud-init.
        #[serde(rename = "cloud-config")]
        #[default]
        CloudConfig,
        /// Data for Ignition.
        #[serde(rename = "ignition")]
        Ignition,
    }
}
