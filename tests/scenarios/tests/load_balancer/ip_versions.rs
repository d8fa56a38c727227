//! Tests of load balancers on networks with IPv6: which address they get, and at which one their members are.

use controllers_infrastructure::{NewNetwork, NewRouter, NewSubnet, PortQuery};

use super::obstacles::leaves_nothing;
use super::*;

/// Returns a manifest with other texts in place of some.
fn edited(manifest: String, edits: &[(&str, &str)]) -> String {
    edits.iter().fold(manifest, |manifest, (old, new)| {
        assert!(manifest.contains(old), "{old}");
        manifest.replace(old, new)
    })
}

/// Subnet of the manifest.
const SUBNET: &str = "managedSubnets: [{cidr: 10.8.0.0/24, dnsNameservers: [192.0.2.53]}]";

/// Capstan requested the address that the refused port had formed, and Neutron gives that to no other port.
#[tokio::test]
async fn r8_7_octavia_chooses_the_address_where_ports_form_their_own() {
    let world = World::start().await.unwrap();
    world.cloud.refuse_vip_ports();
    let edits = [
        (SUBNET, "managedSubnets: [{cidr: 'fd00:8::/64'}]"),
        ("  apiServer:\n", "  apiServer:\n    enableFloatingIP: false\n"),
        ("allowedCIDRs: [192.0.2.0/24]", "allowedCIDRs: ['2001:db8::/32', 192.0.2.0/24]"),
    ];
    let scene = Scene::start_edited(world, |manifest| edited(manifest, &edits)).await;
    scene.provisioned().await;
    let balancer = scene.balancers().await.pop().unwrap();
    let is_formed = |address: &str| address.starts_with("fd00:8::f816:3eff:fe");
    assert!(is_formed(&balancer.vip_address), "{balancer:?}");
    let endpoint = scene.cluster().await.spec.control_plane_endpoint.unwrap();
    assert_eq!(endpoint.host.as_ref(), Some(&balancer.vip_address));
    let members = scene.members().await;
    assert!(members.len() == 2 && members.iter().all(|it| is_formed(&it.address)), "{members:?}");
    for listener in scene.cloud.listeners(&balancer.id).await.unwrap() {
        assert_eq!(listener.allowed_cidrs, ["2001:db8::/32", "fd00:8::/64"]);
    }
    let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let refused = |event: &&Event| event.reason.as_deref() == Some("FailedIPAddressValidation");
    let refused = events.iter().find(refused).and_then(|event| event.message.clone()).unwrap_or_default();
    assert!(refused.contains("192.0.2.0/24"), "{refused}");
    leaves_nothing(&scene).await;
}

/// Creates a network with a router, a subnet of IPv4, and one of IPv6 on which ports form their addresses. Returns the ids of
/// the network and of its subnets.
async fn network(cloud: &dyn Cloud) -> [String; 3] {
    let new = NewNetwork { name: "both".to_owned(), ..NewNetwork::default() };
    let network_id = cloud.create_network(&new).await.unwrap().id;
    let external = NetworkQuery { external: Some(true), ..NetworkQuery::default() };
    let external = cloud.networks(&external).await.unwrap().remove(0).id;
    let name = "both".to_owned();
    let new = NewRouter { name, external_network_id: Some(external), ..NewRouter::default() };
    let router = cloud.create_router(&new).await.unwrap().id;
    let subnet = async |cidr: &str, slaac: bool| {
        let (name, network_id) = (cidr.to_owned(), network_id.clone());
        let new = NewSubnet { cidr: name.clone(), name, network_id, slaac, ..NewSubnet::default() };
        let subnet = cloud.create_subnet(&new).await.unwrap().id;
        cloud.add_router_interface(&router, &subnet).await.unwrap();
        subnet
    };
    let (four, six) = (subnet("10.20.0.0/24", false).await, subnet("fd00:20::/64", true).await);
    [network_id, four, six]
}

/// Neutron lists the address that a port formed before the one that was requested.
#[tokio::test]
async fn a_load_balancer_and_its_members_have_ipv4_on_a_network_of_both_versions() {
    let world = World::start().await.unwrap();
    let cloud = world.project().await.unwrap();
    let [network, four, six] = network(cloud.as_ref()).await;
    let existing = format!("network: {{id: {network}}}\n  subnets: [{{id: {four}}}, {{id: {six}}}]");
    let edits = [(SUBNET, existing.as_str())];
    let scene = Scene::start_edited(world, |manifest| edited(manifest, &edits)).await;
    scene.provisioned().await;
    let balancer = scene.balancers().await.pop().unwrap();
    let query = PortQuery { name: Some(format!("{}-vip", balancer.name)), ..PortQuery::default() };
    let port = cloud.ports(&query).await.unwrap().remove(0);
    let addresses: Vec<&str> = port.fixed_ips.iter().filter_map(|ip| ip.ip_address.as_deref()).collect();
    assert!(addresses.len() == 2 && addresses[0].starts_with("fd00:20::f816:"), "{addresses:?}");
    assert_eq!(balancer.vip_address, addresses[1]);
    let members = scene.members().await;
    let is_four =
        |member: &Member| member.address.starts_with("10.20.0.") && member.subnet_id.as_ref() == Some(&four);
    assert!(members.len() == 2 && members.iter().all(is_four), "{members:?}");
}
