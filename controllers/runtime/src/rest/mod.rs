//! Reads of looks at rest: they share what other looks at the same project have read.

mod ages;
mod cloud;
mod kept;
mod whole;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use controllers_infrastructure::{
    Flavor, FloatingIp, HealthMonitor, Image, Listener, LoadBalancer, LoadBalancerLimits, Member, Network,
    Pool, Port, Router, SecurityGroup, Server, Subnet,
};

use crate::OwnershipTag;
pub(crate) use cloud::ReadingCloud;
pub(crate) use kept::Kept;

/// Results of the reads of one project.
#[derive(Debug, Default)]
pub(crate) struct ProjectReads {
    machines: AtomicU32,
    networks: Kept<Vec<Network>>,
    subnets: Kept<Vec<Subnet>>,
    routers: Kept<Vec<Router>>,
    groups: Kept<Vec<SecurityGroup>>,
    ports: Kept<Vec<Port>>,
    floating_ips: Kept<Vec<FloatingIp>>,
    images: Kept<Vec<Image>>,
    flavors: Kept<Vec<Flavor>>,
    zones: Kept<Vec<String>>,
    balancers: Kept<Vec<LoadBalancer>>,
    limits: Kept<LoadBalancerLimits>,
    listeners: Kept<Vec<Listener>>,
    pools: Kept<Vec<Pool>>,
    members: Kept<Vec<Member>>,
    monitors: Kept<HealthMonitor>,
}

impl ProjectReads {
    /// Counts the Machines of a project: the servers with the tag of an object.
    pub(crate) fn count<'a>(&self, servers: impl Iterator<Item = &'a Server>) {
        let is_ours = |server: &&Server| server.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX));
        let count = u32::try_from(servers.filter(is_ours).count()).unwrap_or(u32::MAX);
        self.machines.store(count, Ordering::Relaxed);
    }

    /// Returns the age of the list of servers that serves a look at rest.
    pub(crate) fn age_of_servers(&self) -> Duration {
        ages::of_servers(self.machines())
    }

    fn machines(&self) -> u32 {
        self.machines.load(Ordering::Relaxed)
    }
}
