//! ClusterResourceSet: what is applied to clusters.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column, wide};
use crate::label_selector::LabelSelector;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[
    column("Applied", "string", ".status.conditions[?(@.type==\"ResourcesApplied\")].status"),
    wide("Paused", "string", ".status.conditions[?(@.type==\"Paused\")].status"),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<ClusterResourceSetStatus>();
    status["minProperties"] = 1.into();
    object(
        "ConfigMaps and Secrets whose contents are applied to all clusters with certain labels.",
        Some(structural::<ClusterResourceSetSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// What is applied to every cluster of a kind.
    ClusterResourceSet, ClusterResourceSetSpec, ClusterResourceSetStatus, schema, Descriptor {
        group: "addons.cluster.x-k8s.io", version: "v1beta2", kind: "ClusterResourceSet", plural: "clusterresourcesets", singular: "clusterresourceset",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// What is applied, and to which clusters.
    ClusterResourceSetSpec {
        required {
            /// Clusters the set applies to.
            cluster_selector: LabelSelector,
            /// ConfigMaps and Secrets whose contents are applied.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            resources: Vec<ResourceRef>,
        }
        optional {
            /// ApplyOnce or Reconcile.
            strategy: ClusterResourceSetStrategy,
        }
    }

    /// A ConfigMap or Secret of the same namespace.
    ResourceRef {
        required {
            /// Secret or ConfigMap.
            kind: ResourceSetKind,
            /// Name.
            #[schemars(length(min = 1, max = 253))]
            name: String,
        }
    }

    /// What was observed of a ClusterResourceSet.
    ClusterResourceSetStatus {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedConditions>,
            /// The generation that was last acted on.
            #[schemars(range(min = 1))]
            observed_generation: i64,
        }
    }
}

words! {
    /// Kind of a resource.
    ResourceSetKind {
        /// A Secret.
        Secret,
        /// A ConfigMap.
        #[default]
        ConfigMap,
    }

    /// How often resources are applied.
    ClusterResourceSetStrategy {
        /// Once.
        #[default]
        ApplyOnce,
        /// Whenever they change.
        Reconcile,
    }
}
