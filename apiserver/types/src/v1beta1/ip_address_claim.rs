//! IPAddressClaim: a wish for an address, in v1beta1.

use serde_json::Value;

use crate::deprecated::DeprecatedCondition;
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::v1beta1::shared::V1Beta2Conditions;

const COLUMNS: &[Column] = &[
    column("Pool Name", "string", ".spec.poolRef.name"),
    column("Pool Kind", "string", ".spec.poolRef.kind"),
    AGE,
];

fn schema() -> Value {
    object(
        "A wish for an address from a pool.",
        Some(structural::<IPAddressClaimSpec>()),
        Some(structural::<IPAddressClaimStatus>()),
        false,
    )
}

kind! {
    /// A wish for an address.
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
    /// From which pool an address is wanted.
    IPAddressClaimSpec {
        required {
            /// IPAM pool object.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            pool_ref: TypedLocalObjectReference,
        }
        optional {
            /// Owning Cluster.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
        }
    }

    /// What became of a claim.
    IPAddressClaimStatus {
        optional {
            /// Allocated IPAddress.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            address_ref: LocalObjectReference,
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// What `v1beta2` shows under other names.
            v1beta2: V1Beta2Conditions,
        }
    }

    /// An object of the same namespace.
    TypedLocalObjectReference {
        required {
            /// Kind.
            kind: String,
            /// Name.
            name: String,
        }
        optional {
            /// API group.
            api_group: String,
        }
    }

    /// An object of the same namespace, whose kind is known.
    LocalObjectReference {
        optional {
            /// Name.
            #[schemars(extend("default" = ""))]
            name: String,
        }
    }
}
