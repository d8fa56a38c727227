//! Network service of a cloud.

use async_trait::async_trait;

use crate::{
    AddressUse, CloudResult, FloatingIp, FloatingIpQuery, Network, NetworkQuery, NewFloatingIp, NewNetwork,
    NewPort, NewRouter, NewSecurityGroupRule, NewSubnet, NewTrunk, Port, PortQuery, PortUpdate, Router,
    SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery, Trunk, TrunkQuery,
};

/// Network service (Neutron): networks, subnets, routers, security groups, ports, trunks and floating IPs.
#[async_trait]
pub trait NetworkService: Send + Sync + std::fmt::Debug + 'static {
    /// Lists how many addresses of each IPv4 subnet of a network are in use. Most clouds show that to administrators only;
    /// else the error is of class `Forbidden`, or `NotFound` without Neutron's extension.
    async fn address_use(&self, network: &str) -> CloudResult<Vec<AddressUse>>;

    /// Lists networks that match.
    async fn networks(&self, query: &NetworkQuery) -> CloudResult<Vec<Network>>;
    /// Creates a network.
    async fn create_network(&self, new: &NewNetwork) -> CloudResult<Network>;
    /// Deletes a network.
    async fn delete_network(&self, id: &str) -> CloudResult<()>;
    /// Lists subnets that match.
    async fn subnets(&self, query: &SubnetQuery) -> CloudResult<Vec<Subnet>>;
    /// Creates a subnet.
    async fn create_subnet(&self, new: &NewSubnet) -> CloudResult<Subnet>;
    /// Replaces a subnet's DNS servers.
    async fn set_dns_nameservers(&self, subnet: &str, nameservers: &[String]) -> CloudResult<()>;
    /// Replaces a subnet's address ranges, first and last.
    async fn set_allocation_pools(&self, subnet: &str, pools: &[(String, String)]) -> CloudResult<()>;
    /// Deletes a subnet.
    async fn delete_subnet(&self, id: &str) -> CloudResult<()>;
    /// Lists routers that match.
    async fn routers(&self, query: &NetworkQuery) -> CloudResult<Vec<Router>>;
    /// Creates a router with an external gateway.
    async fn create_router(&self, new: &NewRouter) -> CloudResult<Router>;
    /// Replaces the external gateway of a router: its network, and fixed addresses as subnet id and address. Without fixed
    /// addresses, a gateway on this network keeps its own. Addresses of an IP version that none of the given addresses has
    /// stay, too, and SNAT that is off stays off. Returns the router. Floating IPs that need the present network are an
    /// error of class `Conflict`.
    async fn set_router_gateway(
        &self,
        router: &str,
        network: &str,
        external_ips: &[(String, Option<String>)],
    ) -> CloudResult<Router>;
    /// Replaces the static routes of a router: destination and next hop.
    async fn set_routes(&self, router: &str, routes: &[(String, String)]) -> CloudResult<()>;
    /// Removes static routes of a router: destination and next hop. Routes that others add at the same time stay, if Neutron
    /// has the extension `extraroute-atomic`. A route that is not there is no error.
    async fn remove_routes(&self, router: &str, routes: &[(String, String)]) -> CloudResult<()>;

    /// Connects a subnet to a router; one that is connected already is an error of class `Conflict`.
    async fn add_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()>;
    /// Disconnects a subnet from a router.
    async fn remove_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()>;
    /// Deletes a router.
    async fn delete_router(&self, id: &str) -> CloudResult<()>;
    /// Lists security groups that match, with their rules.
    async fn security_groups(&self, query: &SecurityGroupQuery) -> CloudResult<Vec<SecurityGroup>>;
    /// Creates a security group without any rule (except Neutron's default egress rules).
    async fn create_security_group(&self, name: &str, description: &str) -> CloudResult<SecurityGroup>;
    /// Deletes a security group.
    async fn delete_security_group(&self, id: &str) -> CloudResult<()>;
    /// Adds rules to one group, and returns their ids in the same order. If one exists already, none is added, and the
    /// error has the class `Conflict`.
    async fn create_security_group_rules(&self, new: &[NewSecurityGroupRule]) -> CloudResult<Vec<String>>;
    /// Removes a rule.
    async fn delete_security_group_rule(&self, id: &str) -> CloudResult<()>;
    /// Lists ports that match.
    async fn ports(&self, query: &PortQuery) -> CloudResult<Vec<Port>>;
    /// Creates a port.
    async fn create_port(&self, new: &NewPort) -> CloudResult<Port>;
    /// Changes a port.
    async fn update_port(&self, id: &str, change: &PortUpdate) -> CloudResult<Port>;
    /// Deletes a port.
    async fn delete_port(&self, id: &str) -> CloudResult<()>;
    /// Lists trunks that match.
    async fn trunks(&self, query: &TrunkQuery) -> CloudResult<Vec<Trunk>>;
    /// Creates a trunk without subports.
    async fn create_trunk(&self, new: &NewTrunk) -> CloudResult<Trunk>;
    /// Removes ports from a trunk. The ports stay.
    async fn remove_subports(&self, trunk: &str, ports: &[String]) -> CloudResult<()>;
    /// Deletes a trunk. One with a parent port in use is an error of class `Conflict`.
    async fn delete_trunk(&self, id: &str) -> CloudResult<()>;
    /// Lists the aliases of Neutron's extensions.
    async fn network_extensions(&self) -> CloudResult<Vec<String>>;
    /// Lists floating IPs that match.
    async fn floating_ips(&self, query: &FloatingIpQuery) -> CloudResult<Vec<FloatingIp>>;
    /// Allocates a floating IP.
    async fn create_floating_ip(&self, new: &NewFloatingIp) -> CloudResult<FloatingIp>;
    /// Associates a floating IP with a port, or with none.
    async fn associate_floating_ip(&self, id: &str, port: Option<&str>) -> CloudResult<()>;
    /// Associates a floating IP with an address of a port, unless it was changed since it was read; then the error is
    /// of class `Conflict`.
    async fn take_floating_ip(&self, read: &FloatingIp, port: &str, address: Option<&str>)
    -> CloudResult<()>;
    /// Releases a floating IP.
    async fn delete_floating_ip(&self, id: &str) -> CloudResult<()>;
}
