//! Options of hollow clusters.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests_openstack_simulator::GuestServer;

use crate::lock;
use crate::real::RealPrograms;

/// Decides which servers an address leads to.
pub trait EndpointRoutes: Debug + Send + Sync {
    /// Returns true if connections to the address can reach the server.
    fn leads_to(&self, address: IpAddr, server: &GuestServer) -> bool;
}

/// Routes of the cloud: a floating IP leads to the server of its port, and a load balancer leads to its members.
#[derive(Debug, Clone, Copy, Default)]
pub struct CloudRoutes;

impl EndpointRoutes for CloudRoutes {
    fn leads_to(&self, address: IpAddr, server: &GuestServer) -> bool {
        server.floating_ips.contains(&address) || server.balanced_ips.contains(&address)
    }
}

/// Settings of hollow clusters. The defaults suit tests: everything is fast, but never immediate.
#[derive(Debug, Clone)]
pub struct HollowOptions {
    /// Time from the start of a server to its first look at the user data.
    pub boot_delay: Duration,
    /// Time for which a joining node looks for the API and its token. It is 5 minutes in a real kubeadm.
    pub join_timeout: Duration,
    /// Time from the last sign of a kubelet until its Node is `Unknown`. It is 50 s in a real cluster.
    pub node_grace: Duration,
    /// Time from the start of a kubelet until its Node is ready.
    pub ready_delay: Duration,
    /// Interval in which kubelets renew their Leases.
    pub heartbeat: Duration,
    /// Longest time for which a deleted pod runs on. A shorter grace of the pod applies.
    pub pod_grace: Duration,
    /// Time from the join of an etcd member until it may vote.
    pub promotion_delay: Duration,
    /// If true, each Node gets a provider id, and not only those that are registered with `cloud-provider=external`.
    /// Cluster API's own tests have a provider that sets the id of every Node.
    pub sets_provider_ids: bool,
    /// File for the state of all clusters, as JSON. Without it the state is not saved.
    pub state_file: Option<PathBuf>,
    /// Programs of real API servers, which each cluster gets then. Without them the API is a part of this process.
    pub real: Option<RealPrograms>,
    /// Routes of endpoints to servers.
    pub routes: Arc<dyn EndpointRoutes>,
}

impl Default for HollowOptions {
    fn default() -> Self {
        Self {
            boot_delay: Duration::from_millis(50),
            join_timeout: Duration::from_secs(60),
            node_grace: Duration::from_secs(2),
            ready_delay: Duration::from_millis(200),
            heartbeat: Duration::from_secs(10),
            pod_grace: Duration::from_millis(200),
            promotion_delay: Duration::from_millis(100),
            sets_provider_ids: false,
            state_file: None,
            real: None,
            routes: Arc::new(CloudRoutes),
        }
    }
}

/// Port by which a range is reserved: the one at which APIs of clusters listen, but of UDP.
const RESERVATION: u16 = 6443;

/// Number of ranges that a process keeps. Far fewer clouds run at the same time, and each range takes a socket.
const KEPT: usize = 256;

/// Sockets that reserve the ranges of this process, the oldest first.
static RESERVED: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());

/// Returns a random range of 4096 loopback addresses, for the external network of a simulator. Tests that run
/// at the same time need different ranges, because each cluster listens on a fixed port. So no process gets a range that
/// one of them, or another process, has got lately.
#[must_use]
pub fn loopback_range() -> String {
    loop {
        let random = uuid::Uuid::new_v4().into_bytes();
        // 127.0.0.0/16 and 127.255.0.0/16 are left to others: resolvers and databases listen there.
        let second = 1 + random[0] % 253;
        let third = random[1] & 0xf0;
        // A socket that another process holds fails here; any other failure leaves the range as good as any.
        match UdpSocket::bind((Ipv4Addr::new(127, second, third, 0), RESERVATION)) {
            Ok(socket) => keep(socket),
            Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
            Err(_) => {}
        }
        return format!("127.{second}.{third}.0/20");
    }
}

fn keep(socket: UdpSocket) {
    let mut reserved = lock(&RESERVED);
    reserved.push_back(socket);
    if reserved.len() > KEPT {
        reserved.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_tests_at_the_same_time_have_different_loopback_ranges() {
        let ranges: BTreeSet<String> = (0..KEPT).map(|_| loopback_range()).collect();
        assert_eq!(ranges.len(), KEPT);
    }
}
