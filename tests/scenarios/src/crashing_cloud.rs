//! Cloud during whose calls a process can crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use controllers_infrastructure::*;

use crate::CrashPoint;

/// A cloud, and the one around it in which processes crash.
type Wrapped = (Arc<dyn Cloud>, Arc<dyn Cloud>);

/// Connector to clouds whose changes count as effects.
#[derive(Debug)]
pub(crate) struct CrashingConnector {
    pub(crate) connector: Arc<dyn CloudConnector>,
    pub(crate) crash_point: Arc<CrashPoint>,
    /// Clouds with those around them: one for each session, as the real connector keeps them.
    pub(crate) known: tokio::sync::Mutex<Vec<Wrapped>>,
}

impl CrashingConnector {
    async fn around(&self, cloud: Arc<dyn Cloud>) -> Arc<dyn Cloud> {
        let mut known = self.known.lock().await;
        if let Some((_, around)) = known.iter().find(|(inner, _)| Arc::ptr_eq(inner, &cloud)) {
            return Arc::clone(around);
        }
        let crash_point = Arc::clone(&self.crash_point);
        let around: Arc<dyn Cloud> = Arc::new(CrashingCloud { cloud: Arc::clone(&cloud), crash_point });
        known.push((cloud, Arc::clone(&around)));
        around
    }
}

#[async_trait]
impl CloudConnector for CrashingConnector {
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        let cloud = self.connector.connect(credentials).await?;
        Ok(self.around(cloud).await)
    }

    async fn connect_from(&self, source: &str, credentials: &Credentials) -> CloudResult<Connection> {
        let Connection { cloud, refused } = self.connector.connect_from(source, credentials).await?;
        Ok(Connection { cloud: self.around(cloud).await, refused })
    }
}

/// Cloud whose changes count as effects.
#[derive(Debug)]
struct CrashingCloud {
    cloud: Arc<dyn Cloud>,
    crash_point: Arc<CrashPoint>,
}

#[async_trait]
impl Cloud for CrashingCloud {
    fn region(&self) -> &str {
        self.cloud.region()
    }

    fn project(&self) -> &str {
        self.cloud.project()
    }

    fn user(&self) -> &str {
        self.cloud.user()
    }

    fn line(&self) -> Option<Arc<()>> {
        self.cloud.line()
    }

    fn is_usable(&self) -> bool {
        self.cloud.is_usable()
    }

    fn credentials_expire_at(&self) -> Option<&str> {
        self.cloud.credentials_expire_at()
    }

    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>> {
        self.crash_point.alive().await;
        self.cloud.quotas(service).await
    }

    async fn set_tags(&self, kind: TaggedKind, id: &str, tags: &[String]) -> CloudResult<()> {
        self.crash_point.perform("set_tags".to_owned(), self.cloud.set_tags(kind, id, tags)).await
    }

    async fn change_tags(
        &self,
        kind: TaggedKind,
        id: &str,
        added: &[String],
        removed: &[String],
    ) -> CloudResult<()> {
        let change = self.cloud.change_tags(kind, id, added, removed);
        self.crash_point.perform("change_tags".to_owned(), change).await
    }
}

macro_rules! forward {
    ($service:ident
     reads { $($read:ident($($read_arg:ident: $read_type:ty),*) -> $read_result:ty;)* }
     changes { $($change:ident($($arg:ident: $type:ty),*) -> $result:ty;)* }) => {
        #[async_trait]
        impl $service for CrashingCloud {
            $(async fn $read(&self, $($read_arg: $read_type),*) -> CloudResult<$read_result> {
                self.crash_point.alive().await;
                self.cloud.$read($($read_arg),*).await
            })*
            $(async fn $change(&self, $($arg: $type),*) -> CloudResult<$result> {
                let effect = stringify!($change).to_owned();
                self.crash_point.perform(effect, self.cloud.$change($($arg),*)).await
            })*
        }
    };
}

forward! {
    IdentityService
    reads {
        application_credentials() -> Vec<ApplicationCredential>;
    }
    changes {
        create_application_credential(new: &NewApplicationCredential) -> ApplicationCredential;
        delete_application_credential(id: &str) -> ();
    }
}

forward! {
    ImageService
    reads {
        images(query: &ImageQuery) -> Vec<Image>;
        image_import_methods() -> Vec<String>;
    }
    changes {
        create_image(new: &NewImage) -> Image;
        import_image(id: &str, url: &str) -> ();
        delete_image(id: &str) -> ();
    }
}

forward! {
    ComputeService
    reads {
        flavors() -> Vec<Flavor>;
        flavor_extra_specs(flavor: &str) -> BTreeMap<String, String>;
        compute_zones() -> Vec<String>;
        server_groups() -> Vec<ServerGroup>;
        has_key_pair(name: &str) -> bool;
        servers() -> Vec<Server>;
        servers_named(name: &str) -> Vec<Server>;
        server(id: &str) -> Server;
        console_log(server: &str, lines: u32) -> String;
        actions(server: &str) -> Vec<ActionRecord>;
        action(server: &str, request_id: &str) -> ActionRecord;
    }
    changes {
        create_server_group(name: &str, policy: &str) -> ServerGroup;
        delete_server_group(id: &str) -> ();
        create_server(new: &NewServer) -> String;
        delete_server(id: &str) -> ();
        purge_server(id: &str) -> ();
        reboot_server(id: &str, kind: RebootKind) -> Option<String>;
        set_power_state(id: &str, state: PowerState) -> Option<String>;
        rebuild_server(id: &str, rebuild: &Rebuild) -> Option<String>;
        detach_volume(server: &str, volume: &str) -> ();
    }
}

forward! {
    NetworkService
    reads {
        address_use(network: &str) -> Vec<AddressUse>;
        networks(query: &NetworkQuery) -> Vec<Network>;
        subnets(query: &SubnetQuery) -> Vec<Subnet>;
        routers(query: &NetworkQuery) -> Vec<Router>;
        security_groups(query: &SecurityGroupQuery) -> Vec<SecurityGroup>;
        ports(query: &PortQuery) -> Vec<Port>;
        floating_ips(query: &FloatingIpQuery) -> Vec<FloatingIp>;
        trunks(query: &TrunkQuery) -> Vec<Trunk>;
        network_extensions() -> Vec<String>;
    }
    changes {
        create_network(new: &NewNetwork) -> Network;
        delete_network(id: &str) -> ();
        create_subnet(new: &NewSubnet) -> Subnet;
        set_dns_nameservers(subnet: &str, nameservers: &[String]) -> ();
        set_allocation_pools(subnet: &str, pools: &[(String, String)]) -> ();
        delete_subnet(id: &str) -> ();
        create_router(new: &NewRouter) -> Router;
        set_router_gateway(router: &str, network: &str, external_ips: &[(String, Option<String>)]) -> Router;
        set_routes(router: &str, routes: &[(String, String)]) -> ();
        remove_routes(router: &str, routes: &[(String, String)]) -> ();
        add_router_interface(router: &str, subnet: &str) -> ();
        remove_router_interface(router: &str, subnet: &str) -> ();
        delete_router(id: &str) -> ();
        create_security_group(name: &str, description: &str) -> SecurityGroup;
        delete_security_group(id: &str) -> ();
        create_security_group_rules(new: &[NewSecurityGroupRule]) -> Vec<String>;
        delete_security_group_rule(id: &str) -> ();
        create_port(new: &NewPort) -> Port;
        update_port(id: &str, change: &PortUpdate) -> Port;
        delete_port(id: &str) -> ();
        create_floating_ip(new: &NewFloatingIp) -> FloatingIp;
        associate_floating_ip(id: &str, port: Option<&str>) -> ();
        take_floating_ip(read: &FloatingIp, port: &str, address: Option<&str>) -> ();
        delete_floating_ip(id: &str) -> ();
        create_trunk(new: &NewTrunk) -> Trunk;
        remove_subports(trunk: &str, ports: &[String]) -> ();
        delete_trunk(id: &str) -> ();
    }
}

forward! {
    StorageService
    reads {
        volumes_named(name: &str) -> Vec<Volume>;
        volume(id: &str) -> Volume;
        volumes() -> Vec<Volume>;
        snapshots() -> Vec<Snapshot>;
        shares() -> Vec<Share>;
    }
    changes {
        create_volume(new: &NewVolume) -> Volume;
        set_volume_metadata(id: &str, metadata: &BTreeMap<String, String>) -> ();
        delete_volume(id: &str) -> ();
        delete_snapshot(id: &str) -> ();
    }
}

forward! {
    LoadBalancerService
    reads {
        load_balancers(query: &LoadBalancerQuery) -> Vec<LoadBalancer>;
        load_balancer_providers() -> Vec<String>;
        load_balancer_flavors() -> Vec<LoadBalancerFlavor>;
        load_balancer_zones() -> Vec<String>;
        load_balancer_limits() -> LoadBalancerLimits;
        listeners(load_balancer: &str) -> Vec<Listener>;
        pools(load_balancer: &str) -> Vec<Pool>;
        members(pool: &str) -> Vec<Member>;
        health_monitor(id: &str) -> HealthMonitor;
    }
    changes {
        create_load_balancer(new: &NewLoadBalancer) -> LoadBalancer;
        enable_load_balancer(id: &str) -> ();
        fail_over_load_balancer(id: &str) -> ();
        delete_load_balancer(id: &str) -> ();
        create_listener(new: &NewListener) -> Listener;
        set_allowed_cidrs(listener: &str, cidrs: &[String]) -> ();
        set_idle_timeout(listener: &str, timeout: i32) -> ();
        delete_listener(id: &str) -> ();
        create_pool(new: &NewPool) -> Pool;
        set_pool_algorithm(id: &str, algorithm: &str) -> ();
        delete_pool(id: &str) -> ();
        create_member(pool: &str, new: &NewMember) -> Member;
        create_members(pool: &str, new: &[NewMember]) -> usize;
        drain_member(pool: &str, id: &str) -> ();
        delete_member(pool: &str, id: &str) -> ();
        set_load_balancer_part_again(part: &LoadBalancerPart) -> ();
        create_health_monitor(new: &NewHealthMonitor) -> HealthMonitor;
        update_health_monitor(id: &str, times: &MonitorTimes) -> ();
        delete_health_monitor(id: &str) -> ();
    }
}
