//! IPAddress: an address that was given, in v1beta1.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::scalar::Integer;
use crate::schema::{object, structural};
use crate::v1beta1::ip_address_claim::{LocalObjectReference, TypedLocalObjectReference};

const COLUMNS: &[Column] = &[
    column("Address", "string", ".spec.address"),
    column("Pool Name", "string", ".spec.poolRef.name"),
    column("Pool Kind", "string", ".spec.poolRef.kind"),
    AGE,
];

fn schema() -> Value {
    object(
        "An address from a pool, and the claim that it was given for.",
        Some(structural::<IPAddressSpec>()),
        None,
        false,
    )
}

kind! {
    /// An address that was given.
    without status IPAddress, IPAddressSpec, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta1", kind: "IPAddress", plural: "ipaddresses", singular: "ipaddress",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: Some(
            "ipam.cluster.x-k8s.io/v1beta1 IPAddress is deprecated; use ipam.cluster.x-k8s.io/v1beta2 IPAddress",
        ),
        columns: COLUMNS,
    }
}

wire! {
    /// An address that was given, and for what.
    IPAddressSpec {
        required {
            /// The address.
            #[schemars(length(min = 1, max = 39))]
            address: String,
            /// The claim it satisfies.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            claim_ref: LocalObjectReference,
            /// IPAM pool object.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            pool_ref: TypedLocalObjectReference,
            /// Prefix length.
            prefix: Integer,
        }
        optional {
            /// Gateway address.
            #[schemars(length(min = 1, max = 39))]
            gateway: String,
        }
    }
}
