//! ClusterResourceSetBinding in v1beta1: record of the resources that were applied to a Cluster.

use serde_json::Value;

use crate::cluster_resource_set_binding::ResourceBinding;
use crate::descriptor::{AGE, Column, Descriptor};
use crate::object::{kind, wire};
use crate::schema::{object, structural};

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "Record of the resources that ClusterResourceSets applied to the Cluster of the same name.",
        Some(structural::<ClusterResourceSetBindingSpec>()),
        None,
        false,
    )
}

kind! {
    /// Record of the resources that ClusterResourceSets applied to a Cluster.
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
    /// Record of the resources that were applied to one Cluster.
    ClusterResourceSetBindingSpec {
        optional {
            /// ClusterResourceSets that select the Cluster, with the state of their resources.
            #[schemars(length(max = 100))]
            bindings: Vec<ResourceSetBinding>,
            /// Name of the Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
    }

    /// State of one ClusterResourceSet on a Cluster.
    ResourceSetBinding {
        required {
            /// Name of the ClusterResourceSet.
            #[schemars(length(min = 1, max = 253))]
            cluster_resource_set_name: String,
        }
        optional {
            /// State of each resource of the set.
            #[schemars(length(max = 100))]
            resources: Vec<ResourceBinding>,
        }
    }
}
