//! ClusterResourceSetBinding: record of the resources that were applied to a Cluster.

use serde_json::Value;

use crate::cluster_resource_set::ResourceSetKind;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::Time;

const COLUMNS: &[Column] =
    &[column("Cluster", "string", ".spec.clusterName", "Cluster to which the resources are applied."), AGE];

fn schema() -> Value {
    object(
        "Record of the resources that ClusterResourceSets applied to the Cluster of the same name.",
        Some(structural::<ClusterResourceSetBindingSpec>()),
        None,
        true,
    )
}

kind! {
    /// Record of the resources that ClusterResourceSets applied to a Cluster.
    without status ClusterResourceSetBinding, ClusterResourceSetBindingSpec, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta2", kind: "ClusterResourceSetBinding", plural: "clusterresourcesetbindings", singular: "clusterresourcesetbinding",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Record of the resources that were applied to one Cluster.
    ClusterResourceSetBindingSpec {
        required {
            /// Name of the Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
        optional {
            /// ClusterResourceSets that select the Cluster, with the state of their resources.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            bindings: Vec<ResourceSetBinding>,
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
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            resources: Vec<ResourceBinding>,
        }
    }

    /// State of one resource on a Cluster.
    ResourceBinding {
        required {
            /// Result of the last attempt. True if the resource was applied.
            applied: bool,
            /// Kind of the resource: Secret or ConfigMap.
            kind: ResourceSetKind,
            /// Name of the Secret or ConfigMap.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
        optional {
            /// Hash of the applied data. A different hash triggers a new attempt with the Reconcile strategy.
            #[schemars(length(min = 1, max = 256))]
            hash: String,
            /// Time of the last attempt to apply the resource.
            last_applied_time: Time,
        }
    }
}
