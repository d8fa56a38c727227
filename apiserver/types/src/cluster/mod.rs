//! Cluster: a Kubernetes cluster as a whole.

mod topology;
mod workers;

use serde_json::Value;

pub use topology::*;
pub use workers::*;

use crate::deprecated::{Deprecated, DeprecatedFailure};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{
    ApiEndpoint, Condition, ContractVersionedObjectReference, FailureDomain, Gate, StatusVersion, words,
};

const COLUMNS: &[Column] = &[
    column(
        "ClusterClass",
        "string",
        ".spec.topology.classRef.name",
        "ClusterClass that the Cluster is built from. Empty without a managed topology.",
    ),
    column(
        "Available",
        "string",
        ".status.conditions[?(@.type==\"Available\")].status",
        "The Cluster passes every availability check.",
    ),
    column(
        "CP Desired",
        "integer",
        ".status.controlPlane.desiredReplicas",
        "Control plane machines that are desired.",
    ),
    wide("CP Current", "integer", ".status.controlPlane.replicas", "Control plane machines that exist."),
    wide(
        "CP Ready",
        "integer",
        ".status.controlPlane.readyReplicas",
        "Control plane machines that are ready.",
    ),
    column(
        "CP Available",
        "integer",
        ".status.controlPlane.availableReplicas",
        "Control plane machines that are available.",
    ),
    column(
        "CP Up-to-date",
        "integer",
        ".status.controlPlane.upToDateReplicas",
        "Control plane machines that match the current specification of their owner.",
    ),
    column("W Desired", "integer", ".status.workers.desiredReplicas", "Worker machines that are desired."),
    wide("W Current", "integer", ".status.workers.replicas", "Worker machines that exist."),
    wide("W Ready", "integer", ".status.workers.readyReplicas", "Worker machines that are ready."),
    column(
        "W Available",
        "integer",
        ".status.workers.availableReplicas",
        "Worker machines that are available.",
    ),
    column(
        "W Up-to-date",
        "integer",
        ".status.workers.upToDateReplicas",
        "Worker machines that match the current specification of their owner.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Phase",
        "string",
        ".status.phase",
        "Stage in the life of the Cluster: Pending, Provisioning, Provisioned, Deleting or Failed.",
    ),
    AGE,
    column("Version", "string", ".spec.topology.version", "Kubernetes version of the managed topology."),
];

fn schema() -> Value {
    let description = "A Kubernetes cluster: its networks, its endpoint, and the objects that make it.";
    let mut spec = structural::<ClusterSpec>();
    let mut status = structural::<ClusterStatus>();
    for part in [&mut spec, &mut status] {
        part["minProperties"] = 1.into();
    }
    object(description, Some(spec), Some(status), true)
}

kind! {
    /// Kubernetes cluster as a whole: its networks, its endpoint, its control plane and its workers.
    Cluster, ClusterSpec, ClusterStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "Cluster", plural: "clusters", singular: "cluster",
        short_names: &["cl"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a Cluster.
    ClusterSpec {
        optional {
            /// Additional Cluster conditions that the Available condition depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Network settings of the workload cluster.
            #[schemars(extend("minProperties" = 1))]
            cluster_network: ClusterNetwork,
            /// Endpoint of the workload cluster's API server. The infrastructure provider or the user sets it
            /// once.
            #[schemars(extend("minProperties" = 1))]
            control_plane_endpoint: ApiEndpoint,
            /// Reference to the object that manages the control plane, e.g. a KubeadmControlPlane.
            control_plane_ref: ContractVersionedObjectReference,
            /// Reference to the object that manages the cluster infrastructure, e.g. an OpenStackCluster.
            infrastructure_ref: ContractVersionedObjectReference,
            /// Pauses the Cluster and all objects of the Cluster. If true, controllers leave them unchanged.
            /// Default: false.
            paused: bool,
            /// Topology that is generated from a ClusterClass. If unset, the objects of the cluster are
            /// managed one by one.
            topology: Topology,
        }
    }

    /// Network settings of a workload cluster.
    ClusterNetwork {
        optional {
            /// TCP port that the API server binds to. Range: 1 to 65535. Default: 6443.
            #[schemars(range(min = 1, max = 65535))]
            api_server_port: i32,
            /// Address ranges of pods.
            pods: NetworkRanges,
            /// DNS domain of Services, e.g. `cluster.local`.
            #[schemars(length(min = 1, max = 253))]
            service_domain: String,
            /// Address ranges of Services.
            services: NetworkRanges,
        }
    }

    /// List of network address ranges.
    NetworkRanges {
        required {
            /// Address ranges in CIDR notation, IPv4 or IPv6.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
            cidr_blocks: Vec<String>,
        }
    }

    /// Observed state of a Cluster.
    ClusterStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Numbers of control plane Machines.
            control_plane: ReplicaCounts,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedFailure>,
            /// Failure domains that the infrastructure provider reports.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            failure_domains: Vec<FailureDomain>,
            /// Provisioning milestones. A milestone stays true after it is reached.
            #[schemars(extend("minProperties" = 1))]
            initialization: ClusterInitialization,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Phase of the Cluster's life: Pending, Provisioning, Provisioned, Deleting, Failed or Unknown.
            phase: ClusterPhase,
            /// Numbers of worker Machines.
            workers: ReplicaCounts,
        }
    }

    /// Numbers of Machines by state.
    ReplicaCounts {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Desired number of Machines.
            desired_replicas: i32,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
            /// Kubernetes versions that remain in a multi-step upgrade, in order.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            upgrade_plan: Vec<UpgradePlanVersion>,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Kubernetes version in an upgrade plan.
    UpgradePlanVersion {
        required {
            /// Kubernetes version, e.g. `v1.33.2`.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Provisioning milestones of a Cluster.
    ClusterInitialization {
        optional {
            /// True after the API server of the control plane answered for the first time.
            control_plane_initialized: bool,
            /// True after the cluster infrastructure was provisioned.
            infrastructure_provisioned: bool,
        }
    }
}

words! {
    /// Phase of a Cluster's life.
    ClusterPhase {
        /// A prerequisite is missing.
        #[default]
        Pending,
        /// The cluster infrastructure is being created.
        Provisioning,
        /// The cluster infrastructure exists.
        Provisioned,
        /// The deletion is in progress.
        Deleting,
        /// A terminal error occurred. It needs a manual change.
        Failed,
        /// The phase cannot be determined.
        Unknown,
    }
}
