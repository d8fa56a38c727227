//! MachineSet in v1beta1.

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
    column("Cluster", "string", ".spec.clusterName"),
    wide("Desired", "integer", ".spec.replicas"),
    column("Replicas", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Available", "integer", ".status.availableReplicas"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description = "A number of Machines made from one template.";
    object(description, Some(structural::<MachineSetSpec>()), Some(structural::<MachineSetStatus>()), false)
}

kind! {
    /// A number of Machines made from one template.
    bare MachineSet, MachineSetSpec, MachineSetStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "MachineSet", plural: "machinesets", singular: "machineset",
        short_names: &["ms"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: Some("cluster.x-k8s.io/v1beta1 MachineSet is deprecated; use cluster.x-k8s.io/v1beta2 MachineSet"),
        columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a MachineSet.
    MachineSetSpec {
        required {
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Which Machines are its own; the template's labels must match.
            selector: LabelSelector,
        }
        optional {
            /// Who goes first when there are too many.
            delete_policy: DeletionOrder,
            /// What Machines are called.
            machine_naming_strategy: MachineNaming,
            /// Ready for so long before it counts as available. Unit: seconds.
            min_ready_seconds: i32,
            /// How many.
            replicas: i32,
            /// What Machines are made from.
            template: MachineTemplateSpec,
        }
    }

    /// What was observed of a MachineSet.
    MachineSetStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// What cannot be mended, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// What cannot be mended, for machines.
            failure_reason: String,
            /// Those that have all labels of the template.
            fully_labeled_replicas: i32,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// The selector in its text form, for the subresource `scale`.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Replicas,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }
}
