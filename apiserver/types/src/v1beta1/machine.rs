//! Machine in v1beta1.

use serde_json::Value;

use super::shared::{MachineSpec, ObjectReference, V1Beta2Conditions};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::machine::{MachineAddress, MachineDeletionStatus, NodeSystemInfo};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Time, words};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("NodeName", "string", ".status.nodeRef.name"),
    column("ProviderID", "string", ".spec.providerID"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.version"),
];

fn schema() -> Value {
    let description = "One server of a cluster: what it is booted from, and what became of it.";
    object(description, Some(structural::<MachineSpec>()), Some(structural::<MachineStatus>()), false)
}

kind! {
    /// One server of a cluster: what it is booted from, and what became of it.
    bare Machine, MachineSpec, MachineStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "Machine", plural: "machines", singular: "machine",
        short_names: &["ma"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 Machine is deprecated; use cluster.x-k8s.io/v1beta2 Machine"),
        columns: COLUMNS,
    }
}

wire! {
    /// What was observed of a Machine.
    MachineStatus {
        optional {
            /// Addresses of the server.
            addresses: Vec<MachineAddress>,
            /// The bootstrap data is there.
            bootstrap_ready: bool,
            /// When the control plane's certificates expire.
            certificates_expiry_date: Time,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// How far its deletion is.
            deletion: MachineDeletionStatus,
            /// What cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// What cannot be mended, for machines.
            failure_reason: String,
            /// The server exists.
            infrastructure_ready: bool,
            /// When the phase last changed.
            last_updated: Time,
            /// What its Node says of itself.
            node_info: NodeSystemInfo,
            /// Its Node.
            node_ref: ObjectReference,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Where it is in its life.
            phase: MachinePhase,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Conditions,
        }
    }
}

words! {
    /// Where a Machine is in its life.
    MachinePhase {
        /// Waiting for what it needs.
        #[default]
        Pending,
        /// The server is being made.
        Provisioning,
        /// The server exists.
        Provisioned,
        /// It serves.
        Running,
        /// It is being deleted.
        Deleting,
        /// It is gone.
        Deleted,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
