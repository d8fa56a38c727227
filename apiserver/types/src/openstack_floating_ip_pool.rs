//! OpenStackFloatingIPPool: floating IPs that IPAddressClaims are answered from.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::network::NetworkOrSGParam;
use crate::object::{kind, wire};
use crate::openstack_cluster::NetworkStatus;
use crate::openstack_machine::OpenStackIdentityReference;
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "Floating IPs that IPAddressClaims are answered from.",
        Some(structural::<OpenStackFloatingIPPoolSpec>()),
        Some(structural::<OpenStackFloatingIPPoolStatus>()),
        false,
    )
}

kind! {
    /// Floating IPs that IPAddressClaims are answered from.
    OpenStackFloatingIPPool, OpenStackFloatingIPPoolSpec, OpenStackFloatingIPPoolStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackFloatingIPPool",
        plural: "openstackfloatingippools", singular: "openstackfloatingippool", short_names: &[],
        categories: &[], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// What is wanted of a pool.
    OpenStackFloatingIPPoolSpec {
        required {
            /// Credentials.
            identity_ref: OpenStackIdentityReference,
            /// What becomes of an address that is given back.
            reclaim_policy: ReclaimPolicy,
        }
        optional {
            /// The external network of its addresses; the only one there is when unset.
            #[serde(rename = "floatingIPNetwork")]
            floating_ip_network: NetworkOrSGParam,
            /// At most so many addresses in use; without limit when unset.
            #[serde(rename = "maxIPs")]
            max_ips: i32,
            /// Addresses that exist already: handed out first, and never deleted.
            #[serde(rename = "preAllocatedFloatingIPs")]
            pre_allocated_floating_ips: Vec<String>,
        }
    }

    /// What was observed of a pool.
    OpenStackFloatingIPPoolStatus {
        optional {
            /// Free addresses.
            #[serde(rename = "availableIPs")]
            #[schemars(extend("default" = []))]
            available_ips: Vec<String>,
            /// Addresses in use.
            #[serde(rename = "claimedIPs")]
            #[schemars(extend("default" = []))]
            claimed_ips: Vec<String>,
            /// Conditions.
            conditions: Vec<Condition>,
            /// Addresses that could not be used.
            #[serde(rename = "failedIPs")]
            failed_ips: Vec<String>,
            /// The network that was found.
            #[serde(rename = "floatingIPNetwork")]
            floating_ip_network: NetworkStatus,
        }
    }
}

words! {
    /// What becomes of an address that is given back.
    ReclaimPolicy {
        /// It is kept.
        #[default]
        Retain,
        /// It is deleted.
        Delete,
    }
}
