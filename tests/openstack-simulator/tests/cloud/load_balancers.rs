//! Tests of load balancers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault, Simulator, SimulatorOptions};

use crate::client::{Client, quick};

const LBAAS: &str = "/load-balancer/v2/lbaas";

async fn active(client: &Client, id: &str) -> Value {
    client.until(&format!("{LBAAS}/loadbalancers/{id}"), |it| it["provisioning_status"] == "ACTIVE").await
}

/// Creates a load balancer on the project's own subnet, and waits for it.
async fn balancer(client: &Client, attributes: Value) -> Value {
    let subnet = client.id_of("/network/v2.0/subnets", "private-subnet").await;
    let mut body = json!({"name": "lb", "vip_subnet_id": subnet});
    for (key, value) in attributes.as_object().into_iter().flatten() {
        body[key.as_str()] = value.clone();
    }
    let response = client.post(&format!("{LBAAS}/loadbalancers"), json!({"loadbalancer": body})).await;
    assert_eq!((response.status, &response.object()["provisioning_status"]), (201, &json!("PENDING_CREATE")));
    active(client, &response.id()).await
}

fn words(response: &crate::client::ReceivedResponse) -> (u16, String) {
    (response.status, response.json()["faultstring"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_load_balancer_accepts_one_change_at_a_time_and_is_deleted_with_its_parts() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let balancer = balancer(&client, json!({"tags": ["a"]})).await;
    let id = balancer["id"].as_str().unwrap();
    let port = format!("/network/v2.0/ports/{}", balancer["vip_port_id"].as_str().unwrap());
    let owner = client.get(&port).await.object();
    assert_eq!(
        (&owner["device_owner"], &owner["device_id"]),
        (&json!("Octavia"), &json!(format!("lb-{id}")))
    );

    let listener = json!({"listener": {
        "loadbalancer_id": id, "name": "l", "protocol": "TCP", "protocol_port": 6443,
    }});
    let listeners = format!("{LBAAS}/listeners");
    let created = client.post(&listeners, listener.clone()).await.object();
    assert_eq!((&created["allowed_cidrs"], &created["loadbalancers"]), (&Value::Null, &json!([{"id": id}])));
    let pool = json!({"pool": {
        "listener_id": created["id"], "name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
    }});
    let early = client.post(&format!("{LBAAS}/pools"), pool.clone()).await;
    let immutable = format!("Load Balancer {id} is immutable and cannot be updated.");
    assert_eq!(words(&early), (409, immutable));
    let pending = client.delete(&format!("{LBAAS}/loadbalancers/{id}?cascade=true")).await;
    let invalid = format!("Invalid state PENDING_UPDATE of loadbalancer resource {id}");
    assert_eq!(words(&pending), (409, invalid));
    active(&client, id).await;
    assert_eq!(client.post(&listeners, listener).await.status, 409);

    let pool = client.post(&format!("{LBAAS}/pools"), pool).await.id();
    active(&client, id).await;
    let members = format!("{LBAAS}/pools/{pool}/members");
    let member =
        json!({"member": {"name": "m", "address": "10.6.0.9", "protocol_port": 6443, "tags": ["t"]}});
    client.post(&members, member.clone()).await.id();
    active(&client, id).await;
    let twice = words(&client.post(&members, member).await);
    let using = "Another member on this pool is already using ip 10.6.0.9 on protocol_port 6443";
    assert_eq!(twice, (409, using.to_owned()));
    let batch = json!({"members": [{"name": "n", "address": "10.6.0.10", "protocol_port": 6443}]});
    assert_eq!(client.put(&format!("{members}?additive_only=true"), batch).await.status, 202);
    active(&client, id).await;
    let tree = client.get(&format!("{LBAAS}/loadbalancers/{id}/status")).await.object();
    let seen = &tree["loadbalancer"]["listeners"][0]["pools"][0]["members"];
    assert_eq!(seen.as_array().unwrap().len(), 2, "{tree}");

    let kept = words(&client.delete(&format!("{LBAAS}/loadbalancers/{id}")).await);
    assert_eq!(kept.0, 400, "{}", kept.1);
    assert_eq!(client.delete(&format!("{LBAAS}/loadbalancers/{id}?cascade=true")).await.status, 204);
    client.until_gone(&format!("{LBAAS}/loadbalancers/{id}")).await;
    assert_eq!(client.get(&port).await.status, 404);
    assert_eq!(client.get(&members).await.status, 404);
    assert!(simulator.inventory("demo").is_empty());
}

#[tokio::test]
async fn a_port_that_was_named_outlives_its_load_balancer() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.id_of("/network/v2.0/networks", "private").await;
    let body = json!({"port": {"network_id": network, "device_owner": "capstan:api-vip"}});
    let port = client.post("/network/v2.0/ports", body).await.object();
    let new = json!({"loadbalancer": {"name": "lb", "vip_port_id": port["id"]}});
    let id = client.post(&format!("{LBAAS}/loadbalancers"), new).await.id();
    let balancer = active(&client, &id).await;
    assert_eq!(balancer["vip_address"], port["fixed_ips"][0]["ip_address"]);
    client.delete(&format!("{LBAAS}/loadbalancers/{id}")).await;
    client.until_gone(&format!("{LBAAS}/loadbalancers/{id}")).await;
    let path = format!("/network/v2.0/ports/{}", port["id"].as_str().unwrap());
    assert_eq!(client.get(&path).await.status, 200);
}

#[tokio::test]
async fn a_change_that_fails_ends_in_error_and_only_an_administrator_may_fail_over() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.inject(InjectedFault {
        service: Some(CloudService::LoadBalancer),
        method: Some("POST".to_owned()),
        count: Some(1),
        ..InjectedFault::new(FaultEffect::EndInError)
    });
    let subnet = client.id_of("/network/v2.0/subnets", "private-subnet").await;
    let new = json!({"loadbalancer": {"name": "lb", "vip_subnet_id": subnet}});
    let id = client.post(&format!("{LBAAS}/loadbalancers"), new).await.id();
    let path = format!("{LBAAS}/loadbalancers/{id}");
    client.until(&path, |it| it["provisioning_status"] == "ERROR").await;
    let refused = client.put(&format!("{path}/failover"), json!({})).await;
    assert_eq!(words(&refused), (403, "Policy does not allow this request to be performed.".to_owned()));
    let admin = Client::login(&simulator, "admin").await;
    assert_eq!(admin.put(&format!("{path}/failover"), json!({})).await.status, 202);
    active(&client, &id).await;
}

#[tokio::test]
async fn quotas_filters_and_pages_of_load_balancers_are_those_of_octavia() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.set_quota("demo", "loadbalancer", 2);
    for name in ["one", "two"] {
        balancer(&client, json!({"name": name})).await;
    }
    let subnet = client.id_of("/network/v2.0/subnets", "private-subnet").await;
    let third = json!({"loadbalancer": {"name": "three", "vip_subnet_id": subnet}});
    let refused = client.post(&format!("{LBAAS}/loadbalancers"), third).await;
    assert_eq!(words(&refused), (403, "Quota has been met for resources: Load Balancer".to_owned()));
    let named = client.get(&format!("{LBAAS}/loadbalancers?name=two")).await.object();
    assert_eq!(named.as_array().unwrap().len(), 1);
    let page = client.get(&format!("{LBAAS}/loadbalancers?limit=1&project_id={}", client.project)).await;
    let next = page.json()["loadbalancers_links"][0]["href"].as_str().unwrap().to_owned();
    assert!(!next.contains("project_id"), "{next}");
    assert_eq!(client.get(&format!("{LBAAS}/loadbalancers?color=red")).await.status, 400);
    let ovn = json!({"loadbalancer": {"name": "x", "vip_subnet_id": subnet, "provider": "none"}});
    let refused = client.post(&format!("{LBAAS}/loadbalancers"), ovn).await;
    assert_eq!(words(&refused), (400, "Provider 'none' is not enabled.".to_owned()));
}

#[tokio::test]
async fn a_hypervisor_sees_the_addresses_of_the_load_balancers_in_front_of_a_server() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    client.boot(client.server_body("machine").await, "ACTIVE").await;
    let only = || simulator.hypervisor().servers().remove(0);
    let balancer = balancer(&client, json!({})).await;
    let id = balancer["id"].as_str().unwrap();
    let public = client.id_of("/network/v2.0/networks", "public").await;
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": balancer["vip_port_id"]}});
    let floating = client.post("/network/v2.0/floatingips", floating).await.object();
    let pool = json!({"pool": {
        "loadbalancer_id": id, "name": "p", "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
    }});
    let pool = client.post(&format!("{LBAAS}/pools"), pool).await.id();
    active(&client, id).await;
    assert!(only().balanced_ips.is_empty());
    let member = json!({"member": {"address": only().addresses[0].to_string(), "protocol_port": 6443}});
    client.post(&format!("{LBAAS}/pools/{pool}/members"), member).await.id();
    active(&client, id).await;
    let seen: Vec<String> = only().balanced_ips.iter().map(ToString::to_string).collect();
    let expected = [&balancer["vip_address"], &floating["floating_ip_address"]];
    assert_eq!(seen, expected.map(|address| address.as_str().unwrap().to_owned()));
}

#[tokio::test]
async fn an_older_octavia_has_fewer_attributes_and_calls() {
    let options = SimulatorOptions { load_balancer_minor: 4, ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let versions = client.get("/load-balancer/").await.object();
    let newest = versions.as_array().unwrap().last().unwrap();
    assert_eq!((&newest["id"], &newest["status"]), (&json!("v2.4"), &json!("CURRENT")));
    for path in ["flavors", "availabilityzones"] {
        assert_eq!(client.get(&format!("{LBAAS}/{path}")).await.status, 404, "{path}");
    }
    let subnet = client.id_of("/network/v2.0/subnets", "private-subnet").await;
    let tagged = json!({"loadbalancer": {"vip_subnet_id": subnet, "tags": ["a"]}});
    let refused = client.post(&format!("{LBAAS}/loadbalancers"), tagged).await;
    assert_eq!(words(&refused), (400, "Unknown attribute:\ntags".to_owned()));
    let made = balancer(&client, json!({})).await;
    assert!(made.get("tags").is_none() && made.get("availability_zone").is_none(), "{made}");
    let id = made["id"].as_str().unwrap();
    let listener = json!({"loadbalancer_id": id, "protocol": "TCP", "protocol_port": 6443});
    let mut guarded = listener.clone();
    guarded["allowed_cidrs"] = json!(["10.0.0.0/8"]);
    let refused = client.post(&format!("{LBAAS}/listeners"), json!({"listener": guarded})).await;
    assert_eq!(words(&refused), (400, "Unknown attribute:\nallowed_cidrs".to_owned()));
    let listener = client.post(&format!("{LBAAS}/listeners"), json!({"listener": listener})).await.id();
    active(&client, id).await;
    let pool = json!({"listener_id": listener, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"});
    let pool = client.post(&format!("{LBAAS}/pools"), json!({"pool": pool})).await.id();
    active(&client, id).await;
    let path = format!("{LBAAS}/pools/{pool}/members?additive_only=true");
    let refused = client.put(&path, json!({"members": []})).await;
    assert_eq!(words(&refused), (400, "Unknown argument: \"additive_only\"".to_owned()));
}

#[tokio::test]
async fn each_provider_takes_its_own_time() {
    let times = BTreeMap::from([("ovn".to_owned(), Duration::from_hours(1))]);
    let options = SimulatorOptions { load_balancer_times: times, ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let subnet = client.id_of("/network/v2.0/subnets", "private-subnet").await;
    let body = json!({"loadbalancer": {"vip_subnet_id": subnet, "provider": "ovn"}});
    let slow = client.post(&format!("{LBAAS}/loadbalancers"), body).await.id();
    balancer(&client, json!({"provider": "amphora"})).await;
    let slow = client.get(&format!("{LBAAS}/loadbalancers/{slow}")).await.object();
    assert_eq!(slow["provisioning_status"], "PENDING_CREATE");
}
