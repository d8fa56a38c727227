//! Calls of the load balancer service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::load_balancer;

#[async_trait]
impl LoadBalancerService for OpenStackCloud {
    async fn load_balancers(&self, query: &LoadBalancerQuery) -> CloudResult<Vec<LoadBalancer>> {
        load_balancer::load_balancers(&self.0, query).await
    }

    async fn load_balancer_providers(&self) -> CloudResult<Vec<String>> {
        load_balancer::load_balancer_providers(&self.0).await
    }

    async fn load_balancer_flavors(&self) -> CloudResult<Vec<LoadBalancerFlavor>> {
        load_balancer::load_balancer_flavors(&self.0).await
    }

    async fn load_balancer_zones(&self) -> CloudResult<Vec<String>> {
        load_balancer::load_balancer_zones(&self.0).await
    }

    async fn listeners(&self, load_balancer: &str) -> CloudResult<Vec<Listener>> {
        load_balancer::listeners(&self.0, load_balancer).await
    }

    async fn pools(&self, load_balancer: &str) -> CloudResult<Vec<Pool>> {
        load_balancer::pools(&self.0, load_balancer).await
    }

    async fn members(&self, pool: &str) -> CloudResult<Vec<Member>> {
        load_balancer::members(&self.0, pool).await
    }

    async fn health_monitor(&self, id: &str) -> CloudResult<HealthMonitor> {
        load_balancer::health_monitor(&self.0, id).await
    }

    async fn create_load_balancer(&self, new: &NewLoadBalancer) -> CloudResult<LoadBalancer> {
        load_balancer::create_load_balancer(&self.0, new).await
    }

    async fn enable_load_balancer(&self, id: &str) -> CloudResult<()> {
        load_balancer::enable_load_balancer(&self.0, id).await
    }

    async fn fail_over_load_balancer(&self, id: &str) -> CloudResult<()> {
        load_balancer::fail_over_load_balancer(&self.0, id).await
    }

    async fn delete_load_balancer(&self, id: &str) -> CloudResult<()> {
        load_balancer::delete_load_balancer(&self.0, id).await
    }

    async fn create_listener(&self, new: &NewListener) -> CloudResult<Listener> {
        load_balancer::create_listener(&self.0, new).await
    }

    async fn set_allowed_cidrs(&self, listener: &str, cidrs: &[String]) -> CloudResult<()> {
        load_balancer::set_allowed_cidrs(&self.0, listener, cidrs).await
    }

    async fn set_idle_timeout(&self, listener: &str, timeout: i32) -> CloudResult<()> {
        load_balancer::set_idle_timeout(&self.0, listener, timeout).await
    }

    async fn delete_listener(&self, id: &str) -> CloudResult<()> {
        load_balancer::delete_listener(&self.0, id).await
    }

    async fn create_pool(&self, new: &NewPool) -> CloudResult<Pool> {
        load_balancer::create_pool(&self.0, new).await
    }

    async fn load_balancer_limits(&self) -> CloudResult<LoadBalancerLimits> {
        load_balancer::limits(&self.0).await
    }

    async fn set_pool_algorithm(&self, id: &str, algorithm: &str) -> CloudResult<()> {
        load_balancer::set_pool_algorithm(&self.0, id, algorithm).await
    }

    async fn delete_pool(&self, id: &str) -> CloudResult<()> {
        load_balancer::delete_pool(&self.0, id).await
    }

    async fn create_member(&self, pool: &str, new: &NewMember) -> CloudResult<Member> {
        load_balancer::create_member(&self.0, pool, new).await
    }

    async fn create_members(&self, pool: &str, new: &[NewMember]) -> CloudResult<usize> {
        load_balancer::create_members(&self.0, pool, new).await
    }

    async fn drain_member(&self, pool: &str, id: &str) -> CloudResult<()> {
        load_balancer::drain_member(&self.0, pool, id).await
    }

    async fn delete_member(&self, pool: &str, id: &str) -> CloudResult<()> {
        load_balancer::delete_member(&self.0, pool, id).await
    }

    async fn set_load_balancer_part_again(&self, part: &LoadBalancerPart) -> CloudResult<()> {
        load_balancer::set_again(&self.0, part).await
    }

    async fn create_health_monitor(&self, new: &NewHealthMonitor) -> CloudResult<HealthMonitor> {
        load_balancer::create_health_monitor(&self.0, new).await
    }

    async fn update_health_monitor(&self, id: &str, times: &MonitorTimes) -> CloudResult<()> {
        load_balancer::update_health_monitor(&self.0, id, times).await
    }

    async fn delete_health_monitor(&self, id: &str) -> CloudResult<()> {
        load_balancer::delete_health_monitor(&self.0, id).await
    }
}
