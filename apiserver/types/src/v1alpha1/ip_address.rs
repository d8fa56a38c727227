//! IPAddress in v1alpha1: address that a pool allocated for a claim.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::kind;
use crate::schema::{object, structural};
use crate::v1beta1::IPAddressSpec;

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
        group: "ipam.cluster.x-k8s.io", version: "v1alpha1", kind: "IPAddress", plural: "ipaddresses", singular: "ipaddress",
        short_names: &[], categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None,
        deprecation: None,
        columns: COLUMNS,
    }
}
