//! IPAddress: address that a pool allocated for a claim.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::ip_address_claim::IPAddressNameReference;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::ContractVersionedObjectReference;

const COLUMNS: &[Column] = &[
    column("Address", "string", ".spec.address", "Address that was handed out, without the prefix length."),
    column("Pool Name", "string", ".spec.poolRef.name", "Pool that hands out the address."),
    column("Pool Kind", "string", ".spec.poolRef.kind", "Kind of the pool that hands out the address."),
    AGE,
];

fn schema() -> Value {
    object("Address that a pool allocated for a claim.", Some(structural::<IPAddressSpec>()), None, true)
}

kind! {
    /// Address that a pool allocated for a claim.
    without status IPAddress, IPAddressSpec, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta2", kind: "IPAddress", plural: "ipaddresses", singular: "ipaddress",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
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
            claim_ref: IPAddressNameReference,
            /// Reference to the pool that the address belongs to.
            pool_ref: ContractVersionedObjectReference,
            /// Prefix length of the network. Range: 0 to 128.
            #[schemars(range(min = 0, max = 128))]
            prefix: i32,
        }
        optional {
            /// IP address of the default gateway of the network.
            #[schemars(length(min = 1, max = 39))]
            gateway: String,
        }
    }
}
