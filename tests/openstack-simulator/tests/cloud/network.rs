//! Tests of networks, addresses, routers, floating IPs, and filters.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::{Client, quick};

const NETWORK: &str = "/network/v2.0";

/// Creates a network with a subnet of a few addresses.
async fn network(client: &Client) -> (String, String) {
    let network = client.post(&format!("{NETWORK}/networks"), json!({"network": {"name": "n"}})).await.id();
    let subnet = json!({"subnet": {
        "name": "s", "network_id": network, "ip_version": 4, "cidr": "10.99.0.0/24",
        "allocation_pools": [{"start": "10.99.0.10", "end": "10.99.0.11"}],
    }});
    let subnet = client.post(&format!("{NETWORK}/subnets"), subnet).await.id();
    (network, subnet)
}

#[tokio::test]
async fn addresses_come_from_the_pools_and_only_once() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let (network, subnet) = network(&client).await;
    let port = async |fixed_ips: Value| {
        let body = json!({"port": {"network_id": network, "fixed_ips": fixed_ips}});
        client.post(&format!("{NETWORK}/ports"), body).await
    };
    let plain = json!({"port": {"network_id": network}});
    let first = client.post(&format!("{NETWORK}/ports"), plain.clone()).await.object();
    assert_eq!(first["fixed_ips"], json!([{"subnet_id": subnet, "ip_address": "10.99.0.10"}]));
    let taken = port(json!([{"subnet_id": subnet, "ip_address": "10.99.0.10"}])).await;
    let words = format!("IP address 10.99.0.10 already allocated in subnet {subnet}");
    assert_eq!((taken.status, taken.message()), (409, words));
    let outside = port(json!([{"ip_address": "10.97.0.1"}])).await;
    assert_eq!(
        (outside.status, outside.json()["NeutronError"]["type"].clone()),
        (400, json!("InvalidIpForNetwork"))
    );
    assert_eq!(
        port(json!([{"ip_address": "10.99.0.200"}])).await.status,
        201,
        "an address outside the pools, on request"
    );
    assert_eq!(client.post(&format!("{NETWORK}/ports"), plain.clone()).await.status, 201);
    let exhausted = client.post(&format!("{NETWORK}/ports"), plain).await;
    assert_eq!(exhausted.status, 409);
    assert_eq!(exhausted.message(), format!("No more IP addresses available on network {network}."));
}

#[tokio::test]
async fn floating_ips_and_gateways_take_the_lowest_free_addresses_in_turns() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let floating = async || {
        let body = json!({"floatingip": {"floating_network_id": public}});
        client.post(&format!("{NETWORK}/floatingips"), body).await.object()
    };
    let gateway = async || {
        let body = json!({"router": {"name": "r", "external_gateway_info": {"network_id": public}}});
        let router = client.post(&format!("{NETWORK}/routers"), body).await.object();
        router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"].clone()
    };
    // The seeds leave a gap below their last address.
    let first = floating().await;
    let taken = [gateway().await, floating().await["floating_ip_address"].clone(), gateway().await];
    let taken = taken.map(|address| u32::from(address.as_str().unwrap().parse::<Ipv4Addr>().unwrap()));
    assert_eq!(taken, [0, 1, 2].map(|offset| taken[0] + offset));
    client.delete(&format!("{NETWORK}/floatingips/{}", first["id"].as_str().unwrap())).await;
    assert_eq!(floating().await["floating_ip_address"], first["floating_ip_address"], "the gap again");
}

/// Creates a network with a subnet of IPv4 and one of IPv6 on which hosts form their own addresses.
async fn dual_stack(client: &Client) -> [String; 3] {
    let network = client.post(&format!("{NETWORK}/networks"), json!({"network": {"name": "n"}})).await.id();
    let four = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.99.0.0/24"}});
    let six = json!({"subnet": {
        "network_id": network, "ip_version": 6, "cidr": "fd00:99::/64", "ipv6_ra_mode": "slaac",
        "ipv6_address_mode": "slaac",
    }});
    let subnet = async |body: Value| client.post(&format!("{NETWORK}/subnets"), body).await.id();
    [network, subnet(four).await, subnet(six).await]
}

#[tokio::test]
async fn ports_form_their_addresses_of_ipv6_and_floating_ips_lead_to_ipv4_only() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let [network, four, six] = dual_stack(&client).await;
    let ports = format!("{NETWORK}/ports");
    let port = async |fixed_ips: Value| {
        let body = json!({"port": {"network_id": network, "mac_address": "fa:16:3e:01:02:03", "fixed_ips": fixed_ips}});
        client.post(&ports, body).await
    };
    let formed = json!({"subnet_id": six, "ip_address": "fd00:99::f816:3eff:fe01:203"});
    let first = port(json!([{"subnet_id": four}])).await.object();
    let fixed = |ip: &str| json!({"subnet_id": four, "ip_address": ip});
    assert_eq!(first["fixed_ips"], json!([formed, fixed("10.99.0.2")]), "the formed one comes unasked");
    let path = format!("{ports}/{}", first["id"].as_str().unwrap());
    let moved = json!({"port": {"fixed_ips": [{"subnet_id": four, "ip_address": "10.99.0.9"}]}});
    let moved = client.put(&path, moved).await.object();
    assert_eq!(moved["fixed_ips"], json!([fixed("10.99.0.9"), formed]), "the formed one stays");
    let refused = port(json!([{"subnet_id": six, "ip_address": "fd00:99::9"}])).await;
    let words = format!(
        "IPv6 address fd00:99::9 cannot be directly assigned to a port on subnet {six} as the subnet is configured for \
         automatic addresses"
    );
    assert_eq!((refused.status, refused.message()), (400, words));

    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let router = json!({"router": {"name": "r", "external_gateway_info": {"network_id": public}}});
    let router = client.post(&format!("{NETWORK}/routers"), router).await.id();
    for subnet in [&four, &six] {
        let interface = format!("{NETWORK}/routers/{router}/add_router_interface");
        assert_eq!(client.put(&interface, json!({"subnet_id": subnet})).await.status, 200);
    }
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": first["id"]}});
    let floating = client.post(&format!("{NETWORK}/floatingips"), floating).await.object();
    assert_eq!(floating["fixed_ip_address"], "10.99.0.9");
    assert_eq!(client.delete(&path).await.status, 204);
    let alone = port(json!([{"subnet_id": six}])).await.object();
    assert_eq!(alone["fixed_ips"], json!([formed]));
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": alone["id"]}});
    let refused = client.post(&format!("{NETWORK}/floatingips"), floating).await;
    let id = alone["id"].as_str().unwrap();
    let words = format!(
        "Bad floatingip request: Cannot add floating IP to port {id} that has no fixed IPv4 addresses."
    );
    assert_eq!((refused.status, refused.message()), (400, words));
}

#[tokio::test]
async fn a_floating_ip_requires_a_router_and_protects_it() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let (network, subnet) = network(&client).await;
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let port = client.post(&format!("{NETWORK}/ports"), json!({"port": {"network_id": network}})).await.id();
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": port}});
    let unreachable = client.post(&format!("{NETWORK}/floatingips"), floating.clone()).await;
    assert_eq!(unreachable.json()["NeutronError"]["type"], "ExternalGatewayForFloatingIPNotFound");

    let router = json!({"router": {"name": "r", "external_gateway_info": {"network_id": public}}});
    let router = client.post(&format!("{NETWORK}/routers"), router).await.id();
    let interface = json!({"subnet_id": subnet});
    let path = format!("{NETWORK}/routers/{router}");
    assert_eq!(client.put(&format!("{path}/add_router_interface"), interface.clone()).await.status, 200);
    assert_eq!(client.put(&format!("{path}/add_router_interface"), interface.clone()).await.status, 400);
    let floating = client.post(&format!("{NETWORK}/floatingips"), floating).await.object();
    assert_eq!((&floating["router_id"], &floating["status"]), (&json!(router), &json!("ACTIVE")));
    assert_eq!(client.put(&format!("{path}/remove_router_interface"), interface.clone()).await.status, 409);
    assert_eq!(client.delete(&path).await.status, 409);

    assert_eq!(client.delete(&format!("{NETWORK}/ports/{port}")).await.status, 204);
    let id = floating["id"].as_str().unwrap();
    let left = client.get(&format!("{NETWORK}/floatingips/{id}")).await.object();
    assert_eq!((&left["port_id"], &left["status"]), (&Value::Null, &json!("DOWN")));
    assert_eq!(client.put(&format!("{path}/remove_router_interface"), interface.clone()).await.status, 200);
    assert_eq!(client.put(&format!("{path}/remove_router_interface"), interface).await.status, 404);
    for path in [path, format!("{NETWORK}/floatingips/{id}"), format!("{NETWORK}/networks/{network}")] {
        assert_eq!(client.delete(&path).await.status, 204, "{path}");
    }
    assert!(simulator.inventory("demo").is_empty(), "{:?}", simulator.inventory("demo"));
}

#[tokio::test]
async fn the_gateway_of_a_router_changes_its_address_and_stays_while_a_floating_ip_needs_it() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let (network, subnet) = network(&client).await;
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let router = json!({"router": {"name": "r", "external_gateway_info": {"network_id": public}}});
    let router = client.post(&format!("{NETWORK}/routers"), router).await.object();
    let path = format!("{NETWORK}/routers/{}", router["id"].as_str().unwrap());
    let first = router["external_gateway_info"]["external_fixed_ips"][0].clone();
    assert_eq!(
        client.put(&format!("{path}/add_router_interface"), json!({"subnet_id": subnet})).await.status,
        200
    );
    let port = client.post(&format!("{NETWORK}/ports"), json!({"port": {"network_id": network}})).await.id();
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": port}});
    let floating = client.post(&format!("{NETWORK}/floatingips"), floating).await.id();
    let set =
        async |gateway: Value| client.put(&path, json!({"router": {"external_gateway_info": gateway}})).await;
    let addresses = |fixed: &[Value]| json!({"network_id": public, "external_fixed_ips": fixed});

    let same = set(json!({"network_id": public})).await.object();
    assert_eq!(same["external_gateway_info"]["external_fixed_ips"], json!([first]), "it keeps its address");
    let kept = set(addresses(std::slice::from_ref(&first))).await.object();
    assert_eq!(kept["external_gateway_info"]["external_fixed_ips"], json!([first]));
    let taken = client.get(&format!("{NETWORK}/floatingips/{floating}")).await.object();
    let taken = json!({"subnet_id": first["subnet_id"], "ip_address": taken["floating_ip_address"]});
    assert_eq!(set(addresses(&[taken])).await.status, 409, "the floating IP has the address");
    let (prefix, _) = first["ip_address"].as_str().unwrap().rsplit_once('.').unwrap();
    let other = json!({"subnet_id": first["subnet_id"], "ip_address": format!("{prefix}.199")});
    let moved = set(addresses(std::slice::from_ref(&other))).await.object();
    assert_eq!(moved["external_gateway_info"]["external_fixed_ips"], json!([other]));

    let refused = set(json!({})).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json()["NeutronError"]["type"], "RouterExternalGatewayInUseByFloatingIp");
    assert_eq!(client.delete(&format!("{NETWORK}/floatingips/{floating}")).await.status, 204);
    assert_eq!(set(json!({})).await.object()["external_gateway_info"], Value::Null);
}

#[tokio::test]
async fn resources_are_found_by_attribute_tag_address_and_page() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let (network, subnet) = network(&client).await;
    for name in ["one", "two"] {
        let body = json!({"port": {"network_id": network, "name": name, "description": "d"}});
        let id = client.post(&format!("{NETWORK}/ports"), body).await.id();
        let tags = client.put(&format!("{NETWORK}/ports/{id}/tags"), json!({"tags": ["all", name]})).await;
        assert_eq!(tags.status, 200);
    }
    let names = async |query: &str| {
        let ports = client.get(&format!("{NETWORK}/ports?network_id={network}&{query}")).await.json();
        let mut names: Vec<String> = ports["ports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|port| port["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("description=d").await, ["one", "two"]);
    assert_eq!(names("name=one&name=two").await, ["one", "two"]);
    assert_eq!(names("tags=all,one").await, ["one"]);
    assert_eq!(names("tags-any=one,two").await, ["one", "two"]);
    assert_eq!(names("not-tags=one").await, ["two"]);
    assert_eq!(names("not-tags-any=one,two").await, Vec::<String>::new());
    assert_eq!(names("fixed_ips=ip_address%3D10.99.0.11").await, ["two"]);
    assert_eq!(names(&format!("fixed_ips=subnet_id%3D{subnet}")).await, ["one", "two"]);
    assert_eq!(names("admin_state_up=False").await, Vec::<String>::new());
    let page = client.get(&format!("{NETWORK}/ports?network_id={network}&limit=1&fields=id")).await.json();
    assert_eq!(page["ports"][0].as_object().unwrap().len(), 1);
    let marker = page["ports"][0]["id"].as_str().unwrap();
    assert_eq!(names(&format!("limit=5&marker={marker}")).await.len(), 1);
    let external = client.get(&format!("{NETWORK}/networks?router:external=true")).await.object();
    assert_eq!(external[0]["name"], "public");
}

#[tokio::test]
async fn trusted_ports_need_the_extension_and_an_administrator() {
    for has_extension in [true, false] {
        let options = SimulatorOptions { trusted_ports: has_extension, ..quick() };
        let simulator = Simulator::start(options).await.unwrap();
        let client = Client::login(&simulator, "demo").await;
        let admin = Client::login(&simulator, "admin").await;
        let extension = client.get(&format!("{NETWORK}/extensions/port-trusted-vif")).await;
        assert_eq!(extension.status, if has_extension { 200 } else { 404 });
        let network = client.id_of(&format!("{NETWORK}/networks"), "private").await;
        let ports = format!("{NETWORK}/ports");
        let body = json!({"port": {"network_id": network, "trusted": true}});
        let (refused, made) = (client.post(&ports, body.clone()).await, admin.post(&ports, body).await);
        if !has_extension {
            let words = "Unrecognized attribute(s) 'trusted'";
            assert_eq!((refused.status, refused.message().as_str()), (400, words));
            assert_eq!((made.status, made.message().as_str()), (400, words));
            continue;
        }
        let words = "(rule:create_port and rule:create_port:trusted) is disallowed by policy";
        assert_eq!((refused.status, refused.message().as_str()), (403, words));
        assert_eq!(made.object()["trusted"], true);
        let path = format!("{ports}/{}", made.id());
        let changed = admin.put(&path, json!({"port": {"trusted": false}})).await.object();
        assert_eq!(changed["trusted"], false);
        let own = client.post(&ports, json!({"port": {"network_id": network}})).await;
        assert_eq!(own.object().get("trusted"), None, "administrators see it");
        let refused = client.put(&format!("{ports}/{}", own.id()), json!({"port": {"trusted": true}})).await;
        let words = "(rule:update_port and rule:update_port:trusted) is disallowed by policy";
        assert_eq!((refused.status, refused.message().as_str()), (403, words));
    }
}
