use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};

use super::*;

/// Logs in to a simulated Keystone, as a user's program does, and returns the token.
async fn log_in(simulator: &Simulator, password: &str) -> String {
    let body: Value = json!({"auth": {"identity": {"methods": ["password"], "password": {"user":
        {"name": "demo", "domain": {"id": "default"}, "password": password}}},
        "scope": {"project": {"name": "demo", "domain": {"id": "default"}}}}});
    let url = format!("{}/auth/tokens", simulator.auth_url().trim_end_matches('/'));
    let response = Client::new().post(url).body(body.to_string()).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 201, "{}", response.text().await.unwrap());
    response.headers()["x-subject-token"].to_str().unwrap().to_owned()
}

fn tokens(simulator: &Simulator) -> KeystoneTokens {
    KeystoneTokens::new(KeystoneClient::new(&simulator.auth_url(), None).unwrap()).unwrap()
}

/// Returns the number of validations that reached Keystone.
fn validations(simulator: &Simulator) -> usize {
    let calls = simulator.log();
    calls.iter().filter(|call| call.method == "GET" && call.path.ends_with("/auth/tokens")).count()
}

fn answers(code: u16) -> InjectedFault {
    InjectedFault {
        path: Some("/v3/auth/tokens".to_owned()),
        method: Some("GET".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code,
            body: String::new(),
            content_type: None,
            retry_after: None,
        })
    }
}

#[tokio::test]
async fn a_token_has_its_user_and_an_invented_one_has_none() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    let user = tokens.review(&token).await.unwrap().unwrap();
    assert_eq!(user.name, "keystone:Default/demo");
    assert!(user.groups.iter().any(|group| group.ends_with(":member")), "{:?}", user.groups);
    assert_eq!(tokens.review("gAAAAABinvented").await, Ok(None));
    assert_eq!(tokens.review("gAAAAAB\n").await, Ok(None), "no header can have it");
}

#[tokio::test]
async fn many_requests_with_a_token_ask_keystone_once() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = Arc::new(tokens(&simulator));
    simulator.set_latency(Duration::from_millis(50));
    let mut reviews = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (tokens, token) = (Arc::clone(&tokens), token.clone());
        reviews.spawn(async move { tokens.review(&token).await.unwrap().unwrap().name });
    }
    assert!(reviews.join_all().await.iter().all(|name| name == "keystone:Default/demo"));
    assert_eq!(validations(&simulator), 1);
}

#[tokio::test]
async fn while_keystone_is_silent_known_tokens_work_and_others_get_an_error_at_once() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    tokens.review(&token).await.unwrap();
    simulator.inject(answers(503));
    let error = tokens.review("gAAAAABother").await.unwrap_err();
    assert!(error.0.contains("503") && error.0.contains("capstan kubeconfig"), "{error}");
    let asked = validations(&simulator);
    tokens.review("gAAAAABthird").await.unwrap_err();
    assert_eq!(validations(&simulator), asked, "Keystone was silent a moment ago");

    tokio::time::pause();
    tokio::time::advance(GOOD).await;
    let user = tokens.review(&token).await.unwrap().unwrap();
    let age: u64 = user.extra[IDENTITY_STALE].first().unwrap().parse().unwrap();
    assert!(age >= 60, "{age}");
    tokio::time::advance(STALE).await;
    tokens.review(&token).await.unwrap_err();
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_that_was_revoked_is_refused_when_its_answer_is_no_longer_fresh() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    tokens.review(&token).await.unwrap().unwrap();
    let url = format!("{}/auth/tokens", simulator.auth_url().trim_end_matches('/'));
    let revoked = Client::new().delete(url).header("X-Auth-Token", &token).header("X-Subject-Token", &token);
    assert_eq!(revoked.send().await.unwrap().status().as_u16(), 204);
    let known = tokens.review(&token).await.unwrap().unwrap();
    assert!(!known.extra.contains_key(IDENTITY_STALE));
    tokio::time::pause();
    tokio::time::advance(GOOD).await;
    tokio::time::resume();
    assert_eq!(tokens.review(&token).await, Ok(None));
}

#[tokio::test]
async fn an_odd_answer_about_one_token_stops_no_other() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    for code in [403, 431] {
        simulator.inject(answers(code));
        let error = tokens.review("gAAAAABodd").await.unwrap_err();
        assert!(error.0.contains(&code.to_string()), "{error}");
        simulator.clear_faults();
    }
    assert!(tokens.review(&token).await.unwrap().is_some());
}
