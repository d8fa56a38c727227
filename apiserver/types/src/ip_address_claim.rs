//! IPAddressClaim: a wish for an address.

use serde_json::Value;

use crate::deprecated::{Deprecated, DeprecatedConditions};
use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, ContractVersionedObjectReference};

const COLUMNS: &[Column] = &[
    column("Pool Name", "string", ".spec.poolRef.name"),
    column("Pool Kind", "string", ".spec.poolRef.kind"),
    AGE,
];

fn schema() -> Value {
    let mut status = structural::<IPAddressClaimStatus>();
    status["minProperties"] = 1.into();
    object("A wish for an address from a pool.", Some(structural::<IPAddressClaimSpec>()), Some(status), true)
}

kind! {
    /// A wish for an address.
    IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta2", kind: "IPAddressClaim", plural: "ipaddressclaims", singular: "ipaddressclaim",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: true, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// From which pool an address is wanted.
    IPAddressClaimSpec {
        required {
            /// IPAM pool object.
            pool_ref: ContractVersionedObjectReference,
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
            address_ref: IPAddressNameReference,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Data that older clients read.
            deprecated: Deprecated<DeprecatedConditions>,
        }
    }

    /// An object of the same namespace, whose kind is known.
    IPAddressNameReference {
        required {
            /// Name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }
}
