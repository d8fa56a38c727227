//! Tests of the servers as their hypervisors see them.

use std::net::IpAddr;

use serde_json::json;
use tests_openstack_simulator::{GuestChanges, GuestCursor, GuestServer, Simulator, SimulatorOptions};

use crate::client::{Client, quick};

const SERVERS: &str = "/compute/v2.1/servers";
const NETWORK: &str = "/network/v2.0";

fn only(simulator: &Simulator) -> GuestServer {
    let mut servers = simulator.hypervisor().servers();
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

#[tokio::test]
async fn a_hypervisor_sees_user_data_boots_and_disks() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let hypervisor = simulator.hypervisor();
    let client = Client::login(&simulator, "demo").await;
    let mut body = client.server_body("machine").await;
    // "hello" in gzip format, then in base64.
    body["server"]["user_data"] = json!("H4sIAAAAAAACA8tIzcnJBwCGphA2BQAAAA==");
    let before = hypervisor.revision();
    let id = client.boot(body, "ACTIVE").await;
    assert!(hypervisor.revision() > before);
    let server = only(&simulator);
    assert_eq!((server.boots, server.disks, server.running), (1, 1, true));
    assert_eq!(server.image.as_deref(), Some("ubuntu-2204-kube-v1.29.0"));
    assert_eq!(server.addresses.len(), 1);
    assert_eq!(hypervisor.user_data(&id).unwrap(), b"hello");

    let action = format!("{SERVERS}/{id}/action");
    client.post(&action, json!({"reboot": {"type": "HARD"}})).await;
    assert!(!only(&simulator).running);
    client.until(&format!("{SERVERS}/{id}"), |server| server["status"] == "ACTIVE").await;
    assert_eq!((only(&simulator).boots, only(&simulator).disks), (2, 1));
    let image = client.id_of("/image/v2/images", "ubuntu-2204-kube-v1.30.0").await;
    client.post(&action, json!({"rebuild": {"imageRef": image}})).await;
    client.until(&format!("{SERVERS}/{id}"), |server| server["status"] == "ACTIVE").await;
    assert_eq!((only(&simulator).boots, only(&simulator).disks), (3, 2));
    client.delete(&format!("{SERVERS}/{id}")).await;
    client.until_gone(&format!("{SERVERS}/{id}")).await;
    assert!(hypervisor.servers().is_empty());
}

fn ids(changes: &GuestChanges) -> Vec<&str> {
    changes.present.iter().map(|server| server.id.as_str()).collect()
}

#[tokio::test]
async fn a_cursor_shows_only_the_servers_that_have_changed() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let (hypervisor, mut cursor) = (simulator.hypervisor(), GuestCursor::default());
    let client = Client::login(&simulator, "demo").await;
    let one = client.boot(client.server_body("one").await, "ACTIVE").await;
    let other = client.boot(client.server_body("other").await, "ACTIVE").await;
    assert_eq!(hypervisor.changes(&mut cursor).present, hypervisor.servers(), "the first look shows all");
    assert_eq!(hypervisor.changes(&mut cursor), GuestChanges::default());

    let port = client.get(&format!("{NETWORK}/ports?device_id={one}")).await.object()[0]["id"].clone();
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": port}});
    let floating = client.post(&format!("{NETWORK}/floatingips"), floating).await.id();
    let changes = hypervisor.changes(&mut cursor);
    assert_eq!((ids(&changes), changes.present[0].floating_ips.len()), (vec![one.as_str()], 1));
    client.delete(&format!("{NETWORK}/floatingips/{floating}")).await;
    let changes = hypervisor.changes(&mut cursor);
    assert_eq!((ids(&changes), changes.present[0].floating_ips.len()), (vec![one.as_str()], 0));

    client.post(&format!("{SERVERS}/{other}/action"), json!({"reboot": {"type": "HARD"}})).await;
    let changes = hypervisor.changes(&mut cursor);
    assert_eq!((ids(&changes), changes.present[0].running), (vec![other.as_str()], false));
    client.delete(&format!("{SERVERS}/{one}")).await;
    client.until_gone(&format!("{SERVERS}/{one}")).await;
    assert_eq!(hypervisor.changes(&mut cursor).gone, [one]);
}

#[tokio::test]
async fn a_console_log_has_the_lines_of_the_guest() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    simulator.hypervisor().append_console(&id, "one\ntwo\n");
    simulator.hypervisor().append_console(&id, "three\n");
    let console = async |details: serde_json::Value| {
        let action = json!({"os-getConsoleOutput": details});
        client.post(&format!("{SERVERS}/{id}/action"), action).await.json()["output"].clone()
    };
    assert_eq!(console(json!({})).await, "one\ntwo\nthree");
    assert_eq!(console(json!({"length": 2})).await, "two\nthree");
}

#[tokio::test]
async fn floating_ips_come_from_the_external_range() {
    let options = SimulatorOptions { external_cidr: "127.24.16.0/28".to_owned(), ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let port = client.get(&format!("{NETWORK}/ports?device_id={id}")).await.object()[0]["id"].clone();
    let public = client.id_of(&format!("{NETWORK}/networks"), "public").await;
    let floating = json!({"floatingip": {"floating_network_id": public, "port_id": port}});
    let floating = client.post(&format!("{NETWORK}/floatingips"), floating).await.object();
    let address: IpAddr = floating["floating_ip_address"].as_str().unwrap().parse().unwrap();
    assert!(address.is_loopback());
    assert_eq!(only(&simulator).floating_ips, [address]);
    let small = SimulatorOptions { external_cidr: "127.24.16.0/30".to_owned(), ..quick() };
    assert!(Simulator::start(small).await.is_err());
}
