//! Octavia load balancers, with their listeners, pools, members and health monitors.

use std::fmt;

use super::plain;

/// Reference to a part of a load balancer, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadBalancerPart {
    /// Listener.
    Listener(String),
    /// Pool.
    Pool(String),
    /// Health monitor.
    HealthMonitor(String),
    /// Member of a pool.
    Member {
        /// Id of the pool.
        pool: String,
        /// Id of the member.
        id: String,
    },
}

impl LoadBalancerPart {
    /// Returns the id of the part.
    pub fn id(&self) -> &str {
        match self {
            Self::Listener(id) | Self::Pool(id) | Self::HealthMonitor(id) | Self::Member { id, .. } => id,
        }
    }
}

impl fmt::Display for LoadBalancerPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Listener(_) => "listener",
            Self::Pool(_) => "pool",
            Self::HealthMonitor(_) => "health monitor",
            Self::Member { .. } => "member",
        };
        write!(f, "{kind} {}", self.id())
    }
}

plain! {
    /// Query of load balancers.
    LoadBalancerQuery {
        /// Exactly this one.
        id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// With this port for its address.
        vip_port_id: Option<String>,
        /// With its address on this subnet.
        vip_subnet_id: Option<String>,
    }

    /// Octavia load balancer.
    LoadBalancer {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// `ACTIVE`, `ERROR`, `PENDING_CREATE`, ...
        provisioning_status: String,
        /// Address.
        vip_address: String,
        /// Port of the address.
        vip_port_id: String,
        /// Network of the address.
        vip_network_id: String,
        /// Provider, e.g. `amphora`.
        provider: String,
        /// Set unless it was switched off.
        admin_state_up: bool,
        /// Time of its last change.
        changed_at: String,
    }

    /// Load balancer to create. Its address is that of `vip_port_id`, else one of `vip_subnet_id`.
    NewLoadBalancer {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// Port of the address.
        vip_port_id: Option<String>,
        /// Subnet of the address.
        vip_subnet_id: Option<String>,
        /// Address, if no port is named.
        vip_address: Option<String>,
        /// Provider, else the cloud's default.
        provider: Option<String>,
        /// Flavor id, else the cloud's default.
        flavor_id: Option<String>,
        /// Availability zone, else the cloud's default.
        availability_zone: Option<String>,
    }

    /// Octavia listener.
    Listener {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// `ACTIVE`, `ERROR`, ...
        provisioning_status: String,
        /// `TCP`, `UDP`, ...
        protocol: String,
        /// Port.
        protocol_port: i32,
        /// Pool of its connections.
        default_pool_id: Option<String>,
        /// Clients that may connect; empty for all.
        allowed_cidrs: Vec<String>,
        /// Longest silence of a client, if the cloud says so. Unit: milliseconds.
        idle_timeout: Option<i32>,
        /// Longest silence of a member, if the cloud says so. Unit: milliseconds.
        member_timeout: Option<i32>,
    }

    /// TCP listener to create.
    NewListener {
        /// The load balancer it belongs to.
        load_balancer_id: String,
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// Port.
        protocol_port: i32,
        /// Clients that may connect; empty for all.
        allowed_cidrs: Vec<String>,
        /// Longest silence of a connection, else the cloud's default. Unit: milliseconds.
        idle_timeout: Option<i32>,
    }

    /// Octavia pool.
    Pool {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// `ACTIVE`, `ERROR`, ...
        provisioning_status: String,
        /// Its health monitor, if it has one.
        health_monitor_id: Option<String>,
        /// `ROUND_ROBIN`, `SOURCE_IP_PORT`, ...; empty if the cloud does not say.
        algorithm: String,
    }

    /// TCP pool to create.
    NewPool {
        /// The listener whose connections it takes.
        listener_id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// `ROUND_ROBIN`, `SOURCE_IP_PORT`, ...
        algorithm: String,
    }

    /// Member of a pool.
    Member {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// `ACTIVE`, `ERROR`, ...
        provisioning_status: String,
        /// Address.
        address: String,
        /// Subnet of the address, if it was named.
        subnet_id: Option<String>,
        /// Port.
        protocol_port: i32,
        /// Share of the connections; 0 if it receives no new ones.
        weight: i32,
        /// Time of its last change.
        changed_at: String,
    }

    /// Member to add to a pool.
    NewMember {
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// Address.
        address: String,
        /// Port.
        protocol_port: i32,
        /// Subnet of the address.
        subnet_id: Option<String>,
    }

    /// Numbers of a health monitor.
    MonitorTimes {
        /// Interval of the checks. Unit: seconds.
        delay: i32,
        /// Timeout of one check. Unit: seconds.
        timeout: i32,
        /// Successful checks before a member is up.
        max_retries: i32,
        /// Failed checks before a member is down.
        max_retries_down: i32,
    }

    /// Octavia health monitor.
    HealthMonitor {
        /// Id.
        id: String,
        /// `ACTIVE`, `ERROR`, ...
        provisioning_status: String,
        /// Way in which it checks.
        check: MonitorCheck,
        /// Its numbers.
        times: MonitorTimes,
    }

    /// Health monitor to create.
    NewHealthMonitor {
        /// The pool whose members it checks.
        pool_id: String,
        /// Name.
        name: String,
        /// Tags.
        tags: Vec<String>,
        /// Way in which it checks.
        check: MonitorCheck,
        /// Its numbers.
        times: MonitorTimes,
    }

    /// Attributes that an old Octavia does not have. A call leaves them out.
    LoadBalancerLimits {
        /// No tags, before version 2.5.
        lacks_tags: bool,
        /// No timeouts of listeners, before version 2.1.
        lacks_idle_timeouts: bool,
        /// No list of the clients that may connect, before version 2.12.
        lacks_allowed_cidrs: bool,
    }

    /// Kind of load balancers.
    LoadBalancerFlavor {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Set if it may be used.
        enabled: bool,
    }
}

/// Way in which a health monitor checks a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MonitorCheck {
    /// A connection can be opened.
    #[default]
    Tcp,
    /// `/readyz` answers over HTTPS that the API server is ready.
    HttpsReadyz,
}
