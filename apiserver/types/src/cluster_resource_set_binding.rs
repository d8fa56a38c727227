//! ClusterResourceSetBinding: what was applied to a cluster.

use serde_json::Value;

use crate::cluster_resource_set::ResourceSetKind;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::Time;

const COLUMNS: &[Column] = &[column("Cluster", "string", ".spec.clusterName"), AGE];

fn schema() -> Value {
    object(
        "What ClusterResourceSets applied to the cluster of the same name.",
        Some(structural::<ClusterResourceSetBindingSpec>()),
        None,
        true,
    )
}

kind! {
    /// What was applied to a cluster.
    without status ClusterResourceSetBinding, ClusterResourceSetBindingSpec, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta2", kind: "ClusterResourceSetBinding", plural: "clusterresourcesetbindings", singular: "clusterresourcesetbinding",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What was applied to one cluster.
    ClusterResourceSetBindingSpec {
        required {
            /// Owning Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
        optional {
            /// Applied sets of this cluster.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            bindings: Vec<ResourceSetBinding>,
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
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            resources: Vec<ResourceBinding>,
        }
    }

    /// One resource, and when it was applied.
    ResourceBinding {
        required {
            /// Applied successfully.
            applied: bool,
            /// Secret or ConfigMap.
            kind: ResourceSetKind,
            /// Name.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
        optional {
            /// Hash of the applied data.
            #[schemars(length(min = 1, max = 256))]
            hash: String,
            /// When it happened.
            last_applied_time: Time,
        }
    }
}
