use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

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
    let mut reviews = JoinSet::new();
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
    tokio::time::advance(LONGEST_TTL).await;
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
    let url = format!("{}/auth/tokens", simulator.auth_url().trim_end_matches('/'));
    for ttl in [LONGEST_TTL, Duration::from_secs(30)] {
        let token = log_in(&simulator, "demo").await;
        let tokens = tokens(&simulator).with_cache_ttl(ttl);
        tokens.review(&token).await.unwrap().unwrap();
        let revoked = Client::new().delete(&url);
        let revoked = revoked.header("X-Auth-Token", &token).header("X-Subject-Token", &token);
        assert_eq!(revoked.send().await.unwrap().status().as_u16(), 204);
        let known = tokens.review(&token).await.unwrap().unwrap();
        assert!(!known.extra.contains_key(IDENTITY_STALE));
        tokio::time::pause();
        tokio::time::advance(ttl).await;
        tokio::time::resume();
        assert_eq!(tokens.review(&token).await, Ok(None), "{ttl:?}");
    }
}

#[tokio::test]
async fn without_a_cache_each_request_reaches_keystone_and_no_answer_counts_as_old() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator).with_cache_ttl(Duration::ZERO);
    for _ in 0..2 {
        let user = tokens.review(&token).await.unwrap().unwrap();
        assert!(!user.extra.contains_key(IDENTITY_STALE));
        assert_eq!(tokens.review("gAAAAABinvented").await, Ok(None));
    }
    assert_eq!(validations(&simulator), 4);
    simulator.inject(answers(503));
    let user = tokens.review(&token).await.unwrap().unwrap();
    assert!(user.extra.contains_key(IDENTITY_STALE), "Keystone is silent");
}

#[tokio::test]
async fn an_odd_answer_about_one_token_stops_no_other() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    for (code, words) in [(403, "trust with impersonation"), (431, "431")] {
        simulator.inject(answers(code));
        let error = tokens.review("gAAAAABodd").await.unwrap_err();
        assert!(error.0.contains(&code.to_string()) && error.0.contains(words), "{error}");
        simulator.clear_faults();
    }
    assert!(tokens.review(&token).await.unwrap().is_some());
}

/// Returns a token of a new application credential of a user, which has these access rules.
async fn restricted(simulator: &Simulator, token: &str, rules: Value) -> String {
    let url = simulator.auth_url().trim_end_matches('/').to_owned();
    let sent = async |request: reqwest::RequestBuilder| {
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let issued = response.headers().get("x-subject-token");
        let issued = issued.map(|token| token.to_str().unwrap().to_owned());
        (issued, serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
    };
    let own = Client::new().get(format!("{url}/auth/tokens"));
    let (_, own) = sent(own.header("X-Auth-Token", token).header("X-Subject-Token", token)).await;
    let user = own.pointer("/token/user/id").and_then(Value::as_str).unwrap();
    let made = Client::new().post(format!("{url}/users/{user}/application_credentials"));
    let body = json!({"application_credential": {"name": "restricted", "access_rules": rules}});
    let (_, made) = sent(made.header("X-Auth-Token", token).body(body.to_string())).await;
    let credential = &made["application_credential"];
    let body = json!({"auth": {"identity": {"methods": ["application_credential"],
        "application_credential": {"id": credential["id"], "secret": credential["secret"]}}}});
    let login = Client::new().post(format!("{url}/auth/tokens")).body(body.to_string());
    sent(login).await.0.unwrap()
}

#[tokio::test]
async fn ia_52_a_token_with_access_rules_has_those_for_this_service() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let rules = json!([{"service": "container-infra", "method": "GET", "path": "/apis/**"},
        {"service": "compute", "method": "DELETE", "path": "/**"}]);
    let restricted = restricted(&simulator, &token, rules).await;
    // The second answer comes from the cache.
    let own = tokens(&simulator);
    for _ in 0..2 {
        let limits = own.review(&restricted).await.unwrap().unwrap().limits.unwrap();
        let rules = limits.requests.as_ref().unwrap();
        assert!(rules.allow("GET", "/apis/g") && !rules.allow("DELETE", "/apis/g"));
    }
    assert_eq!(own.review(&token).await.unwrap().unwrap().limits, None);
    let other = tokens(&simulator).with_service_type("compute".to_owned());
    let limits = other.review(&restricted).await.unwrap().unwrap().limits.unwrap();
    let rules = limits.requests.as_ref().unwrap();
    assert!(!rules.allow("GET", "/apis/g") && rules.allow("DELETE", "/apis/g"));
}

/// Lets all answers so far become too old to be used without a new one.
async fn outlive_answers() {
    tokio::time::pause();
    tokio::time::advance(LONGEST_TTL).await;
    tokio::time::resume();
}

#[tokio::test]
async fn ia_56_an_old_answer_counts_only_while_keystone_is_silent() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = tokens(&simulator);
    tokens.review(&token).await.unwrap().unwrap();
    outlive_answers().await;
    for code in [403, 431] {
        simulator.inject(answers(code));
        let error = tokens.review(&token).await.unwrap_err();
        assert!(error.0.contains(&code.to_string()), "{error}");
        simulator.clear_faults();
    }
    simulator.inject(answers(503));
    let user = tokens.review(&token).await.unwrap().unwrap();
    assert!(user.extra.contains_key(IDENTITY_STALE));
}

/// Sends this number of guesses of a client at an address.
fn guess(tokens: &Arc<KeystoneTokens>, count: usize, address: Option<IpAddr>) -> JoinSet<()> {
    let mut guesses = JoinSet::new();
    for number in 0..count {
        let tokens = Arc::clone(tokens);
        guesses.spawn(async move {
            let _ = tokens.review_from(&format!("gAAAAAB{number}"), address).await;
        });
    }
    guesses
}

#[tokio::test]
async fn tm_18_guesses_of_one_address_leave_room_for_the_tokens_of_others() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = Arc::new(tokens(&simulator));
    let [near, far] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().ok());
    simulator.set_latency(Duration::from_millis(500));
    let _guesses = guess(&tokens, 3 * AT_ONCE, near);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    assert!(tokens.review_from(&token, far).await.unwrap().is_some());
    // Behind all guesses it would take three times as long.
    assert!(started.elapsed() < Duration::from_millis(1300), "{:?}", started.elapsed());
}

#[tokio::test]
async fn ia_56_a_full_queue_counts_as_silence_only_without_answers() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let token = log_in(&simulator, "demo").await;
    let tokens = Arc::new(tokens(&simulator));
    tokens.review(&token).await.unwrap().unwrap();
    assert!(!tokens.overloaded().is_silence, "the queue is full because of a flood");
    outlive_answers().await;
    simulator.set_latency(Duration::from_secs(60));
    let _guesses = guess(&tokens, PER_ADDRESS, None);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let user = tokens.review(&token).await.unwrap().unwrap();
    assert!(user.extra.contains_key(IDENTITY_STALE), "Keystone answers no request");
}

#[tokio::test]
async fn tm_19_no_redirect_of_keystone_is_followed() {
    let [redirecting, target] =
        [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await];
    let (redirecting, target) = (redirecting.unwrap(), target.unwrap());
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{}/v3/auth/tokens\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        target.local_addr().unwrap()
    );
    let serving = async {
        let (mut stream, _) = redirecting.accept().await.unwrap();
        let mut head = [0; 4096];
        assert!(stream.read(&mut head).await.unwrap() > 0);
        stream.write_all(answer.as_bytes()).await.unwrap();
    };
    let url = format!("http://{}", redirecting.local_addr().unwrap());
    let tokens = KeystoneTokens::new(KeystoneClient::new(&url, None).unwrap()).unwrap();
    let (found, ()) = tokio::join!(tokens.review("gAAAAABtoken"), serving);
    assert!(found.unwrap_err().0.contains("302 Found"));
    let shown = tokio::time::timeout(Duration::from_millis(100), target.accept()).await;
    assert!(shown.is_err(), "the token would be shown to another server");
}
