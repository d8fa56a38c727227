//! Calls of the network service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::{FakeCloud, unused};

#[async_trait]
impl NetworkService for FakeCloud {
    async fn address_use(&self, _: &str) -> CloudResult<Vec<AddressUse>> {
        unused("address_use")
    }

    async fn trunks(&self, _: &TrunkQuery) -> CloudResult<Vec<Trunk>> {
        unused("trunks")
    }

    async fn create_trunk(&self, _: &NewTrunk) -> CloudResult<Trunk> {
        unused("create_trunk")
    }

    async fn remove_subports(&self, _: &str, _: &[String]) -> CloudResult<()> {
        unused("remove_subports")
    }

    async fn delete_trunk(&self, _: &str) -> CloudResult<()> {
        unused("delete_trunk")
    }

    async fn network_extensions(&self) -> CloudResult<Vec<String>> {
        unused("network_extensions")
    }

    async fn take_floating_ip(&self, _: &FloatingIp, _: &str, _: Option<&str>) -> CloudResult<()> {
        unused("take_floating_ip")
    }

    async fn networks(&self, _: &NetworkQuery) -> CloudResult<Vec<Network>> {
        unused("networks")
    }

    async fn create_network(&self, _: &NewNetwork) -> CloudResult<Network> {
        unused("create_network")
    }

    async fn delete_network(&self, _: &str) -> CloudResult<()> {
        unused("delete_network")
    }

    async fn subnets(&self, _: &SubnetQuery) -> CloudResult<Vec<Subnet>> {
        unused("subnets")
    }

    async fn create_subnet(&self, _: &NewSubnet) -> CloudResult<Subnet> {
        unused("create_subnet")
    }

    async fn set_dns_nameservers(&self, _: &str, _: &[String]) -> CloudResult<()> {
        unused("set_dns_nameservers")
    }

    async fn set_allocation_pools(&self, _: &str, _: &[(String, String)]) -> CloudResult<()> {
        unused("set_allocation_pools")
    }

    async fn delete_subnet(&self, _: &str) -> CloudResult<()> {
        unused("delete_subnet")
    }

    async fn routers(&self, _: &NetworkQuery) -> CloudResult<Vec<Router>> {
        unused("routers")
    }

    async fn create_router(&self, _: &NewRouter) -> CloudResult<Router> {
        unused("create_router")
    }

    async fn set_router_gateway(
        &self,
        _: &str,
        _: &str,
        _: &[(String, Option<String>)],
    ) -> CloudResult<Router> {
        unused("set_router_gateway")
    }

    async fn set_routes(&self, _: &str, _: &[(String, String)]) -> CloudResult<()> {
        unused("set_routes")
    }

    async fn remove_routes(&self, _: &str, _: &[(String, String)]) -> CloudResult<()> {
        unused("remove_routes")
    }

    async fn add_router_interface(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("add_router_interface")
    }

    async fn remove_router_interface(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("remove_router_interface")
    }

    async fn delete_router(&self, _: &str) -> CloudResult<()> {
        unused("delete_router")
    }

    async fn security_groups(&self, _: &SecurityGroupQuery) -> CloudResult<Vec<SecurityGroup>> {
        unused("security_groups")
    }

    async fn create_security_group(&self, _: &str, _: &str) -> CloudResult<SecurityGroup> {
        unused("create_security_group")
    }

    async fn delete_security_group(&self, _: &str) -> CloudResult<()> {
        unused("delete_security_group")
    }

    async fn create_security_group_rules(&self, _: &[NewSecurityGroupRule]) -> CloudResult<Vec<String>> {
        unused("create_security_group_rules")
    }

    async fn delete_security_group_rule(&self, _: &str) -> CloudResult<()> {
        unused("delete_security_group_rule")
    }

    async fn ports(&self, query: &PortQuery) -> CloudResult<Vec<Port>> {
        let device = query.device_id.clone().unwrap_or_default();
        self.look(|nova| {
            let ports = nova.instances.get(&device).map(|instance| instance.made_from.ports.clone());
            let port = |id: String| Port { id, ..Port::default() };
            Ok(ports.unwrap_or_default().into_iter().map(port).collect())
        })
    }

    async fn create_port(&self, _: &NewPort) -> CloudResult<Port> {
        unused("create_port")
    }

    async fn update_port(&self, _: &str, _: &PortUpdate) -> CloudResult<Port> {
        unused("update_port")
    }

    async fn delete_port(&self, _: &str) -> CloudResult<()> {
        unused("delete_port")
    }

    async fn floating_ips(&self, _: &FloatingIpQuery) -> CloudResult<Vec<FloatingIp>> {
        unused("floating_ips")
    }

    async fn create_floating_ip(&self, _: &NewFloatingIp) -> CloudResult<FloatingIp> {
        unused("create_floating_ip")
    }

    async fn associate_floating_ip(&self, _: &str, _: Option<&str>) -> CloudResult<()> {
        unused("associate_floating_ip")
    }

    async fn delete_floating_ip(&self, _: &str) -> CloudResult<()> {
        unused("delete_floating_ip")
    }
}
