//! Tests of what a cluster's spec can request: a bastion, shared credentials, and references that match nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod blockers;
mod drift;
mod e2e_default;
mod endpoints;
mod existing_network;
mod lost_calls;
mod ownership;
mod shared_balancer;
mod tenants;

use std::sync::Arc;

use apiserver_types::{Cluster, Condition, OpenStackCluster, OpenStackClusterIdentity, OpenStackServer};
use controllers_infrastructure::{
    Cloud, FloatingIpQuery, ImageQuery, LoadBalancer, LoadBalancerQuery, NetworkQuery, NewFloatingIp,
    NewListener, NewLoadBalancer, NewMember, NewNetwork, NewPool, NewPort, NewServer, NewSubnet, PortQuery,
    SecurityGroupQuery, SubnetQuery,
};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World};

/// World with one namespace for each cluster.
struct Scene {
    world: World,
    controllers: Controllers,
    cloud: Arc<dyn Cloud>,
}

impl Scene {
    async fn start() -> Self {
        let world = World::start().await.unwrap();
        let cloud = world.project().await.unwrap();
        let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
        Self { world, controllers, cloud }
    }

    /// Creates a cluster with this spec in a namespace of its own, with credentials.
    async fn create(&self, namespace: &str, spec: &Value) {
        let api = "infrastructure.cluster.x-k8s.io";
        let clouds = self.world.cloud.clouds_yaml("demo");
        let meta = json!({"name": "c", "namespace": namespace});
        let documents = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"clouds.yaml": clouds},
                "metadata": {"name": "credentials", "namespace": namespace}}),
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": meta,
                "spec": {"infrastructureRef": {"apiGroup": api, "kind": "OpenStackCluster", "name": "c"}}}),
            json!({"apiVersion": format!("{api}/v1beta2"), "kind": "OpenStackCluster", "metadata": meta,
                "spec": spec}),
        ];
        let manifest: Vec<String> = documents.iter().map(Value::to_string).collect();
        self.world.create(&manifest.join("\n---\n")).await.unwrap();
    }

    fn clusters(&self, namespace: &str) -> Api<OpenStackCluster> {
        Api::namespaced(self.world.admin(), namespace)
    }

    async fn patch(&self, namespace: &str, change: Value) {
        let change = Patch::Merge(change);
        self.clusters(namespace).patch("c", &PatchParams::default(), &change).await.unwrap();
    }

    /// Runs the controllers until the cluster fulfils a condition of the test. Returns the cluster.
    async fn until(
        &self,
        namespace: &str,
        what: &str,
        settled: impl Fn(&OpenStackCluster) -> bool,
    ) -> OpenStackCluster {
        let settled = &settled;
        let found = |client: Client| async move {
            let api: Api<OpenStackCluster> = Api::namespaced(client, namespace);
            Ok(settled(&api.get("c").await?))
        };
        let result = self.controllers.until(what, found).await;
        let cluster = self.clusters(namespace).get("c").await.unwrap();
        assert!(result.is_ok(), "{namespace}: {what}: {:#?}", cluster.status);
        cluster
    }

    /// Deletes the cluster, and runs the controllers until it is gone.
    async fn delete(&self, namespace: &str) {
        self.begin_deletion(namespace).await;
        self.gone(namespace).await;
    }

    async fn begin_deletion(&self, namespace: &str) {
        let api: Api<Cluster> = Api::namespaced(self.world.admin(), namespace);
        api.delete("c", &DeleteParams::background()).await.unwrap();
    }

    /// Runs the controllers until the cluster is gone.
    async fn gone(&self, namespace: &str) {
        let gone = |client: Client| async move {
            Ok(Api::<Cluster>::namespaced(client, namespace).get_opt("c").await?.is_none())
        };
        self.controllers.until("the cluster is gone", gone).await.unwrap();
    }

    /// Returns the messages of all Events with this reason, one per line.
    async fn messages(&self, namespace: &str, reason: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.world.admin(), namespace);
        let events = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let found = events.filter(|event| event.reason.as_deref() == Some(reason));
        found.filter_map(|event| event.message).collect::<Vec<_>>().join("\n")
    }

    /// Does what the controller of OpenStackServers does: creates the server, and reports it.
    async fn boot_bastion(&self, namespace: &str, cluster: &OpenStackCluster) -> (String, String) {
        let status = cluster.status.clone().unwrap();
        let port = NewPort {
            name: "c-bastion-0".to_owned(),
            network_id: status.network.unwrap().id,
            security_groups: Some(vec![status.bastion_security_group.unwrap().id]),
            ..NewPort::default()
        };
        let port = self.cloud.create_port(&port).await.unwrap();
        let images = self.cloud.images(&ImageQuery::default()).await.unwrap();
        let flavors = self.cloud.flavors().await.unwrap();
        let server = NewServer {
            name: "c-bastion".to_owned(),
            image_id: images.first().map(|image| image.id.clone()),
            flavor_id: flavors.iter().find(|flavor| flavor.name == "m1.small").unwrap().id.clone(),
            ports: vec![port.id.clone()],
            ..NewServer::default()
        };
        let id = self.cloud.create_server(&server).await.unwrap();
        let api: Api<OpenStackServer> = Api::namespaced(self.world.admin(), namespace);
        let report = json!({"status": {"ready": true, "instanceID": id, "instanceState": "ACTIVE"}});
        api.patch_status("c-bastion", &PatchParams::default(), &Patch::Merge(report)).await.unwrap();
        (id, port.id)
    }
}

fn spec() -> Value {
    json!({
        "identityRef": {"name": "credentials", "cloudName": "openstack"},
        "managedSubnets": [{"cidr": "10.8.0.0/24"}],
        "externalNetwork": {"filter": {"name": "public"}},
        "managedSecurityGroups": {},
    })
}

fn is_provisioned(cluster: &OpenStackCluster) -> bool {
    cluster.condition("Ready").is_some_and(Condition::holds)
}

/// Returns a plain spec with these fields; `null` removes one.
fn with(changes: &Value) -> Value {
    let mut spec = spec();
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    spec
}

#[tokio::test]
async fn a_reference_that_matches_nothing_is_reported_with_its_field_and_leaves_nothing_behind() {
    let scene = Scene::start().await;
    let empty = scene.world.counts();
    let query = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let private = scene.cloud.networks(&query).await.unwrap().remove(0).id;
    let absent = json!({"filter": {"name": "absent"}});
    let table = [
        (json!({"network": absent, "managedSubnets": null}), "NetworkNotFound", "spec.network"),
        (json!({"subnets": [absent], "managedSubnets": null}), "NetworkNotFound", "spec.subnets[0]"),
        (json!({"managedSubnets": null}), "NetworkNotFound", "Set managedSubnets"),
        (json!({"externalNetwork": absent}), "NetworkNotFound", "spec.externalNetwork"),
        (json!({"externalNetwork": {"id": private}}), "NotExternal", "is not external"),
        (json!({"router": absent}), "NetworkNotFound", "spec.router"),
        (
            json!({"identityRef": {"name": "absent", "cloudName": "openstack"}}),
            "CredentialsInvalid",
            "Secret bad-6/absent does not exist",
        ),
        (
            json!({"identityRef": {"name": "absent", "cloudName": "openstack", "type": "ClusterIdentity"}}),
            "IdentityNotFound",
            "OpenStackClusterIdentity absent does not exist",
        ),
    ];
    for (index, (changes, reason, text)) in table.iter().enumerate() {
        let namespace = format!("bad-{index}");
        scene.create(&namespace, &with(changes)).await;
        let reported = |cluster: &OpenStackCluster| {
            cluster.condition("Ready").is_some_and(|ready| ready.reason == *reason)
        };
        let cluster = scene.until(&namespace, "the error is reported", reported).await;
        let ready = cluster.condition("Ready").unwrap();
        assert!(ready.message.contains(text), "{changes}: {}", ready.message);
        assert_eq!(scene.world.counts(), empty, "{changes} left resources behind");
        scene.delete(&namespace).await;
    }
}

#[tokio::test]
async fn r4_1_a_shared_identity_serves_the_namespaces_that_its_selector_admits() {
    let scene = Scene::start().await;
    let reference = json!({"name": "shared", "cloudName": "openstack", "type": "ClusterIdentity"});
    let identity = json!({
        "secretRef": {"name": "credentials", "namespace": "admitted"},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    });
    let identity = OpenStackClusterIdentity::new("shared", serde_json::from_value(identity).unwrap());
    let identities: Api<OpenStackClusterIdentity> = Api::all(scene.world.admin());
    identities.create(&PostParams::default(), &identity).await.unwrap();
    scene.create("admitted", &with(&json!({"identityRef": reference}))).await;
    let login = |cluster: &OpenStackCluster| {
        let condition = cluster.condition("OpenStackAuthenticationSucceeded");
        condition.map(|condition| (condition.reason.clone(), condition.message.clone()))
    };
    let denied = |cluster: &OpenStackCluster| {
        login(cluster).is_some_and(|(reason, _)| reason == "IdentityAccessDenied")
    };
    let cluster = scene.until("admitted", "the access is denied", denied).await;
    let (_, message) = login(&cluster).unwrap();
    assert!(message.contains("namespace admitted") && !message.contains("credentials "), "{message}");
    let namespaces: Api<Namespace> = Api::all(scene.world.admin());
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    namespaces.patch("admitted", &PatchParams::default(), &label).await.unwrap();
    let cluster = scene.until("admitted", "the cluster is provisioned", is_provisioned).await;
    assert_eq!(login(&cluster).unwrap().0, "OpenStackAuthenticationSucceeded");
}

#[tokio::test]
async fn a_bastion_has_a_group_and_an_address_and_leaves_nothing_when_it_is_disabled() {
    let scene = Scene::start().await;
    let server = json!({"flavor": {"filter": {"name": "m1.small"}}, "sshKeyName": "key",
        "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}}});
    scene.create("jump", &with(&json!({"bastion": {"enabled": true, "spec": server}}))).await;
    let waits = |cluster: &OpenStackCluster| {
        // R9.1: the bastion does not hold up the cluster.
        is_provisioned(cluster)
            && cluster.condition("BastionReady").is_some_and(|it| it.reason == "InstanceNotReady")
    };
    let cluster = scene.until("jump", "the bastion is being built", waits).await;
    let (id, port) = scene.boot_bastion("jump", &cluster).await;
    let ready = |cluster: &OpenStackCluster| cluster.condition("BastionReady").is_some_and(Condition::holds);
    let cluster = scene.until("jump", "the bastion is ready", ready).await;
    let bastion = cluster.status.as_ref().unwrap().bastion.clone().unwrap();
    assert_eq!((bastion.id.as_ref(), bastion.ssh_key_name.as_deref()), (Some(&id), Some("key")));
    assert!(bastion.ip.is_some());
    let query = FloatingIpQuery { address: bastion.floating_ip, ..FloatingIpQuery::default() };
    let ip = scene.cloud.floating_ips(&query).await.unwrap().remove(0);
    assert_eq!(ip.port_id.as_ref(), Some(&port));

    // The controller of OpenStackServers deletes the server before the object is gone.
    scene.cloud.delete_server(&id).await.unwrap();
    while scene.cloud.delete_port(&port).await.is_err_and(|error| !error.is_not_found()) {}
    scene.patch("jump", json!({"spec": {"bastion": {"enabled": false}}})).await;
    let gone = |cluster: &OpenStackCluster| {
        let status = cluster.status.clone().unwrap_or_default();
        status.bastion.is_none()
            && status.bastion_security_group.is_none()
            && cluster.condition("BastionReady").is_none()
    };
    scene.until("jump", "nothing is left of the bastion", gone).await;
    let groups = scene.cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let rules = groups.iter().flat_map(|group| &group.rules);
    assert!(!rules.clone().any(|rule| rule.rule.port_min == Some(22)), "{groups:?}");
    let servers: Api<OpenStackServer> = Api::namespaced(scene.world.admin(), "jump");
    assert!(servers.get_opt("c-bastion").await.unwrap().is_none());
    scene.delete("jump").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r2_1_a_moved_cluster_keeps_its_resources_and_a_copy_does_not_take_them() {
    let scene = Scene::start().await;
    scene.create("moved", &spec()).await;
    let original = scene.until("moved", "the cluster is provisioned", is_provisioned).await;
    let whole = scene.world.counts();
    let moving = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}});
    scene.patch("moved", moving).await;
    scene.clusters("moved").delete("c", &DeleteParams::background()).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<OpenStackCluster>::namespaced(client, "moved").get_opt("c").await?.is_none())
    };
    scene.controllers.until("the original is gone", gone).await.unwrap();
    assert_eq!(scene.world.counts(), whole);

    let create = |name: &'static str| {
        let mut object = OpenStackCluster::new(name, original.spec.clone());
        object.metadata.annotations = original.metadata.annotations.clone();
        object.metadata.labels = original.metadata.labels.clone();
        object.metadata.owner_references = original.metadata.owner_references.clone().filter(|_| name == "c");
        let api = scene.clusters("moved");
        async move { api.create(&PostParams::default(), &object).await.unwrap() }
    };
    let moved = create("c").await;
    assert_ne!(moved.uid(), original.uid());
    let moved = scene.until("moved", "the moved cluster is provisioned", is_provisioned).await;
    let network = |cluster: &OpenStackCluster| cluster.status.clone().unwrap().network.unwrap().id;
    assert_eq!((network(&moved), scene.world.counts()), (network(&original), whole.clone()));

    // The older one keeps the resources, and the time of creation has a precision of a second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    create("copy").await;
    let yields = |client: Client| async move {
        let copy = Api::<OpenStackCluster>::namespaced(client, "moved").get("copy").await?;
        Ok(copy.condition("Ready").is_some_and(|ready| ready.reason == "MarkInUse"))
    };
    scene.controllers.until("the copy yields", yields).await.unwrap();
    scene.clusters("moved").delete("copy", &DeleteParams::background()).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<OpenStackCluster>::namespaced(client, "moved").get_opt("copy").await?.is_none())
    };
    scene.controllers.until("the copy is gone", gone).await.unwrap();
    assert_eq!(scene.world.counts(), whole);
    scene.delete("moved").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r2_3_a_cluster_that_lost_its_journal_is_deleted_with_all_resources() {
    let scene = Scene::start().await;
    scene.create("lost", &spec()).await;
    scene.until("lost", "the cluster is provisioned", is_provisioned).await;
    let lost = json!({"metadata": {"annotations": {"capstan.dev/journal": null, "capstan.dev/mark": null}}});
    scene.clusters("lost").delete("c", &DeleteParams::background()).await.unwrap();
    scene.patch("lost", lost).await;
    scene.delete("lost").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r7_4_the_fixed_address_of_the_api_is_kept_from_all_other_ports() {
    let scene = Scene::start().await;
    let server = json!({"enableFloatingIP": false, "fixedIP": "10.8.0.77"});
    scene.create("kept", &with(&json!({"apiServer": server}))).await;
    let cluster = scene.until("kept", "the cluster is provisioned", is_provisioned).await;
    assert_eq!(cluster.spec.control_plane_endpoint.unwrap().host.as_deref(), Some("10.8.0.77"));
    let query = PortQuery { name: Some("kept-c-api-fixed".to_owned()), ..PortQuery::default() };
    let ports = scene.cloud.ports(&query).await.unwrap();
    let addresses: Vec<_> = ports.iter().flat_map(|port| &port.fixed_ips).collect();
    assert_eq!(addresses.len(), 1, "{ports:?}");
    assert_eq!(addresses[0].ip_address.as_deref(), Some("10.8.0.77"));
    assert!(
        ports[0].security_groups.is_empty() && ports[0].tags.iter().any(|tag| tag.starts_with("capstan-"))
    );
    scene.delete("kept").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r17_3_load_balancers_of_services_go_with_the_network_of_their_cluster() {
    let scene = Scene::start().await;
    for namespace in ["first", "second"] {
        scene.create(namespace, &spec()).await;
    }
    // Both workload clusters have the same name, as is usual.
    let description = "Kubernetes external service default/web from cluster kubernetes";
    let mut balancers = Vec::new();
    for namespace in ["first", "second"] {
        let cluster = scene.until(namespace, "the cluster is provisioned", is_provisioned).await;
        let status = cluster.status.unwrap();
        let new = NewLoadBalancer {
            name: "kube_service_kubernetes_default_web".to_owned(),
            description: description.to_owned(),
            vip_subnet_id: Some(status.network.unwrap().subnets.unwrap()[0].id.clone()),
            ..NewLoadBalancer::default()
        };
        let balancer = scene.cloud.create_load_balancer(&new).await.unwrap();
        let address = NewFloatingIp {
            network_id: status.external_network.unwrap().id,
            description: "Floating IP for Kubernetes external service default/web".to_owned(),
            port_id: Some(balancer.vip_port_id.clone()),
            ..NewFloatingIp::default()
        };
        scene.cloud.create_floating_ip(&address).await.unwrap();
        balancers.push(balancer.id);
    }
    let group = "Security Group for default/web Service LoadBalancer in cluster kubernetes";
    scene.cloud.create_security_group("lb-sg-0-default-web", group).await.unwrap();
    scene.delete("first").await;
    let left: Vec<String> =
        scene.world.cloud.inventory("demo").load_balancers.iter().map(|it| it.id.clone()).collect();
    assert_eq!(left, balancers[1..], "that of the other cluster stays");
    scene.delete("second").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r17_3_a_load_balancer_with_members_of_another_network_blocks_the_deletion() {
    let scene = Scene::start().await;
    scene.create("shared", &spec()).await;
    let cluster = scene.until("shared", "the cluster is provisioned", is_provisioned).await;
    let new = NewLoadBalancer {
        name: "kube_service_kubernetes_default_web".to_owned(),
        vip_subnet_id: Some(cluster.status.unwrap().network.unwrap().subnets.unwrap()[0].id.clone()),
        ..NewLoadBalancer::default()
    };
    let balancer = scene.cloud.create_load_balancer(&new).await.unwrap();
    settled(&scene).await;
    let listener = NewListener {
        load_balancer_id: balancer.id.clone(),
        name: "web".to_owned(),
        protocol_port: 80,
        ..NewListener::default()
    };
    let listener = scene.cloud.create_listener(&listener).await.unwrap();
    settled(&scene).await;
    let pool = NewPool {
        listener_id: listener.id,
        name: "web".to_owned(),
        algorithm: "ROUND_ROBIN".to_owned(),
        ..NewPool::default()
    };
    let pool = scene.cloud.create_pool(&pool).await.unwrap();
    settled(&scene).await;
    let address = "198.51.100.9".to_owned();
    let member = NewMember { name: "other".to_owned(), address, protocol_port: 80, ..NewMember::default() };
    scene.cloud.create_member(&pool.id, &member).await.unwrap();
    settled(&scene).await;
    let clusters: Api<Cluster> = Api::namespaced(scene.world.admin(), "shared");
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
    let is_blocked = |cluster: &OpenStackCluster| {
        let ready = cluster.condition("Ready").filter(|it| it.reason == "DeletionBlocked");
        ready.is_some_and(|it| it.message.contains("its member 198.51.100.9 is not"))
    };
    scene.until("shared", "the deletion is blocked", is_blocked).await;
    assert_eq!(scene.world.cloud.inventory("demo").load_balancers.len(), 1, "it serves another cluster");
    let named = json!({"metadata": {"annotations": {"capstan.dev/delete-leftovers": balancer.id}}});
    scene.patch("shared", named).await;
    scene.delete("shared").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

/// Waits until Octavia has ended its changes.
async fn settled(scene: &Scene) {
    let is_changing = |it: &LoadBalancer| it.provisioning_status.starts_with("PENDING");
    let query = LoadBalancerQuery::default();
    while scene.cloud.load_balancers(&query).await.unwrap().iter().any(is_changing) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn r2_4_a_network_of_another_tool_is_left_alone_until_it_is_taken_over() {
    let scene = Scene::start().await;
    let name = "k8s-clusterapi-cluster-taken-c".to_owned();
    let other = scene.cloud.create_network(&NewNetwork { name, ..NewNetwork::default() }).await.unwrap();
    scene.create("taken", &spec()).await;
    let is_taken = |cluster: &OpenStackCluster| {
        cluster.condition("NetworkReady").is_some_and(|it| it.reason == "NameTaken")
    };
    let cluster = scene.until("taken", "the name of the network is taken", is_taken).await;
    let message = &cluster.condition("NetworkReady").unwrap().message;
    assert!(message.contains(&format!("network/{}", other.id)), "{message}");
    let adopt = json!({"capstan.dev/adopt": format!("network/{}", other.id)});
    scene.patch("taken", json!({"metadata": {"annotations": adopt}})).await;
    let cluster = scene.until("taken", "the cluster is provisioned", is_provisioned).await;
    assert_eq!(cluster.status.unwrap().network.unwrap().id, other.id);
    scene.delete("taken").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r16_1_the_addresses_of_a_created_subnet_grow_with_the_spec() {
    let scene = Scene::start().await;
    let pools = |end: &str| {
        let pool = json!({"start": "10.8.0.10", "end": end});
        json!({"managedSubnets": [{"cidr": "10.8.0.0/24", "allocationPools": [pool]}]})
    };
    scene.create("pools", &with(&pools("10.8.0.50"))).await;
    let cluster = scene.until("pools", "the cluster is provisioned", is_provisioned).await;
    let subnet = cluster.status.unwrap().network.unwrap().subnets.unwrap().remove(0).id;
    let smaller = Patch::Merge(json!({"spec": pools("10.8.0.40")}));
    let refused = scene.clusters("pools").patch("c", &PatchParams::default(), &smaller).await.unwrap_err();
    assert!(refused.to_string().contains("can only grow"), "{refused}");
    scene.patch("pools", json!({"spec": pools("10.8.0.90")})).await;
    let cloud = &scene.cloud;
    let grown = |_| {
        let query = SubnetQuery { id: Some(subnet.clone()), ..SubnetQuery::default() };
        async move {
            let found = cloud.subnets(&query).await?.remove(0).allocation_pools;
            Ok(found == [("10.8.0.10".to_owned(), "10.8.0.90".to_owned())])
        }
    };
    scene.controllers.until("the subnet has grown", grown).await.unwrap();
}
