//! ClusterClass in v1beta1: template of Clusters of one shape.

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
    /// Template of Clusters of one shape: templates of all objects, variables and patches.
    bare ClusterClass, ClusterClassSpec, ClusterClassStatus, schema, Descriptor {
        group: "cluster.x-k8s.io", version: "v1beta1", kind: "ClusterClass", plural: "clusterclasses", singular: "clusterclass",
        short_names: &["cc"], categories: &["cluster-api"], namespaced: true, status_subresource: true,
        scale: None,
        deprecation: Some("cluster.x-k8s.io/v1beta1 ClusterClass is deprecated; use cluster.x-k8s.io/v1beta2 ClusterClass"),
        columns: COLUMNS,
    }
}

wire! {
    /// Templates, variables and patches of a ClusterClass.
    ClusterClassSpec {
        optional {
            /// Additional Cluster conditions that the Available condition depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            availability_gates: Vec<Gate>,
            /// Template of the control plane.
            control_plane: ControlPlaneClass,
            /// Template of the cluster infrastructure.
            infrastructure: TemplateHolder,
            /// Naming rule of the generated infrastructure object.
            infrastructure_naming_strategy: ClassNaming,
            /// Kubernetes versions that Clusters of this class can use, in ascending order. An upgrade across
            /// several versions passes through them.
            #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            kubernetes_versions: Vec<String>,
            /// Patches that customise the templates by variables. They are applied in order.
            #[schemars(length(max = 1000))]
            patches: Vec<ClusterClassPatch>,
            /// Upgrade settings of Clusters of this class.
            #[schemars(extend("minProperties" = 1))]
            upgrade: ClusterClassUpgrade,
            /// Variables that a Cluster of this class can set.
            #[schemars(length(max = 1000))]
            variables: Vec<ClusterClassVariable>,
            /// Worker classes.
            workers: WorkersClass,
        }
    }

    /// Observed state of a ClusterClass.
    ClusterClassStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
            /// Variables of the ClusterClass, including those that runtime extensions declare.
            #[schemars(length(max = 1000))]
            variables: Vec<ClusterClassStatusVariable>,
        }
    }
}
