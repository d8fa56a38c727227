//! IPAddress in v1beta1: address that a pool allocated for a claim.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::scalar::Integer;
use crate::schema::{object, structural};
use crate::v1beta1::ip_address_claim::{LocalObjectReference, TypedLocalObjectReference};

const COLUMNS: &[Column] = &[
    column("Address", "string", ".spec.address", "Address that was handed out, without the prefix length."),
    column("Pool Name", "string", ".spec.poolRef.name", "Pool that hands out the address."),
    column("Pool Kind", "string", ".spec.poolRef.kind", "Kind of the pool that hands out the address."),
    AGE,
];

fn schema() -> Value {
    object("Address that a pool allocated for a claim.", Some(structural::<IPAddressSpec>()), None, false)
}

kind! {
    /// Address that a pool allocated for a claim.
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
    /// Allocated address, with its claim and its pool.
    IPAddressSpec {
        required {
            /// Allocated IP address, IPv4 or IPv6.
            #[schemars(length(min = 1, max = 39))]
            address: String,
            /// Reference to the IPAddressClaim that the address was allocated for.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            claim_ref: LocalObjectReference,
            /// Reference to the pool that the address belongs to.
            #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
            pool_ref: TypedLocalObjectReference,
            /// Prefix length of the network. Range: 0 to 128.
            prefix: Integer,
        }
        optional {
            /// IP address of the default gateway of the network.
            #[schemars(length(min = 1, max = 39))]
            gateway: String,
        }
    }
}
