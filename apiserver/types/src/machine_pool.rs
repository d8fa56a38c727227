//! MachinePool: group of servers whose number the cloud maintains.

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
    column("Cluster", "string", ".spec.clusterName", "Cluster that the pool belongs to."),
    column("Desired", "integer", ".spec.replicas", "Machines of the pool that are desired."),
    column("Current", "integer", ".status.replicas", "Machines of the pool that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the pool that are ready."),
    column("Available", "integer", ".status.availableReplicas", "Machines of the pool that are available."),
    column(
        "Up-to-date",
        "integer",
        ".status.upToDateReplicas",
        "Machines of the pool that match the current specification of their owner.",
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
        "Stage in the life of the pool, for example Provisioning or Running.",
    ),
    AGE,
    column(
        "Version",
        "string",
        ".spec.template.spec.version",
        "Kubernetes version that the Machines of the pool are to run.",
    ),
];

fn schema() -> Value {
    let description = "Machines that the cloud keeps a number of by itself.";
    let mut status = structural::<MachinePoolStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachinePoolSpec>()), Some(status), true)
}

kind! {
    /// Group of servers whose number the cloud maintains.
    MachinePool, MachinePoolSpec, MachinePoolStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachinePool", plural: "machinepools", singular: "machinepool",
        short_names: &["mp"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: None }),
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a MachinePool.
    MachinePoolSpec {
        required {
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Template of the Machines.
            template: MachineTemplateSpec,
        }
        optional {
            /// Names of the failure domains in which the servers can be created.
            #[schemars(length(max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            failure_domains: Vec<String>,
            /// Ids of the servers at the cloud provider. The infrastructure provider sets them.
            #[serde(rename = "providerIDList")]
            #[schemars(length(max = 10000), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
            provider_id_list: Vec<String>,
            /// Desired number of servers. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
        }
    }

    /// Observed state of a MachinePool.
    MachinePoolStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<MachinePoolDeprecatedStatus>,
            /// Provisioning milestones. A milestone stays true after it is reached.
            #[schemars(extend("minProperties" = 1))]
            initialization: MachineInitialization,
            /// References to the Nodes of the pool.
            #[schemars(length(max = 10000), extend("x-kubernetes-list-type" = "atomic"))]
            node_refs: Vec<ObjectReference>,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Phase of the MachinePool's life, e.g. Provisioning, Running or Deleting.
            phase: MachinePoolPhase,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status of a MachinePool in the form of v1beta1.
    MachinePoolDeprecatedStatus {
        optional {
            /// Number of available Machines, by the counting rules of v1beta1.
            available_replicas: i32,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Number of ready Machines, by the counting rules of v1beta1.
            ready_replicas: i32,
            /// Number of desired Machines that are not available.
            unavailable_replicas: i32,
        }
    }
}

words! {
    /// Phase of a MachinePool's life.
    MachinePoolPhase {
        /// A prerequisite is missing.
        #[default]
        Pending,
        /// The servers are being created.
        Provisioning,
        /// The servers exist.
        Provisioned,
        /// The number of Machines equals the desired number.
        Running,
        /// The number of Machines is below the desired number.
        ScalingUp,
        /// The number of Machines is above the desired number.
        ScalingDown,
        /// The cloud changes the number of servers by its own decision.
        Scaling,
        /// The deletion is in progress.
        Deleting,
        /// A terminal error occurred. It needs a manual change.
        Failed,
        /// The phase cannot be determined.
        Unknown,
    }
}
