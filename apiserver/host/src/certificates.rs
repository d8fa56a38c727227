//! Trust in the client certificates of the host's users.

use std::time::Duration;

use apiserver_access::HostCertificates;

use crate::health::{HostHealth, HostState};

/// Longest age of the copy of the host's CAs for clients.
const BOUND: Duration = Duration::from_hours(7 * 24);

/// Trust that ends a week after the host has answered for the last time, and while another cluster answers.
#[derive(Debug, Clone)]
pub struct HostUserCertificates {
    health: HostHealth,
    trusts_masters: bool,
}

impl HostUserCertificates {
    /// Creates the trust. Unless it `trusts_masters`, such certificates do not give the group `system:masters`.
    pub fn new(health: HostHealth, trusts_masters: bool) -> Self {
        Self { health, trusts_masters }
    }
}

impl HostCertificates for HostUserCertificates {
    fn are_valid(&self) -> bool {
        self.health.state() != HostState::Other && self.health.age() <= BOUND
    }

    fn trust_masters(&self) -> bool {
        self.trusts_masters
    }
}
