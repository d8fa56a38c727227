//! Cluster in v1beta1: a Kubernetes cluster as a whole.

mod topology;

use std::collections::BTreeMap;

use serde_json::Value;

pub use topology::*;

use super::shared::ObjectReference;
use crate::cluster::{ClusterPhase, ReplicaCounts};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, Gate};

const COLUMNS: &[Column] = &[
    column(
        "ClusterClass",
        "string",
        ".spec.topology.class",
        "ClusterClass that the Cluster is built from. Empty without a managed topology.",
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
    object(description, Some(structural::<ClusterSpec>()), Some(structural::<ClusterStatus>()), false)
}

kind! {
    /// Kubernetes cluster as a whole: its networks, its endpoint, its control plane and its workers.
    bare Cluster, ClusterSpec, ClusterStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "Cluster", plural: "clusters", singular: "cluster",
        short_names: &["cl"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 Cluster is deprecated; use cluster.x-k8s.io/v1beta2 Cluster"),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a Cluster.
    ClusterSpec {
        optional {
            /// Additional Cluster conditions that the Available condition depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Network settings of the workload cluster.
            cluster_network: ClusterNetwork,
            /// Endpoint of the workload cluster's API server. The infrastructure provider or the user sets it
            /// once.
            control_plane_endpoint: ApiEndpoint,
            /// Reference to the object that manages the control plane, e.g. a KubeadmControlPlane.
            control_plane_ref: ObjectReference,
            /// Reference to the object that manages the cluster infrastructure, e.g. an OpenStackCluster.
            infrastructure_ref: ObjectReference,
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
            #[schemars(length(max = 100), inner(length(min = 1, max = 43)))]
            cidr_blocks: Vec<String>,
        }
    }

    /// Endpoint of an API server.
    ApiEndpoint {
        optional {
            /// Host name or IP address of the API server.
            #[schemars(length(max = 512))]
            host: String,
            /// TCP port of the API server.
            port: i32,
        }
    }

    /// Observed state of a Cluster.
    ClusterStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Readiness of the control plane. True after the API server answered for the first time.
            control_plane_ready: bool,
            /// Failure domains that the infrastructure provider reports, by name.
            failure_domains: BTreeMap<String, FailureDomain>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Readiness of the cluster infrastructure. True after the infrastructure was provisioned.
            infrastructure_ready: bool,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Phase of the Cluster's life: Pending, Provisioning, Provisioned, Deleting, Failed or Unknown.
            phase: ClusterPhase,
            /// Status in the form of v1beta2.
            v1beta2: ClusterV1Beta2Status,
        }
    }

    /// Failure domain: a part of the infrastructure that can fail as one unit, e.g. an availability zone.
    FailureDomain {
        optional {
            /// Further attributes of the failure domain, as the infrastructure provider defines them.
            attributes: BTreeMap<String, String>,
            /// Suitability for control plane Machines. If false, the failure domain holds only workers.
            control_plane: bool,
        }
    }

    /// Status of a Cluster in the form of v1beta2.
    ClusterV1Beta2Status {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Numbers of control plane Machines.
            control_plane: ReplicaCounts,
            /// Numbers of worker Machines.
            workers: ReplicaCounts,
        }
    }
}
