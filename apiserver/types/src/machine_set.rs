//! MachineSet: fixed number of equal Machines.

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
    column("Cluster", "string", ".spec.clusterName", "Cluster that the set belongs to."),
    column("Desired", "integer", ".spec.replicas", "Machines of the set that are desired."),
    column("Current", "integer", ".status.replicas", "Machines of the set that exist."),
    column("Ready", "integer", ".status.readyReplicas", "Machines of the set that are ready."),
    column("Available", "integer", ".status.availableReplicas", "Machines of the set that are available."),
    column(
        "Up-to-date",
        "integer",
        ".status.upToDateReplicas",
        "Machines of the set that match the current specification of their owner.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
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
    let mut status = structural::<MachineSetStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<MachineSetSpec>()), Some(status), true)
}

kind! {
    /// Fixed number of equal Machines, created from one template.
    MachineSet, MachineSetSpec, MachineSetStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "MachineSet", plural: "machinesets", singular: "machineset",
        short_names: &["ms"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: Some(Scale { spec_replicas: ".spec.replicas", status_replicas: ".status.replicas", selector: Some(".status.selector") }),
        deprecation: None,
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
            /// Template of the Machines.
            template: MachineTemplateSpec,
        }
        optional {
            /// Order in which Machines are deleted at scale-down.
            #[schemars(extend("minProperties" = 1))]
            deletion: ReplicaDeletion,
            /// Naming rule of the Machines.
            #[schemars(extend("minProperties" = 1))]
            machine_naming: MachineNaming,
            /// Desired number of Machines. Default: 1, or within the limits of the autoscaler annotations.
            replicas: i32,
        }
    }

    /// Template of Machines.
    MachineTemplateSpec {
        required {
            /// Spec of the created Machines.
            spec: MachineSpec,
        }
        optional {
            /// Labels and annotations of the created Machines.
            #[schemars(extend("minProperties" = 1))]
            metadata: TemplateMeta,
        }
    }

    /// Order in which Machines are deleted at scale-down.
    ReplicaDeletion {
        optional {
            /// Order in which Machines are deleted at scale-down: Random, Newest or Oldest. Default: Random.
            order: DeletionOrder,
        }
    }

    /// Naming rule of Machines.
    MachineNaming {
        optional {
            /// Go template that generates the names. It contains `{{ .random }}` to make names unique, or else
            /// `{{ .index }}`: the lowest number, from 0, whose name is free. A name is free once the Machine that had it
            /// is gone, so Machines that are replaced one by one keep their names.
            #[schemars(length(min = 1, max = 256))]
            template: String,
        }
    }

    /// Observed state of a MachineSet.
    MachineSetStatus {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<MachineSetDeprecatedStatus>,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines, in any state.
            replicas: i32,
            /// Label selector in its text form, for the `scale` subresource and for autoscalers.
            #[schemars(length(min = 1, max = 4096))]
            selector: String,
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
            /// Number of Machines per Kubernetes version.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"]))]
            versions: Vec<StatusVersion>,
        }
    }

    /// Status of a MachineSet in the form of v1beta1.
    MachineSetDeprecatedStatus {
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
            /// Number of Machines that have all labels of the template.
            fully_labeled_replicas: i32,
            /// Number of ready Machines, by the counting rules of v1beta1.
            ready_replicas: i32,
        }
    }
}
