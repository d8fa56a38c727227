//! Cloud of one user: the implementation of every call of the `Cloud` trait.

mod token_renewal;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use controllers_infrastructure::*;

use crate::lookups::Lookups;
use crate::{compute, identity, image, load_balancer, network, quota, session::Session, share, tags, volume};
use token_renewal::renewal;

/// One user's access to one project in one region.
#[derive(Debug)]
pub(crate) struct OpenStackCloud(Session, Lookups, Arc<()>);

impl OpenStackCloud {
    /// Creates a cloud with this mark of its credentials.
    pub(crate) fn new(session: Session, line: Arc<()>) -> Self {
        Self(session, Lookups::default(), line)
    }

    /// Returns true if the next use of this cloud needs a new login.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_refused()
    }

    /// Returns true if most of the life of the token is over, so that a new one is due.
    pub(crate) fn is_aging(&self) -> bool {
        let now = jiff::Timestamp::now().as_second();
        self.0.token_times().is_some_and(|(begin, end)| now >= renewal(begin, end))
    }
}

#[async_trait]
impl Cloud for OpenStackCloud {
    fn region(&self) -> &str {
        self.0.region()
    }

    fn project(&self) -> &str {
        self.0.project()
    }

    fn credentials_expire_at(&self) -> Option<&str> {
        self.0.credentials_expire_at()
    }

    fn is_usable(&self) -> bool {
        let now = jiff::Timestamp::now().as_second();
        !self.is_refused() && self.0.token_times().is_none_or(|(_, end)| now < end)
    }

    fn line(&self) -> Option<Arc<()>> {
        Some(Arc::clone(&self.2))
    }

    fn user(&self) -> &str {
        self.0.user()
    }

    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>> {
        identity::application_credentials(&self.0).await
    }

    async fn create_application_credential(
        &self,
        new: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential> {
        identity::create(&self.0, new).await
    }

    async fn delete_application_credential(&self, id: &str) -> CloudResult<()> {
        identity::delete(&self.0, id).await
    }

    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>> {
        quota::quotas(&self.0, service).await
    }

    async fn address_use(&self, network: &str) -> CloudResult<Vec<AddressUse>> {
        network::address_use(&self.0, network).await
    }

    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>> {
        Box::pin(self.1.images(query, image::images(&self.0, query))).await
    }

    async fn image_import_methods(&self) -> CloudResult<Vec<String>> {
        image::import_methods(&self.0).await
    }

    async fn create_image(&self, new: &NewImage) -> CloudResult<Image> {
        image::create_image(&self.0, new).await
    }

    async fn import_image(&self, id: &str, url: &str) -> CloudResult<()> {
        image::import_image(&self.0, id, url).await
    }

    async fn delete_image(&self, id: &str) -> CloudResult<()> {
        image::delete_image(&self.0, id).await
    }

    async fn flavors(&self) -> CloudResult<Vec<Flavor>> {
        Box::pin(self.1.flavors(compute::flavors(&self.0))).await
    }

    async fn flavor_extra_specs(&self, flavor: &str) -> CloudResult<BTreeMap<String, String>> {
        compute::flavor_extra_specs(&self.0, flavor).await
    }

    async fn compute_zones(&self) -> CloudResult<Vec<String>> {
        compute::compute_zones(&self.0).await
    }

    async fn has_key_pair(&self, name: &str) -> CloudResult<bool> {
        compute::has_key_pair(&self.0, name).await
    }

    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>> {
        compute::server_groups(&self.0).await
    }

    async fn create_server_group(&self, name: &str, policy: &str) -> CloudResult<ServerGroup> {
        compute::create_server_group(&self.0, name, policy).await
    }

    async fn delete_server_group(&self, id: &str) -> CloudResult<()> {
        compute::delete_server_group(&self.0, id).await
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

    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()> {
        match kind {
            TaggedKind::Server => compute::set_tags(&self.0, id, tags).await,
            TaggedKind::LoadBalancer => load_balancer::set_tags(&self.0, id, tags).await,
            kind => network::set_tags(&self.0, kind, id, tags).await,
        }
    }

    async fn change_tags(
        &self,
        kind: TaggedKind,
        id: &str,
        added: &[String],
        removed: &[String],
    ) -> CloudResult<()> {
        tags::change(&self.0, kind, id, added, removed).await
    }

    async fn servers(&self) -> CloudResult<Vec<Server>> {
        compute::servers(&self.0).await
    }

    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>> {
        compute::servers_named(&self.0, name).await
    }

    async fn server(&self, id: &str) -> CloudResult<Server> {
        compute::server(&self.0, id).await
    }

    async fn create_server(&self, new: &NewServer) -> CloudResult<String> {
        compute::create_server(&self.0, new).await
    }

    async fn delete_server(&self, id: &str) -> CloudResult<()> {
        compute::delete_server(&self.0, id).await
    }

    async fn purge_server(&self, id: &str) -> CloudResult<()> {
        compute::purge_server(&self.0, id).await
    }

    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>> {
        compute::reboot_server(&self.0, id, kind).await
    }

    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>> {
        compute::set_power_state(&self.0, id, state).await
    }

    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>> {
        compute::rebuild_server(&self.0, id, rebuild).await
    }

    async fn console_log(&self, server: &str, lines: u32) -> CloudResult<String> {
        compute::console_log(&self.0, server, lines).await
    }

    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>> {
        compute::actions(&self.0, server).await
    }

    async fn action(&self, server: &str, request_id: &str) -> CloudResult<ActionRecord> {
        compute::action(&self.0, server, request_id).await
    }

    async fn detach_volume(&self, server: &str, volume: &str) -> CloudResult<()> {
        compute::detach_volume(&self.0, server, volume).await
    }

    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>> {
        volume::volumes_named(&self.0, name).await
    }

    async fn volume(&self, id: &str) -> CloudResult<Volume> {
        volume::volume(&self.0, id).await
    }

    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume> {
        volume::create_volume(&self.0, new).await
    }

    async fn volumes(&self) -> CloudResult<Vec<Volume>> {
        volume::volumes(&self.0).await
    }

    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>> {
        volume::snapshots(&self.0).await
    }

    async fn shares(&self) -> CloudResult<Vec<Share>> {
        share::shares(&self.0).await
    }

    async fn delete_snapshot(&self, id: &str) -> CloudResult<()> {
        volume::delete_snapshot(&self.0, id).await
    }

    async fn set_volume_metadata(&self, id: &str, metadata: &BTreeMap<String, String>) -> CloudResult<()> {
        volume::set_volume_metadata(&self.0, id, metadata).await
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        volume::delete_volume(&self.0, id).await
    }

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
