//! Tests of quotas.

use serde_json::json;
use tests_openstack_simulator::Simulator;

use crate::client::{Client, quick};

#[tokio::test]
async fn a_server_over_quota_is_forbidden() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "tiny").await;
    let mut body = client.server_body("machine").await;
    body["server"]["flavorRef"] = json!("4");
    let response = client.post("/compute/v2.1/servers", body.clone()).await;
    let words =
        "Quota exceeded for cores, ram: Requested 4, 8192, but already used 0, 0 of 2, 4096 cores, ram";
    assert_eq!((response.status, response.message().as_str()), (403, words));
    assert!(simulator.set_quota("tiny", "ram", -1));
    let response = client.post("/compute/v2.1/servers", body).await;
    assert_eq!(response.message(), "Quota exceeded for cores: Requested 4, but already used 0 of 2 cores");
    let limits = client.get("/compute/v2.1/limits").await.object();
    assert_eq!(limits["absolute"]["maxTotalCores"], 2);
    assert!(!simulator.set_quota("nobody", "ram", 1));
}

#[tokio::test]
async fn a_network_resource_over_quota_is_a_conflict() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    for (path, kind) in
        [("networks", "network"), ("routers", "router"), ("security-groups", "security_group")]
    {
        simulator.set_quota("demo", kind, 0);
        let response = client.post(&format!("/network/v2.0/{path}"), json!({kind: {"name": "x"}})).await;
        let words = format!("Quota exceeded for resources: ['{kind}'].");
        assert_eq!((response.status, response.message()), (409, words));
        assert_eq!(response.json()["NeutronError"]["type"], "OverQuota");
    }
    let quota = client.get(&format!("/network/v2.0/quotas/{}", client.project)).await.object();
    assert_eq!(quota["router"], 0);
}

#[tokio::test]
async fn a_volume_over_quota_is_too_large() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "tiny").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let response = client.post(&volumes, json!({"volume": {"size": 21}})).await;
    assert_eq!(response.status, 413);
    assert!(response.message().contains("Requested 21G, quota is 20G and 0G has been consumed"));
    for _ in 0..2 {
        client.post(&volumes, json!({"volume": {"size": 1}})).await.id();
    }
    let response = client.post(&volumes, json!({"volume": {"size": 1}})).await;
    assert!(
        response.message().contains("Maximum number of volumes allowed (2) exceeded"),
        "{}",
        response.text
    );
}

/// Neutron's policy `get_network_ip_availability` is the administrator's.
#[tokio::test]
async fn the_count_of_addresses_is_for_administrators() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.post("/network/v2.0/networks", json!({"network": {"name": "n"}})).await.id();
    let subnet = json!({"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/29"}});
    client.post("/network/v2.0/subnets", subnet).await.id();
    let path = format!("/network/v2.0/network-ip-availabilities/{network}");
    let response = client.get(&path).await;
    let words = "rule:get_network_ip_availability is disallowed by policy";
    assert_eq!((response.status, response.message().as_str()), (403, words));
    let found = Client::login(&simulator, "admin").await.get(&path).await.object();
    let counts = |of: &serde_json::Value| (of["total_ips"].as_u64(), of["used_ips"].as_u64());
    assert_eq!(counts(&found), (Some(5), Some(0)), "{found}");
    assert_eq!(counts(&found["subnet_ip_availability"][0]), (Some(5), Some(0)), "{found}");
}
