//! KubeadmConfig: how a machine becomes a node.

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
    column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Data secret created", "string", ".status.initialization.dataSecretCreated"),
    AGE,
];

fn schema() -> Value {
    let mut spec = structural::<KubeadmConfigSpec>();
    spec["minProperties"] = 1.into();
    let mut status = structural::<KubeadmConfigStatus>();
    status["minProperties"] = 1.into();
    object(
        "How one machine becomes a node by kubeadm: made into a Secret that its server is booted with.",
        Some(spec),
        Some(status),
        false,
    )
}

kind! {
    /// How a machine becomes a node by kubeadm.
    KubeadmConfig, KubeadmConfigSpec, KubeadmConfigStatus, schema, Descriptor {
        group: "bootstrap.cluster.x-k8s.io", version: "v1beta2", kind: "KubeadmConfig", plural: "kubeadmconfigs", singular: "kubeadmconfig",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Everything that a machine does to become a node.
    KubeadmConfigSpec {
        optional {
            /// Commands that run early in every boot.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            boot_commands: Vec<String>,
            /// Kubeadm ClusterConfiguration.
            #[schemars(extend("minProperties" = 1))]
            cluster_configuration: ClusterConfiguration,
            /// Partitions and filesystems.
            #[schemars(extend("minProperties" = 1))]
            disk_setup: DiskSetup,
            /// Files that are written.
            #[schemars(length(min = 1, max = 200), extend("x-kubernetes-list-type" = "atomic"))]
            files: Vec<BootstrapFile>,
            /// Which program reads the data on the machine.
            format: BootstrapFormat,
            /// Ignition extras.
            #[schemars(extend("minProperties" = 1))]
            ignition: IgnitionSpec,
            /// Kubeadm InitConfiguration.
            #[schemars(extend("minProperties" = 1))]
            init_configuration: InitConfiguration,
            /// Kubeadm JoinConfiguration.
            #[schemars(extend("minProperties" = 1))]
            join_configuration: JoinConfiguration,
            /// What is mounted: fields of fstab.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 100), inner(length(min = 1, max = 512))), extend("x-kubernetes-list-type" = "atomic"))]
            mounts: Vec<Vec<String>>,
            /// Time servers.
            #[schemars(extend("minProperties" = 1))]
            ntp: Ntp,
            /// Commands after kubeadm.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            post_kubeadm_commands: Vec<String>,
            /// Commands before kubeadm.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 10240)), extend("x-kubernetes-list-type" = "atomic"))]
            pre_kubeadm_commands: Vec<String>,
            /// Users of the operating system.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            users: Vec<BootstrapUser>,
            /// How much kubeadm logs.
            verbosity: i32,
        }
    }

    /// What was observed of a KubeadmConfig.
    KubeadmConfigStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// The Secret with the data, under the key `value`.
            #[schemars(length(min = 1, max = 253))]
            data_secret_name: String,
            /// Data that older clients read.
            deprecated: Deprecated<KubeadmConfigDeprecated>,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: KubeadmConfigInitialization,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
        }
    }

    /// Milestones that are passed once.
    KubeadmConfigInitialization {
        optional {
            /// Bootstrap secret exists.
            data_secret_created: bool,
        }
    }

    /// What `v1beta1` showed of a KubeadmConfig.
    KubeadmConfigDeprecated {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// Why it cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Why it cannot be mended, for machines.
            #[schemars(length(min = 1, max = 256))]
            failure_reason: String,
        }
    }
}

words! {
    /// Which program reads the data on the machine.
    BootstrapFormat {
        /// cloud-init.
        #[serde(rename = "cloud-config")]
        #[default]
        CloudConfig,
        /// Ignition.
        #[serde(rename = "ignition")]
        Ignition,
    }
}
