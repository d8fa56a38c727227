//! Cluster with IPv4 and IPv6 on an existing network, which has one subnet of each family.

use std::collections::BTreeSet;

use apiserver_types::{Machine, MachineAddressType, OpenStackCluster};
use controllers_infrastructure::{Cloud, NetworkQuery, NewNetwork, NewRouter, NewSubnet, SecurityGroupQuery};
use kube::Api;
use kube::api::ListParams;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::manifest;
use super::observer::Observer;

const NAMESPACE: &str = "dual-stack";

/// Prefixes of the subnets, as they begin the addresses.
const PREFIXES: [&str; 2] = ["10.20.0.", "fd00:20::"];

/// Creates the network, a subnet of each family, and a router to the external network. Returns the ids of the network and
/// of its subnets.
async fn network(cloud: &dyn Cloud) -> (String, Vec<String>) {
    let new = NewNetwork { name: "both".to_owned(), ..NewNetwork::default() };
    let network = cloud.create_network(&new).await.unwrap().id;
    let external = NetworkQuery { external: Some(true), ..NetworkQuery::default() };
    let external = cloud.networks(&external).await.unwrap().remove(0).id;
    let new =
        NewRouter { name: "both".to_owned(), external_network_id: Some(external), ..NewRouter::default() };
    let router = cloud.create_router(&new).await.unwrap().id;
    let mut subnets = Vec::new();
    for cidr in ["10.20.0.0/24", "fd00:20::/64"] {
        let new = NewSubnet {
            name: cidr.to_owned(),
            network_id: network.clone(),
            cidr: cidr.to_owned(),
            // Nodes form their own addresses of IPv6, as in most clouds.
            slaac: cidr.contains(':'),
            ..NewSubnet::default()
        };
        let subnet = cloud.create_subnet(&new).await.unwrap().id;
        cloud.add_router_interface(&router, &subnet).await.unwrap();
        subnets.push(subnet);
    }
    (network, subnets)
}

/// Returns the manifest of a cluster on that network, with Pods and Services of both families.
fn documents(world: &World, network: &str, subnets: &[String]) -> String {
    let [v4, v6] = subnets else { panic!("two subnets: {subnets:?}") };
    let managed = "  managedSubnets: [{cidr: 10.8.0.0/24, dnsNameservers: [192.0.2.53]}]\n";
    let existing = format!("  network: {{id: {network}}}\n  subnets: [{{id: {v4}}}, {{id: {v6}}}]\n");
    let pods = "pods: {cidrBlocks: [192.168.0.0/16]}\n";
    let both = "pods: {cidrBlocks: [192.168.0.0/16, 'fd00:168::/56']}\n    services: {cidrBlocks: [10.96.0.0/12, 'fd00:96::/112']}\n";
    let documents = manifest(world, NAMESPACE);
    assert!(documents.contains(managed) && documents.contains(pods));
    documents.replace(managed, &existing).replace(pods, both)
}

/// Returns the families that the rules of a group admit from anywhere at this port.
pub(crate) async fn families(cloud: &dyn Cloud, port: i32) -> BTreeSet<String> {
    let groups = cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let rules = groups.iter().flat_map(|group| &group.rules);
    let admits = rules.filter(|it| it.rule.direction == "ingress" && it.rule.port_min == Some(port));
    admits.map(|it| it.rule.ether_type.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_with_ipv4_and_ipv6_comes_and_goes_and_leaves_the_network() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let cloud = world.project().await.unwrap();
    let (network, subnets) = network(cloud.as_ref()).await;
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&documents(&world, &network, &subnets)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;

    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    for machine in machines.list(&ListParams::default()).await.unwrap() {
        let addresses = machine.status.unwrap_or_default().addresses.unwrap_or_default();
        let internal: Vec<&str> = addresses
            .iter()
            .filter(|it| it.kind == MachineAddressType::InternalIP)
            .map(|it| it.address.as_str())
            .collect();
        let fits = |(address, prefix): (&&str, &&str)| address.starts_with(prefix);
        assert!(
            internal.len() == 2 && internal.iter().zip(&PREFIXES).all(fits),
            "IPv4 before IPv6: {addresses:?}"
        );
    }
    assert_eq!(families(cloud.as_ref(), 6443).await, BTreeSet::from(["IPv4", "IPv6"].map(str::to_owned)));
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let status = clusters.get("blue").await.unwrap().status.unwrap();
    let known = status.network.unwrap().subnets.unwrap_or_default();
    assert_eq!(known.iter().map(|it| it.id.clone()).collect::<Vec<_>>(), subnets);

    observer.clusters().delete("blue", &kube::api::DeleteParams::default()).await.unwrap();
    observer.until_gone().await;
    assert_eq!(world.counts(), empty, "the network of another owner stays, and nothing else");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
