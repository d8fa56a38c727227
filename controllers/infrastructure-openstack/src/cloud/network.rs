//! Calls of the network service.

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::OpenStackCloud;
use crate::network;

#[async_trait]
impl NetworkService for OpenStackCloud {
    async fn address_use(&self, network: &str) -> CloudResult<Vec<AddressUse>> {
        network::address_use(&self.0, network).await
    }

    async fn networks(&self, query: &NetworkQuery) -> CloudResult<Vec<Network>> {
        network::networks(&self.0, query).await
    }

    async fn create_network(&self, new: &NewNetwork) -> CloudResult<Network> {
        network::create_network(&self.0, new).await
    }

    async fn delete_network(&self, id: &str) -> CloudResult<()> {
        network::delete_network(&self.0, id).await
    }

    async fn subnets(&self, query: &SubnetQuery) -> CloudResult<Vec<Subnet>> {
        network::subnets(&self.0, query).await
    }

    async fn create_subnet(&self, new: &NewSubnet) -> CloudResult<Subnet> {
        network::create_subnet(&self.0, new).await
    }

    async fn set_dns_nameservers(&self, subnet: &str, nameservers: &[String]) -> CloudResult<()> {
        network::set_dns_nameservers(&self.0, subnet, nameservers).await
    }

    async fn set_allocation_pools(&self, subnet: &str, pools: &[(String, String)]) -> CloudResult<()> {
        network::set_allocation_pools(&self.0, subnet, pools).await
    }

    async fn delete_subnet(&self, id: &str) -> CloudResult<()> {
        network::delete_subnet(&self.0, id).await
    }

    async fn routers(&self, query: &NetworkQuery) -> CloudResult<Vec<Router>> {
        network::routers(&self.0, query).await
    }

    async fn create_router(&self, new: &NewRouter) -> CloudResult<Router> {
        network::create_router(&self.0, new).await
    }

    async fn set_router_gateway(
        &self,
        router: &str,
        network: &str,
        external_ips: &[(String, Option<String>)],
    ) -> CloudResult<Router> {
        network::set_router_gateway(&self.0, router, network, external_ips).await
    }

    async fn set_routes(&self, router: &str, routes: &[(String, String)]) -> CloudResult<()> {
        network::set_routes(&self.0, router, routes).await
    }

    async fn remove_routes(&self, router: &str, routes: &[(String, String)]) -> CloudResult<()> {
        network::remove_routes(&self.0, router, routes).await
    }

    async fn add_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()> {
        network::add_router_interface(&self.0, router, subnet).await
    }

    async fn remove_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()> {
        network::remove_router_interface(&self.0, router, subnet).await
    }

    async fn delete_router(&self, id: &str) -> CloudResult<()> {
        network::delete_router(&self.0, id).await
    }

    async fn security_groups(&self, query: &SecurityGroupQuery) -> CloudResult<Vec<SecurityGroup>> {
        network::security_groups(&self.0, query).await
    }

    async fn create_security_group(&self, name: &str, description: &str) -> CloudResult<SecurityGroup> {
        network::create_security_group(&self.0, name, description).await
    }

    async fn delete_security_group(&self, id: &str) -> CloudResult<()> {
        network::delete_security_group(&self.0, id).await
    }

    async fn create_security_group_rules(&self, new: &[NewSecurityGroupRule]) -> CloudResult<Vec<String>> {
        network::create_security_group_rules(&self.0, new).await
    }

    async fn delete_security_group_rule(&self, id: &str) -> CloudResult<()> {
        network::delete_security_group_rule(&self.0, id).await
    }

    async fn ports(&self, query: &PortQuery) -> CloudResult<Vec<Port>> {
        network::ports(&self.0, query).await
    }

    async fn create_port(&self, new: &NewPort) -> CloudResult<Port> {
        network::create_port(&self.0, new).await
    }

    async fn update_port(&self, id: &str, change: &PortUpdate) -> CloudResult<Port> {
        network::update_port(&self.0, id, change).await
    }

    async fn delete_port(&self, id: &str) -> CloudResult<()> {
        network::delete_port(&self.0, id).await
    }

    async fn trunks(&self, query: &TrunkQuery) -> CloudResult<Vec<Trunk>> {
        network::trunks(&self.0, query).await
    }

    async fn create_trunk(&self, new: &NewTrunk) -> CloudResult<Trunk> {
        network::create_trunk(&self.0, new).await
    }

    async fn remove_subports(&self, trunk: &str, ports: &[String]) -> CloudResult<()> {
        network::remove_subports(&self.0, trunk, ports).await
    }

    async fn delete_trunk(&self, id: &str) -> CloudResult<()> {
        network::delete_trunk(&self.0, id).await
    }

    async fn network_extensions(&self) -> CloudResult<Vec<String>> {
        self.0.network_extensions().await.map(<[String]>::to_vec)
    }

    async fn floating_ips(&self, query: &FloatingIpQuery) -> CloudResult<Vec<FloatingIp>> {
        network::floating_ips(&self.0, query).await
    }

    async fn create_floating_ip(&self, new: &NewFloatingIp) -> CloudResult<FloatingIp> {
        network::create_floating_ip(&self.0, new).await
    }

    async fn associate_floating_ip(&self, id: &str, port: Option<&str>) -> CloudResult<()> {
        network::associate_floating_ip(&self.0, id, port).await
    }

    async fn take_floating_ip(
        &self,
        read: &FloatingIp,
        port: &str,
        address: Option<&str>,
    ) -> CloudResult<()> {
        network::take_floating_ip(&self.0, read, port, address).await
    }

    async fn delete_floating_ip(&self, id: &str) -> CloudResult<()> {
        network::delete_floating_ip(&self.0, id).await
    }
}
