//! ClusterResourceSet in v1beta1: resources that are applied to the Clusters with certain labels.

use serde_json::Value;

use crate::cluster_resource_set::{ClusterResourceSetStrategy, ResourceRef};
use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::v1beta1::shared::V1Beta2Conditions;

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "ConfigMaps and Secrets whose objects are applied to the Clusters with certain labels.",
        Some(structural::<ClusterResourceSetSpec>()),
        Some(structural::<ClusterResourceSetStatus>()),
        false,
    )
}

kind! {
    /// Set of resources that are applied to the Clusters with certain labels.
    bare ClusterResourceSet, ClusterResourceSetSpec, ClusterResourceSetStatus, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta1", kind: "ClusterResourceSet", plural: "clusterresourcesets", singular: "clusterresourceset",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: Some(
            "addons.cluster.x-k8s.io/v1beta1 ClusterResourceSet is deprecated; use addons.cluster.x-k8s.io/v1beta2 ClusterResourceSet",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// Resources of the set, and the selection of Clusters.
    ClusterResourceSetSpec {
        required {
            /// Label selector of the Clusters that receive the resources. It selects in the same namespace.
            cluster_selector: LabelSelector,
        }
        optional {
            /// ConfigMaps and Secrets that contain the manifests to apply.
            #[schemars(length(max = 100))]
            resources: Vec<ResourceRef>,
            /// Frequency of applying: ApplyOnce or Reconcile. Default: ApplyOnce.
            strategy: ClusterResourceSetStrategy,
        }
    }

    /// Observed state of a ClusterResourceSet.
    ClusterResourceSetStatus {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
        }
    }
}
