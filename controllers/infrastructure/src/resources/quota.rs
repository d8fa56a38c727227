//! Quotas of a project.

use super::plain;

plain! {
    /// Limit of a project for one resource, and its use.
    Quota {
        /// Name of the resource in the service, e.g. `cores`.
        resource: String,
        /// Limit; a negative one is none.
        limit: i64,
        /// Amount in use or reserved.
        used: i64,
    }

    /// Addresses of an IPv4 subnet.
    AddressUse {
        /// The subnet.
        subnet_id: String,
        /// Its name.
        subnet_name: String,
        /// Its CIDR.
        cidr: String,
        /// Number of addresses in its allocation pools.
        total: i64,
        /// Number of addresses that ports have, including those outside the allocation pools.
        used: i64,
    }
}

/// Service with quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaService {
    /// Nova: `instances`, `cores`, `ram`, `server_groups` and `server_group_members`.
    Compute,
    /// Neutron: `port`, `network` and so on.
    Network,
    /// Cinder: `volumes`, `gigabytes`, both also per volume type, and `per_volume_gigabytes`.
    Volume,
    /// Octavia: `load_balancer`, `listener`, `pool` and `health_monitor`.
    LoadBalancer,
}
