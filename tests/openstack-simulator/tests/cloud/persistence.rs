//! Tests of the state file.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::{Client, quick};

/// File of one test, removed afterwards.
struct File(PathBuf);

impl File {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("openstack-simulator-{}.json", uuid::Uuid::new_v4())))
    }

    fn options(&self) -> SimulatorOptions {
        SimulatorOptions { state_file: Some(self.0.clone()), ..quick() }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_restarted_cloud_continues_from_its_state_file() {
    let file = File::new();
    let simulator = Simulator::start(file.options()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let body = client.server_body("machine").await;
    let id = client.post("/compute/v2.1/servers", body).await.id();
    simulator.set_quota("demo", "cores", 7);
    simulator.shutdown().await.unwrap();

    tokio::time::sleep(Duration::from_millis(200)).await;
    let simulator = Simulator::start(file.options()).await.unwrap();
    let again = Client { address: simulator.address(), ..client.clone() };
    let server = again.get(&format!("/compute/v2.1/servers/{id}")).await.object();
    assert_eq!(server["status"], "ACTIVE", "time has passed, and the token is still valid");
    let limits = again.get("/compute/v2.1/limits").await.object();
    assert_eq!(limits["absolute"]["maxTotalCores"], 7);
    again.delete(&format!("/compute/v2.1/servers/{id}")).await;
    again.until_gone(&format!("/compute/v2.1/servers/{id}")).await;
    assert!(simulator.inventory("demo").is_empty(), "the seeds are still known as such");
    simulator.shutdown().await.unwrap();
}

#[tokio::test]
async fn changes_reach_the_file_without_a_shutdown() {
    let file = File::new();
    let simulator = Simulator::start(file.options()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let network = client.post("/network/v2.0/networks", json!({"network": {"name": "kept"}})).await.id();
    for _ in 0..200 {
        if std::fs::read_to_string(&file.0).unwrap().contains(&network) {
            // A write cut short by the end of the test would leave a file behind.
            simulator.shutdown().await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the file stays as it was");
}

#[tokio::test]
async fn an_unusable_configuration_fails_at_start() {
    let file = File::new();
    std::fs::write(&file.0, "not a cloud").unwrap();
    let broken = Simulator::start(file.options()).await.unwrap_err().to_string();
    assert!(broken.contains("cannot understand state file"), "{broken}");
    let simulator = Simulator::start(quick()).await.unwrap();
    let taken = SimulatorOptions { listen: simulator.address(), ..quick() };
    let taken = Simulator::start(taken).await.unwrap_err().to_string();
    assert!(taken.contains("cannot listen on"), "{taken}");
    let nowhere = SimulatorOptions { state_file: Some(PathBuf::from("/proc/nowhere/state")), ..quick() };
    let nowhere = Simulator::start(nowhere).await.unwrap_err().to_string();
    assert!(nowhere.contains("cannot write state file /proc/nowhere/state"), "{nowhere}");
}
