//! Provider traits: `Cloud`, and the connector that creates clouds.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    ActionRecord, AddressUse, ApplicationCredential, CloudError, CloudResult, Credentials, Flavor,
    FloatingIp, FloatingIpQuery, HealthMonitor, Image, ImageQuery, Listener, LoadBalancer,
    LoadBalancerFlavor, LoadBalancerLimits, LoadBalancerPart, LoadBalancerQuery, Member, MonitorTimes,
    Network, NetworkQuery, NewApplicationCredential, NewFloatingIp, NewHealthMonitor, NewImage, NewListener,
    NewLoadBalancer, NewMember, NewNetwork, NewPool, NewPort, NewRouter, NewSecurityGroupRule, NewServer,
    NewSubnet, NewTrunk, NewVolume, Pool, Port, PortQuery, PortUpdate, PowerState, Quota, QuotaService,
    RebootKind, Rebuild, Router, SecurityGroup, SecurityGroupQuery, Server, ServerGroup, Share, Snapshot,
    Subnet, SubnetQuery, TaggedKind, Trunk, TrunkQuery, Volume,
};

/// Connector that creates [`Cloud`]s from credentials.
#[async_trait]
pub trait CloudConnector: Send + Sync + std::fmt::Debug + 'static {
    /// Returns an authenticated cloud. A provider keeps one cloud per credentials and returns it again, so
    /// that there is one token per credentials.
    ///
    /// # Errors
    /// `Credentials`, `Unauthorized`, `Unreachable`, `Broken`.
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>>;

    /// Returns an authenticated cloud for the credentials that a source has now, e.g. a Secret. If the cloud refuses
    /// them, and the source had others before whose token is still valid, the cloud of those is returned.
    ///
    /// # Errors
    /// As of `connect`.
    async fn connect_from(&self, source: &str, credentials: &Credentials) -> CloudResult<Connection> {
        let _ = source;
        Ok(Connection { cloud: self.connect(credentials).await?, refused: None })
    }
}

/// Cloud, and the error of newer credentials if it is that of earlier ones.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// Why the present credentials are not in use; `None` if they are.
    pub refused: Option<CloudError>,
}

/// One project of an OpenStack cloud, in one region, as one user.
///
/// A provider does not retry a create: after the outcome `Unknown` the caller looks by name and tag.
/// Reads and deletes may be retried. The deletion of an absent object is an error of class `NotFound`,
/// which callers take for success.
#[async_trait]
pub trait Cloud: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the region, as in a `providerID`; empty if the catalog has none.
    fn region(&self) -> &str;

    /// Returns the id of the project.
    fn project(&self) -> &str;

    /// Returns when the credentials end, in RFC 3339, if the cloud says so. Learned at the login.
    fn credentials_expire_at(&self) -> Option<&str> {
        None
    }

    /// Returns true until the token ends or the cloud refuses it.
    fn is_usable(&self) -> bool {
        true
    }

    /// Returns a mark that all clouds of the same credentials share, those with later tokens among them; `None` if the
    /// provider has none. Results of reads may be shared by clouds of one mark and project.
    fn line(&self) -> Option<Arc<()>> {
        None
    }

    /// Returns the id of the user.
    fn user(&self) -> &str;

    /// Lists the application credentials of the user.
    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>>;
    /// Creates an application credential of the user in the project. A user who logs in with a restricted one may not: the
    /// error is of class `Forbidden`.
    async fn create_application_credential(
        &self,
        new: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential>;
    /// Deletes an application credential of the user. Its tokens end with it.
    async fn delete_application_credential(&self, id: &str) -> CloudResult<()>;

    /// Lists the quotas of the project in a service, as far as the service shows them.
    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>>;
    /// Lists how many addresses of each IPv4 subnet of a network are in use. Most clouds show that to administrators only;
    /// else the error is of class `Forbidden`, or `NotFound` without Neutron's extension.
    async fn address_use(&self, network: &str) -> CloudResult<Vec<AddressUse>>;

    /// Lists images that match; by id at most one.
    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>>;
    /// Lists the methods by which Glance fetches the content of an image.
    async fn image_import_methods(&self) -> CloudResult<Vec<String>>;
    /// Creates an image without content.
    async fn create_image(&self, new: &NewImage) -> CloudResult<Image>;
    /// Has Glance fetch the content of an image from a URL. Glance responds before it has begun.
    async fn import_image(&self, id: &str, url: &str) -> CloudResult<()>;
    /// Deletes an image. A protected one is an error of class `Forbidden`.
    async fn delete_image(&self, id: &str) -> CloudResult<()>;
    /// Lists every flavor that the project sees.
    async fn flavors(&self) -> CloudResult<Vec<Flavor>>;
    /// Reads the extra specs of a flavor in a Nova whose list of flavors does not have them; else none.
    async fn flavor_extra_specs(&self, flavor: &str) -> CloudResult<BTreeMap<String, String>>;

    /// Lists the names of Nova's available availability zones.
    async fn compute_zones(&self) -> CloudResult<Vec<String>>;
    /// Returns true if the user has a key pair of this name.
    async fn has_key_pair(&self, name: &str) -> CloudResult<bool>;
    /// Lists the server groups of the project.
    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>>;
    /// Creates a server group with this policy.
    async fn create_server_group(&self, name: &str, policy: &str) -> CloudResult<ServerGroup>;
    /// Deletes a server group. Its servers stay.
    async fn delete_server_group(&self, id: &str) -> CloudResult<()>;

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
    /// Replaces all tags of an object.
    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()>;
    /// Adds and removes tags of an object. Those that others add at the same time stay. A Neutron without tags has no
    /// effect.
    async fn change_tags(
        &self,
        kind: TaggedKind,
        id: &str,
        added: &[String],
        removed: &[String],
    ) -> CloudResult<()>;

    /// Lists every server of the project, with details. All reconcilers share this list.
    async fn servers(&self) -> CloudResult<Vec<Server>>;
    /// Lists the servers of the project with exactly this name, for the check before a create.
    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>>;
    /// Reads one server.
    async fn server(&self, id: &str) -> CloudResult<Server>;
    /// Creates a server. Nova responds before it is built.
    async fn create_server(&self, new: &NewServer) -> CloudResult<String>;
    /// Deletes a server. Nova responds before it is deleted.
    async fn delete_server(&self, id: &str) -> CloudResult<()>;
    /// Deletes a server that Nova has deleted and still keeps, with all that it uses.
    async fn purge_server(&self, id: &str) -> CloudResult<()>;
    /// Requests a reboot. Returns Nova's request id of the call, by which [`Cloud::actions`] names it.
    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>>;
    /// Requests another power state. A server that has it already is an error of class `Conflict`.
    /// Returns Nova's request id of the call.
    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>>;
    /// Requests a rebuild. Returns Nova's request id of the call.
    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>>;
    /// Reads the last lines of a server's console. Nova does not have them before the server is built.
    async fn console_log(&self, server: &str, lines: u32) -> CloudResult<String>;
    /// Reads the instance-action log, newest entry first. Only the newest entries have their events.
    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>>;
    /// Reads one entry of the instance-action log, with its events.
    async fn action(&self, server: &str, request_id: &str) -> CloudResult<ActionRecord>;
    /// Requests that a volume is detached from a server. Nova responds before it is detached. A locked server, a server in
    /// another state and a volume that is being detached are errors of class `Conflict`. The volume from which the server
    /// boots is one of class `Invalid`, or `Forbidden` with an old Nova.
    async fn detach_volume(&self, server: &str, volume: &str) -> CloudResult<()>;

    /// Lists the volumes of the project with exactly this name.
    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>>;
    /// Reads one volume.
    async fn volume(&self, id: &str) -> CloudResult<Volume>;
    /// Creates a volume.
    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume>;
    /// Replaces the metadata of a volume.
    async fn set_volume_metadata(&self, id: &str, metadata: &BTreeMap<String, String>) -> CloudResult<()>;
    /// Lists every volume of the project.
    async fn volumes(&self) -> CloudResult<Vec<Volume>>;
    /// Deletes a volume.
    async fn delete_volume(&self, id: &str) -> CloudResult<()>;
    /// Lists the snapshots of the project's volumes.
    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>>;
    /// Deletes a snapshot. Cinder responds before it is deleted.
    async fn delete_snapshot(&self, id: &str) -> CloudResult<()>;
    /// Lists the shares of the project. A cloud without Manila has none, and a user who may list none sees none.
    async fn shares(&self) -> CloudResult<Vec<Share>>;

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
