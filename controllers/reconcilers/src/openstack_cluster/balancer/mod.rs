//! Load balancer of the API servers: Octavia's, at an address on a port of our own.
//!
//! Octavia changes one thing at a time and refuses all others until then. So one pass makes at most one change
//! of the load balancer, and later passes continue when Octavia has finished. The address outlives the load
//! balancer: a broken one is replaced behind the same address.

pub(super) mod act;
pub(super) mod backends;
pub(super) mod busy;
mod clients;
mod create;
pub(super) mod decide;
pub(super) mod delete;
pub(super) mod foreign_parts;
pub(super) mod health;
mod limits;
mod lost_address;
mod member_address;
mod members;
pub(super) mod observe;
mod parts;
mod repairs;
#[cfg(test)]
mod tests;
mod unusable;
pub(super) mod wish;

use std::net::IpAddr;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{
    HealthMonitor, Listener, LoadBalancer, LoadBalancerLimits, Member, Network, Pool, Port, Subnet,
};
use jiff::Timestamp;
use kube::ResourceExt;

pub(super) use backends::Backend;
use clients::none_fits;
pub(super) use clients::{allowed_cidrs, passes_clients};
pub(super) use decide::Step;
use repairs::{PartRepairs, Recreations};
pub(super) use unusable::{missing_listener, unusable};
pub(super) use wish::BalancerWish;

/// Annotation with the time of the last failover that was requested.
pub(super) const FAILOVER: &str = "capstan.dev/load-balancer-failover";

/// Annotation with the time at which Capstan last switched the load balancer on.
pub(super) const ENABLED: &str = "capstan.dev/load-balancer-enabled";

/// Annotation with the id of the load balancer that Capstan last deleted to create another one.
pub(super) const REPLACED: &str = "capstan.dev/replaced-load-balancer";

/// Annotation by which a user requests another load balancer behind the same address. Any new value does.
pub(super) const RECREATE: &str = "capstan.dev/recreate-load-balancer";

/// Annotation with the value of the last such request that was met.
pub(super) const RECREATED: &str = "capstan.dev/recreated-load-balancer";

/// Octavia's status of a resource that may be changed.
pub(super) const ACTIVE: &str = "ACTIVE";

/// Octavia's status of a resource whose last change failed.
pub(super) const ERROR: &str = "ERROR";

/// Reason of a load balancer in ERROR that forwards no connections.
pub(super) const BROKEN: &str = "LoadBalancerError";

/// Reason of a load balancer in ERROR that still forwards connections.
pub(super) const DEGRADED: &str = "LoadBalancerDegraded";

/// Reason of a load balancer that Octavia changes.
pub(super) const PENDING: &str = "LoadBalancerPending";

/// Reason of a load balancer that Octavia has been changing for too long.
pub(super) const STUCK: &str = "LoadBalancerStuck";

/// Reason of a load balancer that another client deletes.
pub(super) const BEING_DELETED: &str = "LoadBalancerBeingDeleted";

/// Reason of a load balancer that another client has switched off.
pub(super) const DISABLED: &str = "LoadBalancerDisabled";

/// Reason of an endpoint that has lost its address.
pub(super) const LOST: &str = "VIPLost";

/// Reason of a name or port that another owner has.
pub(super) const NAME_TAKEN: &str = "NameTaken";

/// Longest silence of a connection: watches and logs are silent for minutes. Unit: milliseconds.
pub(super) const IDLE_TIMEOUT: i32 = 600_000;

/// Reason of a machine that cannot be a member, because another member has its address.
pub(super) const MEMBER_ERROR: &str = "LoadBalancerMemberError";

/// Provider whose load balancers pass connections on as they are.
pub(super) const OVN: &str = "ovn";

/// Pool with its members and monitor.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PoolView {
    pub pool: Pool,
    pub members: Vec<Member>,
    pub monitor: Option<HealthMonitor>,
}

/// Observed load balancer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct BalancerView {
    /// Our port, which has the address.
    pub vip_port: Option<Port>,
    /// Network and subnet of the address that the spec names.
    pub place: Option<(String, String)>,
    /// Why that network or subnet cannot be used.
    pub misplaced: Option<String>,
    pub balancer: Option<LoadBalancer>,
    /// Message about a load balancer of another owner with our name.
    pub taken: Option<String>,
    /// Our port does not exist any more, and the load balancer still has it.
    pub is_port_lost: bool,
    /// Network of the address with its subnets, if the spec names it.
    pub network: Option<(Network, Vec<Subnet>)>,
    pub listeners: Vec<Listener>,
    pub pools: Vec<PoolView>,
    /// Machines that serve the API, or will.
    pub backends: Vec<Backend>,
    /// Number of machines that the control plane is to have, as long as the cluster is not provisioned.
    pub replicas: usize,
    /// Address that an earlier load balancer had.
    pub last_address: Option<String>,
    /// Address at which clients reached an earlier load balancer: its floating IP, if it had one.
    pub known_ip: Option<String>,
    /// Address on the subnet to which the host name of the endpoint leads.
    pub named_address: Option<String>,
    /// Last failover that was requested.
    pub failed_over: Option<Timestamp>,
    /// Time at which it was last switched on.
    pub enabled: Option<Timestamp>,
    /// Id of the load balancer that was last deleted to create another one.
    pub replaced: Option<String>,
    /// Repairs of parts.
    pub repairs: PartRepairs,
    /// Load balancers that were created in place of another one.
    pub recreations: Recreations,
    /// Message about broken parts that are not repaired for a while.
    pub given_up: Option<String>,
    /// The user requests another load balancer.
    pub recreate: Option<String>,
    /// The endpoint worked once, and did not when the last pass ended.
    pub was_unusable: bool,
    /// A broken load balancer still forwards connections.
    pub answers: bool,
    /// Start of the time in which it did not.
    pub silent_since: Option<Timestamp>,
    pub now: Timestamp,
    /// Address from which this process reaches the load balancer, as far as it is known.
    pub egress: Option<IpAddr>,
    /// Attributes that Octavia does not have.
    pub limits: LoadBalancerLimits,
    /// The provider has no health monitors.
    pub no_monitors: bool,
    /// Number of members that the last step has added; `None` after another step.
    pub added_members: Option<usize>,
}

impl BalancerView {
    /// Reads what is known without the cloud.
    pub(super) fn begin(object: &OpenStackCluster, backends: Vec<Backend>) -> Self {
        let annotation = |key: &str| object.annotations().get(key).cloned();
        let status = object.status.as_ref();
        let known = status.and_then(|status| status.api_server_managed_load_balancer.as_ref());
        let unusable = object.condition("APIEndpointReady").filter(|it| !it.holds());
        let silent =
            unusable.filter(|it| it.reason == BROKEN).and_then(|it| it.last_transition_time.0.parse().ok());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        let is_provisioned = initialization.and_then(|it| it.provisioned) == Some(true);
        Self {
            backends,
            last_address: known.map(|known| known.internal_ip.clone()),
            known_ip: known.map(|known| known.ip.clone()),
            failed_over: annotation(FAILOVER).and_then(|time| time.parse().ok()),
            enabled: annotation(ENABLED).and_then(|time| time.parse().ok()),
            replaced: annotation(REPLACED),
            repairs: PartRepairs::of(object),
            recreations: Recreations::of(object),
            recreate: annotation(RECREATE).filter(|value| annotation(RECREATED).as_ref() != Some(value)),
            silent_since: silent,
            was_unusable: is_provisioned && unusable.is_some(),
            now: Timestamp::now(),
            ..Self::default()
        }
    }

    /// Returns true if the replacement of a load balancer is noted, and it has not been ACTIVE since.
    pub(super) fn is_being_replaced(&self, id: &str) -> bool {
        self.recreations.is_unproven() && self.replaced.as_deref() == Some(id)
    }

    /// Returns the port of the address: our own, or Octavia's.
    pub(super) fn vip_port_id(&self) -> Option<&str> {
        let of_balancer = self.balancer.as_ref().map(|it| it.vip_port_id.as_str());
        of_balancer
            .filter(|id| !id.is_empty())
            .or_else(|| self.vip_port.as_ref().map(|port| port.id.as_str()))
    }

    /// Returns the address that a new load balancer is to have: that of the last one, else that of the spec.
    pub(super) fn wanted_address<'a>(&'a self, wish: &'a BalancerWish) -> Option<&'a String> {
        self.last_address.as_ref().or(wish.address.as_ref()).or(self.named_address.as_ref())
    }

    /// Returns true if a pool has no other member.
    pub(super) fn is_last_member(&self, pool: &str, member: &str) -> bool {
        let found = self.pools.iter().find(|it| it.pool.id == pool);
        found.is_some_and(|it| it.members.iter().all(|known| known.id == member))
    }

    /// Returns the listener of a TCP port. Octavia has one for all protocols above TCP, and others beside it.
    pub(super) fn listener(&self, port: i32) -> Option<&Listener> {
        let is_tcp = |listener: &&Listener| !matches!(listener.protocol.as_str(), "UDP" | "SCTP");
        self.listeners.iter().filter(is_tcp).find(|listener| listener.protocol_port == port)
    }

    /// Returns the pool of a listener.
    pub(super) fn pool_of(&self, listener: &Listener) -> Option<&PoolView> {
        let id = listener.default_pool_id.as_ref()?;
        self.pools.iter().find(|view| view.pool.id == *id)
    }
}
