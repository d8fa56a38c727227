//! Fake cloud in memory, during whose calls a process can crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use controllers_infrastructure::*;

use crate::crash_point::{CrashPoint, Fate};
use crate::nova::{Nova, error};

/// Delay of a late call: less than any timeout of a call. Unit: seconds.
const LATE: i64 = 30;

/// Cloud in memory.
#[derive(Clone, Default)]
pub(crate) struct FakeCloud {
    pub(crate) nova: Arc<Mutex<Nova>>,
    crash_point: Arc<CrashPoint>,
}

impl std::fmt::Debug for FakeCloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeCloud")
    }
}

impl FakeCloud {
    pub(crate) fn new(crash_point: Arc<CrashPoint>) -> Self {
        Self { nova: Arc::default(), crash_point }
    }

    fn look<T>(&self, read: impl FnOnce(&mut Nova) -> CloudResult<T>) -> CloudResult<T> {
        if self.crash_point.has_crashed() {
            return Err(error(ErrorClass::Unreachable, "look"));
        }
        read(&mut self.nova.lock().unwrap())
    }

    fn effect<T>(&self, change: impl FnOnce(&mut Nova) -> CloudResult<T> + Send + 'static) -> CloudResult<T> {
        let fate = self.crash_point.effect();
        let mut nova = self.nova.lock().unwrap();
        match fate {
            Fate::Answered => return change(&mut nova),
            Fate::Unanswered => {
                let _lost = change(&mut nova);
            }
            Fate::Delayed => {
                let due = nova.now + LATE;
                let late = move |nova: &mut Nova| {
                    let _lost = change(nova);
                };
                nova.late.push((due, Box::new(late)));
            }
            Fate::Unsent => {}
        }
        Err(error(ErrorClass::Unknown, "call"))
    }
}

#[async_trait]
impl CloudConnector for FakeCloud {
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        assert_eq!((credentials.clouds_yaml.as_str(), credentials.cloud_name.as_str()), ("clouds: {}", "c"));
        self.nova.lock().unwrap().take_error("connect")?;
        Ok(Arc::new(self.clone()))
    }
}

/// Response of a call that no operation makes.
fn unused<T>(call: &str) -> CloudResult<T> {
    Err(error(ErrorClass::Invalid, call))
}

#[async_trait]
impl Cloud for FakeCloud {
    fn region(&self) -> &str {
        "r"
    }

    fn project(&self) -> &str {
        "p"
    }

    fn user(&self) -> &str {
        "u"
    }

    async fn application_credentials(&self) -> CloudResult<Vec<ApplicationCredential>> {
        unused("application_credentials")
    }

    async fn create_application_credential(
        &self,
        _: &NewApplicationCredential,
    ) -> CloudResult<ApplicationCredential> {
        unused("create_application_credential")
    }

    async fn delete_application_credential(&self, _: &str) -> CloudResult<()> {
        unused("delete_application_credential")
    }

    async fn quotas(&self, _: QuotaService) -> CloudResult<Vec<Quota>> {
        unused("quotas")
    }

    async fn address_use(&self, _: &str) -> CloudResult<Vec<AddressUse>> {
        unused("address_use")
    }

    async fn images(&self, query: &ImageQuery) -> CloudResult<Vec<Image>> {
        self.look(|nova| {
            let wanted = |image: &&Image| {
                query.id.as_ref().is_none_or(|id| *id == image.id)
                    && query.name.as_ref().is_none_or(|name| *name == image.name)
            };
            Ok(nova.images.iter().filter(wanted).cloned().collect())
        })
    }

    async fn flavors(&self) -> CloudResult<Vec<Flavor>> {
        Ok(Vec::new())
    }

    async fn flavor_extra_specs(&self, _: &str) -> CloudResult<BTreeMap<String, String>> {
        unused("flavor_extra_specs")
    }

    async fn compute_zones(&self) -> CloudResult<Vec<String>> {
        unused("compute_zones")
    }

    async fn create_server_group(&self, _: &str, _: &str) -> CloudResult<ServerGroup> {
        unused("create_server_group")
    }

    async fn delete_server_group(&self, _: &str) -> CloudResult<()> {
        unused("delete_server_group")
    }

    async fn has_key_pair(&self, _: &str) -> CloudResult<bool> {
        unused("has_key_pair")
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

    async fn server_groups(&self) -> CloudResult<Vec<ServerGroup>> {
        Ok(Vec::new())
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

    async fn set_tags(&self, _: TaggedKind, _: &str, _: &[String]) -> CloudResult<()> {
        unused("set_tags")
    }
    async fn change_tags(&self, _: TaggedKind, _: &str, _: &[String], _: &[String]) -> CloudResult<()> {
        unused("change_tags")
    }

    async fn servers(&self) -> CloudResult<Vec<Server>> {
        unused("servers")
    }

    async fn servers_named(&self, name: &str) -> CloudResult<Vec<Server>> {
        self.look(|nova| {
            let all = nova.instances.values().map(|instance| instance.server.clone());
            Ok(all.filter(|server| server.name == name).collect())
        })
    }

    async fn server(&self, id: &str) -> CloudResult<Server> {
        self.look(|nova| nova.instance(id).map(|instance| instance.server.clone()))
    }

    async fn create_server(&self, new: &NewServer) -> CloudResult<String> {
        let new = new.clone();
        self.effect(move |nova| nova.create(&new))
    }

    async fn delete_server(&self, id: &str) -> CloudResult<()> {
        let id = id.to_owned();
        self.effect(move |nova| nova.delete(&id))
    }

    async fn reboot_server(&self, id: &str, kind: RebootKind) -> CloudResult<Option<String>> {
        let id = id.to_owned();
        self.effect(move |nova| nova.reboot(&id, kind))
    }

    async fn set_power_state(&self, id: &str, state: PowerState) -> CloudResult<Option<String>> {
        let id = id.to_owned();
        self.effect(move |nova| nova.set_power_state(&id, state))
    }

    async fn rebuild_server(&self, id: &str, rebuild: &Rebuild) -> CloudResult<Option<String>> {
        let (id, rebuild) = (id.to_owned(), rebuild.clone());
        self.effect(move |nova| nova.rebuild(&id, &rebuild))
    }

    async fn console_log(&self, server: &str, _lines: u32) -> CloudResult<String> {
        self.look(|nova| nova.instance(server).map(|_| String::new()))
    }

    async fn actions(&self, server: &str) -> CloudResult<Vec<ActionRecord>> {
        self.look(|nova| {
            let instance = nova.instance(server)?;
            Ok(instance.log.iter().map(|(record, _)| record.clone()).collect())
        })
    }

    async fn action(&self, _: &str, _: &str) -> CloudResult<ActionRecord> {
        unused("action")
    }

    async fn detach_volume(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("detach_volume")
    }

    async fn volumes_named(&self, name: &str) -> CloudResult<Vec<Volume>> {
        self.look(|nova| {
            let all = nova.volumes.values().map(|(volume, _)| volume.clone());
            Ok(all.filter(|volume| volume.name == name).collect())
        })
    }

    async fn purge_server(&self, _: &str) -> CloudResult<()> {
        unused("purge_server")
    }

    async fn image_import_methods(&self) -> CloudResult<Vec<String>> {
        unused("image_import_methods")
    }

    async fn create_image(&self, _: &NewImage) -> CloudResult<Image> {
        unused("create_image")
    }

    async fn import_image(&self, _: &str, _: &str) -> CloudResult<()> {
        unused("import_image")
    }

    async fn delete_image(&self, _: &str) -> CloudResult<()> {
        unused("delete_image")
    }

    async fn volumes(&self) -> CloudResult<Vec<Volume>> {
        unused("volumes")
    }

    async fn snapshots(&self) -> CloudResult<Vec<Snapshot>> {
        unused("snapshots")
    }

    async fn shares(&self) -> CloudResult<Vec<Share>> {
        unused("shares")
    }

    async fn delete_snapshot(&self, _: &str) -> CloudResult<()> {
        unused("delete_snapshot")
    }

    async fn volume(&self, _: &str) -> CloudResult<Volume> {
        unused("volume")
    }

    async fn create_volume(&self, new: &NewVolume) -> CloudResult<Volume> {
        let new = new.clone();
        self.effect(move |nova| nova.create_volume(&new))
    }

    async fn set_volume_metadata(&self, _: &str, _: &BTreeMap<String, String>) -> CloudResult<()> {
        unused("set_volume_metadata")
    }

    async fn delete_volume(&self, id: &str) -> CloudResult<()> {
        let id = id.to_owned();
        self.effect(move |nova| {
            nova.volumes.remove(&id).map(|_| ()).ok_or_else(|| error(ErrorClass::NotFound, "delete volume"))
        })
    }

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
