//! IPAddress: an address that was given.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::ip_address_claim::IPAddressNameReference;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::ContractVersionedObjectReference;

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
        true,
    )
}

kind! {
    /// An address that was given.
    without status IPAddress, IPAddressSpec, schema, Descriptor {
        group: "ipam.cluster.x-k8s.io", version: "v1beta2", kind: "IPAddress", plural: "ipaddresses", singular: "ipaddress",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
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
            claim_ref: IPAddressNameReference,
            /// IPAM pool object.
            pool_ref: ContractVersionedObjectReference,
            /// Prefix length.
            #[schemars(range(min = 0, max = 128))]
            prefix: i32,
        }
        optional {
            /// Gateway address.
            #[schemars(length(min = 1, max = 39))]
            gateway: String,
        }
    }
}
