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
    column("ClusterClass", "string", ".spec.topology.classRef.name"),
    column("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
    column("CP Desired", "integer", ".status.controlPlane.desiredReplicas"),
    wide("CP Current", "integer", ".status.controlPlane.replicas"),
    wide("CP Ready", "integer", ".status.controlPlane.readyReplicas"),
    column("CP Available", "integer", ".status.controlPlane.availableReplicas"),
    column("CP Up-to-date", "integer", ".status.controlPlane.upToDateReplicas"),
    column("W Desired", "integer", ".status.workers.desiredReplicas"),
    wide("W Current", "integer", ".status.workers.replicas"),
    wide("W Ready", "integer", ".status.workers.readyReplicas"),
    column("W Available", "integer", ".status.workers.availableReplicas"),
    column("W Up-to-date", "integer", ".status.workers.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.topology.version"),
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
    /// A Kubernetes cluster as a whole.
    Cluster, ClusterSpec, ClusterStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "Cluster", plural: "clusters", singular: "cluster",
        short_names: &["cl"], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None, deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a Cluster.
    ClusterSpec {
        optional {
            /// Conditions that Available needs beside the standard ones.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Networks inside the cluster.
            #[schemars(extend("minProperties" = 1))]
            cluster_network: ClusterNetwork,
            /// Where its API answers; set once by whoever makes it.
            #[schemars(extend("minProperties" = 1))]
            control_plane_endpoint: ApiEndpoint,
            /// The object that runs its control plane.
            control_plane_ref: ContractVersionedObjectReference,
            /// The object that stands for its infrastructure.
            infrastructure_ref: ContractVersionedObjectReference,
            /// Leave this Cluster and everything of it alone.
            paused: bool,
            /// A shape taken from a ClusterClass.
            topology: Topology,
        }
    }

    /// Networks inside a cluster.
    ClusterNetwork {
        optional {
            /// Port the API server binds.
            #[schemars(range(min = 1, max = 65535))]
            api_server_port: i32,
            /// Where pods are.
            pods: NetworkRanges,
            /// DNS domain of services.
            #[schemars(length(min = 1, max = 253))]
            service_domain: String,
            /// Where services are.
            services: NetworkRanges,
        }
    }

    /// Ranges of addresses.
    NetworkRanges {
        required {
            /// CIDRs.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
            cidr_blocks: Vec<String>,
        }
    }

    /// What was observed of a Cluster.
    ClusterStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Control plane machines, counted.
            control_plane: ReplicaCounts,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedFailure>,
            /// Places that fail as one.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            failure_domains: Vec<FailureDomain>,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: ClusterInitialization,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Where it is in its life.
            phase: ClusterPhase,
            /// Worker machines, counted.
            workers: ReplicaCounts,
        }
    }

    /// Machines, counted.
    ReplicaCounts {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Wanted ones.
            desired_replicas: i32,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
            /// Versions still to come in an upgrade.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            upgrade_plan: Vec<UpgradePlanVersion>,
            /// How many run which version.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            versions: Vec<StatusVersion>,
        }
    }

    /// A version to come.
    UpgradePlanVersion {
        required {
            /// The version.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Milestones that are passed once.
    ClusterInitialization {
        optional {
            /// The control plane answered.
            control_plane_initialized: bool,
            /// The infrastructure is there.
            infrastructure_provisioned: bool,
        }
    }
}

words! {
    /// Where a Cluster is in its life.
    ClusterPhase {
        /// Waiting for what it needs.
        #[default]
        Pending,
        /// Its infrastructure is being made.
        Provisioning,
        /// Its infrastructure is there.
        Provisioned,
        /// It is being deleted.
        Deleting,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
