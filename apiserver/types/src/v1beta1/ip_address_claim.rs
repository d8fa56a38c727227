//! IPAddressClaim in v1beta1: request for an address from a pool.

use serde_json::Value;

use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::v1beta1::shared::V1Beta2Conditions;

const COLUMNS: &[Column] = &[
    column("Pool Name", "string", ".spec.poolRef.name", "Pool that hands out the address."),
    column("Pool Kind", "string", ".spec.poolRef.kind", "Kind of the pool that hands out the address."),
    AGE,
];

fn schema() -> Value {
    object(
        "Request for an address from a pool.",
        Some(structural::<IPAddressClaimSpec>()),
        Some(structural::<IPAddressClaimStatus>()),
        false,
    )
}

kind! {
    /// Request for an address from a pool.
    bare IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta1", kind: "IPAddressClaim", plural: "ipaddressclaims", singular: "ipaddressclaim",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: Some(
            "ipam.cluster.x-k8s.io/v1beta1 IPAddressClaim is deprecated; use ipam.cluster.x-k8s.io/v1beta2 IPAddressClaim",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// Pool of the requested address.
    IPAddressClaimSpec {
        required {
            /// Reference to the pool that allocates the address.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            pool_ref: TypedLocalObjectReference,
        }
        optional {
            /// Name of the Cluster that the claim belongs to.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
    }

    /// Observed state of an IPAddressClaim.
    IPAddressClaimStatus {
        optional {
            /// Reference to the IPAddress that was allocated for the claim.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            address_ref: LocalObjectReference,
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Status in the form of v1beta2.
            v1beta2: V1Beta2Conditions,
        }
    }

    /// Reference to an object in the same namespace.
    TypedLocalObjectReference {
        required {
            /// Kind of the object.
            kind: String,
            /// Name of the object.
            name: String,
        }
        optional {
            /// API group of the object. Unset for the core group.
            api_group: String,
        }
    }

    /// Reference to an object in the same namespace. The field that holds it fixes the kind.
    LocalObjectReference {
        optional {
            /// Name of the object.
            #[schemars(extend("default" = ""))]
            name: String,
        }
    }
}
