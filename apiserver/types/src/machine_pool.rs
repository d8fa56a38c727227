//! MachinePool: Machines that the cloud keeps a number of by itself.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedCondition};
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::machine::MachineInitialization;
use crate::machine_set::MachineTemplateSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, StatusVersion, words};
use crate::v1beta1::ObjectReference;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("Desired", "integer", ".spec.replicas"),
    column("Current", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Available", "integer", ".status.availableReplicas"),
    column("Up-to-date", "integer", ".status.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Phase", "string", ".status.phase"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description = "Machines that the cloud keeps a number of by itself.";
    let mut status = structural::<MachinePoolStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachinePoolSpec>()), Some(status), true)
}

kind! {
    /// Machines that the cloud keeps a number of by itself.
    MachinePool, MachinePoolSpec, MachinePoolStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachinePool", plural: "machinepools", singular: "machinepool",
        short_names: &["mp"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: None }),
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a MachinePool.
    MachinePoolSpec {
        required {
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// What Machines are made from.
            template: MachineTemplateSpec,
        }
        optional {
            /// Where they may be.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// The cloud's ids of the servers.
            #[serde(rename = "providerIDList")]
            #[schemars(length(max = 10000), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            provider_id_list: Vec<String>,
            /// How many.
            replicas: i32,
        }
    }

    /// What was observed of a MachinePool.
    MachinePoolStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<MachinePoolDeprecatedStatus>,
            /// Milestones that are passed once.
            #[schemars(extend("minProperties" = 1))]
            initialization: MachineInitialization,
            /// Its Nodes.
            #[schemars(length(max = 10000), extend("x-kubernetes-list-type" = "atomic"))]
            node_refs: Vec<ObjectReference>,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Where it is in its life.
            phase: MachinePoolPhase,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status in the words of v1beta1.
    MachinePoolDeprecatedStatus {
        optional {
            /// Available ones, as v1beta1 counts.
            available_replicas: i32,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The failure, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// The failure, for machines.
            failure_reason: String,
            /// Ready ones, as v1beta1 counts.
            ready_replicas: i32,
            /// Those still missing.
            unavailable_replicas: i32,
        }
    }
}

words! {
    /// Where a MachinePool is in its life.
    MachinePoolPhase {
        /// Waiting for what it needs.
        #[default]
        Pending,
        /// The servers are being made.
        Provisioning,
        /// The servers exist.
        Provisioned,
        /// As many as wanted.
        Running,
        /// Becoming more.
        ScalingUp,
        /// Becoming fewer.
        ScalingDown,
        /// Becoming another number, by the cloud's own decision.
        Scaling,
        /// It is being deleted.
        Deleting,
        /// It cannot be mended.
        Failed,
        /// Not known.
        Unknown,
    }
}
