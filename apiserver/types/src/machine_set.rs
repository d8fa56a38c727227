//! MachineSet: Machines all alike, a number of them.

use serde_json::Value;

use crate::cluster::DeletionOrder;
use crate::deprecated::{Deprecated, DeprecatedCondition};
use crate::descriptor::{AGE, Column, Descriptor, Scale, column, wide};
use crate::label_selector::LabelSelector;
use crate::machine::MachineSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, StatusVersion, TemplateMeta};

const COLUMNS: &[Column] = &[
    column("Cluster", "string", ".spec.clusterName"),
    column("Desired", "integer", ".spec.replicas"),
    column("Current", "integer", ".status.replicas"),
    column("Ready", "integer", ".status.readyReplicas"),
    column("Available", "integer", ".status.availableReplicas"),
    column("Up-to-date", "integer", ".status.upToDateReplicas"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    AGE,
    column("Version", "string", ".spec.template.spec.version"),
];

fn schema() -> Value {
    let description = "A number of Machines made from one template.";
    let mut status = structural::<MachineSetStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineSetSpec>()), Some(status), true)
}

kind! {
    /// A number of Machines made from one template.
    MachineSet, MachineSetSpec, MachineSetStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineSet", plural: "machinesets", singular: "machineset",
        short_names: &["ms"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: None,
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
            /// What Machines are made from.
            template: MachineTemplateSpec,
        }
        optional {
            /// Who goes when there are too many.
            #[schemars(extend("minProperties" = 1))]
            deletion: ReplicaDeletion,
            /// What Machines are called.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// How many.
            replicas: i32,
        }
    }

    /// What Machines are made from.
    MachineTemplateSpec {
        required {
            /// What is wanted of them.
            spec: MachineSpec,
        }
        optional {
            /// Their labels and annotations.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }

    /// Who goes when there are too many.
    ReplicaDeletion {
        optional {
            /// Who goes first.
            order: DeletionOrder,
        }
    }

    /// What Machines are called.
    MachineNaming {
        optional {
            /// Go template of the name.
            #[schemars(length(min = 1, max = 256))]
            template: String,
        }
    }

    /// What was observed of a MachineSet.
    MachineSetStatus {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<MachineSetDeprecatedStatus>,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Ready ones.
            ready_replicas: i32,
            /// All.
            replicas: i32,
            /// The selector in its text form, for the subresource `scale`.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
            /// How many run which version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status in the words of v1beta1.
    MachineSetDeprecatedStatus {
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
            /// Those that have all labels of the template.
            fully_labeled_replicas: i32,
            /// Ready ones, as v1beta1 counts.
            ready_replicas: i32,
        }
    }
}
