//! Cloud for looks: it reads, and changes nothing.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use controllers_infrastructure::*;

use super::ProjectReads;
use super::ages::{self, Urgency};
use super::kept::Kept;
use super::whole::Query;
use crate::SteadyClock;

/// Cloud for looks. It refuses changes, so nothing is created or deleted by what it returns: the caller looks again with
/// the cloud itself first.
#[derive(Debug)]
pub(crate) struct ReadingCloud {
    /// The cloud itself.
    pub(crate) cloud: Arc<dyn Cloud>,
    /// Results that all looks at the project share.
    pub(crate) reads: Arc<ProjectReads>,
    /// Clock of the ages.
    pub(crate) clock: SteadyClock,
    /// Results of a certain age are good enough. Else each is read directly, and kept for looks at rest.
    pub(crate) is_at_rest: bool,
}

impl ReadingCloud {
    /// Returns the age up to which a kept result serves a look at rest.
    fn age(&self, urgency: Urgency) -> Duration {
        ages::of(urgency, self.reads.machines())
    }

    /// Returns the result of a query: what a look read for this query, else what the list of the project has. Only a read
    /// proves that a resource is absent, because the list has no resources of other projects.
    async fn found<T: Clone + Send + Sync, Q: Query<T>>(
        &self,
        kept: &Kept<Vec<T>>,
        urgency: Urgency,
        query: &Q,
    ) -> CloudResult<Vec<T>> {
        let (clock, key, age) = (&self.clock, format!("{query:?}"), self.age(urgency));
        let cloud = self.cloud.as_ref();
        let is_shared = self.is_at_rest && !self.project().is_empty();
        if let Some(whole) = query.whole(self.project()).filter(|_| is_shared)
            && kept.known(clock, &key, age).await.is_none()
        {
            let all = kept.get(clock, &format!("{whole:?}"), age, whole.read(cloud)).await?;
            let named: Vec<T> = all.iter().filter(|it| query.names(it)).cloned().collect();
            if !named.is_empty() {
                return Ok(named);
            }
        }
        self.kept(kept, urgency, &key, query.read(cloud)).await
    }

    /// Returns the result of a read that has a key, e.g. the id of the parent.
    async fn kept<T: Clone>(
        &self,
        kept: &Kept<T>,
        urgency: Urgency,
        key: &str,
        read: impl Future<Output = CloudResult<T>>,
    ) -> CloudResult<T> {
        let found = if self.is_at_rest {
            kept.get(&self.clock, key, self.age(urgency), read).await?
        } else {
            kept.read(&self.clock, key, read).await?
        };
        Ok(found.as_ref().clone())
    }
}

/// Refuses a change. No look makes one.
fn refused(operation: &str) -> CloudError {
    let operation = operation.replace('_', " ");
    CloudError::new(ErrorClass::InvalidSpec, operation, "a look changes nothing. This is a defect of Capstan")
}

#[async_trait]
impl Cloud for ReadingCloud {
    fn region(&self) -> &str {
        self.cloud.region()
    }

    fn project(&self) -> &str {
        self.cloud.project()
    }

    fn user(&self) -> &str {
        self.cloud.user()
    }

    fn is_usable(&self) -> bool {
        self.cloud.is_usable()
    }

    fn line(&self) -> Option<Arc<()>> {
        self.cloud.line()
    }

    fn credentials_expire_at(&self) -> Option<&str> {
        self.cloud.credentials_expire_at()
    }

    async fn quotas(&self, service: QuotaService) -> CloudResult<Vec<Quota>> {
        self.cloud.quotas(service).await
    }

    async fn set_tags(&self, _: TaggedKind, _: &str, _: &[String]) -> CloudResult<()> {
        Err(refused("set_tags"))
    }

    async fn change_tags(&self, _: TaggedKind, _: &str, _: &[String], _: &[String]) -> CloudResult<()> {
        Err(refused("change_tags"))
    }
}

macro_rules! implement {
    ($service:ident
     queries { $($query:ident($type:ty) -> $item:ty, $by_query:ident, $urgency:ident;)* }
     keyed { $($keyed:ident($($key:ident)?) -> $kept:ty, $by_key:ident, $keyed_urgency:ident;)* }
     reads { $($read:ident($($read_arg:ident: $read_type:ty),*) -> $read_result:ty;)* }
     changes { $($change:ident($($arg:ident: $change_type:ty),*) -> $result:ty;)* }) => {
        #[async_trait]
        impl $service for ReadingCloud {
            $(async fn $query(&self, query: &$type) -> CloudResult<Vec<$item>> {
                Box::pin(self.found(&self.reads.$by_query, Urgency::$urgency, query)).await
            })*
            $(async fn $keyed(&self $(, $key: &str)?) -> CloudResult<$kept> {
                #[allow(unused_mut, unused_assignments, reason = "some reads have no key")]
                let mut key = "";
                $(key = $key;)?
                let read = self.cloud.$keyed($($key)?);
                self.kept(&self.reads.$by_key, Urgency::$keyed_urgency, key, read).await
            })*
            $(async fn $read(&self, $($read_arg: $read_type),*) -> CloudResult<$read_result> {
                self.cloud.$read($($read_arg),*).await
            })*
            $(async fn $change(&self, $(_: $change_type),*) -> CloudResult<$result> {
                Err(refused(stringify!($change)))
            })*
        }
    };
}

implement! {
    IdentityService
    queries {}
    keyed {}
    reads {
        application_credentials() -> Vec<ApplicationCredential>;
    }
    changes {
        create_application_credential(new: &NewApplicationCredential) -> ApplicationCredential;
        delete_application_credential(id: &str) -> ();
    }
}

implement! {
    ImageService
    queries {
        images(ImageQuery) -> Image, images, Catalog;
    }
    keyed {}
    reads {
        image_import_methods() -> Vec<String>;
    }
    changes {
        create_image(new: &NewImage) -> Image;
        import_image(id: &str, url: &str) -> ();
        delete_image(id: &str) -> ();
    }
}

implement! {
    ComputeService
    queries {}
    keyed {
        flavors() -> Vec<Flavor>, flavors, Catalog;
        compute_zones() -> Vec<String>, zones, Catalog;
    }
    reads {
        flavor_extra_specs(flavor: &str) -> BTreeMap<String, String>;
        has_key_pair(name: &str) -> bool;
        server_groups() -> Vec<ServerGroup>;
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

implement! {
    NetworkService
    queries {
        networks(NetworkQuery) -> Network, networks, Parts;
        subnets(SubnetQuery) -> Subnet, subnets, Settings;
        routers(NetworkQuery) -> Router, routers, Parts;
        security_groups(SecurityGroupQuery) -> SecurityGroup, groups, Access;
        ports(PortQuery) -> Port, ports, Parts;
        floating_ips(FloatingIpQuery) -> FloatingIp, floating_ips, Parts;
    }
    keyed {}
    reads {
        address_use(network: &str) -> Vec<AddressUse>;
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
        create_trunk(new: &NewTrunk) -> Trunk;
        remove_subports(trunk: &str, ports: &[String]) -> ();
        delete_trunk(id: &str) -> ();
        create_floating_ip(new: &NewFloatingIp) -> FloatingIp;
        associate_floating_ip(id: &str, port: Option<&str>) -> ();
        take_floating_ip(read: &FloatingIp, port: &str, address: Option<&str>) -> ();
        delete_floating_ip(id: &str) -> ();
    }
}

implement! {
    StorageService
    queries {}
    keyed {}
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

implement! {
    LoadBalancerService
    queries {
        load_balancers(LoadBalancerQuery) -> LoadBalancer, balancers, Access;
    }
    keyed {
        load_balancer_limits() -> LoadBalancerLimits, limits, Catalog;
        listeners(load_balancer) -> Vec<Listener>, listeners, Access;
        pools(load_balancer) -> Vec<Pool>, pools, Parts;
        members(pool) -> Vec<Member>, members, Settings;
        health_monitor(id) -> HealthMonitor, monitors, Parts;
    }
    reads {
        load_balancer_providers() -> Vec<String>;
        load_balancer_flavors() -> Vec<LoadBalancerFlavor>;
        load_balancer_zones() -> Vec<String>;
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
