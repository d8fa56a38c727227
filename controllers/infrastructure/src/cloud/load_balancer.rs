//! Load balancer service of a cloud.

use async_trait::async_trait;

use crate::{
    CloudResult, HealthMonitor, Listener, LoadBalancer, LoadBalancerFlavor, LoadBalancerLimits,
    LoadBalancerPart, LoadBalancerQuery, Member, MonitorTimes, NewHealthMonitor, NewListener,
    NewLoadBalancer, NewMember, NewPool, Pool,
};

/// Load balancer service (Octavia).
#[async_trait]
pub trait LoadBalancerService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists load balancers that match. Those in deletion are among them.
    async fn load_balancers(&self, query: &LoadBalancerQuery) -> CloudResult<Vec<LoadBalancer>>;
    /// Lists the names of Octavia's providers.
    async fn load_balancer_providers(&self) -> CloudResult<Vec<String>>;
    /// Lists Octavia's flavors.
    async fn load_balancer_flavors(&self) -> CloudResult<Vec<LoadBalancerFlavor>>;
    /// Lists the names of Octavia's availability zones.
    async fn load_balancer_zones(&self) -> CloudResult<Vec<String>>;
    /// Returns which attributes Octavia does not have.
    async fn load_balancer_limits(&self) -> CloudResult<LoadBalancerLimits>;

    /// Lists the listeners of a load balancer.
    async fn listeners(&self, load_balancer: &str) -> CloudResult<Vec<Listener>>;
    /// Lists the pools of a load balancer.
    async fn pools(&self, load_balancer: &str) -> CloudResult<Vec<Pool>>;
    /// Lists the members of a pool.
    async fn members(&self, pool: &str) -> CloudResult<Vec<Member>>;
    /// Reads one health monitor.
    async fn health_monitor(&self, id: &str) -> CloudResult<HealthMonitor>;
    /// Creates a load balancer. Octavia responds before it is built, as to every change of it or its parts;
    /// until the change ends, every other change is an error of class `Conflict`.
    async fn create_load_balancer(&self, new: &NewLoadBalancer) -> CloudResult<LoadBalancer>;
    /// Switches a load balancer on.
    async fn enable_load_balancer(&self, id: &str) -> CloudResult<()>;
    /// Requests that a load balancer is built anew behind its address.
    async fn fail_over_load_balancer(&self, id: &str) -> CloudResult<()>;
    /// Deletes a load balancer with all its parts.
    async fn delete_load_balancer(&self, id: &str) -> CloudResult<()>;
    /// Adds a listener.
    async fn create_listener(&self, new: &NewListener) -> CloudResult<Listener>;
    /// Replaces the clients that may connect to a listener; an empty list allows all.
    async fn set_allowed_cidrs(&self, listener: &str, cidrs: &[String]) -> CloudResult<()>;
    /// Changes the longest silence of the connections of a listener. Unit: milliseconds.
    async fn set_idle_timeout(&self, listener: &str, timeout: i32) -> CloudResult<()>;
    /// Removes a listener; its pool stays.
    async fn delete_listener(&self, id: &str) -> CloudResult<()>;
    /// Adds a pool.
    async fn create_pool(&self, new: &NewPool) -> CloudResult<Pool>;
    /// Changes how a pool chooses a member for a connection.
    async fn set_pool_algorithm(&self, id: &str, algorithm: &str) -> CloudResult<()>;

    /// Removes a pool with its members and monitor.
    async fn delete_pool(&self, id: &str) -> CloudResult<()>;
    /// Adds a member; one at the same address and port is an error of class `Conflict`.
    async fn create_member(&self, pool: &str, new: &NewMember) -> CloudResult<Member>;
    /// Adds members, with one call if the cloud can. Returns how many: a cloud that adds one at a time adds the first.
    async fn create_members(&self, pool: &str, new: &[NewMember]) -> CloudResult<usize>;
    /// Has a member receive no new connections; those that it has go on.
    async fn drain_member(&self, pool: &str, id: &str) -> CloudResult<()>;
    /// Removes a member.
    async fn delete_member(&self, pool: &str, id: &str) -> CloudResult<()>;
    /// Has Octavia configure a part as it is, by a change that changes nothing. Mends a part whose last change failed.
    async fn set_load_balancer_part_again(&self, part: &LoadBalancerPart) -> CloudResult<()>;
    /// Adds a health monitor to a pool.
    async fn create_health_monitor(&self, new: &NewHealthMonitor) -> CloudResult<HealthMonitor>;
    /// Changes the numbers of a health monitor.
    async fn update_health_monitor(&self, id: &str, times: &MonitorTimes) -> CloudResult<()>;
    /// Removes a health monitor.
    async fn delete_health_monitor(&self, id: &str) -> CloudResult<()>;
}
