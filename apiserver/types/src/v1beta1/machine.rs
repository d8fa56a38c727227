//! Machine in v1beta1: one server of a cluster and its Node.

use serde_json::Value;

use super::shared::{MachineSpec, ObjectReference, V1Beta2Conditions};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::machine::{MachineAddress, MachineDeletionStatus, NodeSystemInfo};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Time, words};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster that the Machine is part of."),
    column("NodeName", "string", ".status.nodeRef.name", "Name of the Node that runs on the Machine."),
    column("ProviderID", "string", ".spec.providerID", "Id of the server at the infrastructure provider."),
    column(
        "Phase",
        "string",
        ".status.phase",
        "Stage in the life of the Machine, from Pending to Running to Deleted.",
    ),
    AGE,
    column("Version", "string", ".spec.version", "Kubernetes version that the Machine is to run."),
];

fn schema() -> Value {
    let description = "One server of a cluster: what it is booted from, and what became of it.";
    object(description, Some(structural::<MachineSpec>()), Some(structural::<MachineStatus>()), false)
}

kind! {
    /// One server of a cluster, from its bootstrap to its deletion.
    bare Machine, MachineSpec, MachineStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "Machine", plural: "machines", singular: "machine",
        short_names: &["ma"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 Machine is deprecated; use cluster.x-k8s.io/v1beta2 Machine"),
        columns: COLUMNS,
    }
}

wire! {
    /// Observed state of a Machine.
    MachineStatus {
        optional {
            /// IP addresses and host names of the server.
            addresses: Vec<MachineAddress>,
            /// Availability of the bootstrap data. True after the bootstrap Secret was created.
            bootstrap_ready: bool,
            /// Expiry time of the certificates on the Machine. Set only for control plane Machines.
            certificates_expiry_date: Time,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Progress of the Machine's deletion.
            deletion: MachineDeletionStatus,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Readiness of the infrastructure. True after the server was provisioned.
            infrastructure_ready: bool,
            /// Time of the last change of the phase.
            last_updated: Time,
            /// System information that the Node reports.
            node_info: NodeSystemInfo,
            /// Reference to the Node of the Machine.
            node_ref: ObjectReference,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Phase of the Machine's life, from Pending to Running to Deleted.
            phase: MachinePhase,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
        }
    }
}

words! {
    /// Phase of a Machine's life.
    MachinePhase {
        /// A prerequisite is missing.
        #[default]
        Pending,
        /// The server is being created.
        Provisioning,
        /// The server exists.
        Provisioned,
        /// The server runs and its Node is known.
        Running,
        /// The deletion is in progress.
        Deleting,
        /// The server is deleted.
        Deleted,
        /// A terminal error occurred. It needs a manual change.
        Failed,
        /// The phase cannot be determined.
        Unknown,
    }
}
