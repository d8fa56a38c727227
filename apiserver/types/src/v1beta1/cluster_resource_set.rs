//! ClusterResourceSet: what is applied to clusters, in v1beta1.

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
        "ConfigMaps and Secrets whose contents are applied to all clusters with certain labels.",
        Some(structural::<ClusterResourceSetSpec>()),
        Some(structural::<ClusterResourceSetStatus>()),
        false,
    )
}

kind! {
    /// What is applied to every cluster of a kind.
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
    /// What is applied, and to which clusters.
    ClusterResourceSetSpec {
        required {
            /// Clusters the set applies to.
            cluster_selector: LabelSelector,
        }
        optional {
            /// ConfigMaps and Secrets whose contents are applied.
            #[schemars(length(max = 100))]
            resources: Vec<ResourceRef>,
            /// ApplyOnce or Reconcile.
            strategy: ClusterResourceSetStrategy,
        }
    }

    /// What was observed of a ClusterResourceSet.
    ClusterResourceSetStatus {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// What `v1beta2` shows under other names.
            v1beta2: V1Beta2Conditions,
        }
    }
}
