//! ClusterResourceSet: resources that are applied to the Clusters with certain labels.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[
    column(
        "Applied",
        "string",
        ".status.conditions[?(@.type==\"ResourcesApplied\")].status",
        "All resources of the set have been applied to every matching Cluster.",
    ),
    wide(
        "Paused",
        "string",
        ".status.conditions[?(@.type==\"Paused\")].status",
        "Reconciliation is paused: True while the object or its Cluster is paused.",
    ),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<ClusterResourceSetStatus>();
    status["minProperties"] = 1.into();
    object(
        "ConfigMaps and Secrets whose objects are applied to the Clusters with certain labels.",
        Some(structural::<ClusterResourceSetSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// Set of resources that are applied to the Clusters with certain labels.
    ClusterResourceSet, ClusterResourceSetSpec, ClusterResourceSetStatus, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta2", kind: "ClusterResourceSet", plural: "clusterresourcesets", singular: "clusterresourceset",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Resources of the set, and the selection of Clusters.
    ClusterResourceSetSpec {
        required {
            /// Label selector of the Clusters that receive the resources. It selects in the same namespace.
            cluster_selector: LabelSelector,
            /// ConfigMaps and Secrets that contain the manifests to apply.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            resources: Vec<ResourceRef>,
        }
        optional {
            /// Frequency of applying: ApplyOnce or Reconcile. Default: ApplyOnce.
            strategy: ClusterResourceSetStrategy,
        }
    }

    /// Reference to a ConfigMap or Secret in the same namespace.
    ResourceRef {
        required {
            /// Kind of the resource: Secret or ConfigMap.
            kind: ResourceSetKind,
            /// Name of the Secret or ConfigMap.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
    }

    /// Observed state of a ClusterResourceSet.
    ClusterResourceSetStatus {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedConditions>,
            /// Value of `metadata.generation` that the controller last processed.
            #[schemars(range(min = 1))]
            observed_generation: i64,
        }
    }
}

words! {
    /// Kind of a resource of a set.
    ResourceSetKind {
        /// Secret of type `addons.cluster.x-k8s.io/resource-set`.
        Secret,
        /// ConfigMap with manifests.
        #[default]
        ConfigMap,
    }

    /// Frequency of applying resources.
    ClusterResourceSetStrategy {
        /// Resources are applied once per Cluster. Later changes have no effect.
        #[default]
        ApplyOnce,
        /// Resources are applied again after each change.
        Reconcile,
    }
}
