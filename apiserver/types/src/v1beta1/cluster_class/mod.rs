//! ClusterClass in v1beta1.

mod classes;
mod patches;
mod variables;

use serde_json::Value;

pub use classes::*;
pub use patches::*;
pub use variables::*;

use super::shared::V1Beta2Conditions;
use crate::cluster_class::{ClassNaming, ClusterClassUpgrade};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::Gate;

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    let description = "What Clusters of one shape are made from: templates, and variables that change them.";
    object(
        description,
        Some(structural::<ClusterClassSpec>()),
        Some(structural::<ClusterClassStatus>()),
        false,
    )
}

kind! {
    /// What Clusters of one shape are made from.
    bare ClusterClass, ClusterClassSpec, ClusterClassStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "ClusterClass", plural: "clusterclasses", singular: "clusterclass",
        short_names: &["cc"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 ClusterClass is deprecated; use cluster.x-k8s.io/v1beta2 ClusterClass"),
        columns: COLUMNS,
    }
}

wire! {
    /// What a ClusterClass offers.
    ClusterClassSpec {
        optional {
            /// Conditions that Available needs beside the standard ones.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// The control plane.
            control_plane: ControlPlaneClass,
            /// The infrastructure.
            infrastructure: TemplateHolder,
            /// What the infrastructure is called.
            infrastructure_naming_strategy: ClassNaming,
            /// Kubernetes versions an upgrade may go by, in order.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            kubernetes_versions: Vec<String>,
            /// What variables change in the templates, in order.
            #[schemars(length(max = 1000))]
            patches: Vec<ClusterClassPatch>,
            /// How clusters are upgraded.
            #[schemars(extend("minProperties" = 1))]
            upgrade: ClusterClassUpgrade,
            /// What may differ between clusters.
            #[schemars(length(max = 1000))]
            variables: Vec<ClusterClassVariable>,
            /// The workers.
            workers: WorkersClass,
        }
    }

    /// What was observed of a ClusterClass.
    ClusterClassStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// What v1beta2 reports.
            v1beta2: V1Beta2Conditions,
            /// Variables, those of extensions included.
            #[schemars(length(max = 1000))]
            variables: Vec<ClusterClassStatusVariable>,
        }
    }
}
