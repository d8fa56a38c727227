//! MachineSet in v1beta1: fixed number of equal Machines.

use serde_json::Value;

use super::shared::{MachineTemplateSpec, V1Beta2Replicas};
use crate::cluster::DeletionOrder;
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::label_selector::LabelSelector;
use crate::machine_set::MachineNaming;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::StatusVersion;

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName", "Cluster that the set belongs to."),
    wide("Desired", "integer", ".spec.replicas", "Machines of the set that are desired."),
    column("Replicas", "integer", ".status.replicas", "Machines of the set that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the set that are ready."),
    column("Available", "integer", ".status.availableReplicas", "Machines of the set that are available."),
    AGE,
    column(
        "Version",
        "string",
        ".spec.template.spec.version",
        "Kubernetes version that the Machines of the set are to run.",
    ),
];

fn schema() -> Value {
    let description = "A number of Machines made from one template.";
    object(description, Some(structural::<MachineSetSpec>()), Some(structural::<MachineSetStatus>()), false)
}

kind! {
    /// Fixed number of equal Machines, created from one template.
    bare MachineSet, MachineSetSpec, MachineSetStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineSet", plural: "machinesets", singular: "machineset",
        short_names: &["ms"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineSet is deprecated; use cluster.x-k8s.io/v1beta2 MachineSet"),
        columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a MachineSet.
    MachineSetSpec {
        required {
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Label selector of the Machines. It matches the labels of the template.
            selector: LabelSelector,
        }
        optional {
            /// Order in which Machines are deleted at scale-down: Random, Newest or Oldest. Default: Random.
            delete_policy: DeletionOrder,
            /// Naming rule of the Machines.
            machine_naming_strategy: MachineNaming,
            /// Minimum time that a Machine is ready before it counts as available. Unit: seconds. Default: 0.
            min_ready_seconds: i32,
            /// Desired number of Machines. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
            /// Template of the Machines.
            template: MachineTemplateSpec,
        }
    }

    /// Observed state of a MachineSet.
    MachineSetStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
            /// Number of Machines that have all labels of the template.
            fully_labeled_replicas: i32,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Label selector in its text form, for the `scale` subresource and for autoscalers.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Replicas,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
