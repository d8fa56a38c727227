//! Tests of Neutron's errors and their messages.

use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

use crate::client::{Client, quick};

const NETWORK: &str = "/network/v2.0";
const NOTHING: &str = "aaaaaaaa-bbf4-49c9-b37c-08fd55468fca";

fn kind(response: &crate::client::ReceivedResponse) -> Value {
    response.json()["NeutronError"]["type"].clone()
}

#[tokio::test]
async fn a_resource_in_use_cannot_be_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.id_of(&format!("{NETWORK}/networks"), "private").await;
    let subnet = client.id_of(&format!("{NETWORK}/subnets"), "private-subnet").await;
    let router = client.id_of(&format!("{NETWORK}/routers"), "router").await;
    let group = client
        .post(&format!("{NETWORK}/security-groups"), json!({"security_group": {"name": "g"}}))
        .await
        .id();
    let body = json!({"port": {"network_id": network, "security_groups": [group]}});
    let port = client.post(&format!("{NETWORK}/ports"), body).await.id();
    let interface = client.get(&format!("{NETWORK}/ports?device_id={router}")).await.object();
    let interface = interface[0]["id"].as_str().unwrap();
    let table = [
        (format!("networks/{network}"), "NetworkInUse"),
        (format!("subnets/{subnet}"), "SubnetInUse"),
        (format!("routers/{router}"), "RouterInUse"),
        (format!("security-groups/{group}"), "SecurityGroupInUse"),
        (format!("ports/{interface}"), "ServicePortInUse"),
    ];
    for (path, expected) in table {
        let response = client.delete(&format!("{NETWORK}/{path}")).await;
        assert_eq!((response.status, kind(&response)), (409, json!(expected)), "{path}");
    }
    assert_eq!(client.delete(&format!("{NETWORK}/ports/{port}")).await.status, 204);
    assert_eq!(client.delete(&format!("{NETWORK}/security-groups/{group}")).await.status, 204);
}

#[tokio::test]
async fn duplicate_rules_are_refused() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let group =
        client.post(&format!("{NETWORK}/security-groups"), json!({"security_group": {"name": "g"}})).await;
    let rules = group.object()["security_group_rules"].as_array().unwrap().len();
    assert_eq!(rules, 2, "all may leave, by either protocol");
    let rule = json!({"security_group_rule": {
        "security_group_id": group.id(), "direction": "ingress", "protocol": "tcp", "port_range_min": 22,
        "port_range_max": 22, "remote_ip_prefix": "10.0.0.0/8",
    }});
    let path = format!("{NETWORK}/security-group-rules");
    let id = client.post(&path, rule.clone()).await.id();
    let again = client.post(&path, rule).await;
    let words = format!("Security group rule already exists. Rule id is {id}.");
    assert_eq!((again.status, again.message()), (409, words));
    let rule = |port: u16| {
        json!({"security_group_id": group.id(), "direction": "ingress", "protocol": "tcp",
            "port_range_min": port, "port_range_max": port, "remote_ip_prefix": "10.0.0.0/8"})
    };
    let several = json!({"security_group_rules": [rule(80), rule(22)]});
    assert_eq!(client.post(&path, several).await.status, 409, "one of them exists");
    let several = json!({"security_group_rules": [rule(80), rule(81)]});
    assert_eq!(client.post(&path, several).await.status, 201, "none of them exists");
    let egress = json!({"security_group_rule": {"security_group_id": group.id(), "direction": "egress"}});
    assert_eq!(client.post(&path, egress).await.status, 409, "like the rules that groups begin with");
}

#[tokio::test]
async fn invalid_bodies_are_refused() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.id_of(&format!("{NETWORK}/networks"), "private").await;
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let subnet = json!({"network_id": network, "ip_version": 4, "cidr": "10.6.3.0/24"});
    let automatic = |version: u8, cidr: &str| {
        let mode = "slaac";
        json!({"subnet": {"network_id": network, "ip_version": version, "cidr": cidr, "ipv6_ra_mode": mode}})
    };
    let table = [
        ("ports", json!({"prt": {}}), 400, "Unable to find 'port' in request body"),
        (
            "ports",
            json!({"port": {}}),
            400,
            "Failed to parse request. Required attribute 'network_id' not specified",
        ),
        ("ports", json!({"port": {"network_id": network, "x": 1}}), 400, "Unrecognized attribute(s) 'x'"),
        (
            "ports",
            json!({"port": {"network_id": NOTHING}}),
            404,
            &format!("Network {NOTHING} could not be found."),
        ),
        ("networks", json!({"network": {"tags": ["a"]}}), 400, "Attribute 'tags' not allowed in POST"),
        (
            "networks",
            json!({"network": {"shared": true}}),
            403,
            "(rule:create_network and rule:create_network:shared) is disallowed by policy",
        ),
        (
            "subnets",
            json!({"subnet": subnet}),
            400,
            &format!(
                "Invalid input for operation: Requested subnet with cidr: 10.6.3.0/24 for network: {network} \
                 overlaps with another subnet."
            ),
        ),
        (
            "subnets",
            automatic(4, "10.7.0.0/24"),
            400,
            "Invalid input for operation: ipv6_ra_mode is not valid when ip_version is 4.",
        ),
        (
            "subnets",
            automatic(6, "fd00:7::/56"),
            400,
            "Invalid input for operation: Invalid CIDR fd00:7::/56 for IPv6 address mode. OpenStack uses the EUI-64 \
             address format, which requires the prefix to be /64.",
        ),
        (
            "ports",
            json!({"port": {"network_id": public}}),
            403,
            &format!("Tenant {} not allowed to create port on this network", client.project),
        ),
        (
            "floatingips",
            json!({"floatingip": {"floating_network_id": network}}),
            400,
            &format!("Bad floatingip request: Network {network} is not a valid external network."),
        ),
        (
            "security-groups",
            json!({"security_group": {"name": "default"}}),
            409,
            "Default security group already exists.",
        ),
    ];
    for (path, body, status, message) in table {
        let response = client.post(&format!("{NETWORK}/{path}"), body).await;
        assert_eq!((response.status, response.message().as_str()), (status, message), "{path}");
    }
    assert!(simulator.inventory("demo").is_empty());
}

#[tokio::test]
async fn attributes_of_admins_are_refused_with_the_name_of_the_rule() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.id_of(&format!("{NETWORK}/networks"), "private").await;
    for (key, value) in
        [("binding:host_id", json!("h")), ("binding:profile", json!({"capabilities": ["switchdev"]}))]
    {
        let port = json!({"port": {"network_id": network, key: value}});
        let refused = client.post(&format!("{NETWORK}/ports"), port).await;
        assert_eq!((refused.status, kind(&refused)), (403, json!("PolicyNotAuthorized")));
        assert!(refused.message().contains(&format!("rule:create_port:{key}")), "{}", refused.message());
    }
}
