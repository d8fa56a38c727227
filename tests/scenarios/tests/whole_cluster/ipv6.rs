//! Cluster with IPv6 alone: its nodes, Pods, Services and load balancer have no address of IPv4.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use apiserver_types::{MachineAddressType, OpenStackCluster};
use controllers_infrastructure::{Cloud, NewNetwork, NewSubnet, SecurityGroupQuery, SubnetQuery};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;
use kube::config::Kubeconfig;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::dual_stack::families;
use super::rollouts::Scene;

const NAMESPACE: &str = "ipv6";

/// Network of the address of the load balancer.
const VIPS: &str = "vips";

/// Range of the nodes, and the beginning of the addresses that they form in it.
const NODES: &str = "fd00:20::/64";
const FORMED: &str = "fd00:20::f816:3eff:fe";

/// Returns an address of loopback with a free port: hollow clusters can listen nowhere else. A machine without IPv6 has only
/// one of IPv4, and everything but the load balancer is of IPv6 all the same.
fn endpoint() -> SocketAddr {
    let four = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).or_else(four);
    listener.unwrap().local_addr().unwrap()
}

/// Creates a network that has the address of the endpoint.
async fn network_of(cloud: &dyn Cloud, endpoint: SocketAddr) {
    let new = NewNetwork { name: VIPS.to_owned(), ..NewNetwork::default() };
    let network_id = cloud.create_network(&new).await.unwrap().id;
    let bits = if endpoint.is_ipv6() { Ipv6Addr::BITS } else { Ipv4Addr::BITS };
    let cidr = format!("{}/{bits}", endpoint.ip());
    let new = NewSubnet { name: VIPS.to_owned(), network_id, cidr, ..NewSubnet::default() };
    cloud.create_subnet(&new).await.unwrap();
}

/// Returns the manifest with ranges of IPv6, and the settings of kubeadm for it.
fn with_ipv6(documents: String, endpoint: SocketAddr) -> String {
    let (host, port) = (endpoint.ip(), endpoint.port());
    let server = format!(
        "apiServer: {{enableFloatingIP: false, fixedIP: '{host}', port: {port}, managedLoadBalancer: {{enabled: true, \
         network: {{filter: {{name: {VIPS}}}}}, allowedCIDRs: ['::1/128', 127.0.0.0/8]}}}}"
    );
    let local = "localAPIEndpoint: {advertiseAddress: '::'}";
    let subnets = format!("managedSubnets: [{{cidr: '{NODES}', dnsNameservers: ['2001:db8::53']}}]");
    let ranges =
        "pods: {cidrBlocks: ['fd00:168::/56']}\n    services: {cidrBlocks: ['fd00:96::/112']}".to_owned();
    let edits = [
        ("pods: {cidrBlocks: [192.168.0.0/16]}", ranges),
        ("managedSubnets: [{cidr: 10.8.0.0/24, dnsNameservers: [192.0.2.53]}]", subnets),
        ("apiServer: {}", server),
        ("\n    initConfiguration:\n", format!("\n    initConfiguration:\n      {local}\n")),
        (
            "\n    joinConfiguration:\n",
            format!("\n    joinConfiguration:\n      controlPlane: {{{local}}}\n"),
        ),
    ];
    edits.into_iter().fold(documents, |documents, (old, new)| {
        assert_eq!(documents.matches(old).count(), 1, "{old}");
        documents.replace(old, &new)
    })
}

/// Checks what the cloud has: a subnet on which nodes form their addresses, and rules for them.
async fn assert_cloud(cloud: &dyn Cloud, port: i32) {
    let slaac = || Some("slaac".to_owned());
    let query = SubnetQuery {
        ip_version: Some(6),
        ipv6_address_mode: slaac(),
        ipv6_ra_mode: slaac(),
        ..SubnetQuery::default()
    };
    let subnets = cloud.subnets(&query).await.unwrap();
    assert_eq!(subnets.iter().map(|it| it.cidr.as_str()).collect::<Vec<_>>(), [NODES]);
    assert_eq!(subnets[0].dns_nameservers, ["2001:db8::53"]);
    for port in [port, 2379, 10250] {
        assert!(families(cloud, port).await.contains("IPv6"), "port {port}");
    }
    let groups = cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let rules = groups.iter().flat_map(|group| &group.rules).map(|it| &it.rule);
    let ranges =
        rules.filter(|it| it.port_min == Some(30000)).filter_map(|it| it.remote_ip_prefix.as_deref());
    assert_eq!(ranges.collect::<BTreeSet<_>>(), BTreeSet::from([NODES]));
}

/// Checks the addresses of Machines, Nodes and members of etcd.
async fn assert_nodes(scene: &Scene, endpoint: SocketAddr) {
    for machine in scene.machines().await {
        let addresses = machine.status.unwrap().addresses.unwrap();
        let (internal, others): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|it| it.kind == MachineAddressType::InternalIP);
        assert!(internal.len() == 1 && internal[0].address.starts_with(FORMED), "{internal:?}");
        assert!(others.iter().all(|it| it.kind != MachineAddressType::ExternalIP), "{others:?}");
    }
    for node in scene.hollow.nodes(endpoint) {
        let address = node["status"]["addresses"][0]["address"].as_str().unwrap();
        assert!(address.starts_with(FORMED), "{address}");
    }
    scene.assert_members().await;
    for member in scene.hollow.etcd_members(endpoint) {
        let url = member.peer_url;
        assert!(url.starts_with(&format!("https://[{FORMED}")) && url.ends_with("]:2380"), "{url}");
    }
}

/// Checks where clients, kubeadm and the load balancer find the API.
async fn assert_endpoint(scene: &Scene, endpoint: SocketAddr) {
    let secrets: Api<Secret> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let secret = secrets.get("blue-kubeconfig").await.unwrap();
    let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let server = kubeconfig.clusters[0].cluster.as_ref().and_then(|it| it.server.clone());
    assert_eq!(server, Some(format!("https://{endpoint}")));
    let records: Api<ConfigMap> = Api::namespaced(scene.observer.workload().await, "kube-system");
    let record = records.get("kubeadm-config").await.unwrap().data.unwrap();
    let record: Value = serde_saphyr::from_str(&record["ClusterConfiguration"]).unwrap();
    assert_eq!(record["controlPlaneEndpoint"], endpoint.to_string());
    assert_eq!(record["networking"]["podSubnet"], "fd00:168::/56");
    assert_eq!(record["networking"]["serviceSubnet"], "fd00:96::/112");

    let clusters: Api<OpenStackCluster> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let balancer = clusters.get("blue").await.unwrap().status.unwrap().api_server_managed_load_balancer;
    let balancer = balancer.unwrap();
    assert_eq!(balancer.ip, endpoint.ip().to_string());
    if endpoint.is_ipv6() {
        let admitted = ["::1/128", NODES].map(str::to_owned).to_vec();
        assert_eq!(balancer.allowed_cidrs, Some(admitted), "those of the IP version of the load balancer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_with_ipv6_alone_comes_with_three_control_plane_machines_and_goes_without_a_trace() {
    let endpoint = endpoint();
    let scene = Scene::create(NAMESPACE, 3, |documents| with_ipv6(documents, endpoint)).await;
    let cloud = scene.world.project().await.unwrap();
    network_of(cloud.as_ref(), endpoint).await;
    let empty = scene.world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(3, 1).await;
    scene.observer.until_nodes_are_ready(4).await;
    scene.observer.until_expiry_is_known().await;
    assert_cloud(cloud.as_ref(), i32::from(endpoint.port())).await;
    assert_nodes(&scene, endpoint).await;
    assert_endpoint(&scene, endpoint).await;

    scene.observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    scene.observer.until_gone().await;
    assert_eq!(scene.world.counts(), empty, "the network of another owner stays, and nothing else");
    term.cancel();
    running.join_all().await;
}
