//! OpenStackFloatingIPPool: pool of floating IPs that serves IPAddressClaims.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor};
use crate::network::NetworkOrSGParam;
use crate::object::{kind, wire};
use crate::openstack_cluster::NetworkStatus;
use crate::openstack_machine::OpenStackIdentityReference;
use crate::scalar::Integer;
use crate::schema::{object, structural};
use crate::shared::{Condition, words};

const COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    object(
        "Pool of floating IPs that serves IPAddressClaims.",
        Some(structural::<OpenStackFloatingIPPoolSpec>()),
        Some(structural::<OpenStackFloatingIPPoolStatus>()),
        false,
    )
}

kind! {
    /// Pool of floating IPs that serves IPAddressClaims.
    OpenStackFloatingIPPool, OpenStackFloatingIPPoolSpec, OpenStackFloatingIPPoolStatus, schema, Descriptor {
        group: "infrastructure.cluster.x-k8s.io", version: "v1alpha1", kind: "OpenStackFloatingIPPool",
        plural: "openstackfloatingippools", singular: "openstackfloatingippool", short_names: &[],
        categories: &[], namespaced: true, status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Desired state of a pool.
    OpenStackFloatingIPPoolSpec {
        required {
            /// Reference to the OpenStack credentials.
            identity_ref: OpenStackIdentityReference,
            /// Policy for released addresses: Retain or Delete.
            reclaim_policy: ReclaimPolicy,
        }
        optional {
            /// External network of the addresses. Default: the only external network of the cloud.
            #[serde(rename = "floatingIPNetwork")]
            floating_ip_network: NetworkOrSGParam,
            /// Maximum number of addresses in use. Default: no limit.
            #[serde(rename = "maxIPs")]
            max_ips: Integer,
            /// Existing floating IP addresses. They are allocated first and are never deleted.
            #[serde(rename = "preAllocatedFloatingIPs")]
            pre_allocated_floating_ips: Vec<String>,
        }
    }

    /// Observed state of a pool.
    OpenStackFloatingIPPoolStatus {
        optional {
            /// Addresses that are free.
            #[serde(rename = "availableIPs")]
            #[schemars(extend("default" = []))]
            available_ips: Vec<String>,
            /// Addresses that are allocated to claims.
            #[serde(rename = "claimedIPs")]
            #[schemars(extend("default" = []))]
            claimed_ips: Vec<String>,
            /// Conditions, at most one per type.
            conditions: Vec<Condition>,
            /// Addresses that cannot be used because of an error.
            #[serde(rename = "failedIPs")]
            failed_ips: Vec<String>,
            /// External network of the addresses.
            #[serde(rename = "floatingIPNetwork")]
            floating_ip_network: NetworkStatus,
        }
    }
}

words! {
    /// Policy for released addresses.
    ReclaimPolicy {
        /// A released floating IP stays in the project.
        #[default]
        Retain,
        /// A released floating IP is deleted.
        Delete,
    }
}
