//! Calls of the load balancer service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};

#[async_trait]
impl LoadBalancerService for FakeCloud {
    async fn load_balancers(&self, _: &LoadBalancerQuery) -> CloudResult<Vec<LoadBalancer>> {
        unused("load_balancers")
    }

    async fn load_balancer_providers(&self) -> CloudResult<Vec<String>> {
        unused("load_balancer_providers")
    }

    async fn load_balancer_flavors(&self) -> CloudResult<Vec<LoadBalancerFlavor>> {
        unused("load_balancer_flavors")
    }

    async fn load_balancer_zones(&self) -> CloudResult<Vec<String>> {
        unused("load_balancer_zones")
    }

    async fn listeners(&self, _: &str) -> CloudResult<Vec<Listener>> {
        unused("listeners")
    }

    async fn pools(&self, _: &str) -> CloudResult<Vec<Pool>> {
        unused("pools")
    }

    async fn members(&self, _: &str) -> CloudResult<Vec<Member>> {
        unused("members")
    }

    async fn health_monitor(&self, _: &str) -> CloudResult<HealthMonitor> {
        unused("health_monitor")
    }

    async fn create_load_balancer(&self, _: &NewLoadBalancer) -> CloudResult<LoadBalancer> {
        unused("create_load_balancer")
    }

    async fn enable_load_balancer(&self, _: &str) -> CloudResult<()> {
        unused("enable_load_balancer")
    }

    async fn set_load_balancer_part_again(&self, _: &LoadBalancerPart) -> CloudResult<()> {
        unused("set_load_balancer_part_again")
    }

    async fn fail_over_load_balancer(&self, _: &str) -> CloudResult<()> {
        unused("fail_over_load_balancer")
    }

    async fn delete_load_balancer(&self, _: &str) -> CloudResult<()> {
        unused("delete_load_balancer")
    }

    async fn create_listener(&self, _: &NewListener) -> CloudResult<Listener> {
        unused("create_listener")
    }

    async fn set_allowed_cidrs(&self, _: &str, _: &[String]) -> CloudResult<()> {
        unused("set_allowed_cidrs")
    }

    async fn set_idle_timeout(&self, _: &str, _: i32) -> CloudResult<()> {
        unused("set_idle_timeout")
    }

    async fn delete_listener(&self, _: &str) -> CloudResult<()> {
        unused("delete_listener")
    }

    async fn create_pool(&self, _: &NewPool) -> CloudResult<Pool> {
        unused("create_pool")
    }

    async fn load_balancer_limits(&self) -> CloudResult<LoadBalancerLimits> {
        unused("load_balancer_limits")
    }

    async fn set_pool_algorithm(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("set_pool_algorithm")
    }

    async fn delete_pool(&self, _: &str) -> CloudResult<()> {
        unused("delete_pool")
    }

    async fn create_member(&self, _: &str, _: &NewMember) -> CloudResult<Member> {
        unused("create_member")
    }

    async fn create_members(&self, _: &str, _: &[NewMember]) -> CloudResult<usize> {
        unused("create_members")
    }

    async fn drain_member(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("drain_member")
    }

    async fn delete_member(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("delete_member")
    }

    async fn create_health_monitor(&self, _: &NewHealthMonitor) -> CloudResult<HealthMonitor> {
        unused("create_health_monitor")
    }

    async fn update_health_monitor(&self, _: &str, _: &MonitorTimes) -> CloudResult<()> {
        unused("update_health_monitor")
    }

    async fn delete_health_monitor(&self, _: &str) -> CloudResult<()> {
        unused("delete_health_monitor")
    }
}
