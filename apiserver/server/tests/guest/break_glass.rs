//! Certificates for administrators and for emergencies, with a real server.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::client::{Client, Identity};
use crate::process::{Capstan, PATIENCE};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-admin";
const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn code(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().code
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_lose_their_rights_with_the_binding_and_emergencies_are_recorded() {
    let data = tempfile::tempdir().unwrap();
    let mut capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let admin = capstan.client_of(Identity::with_flags(data.path(), &["--user", "admin"]));
    assert_eq!(code(&admin, MACHINES).await, 200, "the default group is bound to cluster-admin");
    assert_eq!(admin.once("DELETE", BINDING, "").await.unwrap().code, 200);
    let begun = Instant::now();
    while code(&admin, MACHINES).await != 403 {
        assert!(begun.elapsed() < PATIENCE, "the administrator keeps the rights");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }

    let flags = ["--user", "eve", "--break-glass", "--reason", "INC-7: no binding", "--expires", "1h"];
    let eve = capstan.client_of(Identity::with_flags(data.path(), &flags));
    let before = Timestamp::now().as_second();
    assert_eq!(code(&eve, MACHINES).await, 200);
    let begun = Instant::now();
    let event = loop {
        let all: Value = serde_json::from_slice(&eve.get(EVENTS).await.unwrap().body).unwrap();
        let of = |event: &&Value| event["reason"] == "BreakGlass";
        if let Some(event) = all["items"].as_array().unwrap().iter().find(of) {
            break event.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{all}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(
        (&event["type"], &event["involvedObject"]["name"]),
        (&json!("Warning"), &json!("system:masters"))
    );
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("\"eve\"") && message.ends_with("INC-7: no binding"), "{message}");
    let metrics = eve.get("/metrics").await.unwrap().text();
    let last_use = metrics
        .lines()
        .find_map(|line| line.strip_prefix("capstan_break_glass_last_use_timestamp_seconds "))
        .and_then(|value| value.parse::<i64>().ok());
    assert!(last_use.is_some_and(|at| at >= before), "an alert reads it: {last_use:?}");

    capstan.signal("TERM");
    assert_eq!(capstan.ended().await.code(), Some(0));
    let text = std::fs::read_to_string(data.path().join("audit/audit.log")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut of_eve = lines.filter(|line| line["user"]["username"] == "eve");
    let extra = of_eve.next().unwrap()["user"]["extra"].clone();
    assert_eq!(extra["capstan.dev/break-glass"], json!(["INC-7: no binding"]));
    assert_eq!(extra["capstan.dev/realm"], json!(["own"]));
    assert!(of_eve.all(|line| line["user"]["extra"] == extra), "each line has the reason");
}
