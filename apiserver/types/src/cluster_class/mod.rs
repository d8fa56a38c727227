//! ClusterClass: what Clusters of one shape are made from.

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
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    column("Variables Ready", "string", ".status.conditions[?(@.type==\"VariablesReady\")].status"),
    AGE,
];

fn schema() -> Value {
    let description = "What Clusters of one shape are made from: templates, and variables that change them.";
    let mut status = structural::<ClusterClassStatus>();
    status["minProperties"] = 1.into();
    object(description, Some(structural::<ClusterClassSpec>()), Some(status), true)
}

kind! {
    /// What Clusters of one shape are made from.
    ClusterClass, ClusterClassSpec, ClusterClassStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta2", kind: "ClusterClass", plural: "clusterclasses", singular: "clusterclass",
        short_names: &["cc"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What a ClusterClass offers.
    ClusterClassSpec {
        required {
            /// The control plane.
            control_plane: ControlPlaneClass,
            /// The infrastructure.
            infrastructure: InfrastructureClass,
        }
        optional {
            /// Conditions that Available needs beside the standard ones.
            #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Kubernetes versions an upgrade may go by, in order.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            kubernetes_versions: Vec<String>,
            /// What variables change in the templates, in order.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            patches: Vec<ClusterClassPatch>,
            /// How clusters are upgraded.
            #[schemars(extend("minProperties" = 1))]
            upgrade: ClusterClassUpgrade,
            /// What may differ between clusters.
            #[schemars(length(min = 1, max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            variables: Vec<ClusterClassVariable>,
            /// The workers.
            #[schemars(extend("minProperties" = 1))]
            workers: WorkersClass,
        }
    }

    /// How clusters are upgraded.
    ClusterClassUpgrade {
        optional {
            /// By whom, beside the server.
            #[schemars(extend("minProperties" = 1))]
            external: ExternalUpgrade,
        }
    }

    /// Who plans upgrades.
    ExternalUpgrade {
        optional {
            /// The extension that says by which versions to go.
            #[schemars(length(min = 1, max = 512))]
            generate_upgrade_plan_extension: String,
        }
    }

    /// What was observed of a ClusterClass.
    ClusterClassStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedConditions>,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
            /// Variables, those of extensions included.
            #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "atomic"))]
            variables: Vec<ClusterClassStatusVariable>,
        }
    }
}
