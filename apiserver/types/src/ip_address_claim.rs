//! IPAddressClaim: request for an address from a pool.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, ContractVersionedObjectReference};

const COLUMNS: &[Column] = &[
    column("Pool Name", "string", ".spec.poolRef.name", "Pool that hands out the address."),
    column("Pool Kind", "string", ".spec.poolRef.kind", "Kind of the pool that hands out the address."),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<IPAddressClaimStatus>();
    status["minProperties"] = 1.into();
    object(
        "Request for an address from a pool.",
        Some(structural::<IPAddressClaimSpec>()),
        Some(status),
        true,
    )
}

kind! {
    /// Request for an address from a pool.
    IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta2", kind: "IPAddressClaim", plural: "ipaddressclaims", singular: "ipaddressclaim",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Pool of the requested address.
    IPAddressClaimSpec {
        required {
            /// Reference to the pool that allocates the address.
            pool_ref: ContractVersionedObjectReference,
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
            address_ref: IPAddressNameReference,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Status in the form of v1beta1, for clients of that version.
            deprecated: Deprecated<DeprecatedConditions>,
        }
    }

    /// Reference to an object in the same namespace. The field that holds it fixes the kind.
    IPAddressNameReference {
        required {
            /// Name of the object.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }
}
