//! The traits a provider implements.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    ActionRecord, CloudResult, Credentials, Flavor, FloatingIp, FloatingIpQuery, Image, ImageQuery, Network,
    NetworkQuery, NewFloatingIp, NewNetwork, NewPort, NewRouter, NewSecurityGroupRule, NewServer, NewSubnet,
    NewVolume, Port, PortQuery, PortUpdate, PowerState, RebootKind, Rebuild, Router, SecurityGroup,
    SecurityGroupQuery, Server, ServerGroup, Subnet, SubnetQuery, TaggedKind, Volume,
};

/// Makes [`Cloud`]s from credentials.
#[async_trait]
pub trait CloudConnector: Send + Sync + std::fmt::Debug + 'static {
    /// An authenticated cloud. Providers keep one per credentials and hand it out again: one token
    /// per credential.
    ///
    /// # Errors
    /// `Credentials`, `Unauthorized`, `Unreachable`, `Broken`.
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>>;
}

/// One project of an OpenStack cloud, in one region, as one user.
///
/// Creates are not retried by a provider: after an outcome of `Unknown` the caller looks by name
/// and tag. Reads and deletes may be retried. Deleting what is gone is an error of class
/// `NotFound`, which callers take for success.
#[async_trait]
pub trait Cloud: Send + Sync + std::fmt::Debug + 'static {
    /// The region, as it stands in a `providerID`; empty when the catalog has none.
    fn region(&self) -> &str;

    /// Images that match; by id at most one.
    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>>;
    /// Every flavor the project sees.
    async fn flavors(&self) -> CloudResult<Vec<Flavor>>;
    /// Names of Nova's available availability zones.
    async fn compute_zones(&self) -> CloudResult<Vec<String>>;
    /// Server groups of the project.
    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>>;

    /// Networks that match.
    async fn networks(&self, query: &NetworkQuery) -> CloudResult<Vec<Network>>;
    /// Creates a network.
    async fn create_network(&self, new: &NewNetwork) -> CloudResult<Network>;
    /// Deletes a network.
    async fn delete_network(&self, id: &str) -> CloudResult<()>;
    /// Subnets that match.
    async fn subnets(&self, query: &SubnetQuery) -> CloudResult<Vec<Subnet>>;
    /// Creates a subnet.
    async fn create_subnet(&self, new: &NewSubnet) -> CloudResult<Subnet>;
    /// Replaces a subnet's DNS servers.
    async fn set_dns_nameservers(&self, subnet: &str, nameservers: &[String]) -> CloudResult<()>;
    /// Deletes a subnet.
    async fn delete_subnet(&self, id: &str) -> CloudResult<()>;
    /// Routers that match.
    async fn routers(&self, query: &NetworkQuery) -> CloudResult<Vec<Router>>;
    /// Creates a router with an external gateway.
    async fn create_router(&self, new: &NewRouter) -> CloudResult<Router>;
    /// Connects a subnet to a router; one that is connected already is an error of class `Conflict`.
    async fn add_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()>;
    /// Disconnects a subnet from a router.
    async fn remove_router_interface(&self, router: &str, subnet: &str) -> CloudResult<()>;
    /// Deletes a router.
    async fn delete_router(&self, id: &str) -> CloudResult<()>;
    /// Security groups that match, with their rules.
    async fn security_groups(&self, query: &SecurityGroupQuery) -> CloudResult<Vec<SecurityGroup>>;
    /// Creates a security group without any rule (Neutron's default egress rules are left in).
    async fn create_security_group(&self, name: &str, description: &str) -> CloudResult<SecurityGroup>;
    /// Deletes a security group.
    async fn delete_security_group(&self, id: &str) -> CloudResult<()>;
    /// Adds a rule; one that exists already is an error of class `Conflict`.
    async fn create_security_group_rule(&self, new: &NewSecurityGroupRule) -> CloudResult<String>;
    /// Removes a rule.
    async fn delete_security_group_rule(&self, id: &str) -> CloudResult<()>;
    /// Ports that match.
    async fn ports(&self, query: &PortQuery) -> CloudResult<Vec<Port>>;
    /// Creates a port.
    async fn create_port(&self, new: &NewPort) -> CloudResult<Port>;
    /// Changes a port.
    async fn update_port(&self, id: &str, change: &PortUpdate) -> CloudResult<Port>;
    /// Deletes a port.
    async fn delete_port(&self, id: &str) -> CloudResult<()>;
    /// Floating IPs that match.
    async fn floating_ips(&self, query: &FloatingIpQuery) -> CloudResult<Vec<FloatingIp>>;
    /// Allocates a floating IP.
    async fn create_floating_ip(&self, new: &NewFloatingIp) -> CloudResult<FloatingIp>;
    /// Associates a floating IP with a port, or with none.
    async fn associate_floating_ip(&self, id: &str, port: Option<&str>) -> CloudResult<()>;
    /// Releases a floating IP.
    async fn delete_floating_ip(&self, id: &str) -> CloudResult<()>;
    /// Replaces all tags of a Neutron object.
    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()>;

    /// Every server of the project, with details: the one list that is shared by all reconcilers.
    async fn servers(&self) -> CloudResult<Vec<Server>>;
    /// Servers of the project with exactly this name: the look before a create.
    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>>;
    /// One server.
    async fn server(&self, id: &str) -> CloudResult<Server>;
    /// Creates a server; Nova answers before it is built.
    async fn create_server(&self, new: &NewServer) -> CloudResult<String>;
    /// Deletes a server; Nova answers before it is gone.
    async fn delete_server(&self, id: &str) -> CloudResult<()>;
    /// Asks for a reboot. Returns Nova's request id of the call, by which [`Cloud::actions`] names it.
    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>>;
    /// Asks for another power state. A server that has it already is an error of class `Conflict`.
    /// Returns Nova's request id of the call.
    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>>;
    /// Asks for a rebuild. Returns Nova's request id of the call.
    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>>;
    /// The instance-action log, newest first.
    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>>;

    /// Volumes of the project with exactly this name.
    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>>;
    /// One volume.
    async fn volume(&self, id: &str) -> CloudResult<Volume>;
    /// Creates a volume.
    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume>;
    /// Deletes a volume.
    async fn delete_volume(&self, id: &str) -> CloudResult<()>;
}
