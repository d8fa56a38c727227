//! Cluster in v1beta1.

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
    column("ClusterClass", "string", ".spec.topology.class"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.topology.version"),
];

fn schema() -> Value {
    let description = "A Kubernetes cluster: its networks, its endpoint, and the objects that make it.";
    object(description, Some(structural::<ClusterSpec>()), Some(structural::<ClusterStatus>()), false)
}

kind! {
    /// A Kubernetes cluster as a whole.
    bare Cluster, ClusterSpec, ClusterStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "Cluster", plural: "clusters", singular: "cluster",
        short_names: &["cl"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 Cluster is deprecated; use cluster.x-k8s.io/v1beta2 Cluster"),
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a Cluster.
    ClusterSpec {
        optional {
            /// Conditions that Available needs beside the standard ones.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Networks inside the cluster.
            cluster_network: ClusterNetwork,
            /// Where its API answers; set once by whoever makes it.
            control_plane_endpoint: ApiEndpoint,
            /// The object that runs its control plane.
            control_plane_ref: ObjectReference,
            /// The object that stands for its infrastructure.
            infrastructure_ref: ObjectReference,
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
            #[schemars(length(max = 100), inner(length(min = 1, max = 43)))]
            cidr_blocks: Vec<String>,
        }
    }

    /// Where an API answers.
    ApiEndpoint {
        optional {
            /// Host name or address.
            #[schemars(length(max = 512))]
            host: String,
            /// TCP port.
            port: i32,
        }
    }

    /// What was observed of a Cluster.
    ClusterStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The control plane answered.
            control_plane_ready: bool,
            /// Places that fail as one, by name.
            failure_domains: BTreeMap<String, FailureDomain>,
            /// What cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// What cannot be mended, for machines.
            failure_reason: String,
            /// The infrastructure is there.
            infrastructure_ready: bool,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Where it is in its life.
            phase: ClusterPhase,
            /// What v1beta2 reports.
            v1beta2: ClusterV1Beta2Status,
        }
    }

    /// A place that fails as one.
    FailureDomain {
        optional {
            /// Whatever else there is to say.
            attributes: BTreeMap<String, String>,
            /// Whether control planes may be there.
            control_plane: bool,
        }
    }

    /// Status of a Cluster as v1beta2 reports it.
    ClusterV1Beta2Status {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Control plane machines, counted.
            control_plane: ReplicaCounts,
            /// Worker machines, counted.
            workers: ReplicaCounts,
        }
    }
}
