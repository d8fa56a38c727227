//! Tests of the load balancer of a cluster: what it has, how it heals, and how machines leave it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "load_balancer/ip_versions.rs"]
mod ip_versions;
#[path = "load_balancer/monitor.rs"]
mod monitor;
#[path = "load_balancer/moved.rs"]
mod moved;
#[path = "load_balancer/obstacles.rs"]
mod obstacles;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{
    Cloud, CloudConnector, Credentials, FloatingIpQuery, LoadBalancer, LoadBalancerQuery, Member,
    NetworkQuery,
};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};
use tests_scenarios::{Controllers, CrashPoint, World};

const MANIFEST: &str = include_str!("load_balancer.yaml");
const NAMESPACE: &str = "balanced";

/// World with a cluster that the controllers provide.
struct Scene {
    world: World,
    controllers: Controllers,
    cloud: Arc<dyn Cloud>,
}

impl Scene {
    async fn start() -> Self {
        Self::start_in(World::start().await.unwrap()).await
    }

    async fn start_in(world: World) -> Self {
        Self::start_with(world, "").await
    }

    /// Starts with these fields of the load balancer, in YAML, one a line.
    async fn start_with(world: World, fields: &str) -> Self {
        let fields: String = fields.lines().map(|line| format!("      {line}\n")).collect();
        let more = format!("      enabled: true\n{fields}");
        Self::start_edited(world, |manifest| manifest.replace("      enabled: true\n", &more)).await
    }

    /// Starts with a manifest that a function has edited.
    async fn start_edited(world: World, edit: impl Fn(String) -> String) -> Self {
        let clouds = world.cloud.clouds_yaml("demo");
        let credentials = Credentials {
            clouds_yaml: clouds.clone(),
            cloud_name: "openstack".to_owned(),
            ca_certificate: None,
            region: None,
            identity: None,
        };
        let cloud =
            OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&credentials).await.unwrap();
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        let manifest = MANIFEST.replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds);
        world.create(&edit(manifest)).await.unwrap();
        let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
        Self { world, controllers, cloud }
    }

    fn clusters(&self) -> Api<OpenStackCluster> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    async fn cluster(&self) -> OpenStackCluster {
        self.clusters().get("c").await.unwrap()
    }

    /// Runs the controllers until the Machine is provisioned.
    async fn provisioned(&self) {
        let up = |client: Client| async move {
            let machine = Api::<Machine>::namespaced(client, NAMESPACE).get("m").await?;
            Ok(machine.condition("InfrastructureReady").is_some_and(|it| it.holds()))
        };
        self.controllers.until("the machine is provisioned", up).await.unwrap();
    }

    async fn balancers(&self) -> Vec<LoadBalancer> {
        self.cloud.load_balancers(&LoadBalancerQuery::default()).await.unwrap()
    }

    /// Returns the members of all pools.
    async fn members(&self) -> Vec<Member> {
        let mut members = Vec::new();
        for balancer in self.balancers().await {
            for pool in self.cloud.pools(&balancer.id).await.unwrap() {
                members.extend(self.cloud.members(&pool.id).await.unwrap());
            }
        }
        members
    }

    /// Runs the controllers until there is one ACTIVE load balancer of another id.
    async fn replaced(&self, old: &str) {
        let cloud = &self.cloud;
        let other = |_| async move {
            let found = cloud.load_balancers(&LoadBalancerQuery::default()).await?;
            let other = found.iter().find(|it| it.id != old && it.provisioning_status == "ACTIVE");
            let Some(other) = other.filter(|_| found.len() == 1) else { return Ok(false) };
            let listeners = cloud.listeners(&other.id).await?;
            let mut members = 0;
            for pool in cloud.pools(&other.id).await? {
                members += cloud.members(&pool.id).await?.len();
            }
            Ok(listeners.len() == 2 && members == 2)
        };
        self.controllers.until("there is another load balancer", other).await.unwrap();
    }
}

/// Returns an injected error that ends one change of a load balancer in ERROR.
fn ends_in_error(method: &str, path: &str) -> InjectedFault {
    InjectedFault {
        service: Some(CloudService::LoadBalancer),
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        count: Some(1),
        ..InjectedFault::new(FaultEffect::EndInError)
    }
}

#[tokio::test]
async fn the_endpoint_is_a_floating_ip_of_a_load_balancer_with_the_machine_as_member() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let cluster = scene.cluster().await;
    let status = cluster.status.as_ref().unwrap();
    let known = status.api_server_managed_load_balancer.as_ref().unwrap();
    let balancer = scene.balancers().await.pop().unwrap();
    assert_eq!((&known.id, &known.internal_ip), (&balancer.id, &balancer.vip_address));
    let endpoint = cluster.spec.control_plane_endpoint.as_ref().unwrap();
    assert_eq!((endpoint.host.as_ref(), endpoint.port), (Some(&known.ip), Some(6443)));
    let floating = scene.cloud.floating_ips(&FloatingIpQuery::default()).await.unwrap();
    let floating = floating.iter().find(|ip| ip.address == known.ip).unwrap();
    assert_eq!(floating.port_id.as_ref(), Some(&balancer.vip_port_id));

    let mut listeners = scene.cloud.listeners(&balancer.id).await.unwrap();
    listeners.sort_by_key(|listener| listener.protocol_port);
    let ports: Vec<i32> = listeners.iter().map(|listener| listener.protocol_port).collect();
    assert_eq!(ports, [6443, 8132]);
    for listener in &listeners {
        // The user's, the subnet's and the router's.
        assert_eq!(listener.allowed_cidrs.len(), 3, "{listener:?}");
        assert!(listener.allowed_cidrs.contains(&"10.8.0.0/24".to_owned()));
    }
    let members = scene.members().await;
    assert_eq!(members.len(), 2);
    for pool in scene.cloud.pools(&balancer.id).await.unwrap() {
        let monitor = scene.cloud.health_monitor(pool.health_monitor_id.as_ref().unwrap()).await.unwrap();
        assert_eq!((monitor.times.delay, monitor.times.max_retries), (10, 5));
    }
}

#[tokio::test]
async fn r8_20_a_machine_that_is_a_member_before_its_server_is_built_is_provisioned() {
    let world = World::start_with_builds_of(Duration::from_secs(15)).await.unwrap();
    let scene = Scene::start_in(world).await;
    let is_member = |client: Client| async move {
        let machines = Api::<OpenStackMachine>::namespaced(client, NAMESPACE);
        let machine = machines.get("m").await?;
        Ok(machine.condition("APIServerIngressReady").is_some_and(|it| it.holds()))
    };
    scene.controllers.until("the machine is a member", is_member).await.unwrap();
    let machine = Api::<OpenStackMachine>::namespaced(scene.world.admin(), NAMESPACE).get("m").await.unwrap();
    assert!(!machine.condition("InstanceReady").is_some_and(|it| it.holds()), "the server was built first");
    scene.provisioned().await;
}

#[tokio::test]
async fn r8_23_a_machine_leaves_the_load_balancer_before_its_server_is_deleted() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    scene.world.cloud.clear_log();
    let machines: Api<Machine> = Api::namespaced(scene.world.admin(), NAMESPACE);
    machines.delete("m", &DeleteParams::background()).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<Machine>::namespaced(client, NAMESPACE).get_opt("m").await?.is_none())
    };
    scene.controllers.until("the machine is gone", gone).await.unwrap();
    assert_eq!(scene.members().await, []);
    let log = scene.world.cloud.log();
    let deleted = |part: &str| {
        log.iter().rposition(|call| call.method == "DELETE" && call.status < 300 && call.path.contains(part))
    };
    let (member, server) = (deleted("/members/").unwrap(), deleted("/servers/").unwrap());
    assert!(member < server, "the server was deleted while the load balancer still used it");
    let clusters: Api<Cluster> = Api::namespaced(scene.world.admin(), NAMESPACE);
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<Cluster>::namespaced(client, NAMESPACE).get_opt("c").await?.is_none())
    };
    scene.controllers.until("the cluster is gone", gone).await.unwrap();
    assert!(scene.world.cloud.inventory("demo").is_empty());
}

#[tokio::test]
async fn r8_5_a_load_balancer_that_was_never_active_is_created_again_at_the_same_address() {
    let scene = Scene::start().await;
    scene.world.cloud.inject(ends_in_error("POST", "/loadbalancers"));
    scene.provisioned().await;
    let log = scene.world.cloud.log();
    let made = |path: &str| {
        log.iter()
            .filter(|call| call.method == "POST" && call.path.ends_with(path) && call.status < 300)
            .count()
    };
    assert_eq!(made("/lbaas/loadbalancers"), 2);
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn a_listener_and_a_member_in_error_are_set_again_and_then_created_again() {
    for (path, fails_again, calls) in [
        ("/listeners", false, [2, 1, 0]),
        ("/members", false, [2, 1, 0]),
        ("/listeners", true, [3, 1, 1]),
        ("/members", true, [3, 1, 1]),
    ] {
        let scene = Scene::start().await;
        scene.world.cloud.inject(ends_in_error("POST", path));
        if fails_again {
            scene.world.cloud.inject(ends_in_error("PUT", &path[1..]));
        }
        scene.provisioned().await;
        let log = scene.world.cloud.log();
        let made = ["POST", "PUT", "DELETE"].map(|method| {
            let made = log.iter().filter(|call| call.method == method && call.path.contains(path));
            made.filter(|call| call.status < 300).count()
        });
        assert_eq!(made, calls, "{path}");
    }
}

#[tokio::test]
async fn a_load_balancer_is_replaced_behind_its_address_when_the_user_requests_it() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let old = scene.balancers().await.pop().unwrap();
    let change = json!({"metadata": {"annotations": {"capstan.dev/recreate-load-balancer": "1"}}});
    scene.clusters().patch("c", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    scene.replaced(&old.id).await;
    let new = scene.balancers().await.pop().unwrap();
    assert_eq!((&new.vip_address, &new.vip_port_id), (&old.vip_address, &old.vip_port_id));
    let cluster = scene.cluster().await;
    assert_eq!(cluster.annotations()["capstan.dev/recreated-load-balancer"], "1");
}

/// Runs the controllers until the endpoint is not ready for this reason. Returns the message.
async fn refused(scene: &Scene, reason: &str) -> String {
    let is_refused = |client: Client| async move {
        let cluster = Api::<OpenStackCluster>::namespaced(client, NAMESPACE).get("c").await?;
        Ok(cluster.condition("APIEndpointReady").is_some_and(|it| it.reason == reason))
    };
    scene.controllers.until(reason, is_refused).await.unwrap();
    scene.cluster().await.condition("APIEndpointReady").unwrap().message.clone()
}

#[tokio::test]
async fn r8_1_the_address_is_on_the_network_and_subnet_that_filters_name() {
    let place = "network: {filter: {name: private}}\nsubnets: [{filter: {name: private-subnet}}]";
    let scene = Scene::start_with(World::start().await.unwrap(), place).await;
    let is_active = |client: Client| async move {
        let cluster = Api::<OpenStackCluster>::namespaced(client, NAMESPACE).get("c").await?;
        Ok(cluster.status.is_some_and(|status| status.api_server_managed_load_balancer.is_some()))
    };
    scene.controllers.until("the load balancer has its address", is_active).await.unwrap();
    let query = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let private = scene.cloud.networks(&query).await.unwrap().remove(0).id;
    assert_eq!(scene.balancers().await.remove(0).vip_network_id, private);

    let elsewhere = "network: {filter: {name: private}}\nsubnets: [{filter: {name: public-subnet}}]";
    let scene = Scene::start_with(World::start().await.unwrap(), elsewhere).await;
    let message = refused(&scene, "APIEndpointConfigFailed").await;
    assert!(message.contains("spec.apiServer.managedLoadBalancer.subnets[0]"), "{message}");
}

#[tokio::test]
async fn r8_3_a_flavor_is_found_by_name_and_by_id_and_another_one_is_warned_of() {
    let id = "6a1f3c3e-8f0b-4b1c-9a53-0f2b8f3f2f11";
    for (flavor, warned) in [("single", false), (id, false), ("retired", true)] {
        let scene = Scene::start_with(World::start().await.unwrap(), &format!("flavor: {flavor}")).await;
        scene.provisioned().await;
        let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
        let events = events.list(&ListParams::default()).await.unwrap();
        let found = events.iter().any(|event| event.reason.as_deref() == Some("OctaviaFlavorNotFound"));
        assert_eq!(found, warned, "{flavor}");
    }
}

#[tokio::test]
async fn r8_4_a_zone_that_octavia_does_not_have_is_refused_with_the_known_ones() {
    let scene = Scene::start_with(World::start().await.unwrap(), "availabilityZone: az9").await;
    let message = refused(&scene, "APIEndpointConfigFailed").await;
    assert!(message.contains("no zone \"az9\"; its zones are: az1"), "{message}");
    assert_eq!(scene.balancers().await, []);
}

#[tokio::test]
async fn r8_8_a_load_balancer_that_another_one_changes_is_awaited_without_a_warning() {
    let scene = Scene::start().await;
    let words = "Load Balancer 1 is immutable and cannot be updated.";
    for path in ["/listeners", "/pools", "/members", "/healthmonitors"] {
        scene.world.cloud.inject(InjectedFault {
            service: Some(CloudService::LoadBalancer),
            method: Some("POST".to_owned()),
            path: Some(path.to_owned()),
            count: Some(2),
            ..InjectedFault::new(FaultEffect::Status {
                code: 409,
                body: json!({"faultcode": "Client", "faultstring": words, "debuginfo": null}).to_string(),
                content_type: None,
                retry_after: None,
            })
        });
    }
    scene.provisioned().await;
    let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let warned = events.iter().find(|event| event.message.as_deref().is_some_and(|it| it.contains(words)));
    assert!(warned.is_none(), "{warned:?}");
}

#[tokio::test]
async fn r8_11_a_load_balancer_that_was_deleted_by_hand_is_created_again_on_its_port() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let old = scene.balancers().await.pop().unwrap();
    scene.cloud.delete_load_balancer(&old.id).await.unwrap();
    // The cluster is complete, so a change makes its controller look.
    let change = json!({"metadata": {"annotations": {"looked": "at"}}});
    scene.clusters().patch("c", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    scene.replaced(&old.id).await;
    let new = scene.balancers().await.pop().unwrap();
    assert_eq!((&new.vip_address, &new.vip_port_id), (&old.vip_address, &old.vip_port_id));
}
