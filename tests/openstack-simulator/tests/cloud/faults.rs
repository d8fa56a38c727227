//! Tests of error injection, of the log, and of the simulator's own endpoints.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::time::Duration;

use serde_json::json;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault, Simulator};

use crate::client::{Client, quick, send};

const SERVERS: &str = "/compute/v2.1/servers";

fn create(effect: FaultEffect) -> InjectedFault {
    InjectedFault {
        service: Some(CloudService::Compute),
        method: Some("POST".to_owned()),
        path: Some("/servers".to_owned()),
        count: Some(1),
        ..InjectedFault::new(effect)
    }
}

#[tokio::test]
async fn an_injected_status_is_returned_the_given_number_of_times() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let effect = FaultEffect::Status {
        code: 503,
        body: "<html>busy</html>".to_owned(),
        content_type: Some("text/html".to_owned()),
        retry_after: Some(7),
    };
    simulator.inject(InjectedFault {
        count: Some(2),
        path: Some("/compute".to_owned()),
        ..InjectedFault::new(effect)
    });
    for _ in 0..2 {
        let response = client.get(SERVERS).await;
        assert_eq!((response.status, response.text.as_str()), (503, "<html>busy</html>"));
        assert_eq!(
            (response.header("retry-after"), response.header("content-type")),
            (Some("7"), Some("text/html"))
        );
        assert!(response.header("x-openstack-request-id").unwrap().starts_with("req-"));
    }
    assert_eq!(client.get(SERVERS).await.status, 200);
}

#[tokio::test]
async fn a_dropped_call_takes_effect_or_not() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let body = client.server_body("machine").await.to_string();
    for (effect, servers) in [(FaultEffect::DropBeforeEffect, 0), (FaultEffect::DropAfterEffect, 1)] {
        simulator.inject(create(effect.clone()));
        let response = send(client.address, "POST", SERVERS, &client.token, &body).await;
        assert!(response.is_none(), "{effect:?}");
        assert_eq!(simulator.inventory("demo").servers.len(), servers, "{effect:?}");
    }
}

#[tokio::test]
async fn a_hanging_call_ends_with_the_simulator() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.inject(create(FaultEffect::Hang));
    let hanging = tokio::spawn({
        let client = client.clone();
        async move { send(client.address, "POST", SERVERS, &client.token, "{}").await }
    });
    while simulator.log().last().is_none_or(|call| call.path != SERVERS) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!hanging.is_finished());
    assert_eq!(client.get(SERVERS).await.status, 200, "the others go on");
    simulator.shutdown().await.unwrap();
    assert!(hanging.await.unwrap().is_none());
}

#[tokio::test]
async fn a_delay_comes_before_the_effect() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.inject(InjectedFault::new(FaultEffect::Delay { milliseconds: 60 }));
    let before = jiff::Timestamp::now();
    assert_eq!(client.get(SERVERS).await.status, 200);
    assert!(jiff::Timestamp::now().duration_since(before) >= jiff::SignedDuration::from_millis(60));
    simulator.clear_faults();
}

#[tokio::test]
async fn a_delay_ends_when_the_errors_are_removed() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.inject(InjectedFault::new(FaultEffect::Delay { milliseconds: 3_600_000 }));
    let remove = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        simulator.clear_faults();
    };
    let (answer, ()) = tokio::join!(client.get(SERVERS), remove);
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn the_log_records_every_call() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    simulator.clear_log();
    let response = client.post(&format!("{SERVERS}/{id}/action"), json!({"reboot": {"type": "SOFT"}})).await;
    client.get(&format!("{SERVERS}?name=x")).await;
    let log = simulator.log();
    assert_eq!(log.len(), 2);
    assert_eq!((log[0].action.as_deref(), log[0].status), (Some("reboot"), 202));
    assert_eq!(log[0].project.as_deref(), Some("demo"));
    assert_eq!(Some(log[0].request_id.as_str()), response.header("x-openstack-request-id"));
    assert_eq!((log[1].path.as_str(), log[1].query.as_str()), (SERVERS, "name=x"));
}

#[tokio::test]
async fn errors_can_be_injected_over_http() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let fault = json!({"method": "GET", "path": "/servers", "effect": {"status": {"code": 500}}});
    assert_eq!(client.post("/simulator/faults", fault).await.status, 204);
    assert_eq!(client.get(SERVERS).await.status, 500);
    assert_eq!(client.delete("/simulator/faults").await.status, 204);
    assert_eq!(client.get(SERVERS).await.status, 200);
    let fault = json!({"effect": "hang", "service": "image"});
    assert_eq!(client.post("/simulator/faults", fault).await.status, 204);
    assert_eq!(client.post("/simulator/faults", json!({"effect": "explode"})).await.status, 400);
    let quota = json!({"project": "demo", "resource": "instances", "limit": 0});
    assert_eq!(client.put("/simulator/quotas", quota).await.status, 204);
    assert_eq!(client.put("/simulator/latency", json!({"milliseconds": 1})).await.status, 204);
    let calls = client.get("/simulator/log").await.object();
    assert!(calls.as_array().unwrap().iter().any(|call| call["status"] == 500));
    assert_eq!(client.post("/simulator/clear-log", json!({})).await.status, 204);
    assert!(simulator.log().is_empty());
    let inventory = client.get("/simulator/inventory?project=demo").await.json();
    assert_eq!(inventory["servers"], json!([]));
}
