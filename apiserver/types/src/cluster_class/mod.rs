//! ClusterClass: template of Clusters of one shape.

mod classes;
mod patches;
mod variables;

use serde_json::Value;

pub use classes::*;
pub use patches::*;
pub use variables::*;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, Gate};

const COLUMNS: &[Column] = &[
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    column(
        "Variables Ready",
        "string",
        ".status.conditions[?(@.type==\"VariablesReady\")].status",
        "All variables of the class are known and consistent.",
    ),
    AGE,
];

fn schema() -> Value {
    let description = "What Clusters of one shape are made from: templates, and variables that change them.";
    let mut status = structural::<ClusterClassStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<ClusterClassSpec>()), Some(status), true)
}

kind! {
    /// Template of Clusters of one shape: templates of all objects, variables and patches.
    ClusterClass, ClusterClassSpec, ClusterClassStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "ClusterClass", plural: "clusterclasses", singular: "clusterclass",
        short_names: &["cc"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Templates, variables and patches of a ClusterClass.
    ClusterClassSpec {
        required {
            /// Template of the control plane.
            control_plane: ControlPlaneClass,
            /// Template of the cluster infrastructure.
            infrastructure: InfrastructureClass,
        }
        optional {
            /// Additional Cluster conditions that the Available condition depends on.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Kubernetes versions that Clusters of this class can use, in ascending order. An upgrade across
            /// several versions passes through them.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            kubernetes_versions: Vec<String>,
            /// Patches that customise the templates by variables. They are applied in order.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            patches: Vec<ClusterClassPatch>,
            /// Upgrade settings of Clusters of this class.
            #[schemars(extend("minProperties" = 1))]
            upgrade: ClusterClassUpgrade,
            /// Variables that a Cluster of this class can set.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            variables: Vec<ClusterClassVariable>,
            /// Worker classes.
            #[schemars(extend("minProperties" = 1))]
            workers: WorkersClass,
        }
    }

    /// Upgrade settings of a ClusterClass.
    ClusterClassUpgrade {
        optional {
            /// Runtime extension that takes part in upgrades.
            #[schemars(extend("minProperties" = 1))]
            external: ExternalUpgrade,
        }
    }

    /// Runtime extension that plans upgrades.
    ExternalUpgrade {
        optional {
            /// Name of the runtime extension that generates the upgrade plan.
            #[schemars(length(min = 1, max = 512))]
            generate_upgrade_plan_extension: String,
        }
    }

    /// Observed state of a ClusterClass.
    ClusterClassStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Variables of the ClusterClass, including those that runtime extensions declare.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            variables: Vec<ClusterClassStatusVariable>,
        }
    }
}
