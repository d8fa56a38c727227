//! Tests of the load balancer of a cluster: what it has, how it heals, and how machines leave it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{
    Cloud, CloudConnector, Credentials, FloatingIpQuery, LoadBalancer, LoadBalancerQuery, Member,
};
use controllers_infrastructure_openstack::OpenStackConnector;
use kube::api::{DeleteParams, Patch, PatchParams};
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
        let clouds = world.cloud.clouds_yaml("demo");
        let credentials = Credentials {
            clouds_yaml: clouds.clone(),
            cloud_name: "openstack".to_owned(),
            ca_certificate: None,
            region: None,
            identity: None,
        };
        let cloud = OpenStackConnector::new().connect(&credentials).await.unwrap();
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        let manifest = MANIFEST.replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds);
        world.create(&manifest).await.unwrap();
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
async fn a_listener_and_a_member_in_error_are_created_again() {
    for path in ["/listeners", "/members"] {
        let scene = Scene::start().await;
        scene.world.cloud.inject(ends_in_error("POST", path));
        scene.provisioned().await;
        let log = scene.world.cloud.log();
        let made = log.iter().filter(|call| call.method == "POST" && call.path.ends_with(path)).count();
        assert_eq!(made, 3, "{path}");
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
