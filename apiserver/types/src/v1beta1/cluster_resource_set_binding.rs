//! ClusterResourceSetBinding: what was applied to a cluster, in v1beta1.

use serde_json::Value;

use crate::cluster_resource_set_binding::ResourceBinding;
use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::schema::{object, structural};

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "What ClusterResourceSets applied to the cluster of the same name.",
        Some(structural::<ClusterResourceSetBindingSpec>()),
        None,
        false,
    )
}

kind! {
    /// What was applied to a cluster.
    without status ClusterResourceSetBinding, ClusterResourceSetBindingSpec, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta1", kind: "ClusterResourceSetBinding", plural: "clusterresourcesetbindings", singular: "clusterresourcesetbinding",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: Some(
            "addons.cluster.x-k8s.io/v1beta1 ClusterResourceSetBinding is deprecated; use addons.cluster.x-k8s.io/v1beta2 ClusterResourceSetBinding",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// What was applied to one cluster.
    ClusterResourceSetBindingSpec {
        optional {
            /// Applied sets of this cluster.
            #[schemars(length(max = 100))]
            bindings: Vec<ResourceSetBinding>,
            /// Owning Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
    }

    /// One set, and what of it was applied.
    ResourceSetBinding {
        required {
            /// Set name.
            #[schemars(length(min = 1, max = 253))]
            cluster_resource_set_name: String,
        }
        optional {
            /// Applied resources.
            #[schemars(length(max = 100))]
            resources: Vec<ResourceBinding>,
        }
    }
}
