//! Tests of token reviews against a fake host.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::audiences::tests::{jwt, token};
use crate::fake::{Fake, status};
use crate::health::HostState;

/// Longest time of a review: the wait in the queue, and the wait for the host.
const LONGEST: Duration = Duration::from_secs(4);

fn review(status: &Value) -> (u16, Value) {
    let spec = json!({"token": "t"});
    (
        201,
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": spec, "status": status}),
    )
}

fn audiences(accepts_host: bool) -> Audiences {
    Audiences { own: vec!["capstan".to_owned()], accepts_host }
}

fn tokens(host: &Fake) -> HostTokens {
    HostTokens::new(host.client(), audiences(true), false).unwrap().reviewing_unknown(true)
}

#[tokio::test(start_paused = true)]
async fn a_token_is_unknown_only_to_a_host_that_has_proved_itself() {
    let host = Fake::new(review(&json!({"authenticated": false})));
    let health = HostHealth::in_state(HostState::Probation);
    let tokens = tokens(&host).with_health(health.clone());
    assert!(tokens.review("t").await.unwrap_err().0.contains("just returned"));
    health.set(HostState::Up);
    assert_eq!(tokens.review("t").await, Ok(None));
    host.answer(alice());
    health.set(HostState::Probation);
    assert!(tokens.review("other").await.unwrap().is_some());
}

#[tokio::test]
async fn a_token_for_another_server_is_refused() {
    let host = Fake::new(alice());
    let [own, other] = ["capstan", "other"].map(|name| token(&json!([name])));
    // The host reports the requested audiences that the token has.
    host.responds(move |_, asked| {
        let is_own = asked["spec"]["token"] == own.as_str();
        let status = match &asked["spec"]["audiences"] {
            Value::Null => json!({"authenticated": false}),
            _ if !is_own => {
                json!({"authenticated": true, "audiences": ["other"], "user": {"username": "a"}})
            }
            found => json!({"authenticated": true, "audiences": found, "user": {"username": "a"}}),
        };
        Some(review(&status))
    });
    let own = token(&json!(["capstan"]));
    for accepts_host in [true, false] {
        let tokens = HostTokens::new(host.client(), audiences(accepts_host), false).unwrap();
        let tokens = tokens.reviewing_unknown(true);
        assert!(tokens.review(&own).await.unwrap().is_some(), "{accepts_host}");
        assert_eq!(tokens.review(&other).await, Ok(None), "{accepts_host}");
    }
    let host = Fake::new(alice());
    for (accepts_host, asked) in [(true, Value::Null), (false, json!(["capstan"]))] {
        let tokens = HostTokens::new(host.client(), audiences(accepts_host), false).unwrap();
        let tokens = tokens.reviewing_unknown(true);
        let found = tokens.review("opaque").await.unwrap();
        assert_eq!(found.is_some(), accepts_host, "a token for the host's own API");
        assert_eq!(host.bodies().last().unwrap()["spec"]["audiences"], asked);
    }
}

#[tokio::test(start_paused = true)]
async fn guessed_tokens_at_a_slow_host_wait_in_a_bounded_queue() {
    let host = Fake::new(alice());
    host.hang();
    let tokens = &tokens(&host);
    let started = tokio::time::Instant::now();
    let all = futures::future::join_all((0..AT_ONCE + MOST_WAITING + 1).map(|number| async move {
        let address = IpAddr::from([192, 0, 2, u8::try_from(number / PER_ADDRESS).unwrap()]);
        let found = tokens.review_from(&number.to_string(), Some(address)).await;
        (found.unwrap_err().0, started.elapsed())
    }));
    let all = all.await;
    let overloaded: Vec<_> = all.iter().filter(|(error, _)| error.contains("too many")).collect();
    // The first ones are given up when the wait of the others ends, so that some of these are sent then.
    assert!(overloaded.len() > MOST_WAITING - AT_ONCE, "all but those in flight: {}", overloaded.len());
    assert!(all.iter().all(|(_, took)| *took <= LONGEST), "a slow host is given up");
    assert_eq!(overloaded.iter().filter(|(_, took)| took.is_zero()).count(), 1, "the queue is full");
    assert!(overloaded.iter().all(|(_, took)| *took <= Duration::from_secs(2)));
}

#[tokio::test(start_paused = true)]
async fn guessed_tokens_of_one_address_leave_room_for_those_of_others() {
    let host = Fake::new(alice());
    host.hang();
    let tokens = &tokens(&host);
    let [stranger, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
    let mut guesses = std::pin::pin!(futures::future::join_all(
        (0..MOST_WAITING)
            .map(|number| async move { tokens.review_from(&number.to_string(), Some(stranger)).await })
    ));
    tokio::select! {
        _ = &mut guesses => panic!("the host does not answer"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(host.requests().len(), PER_ADDRESS);
    host.answer(alice());
    assert!(tokens.review_from("good", Some(other)).await.unwrap().is_some());
}

fn alice() -> (u16, Value) {
    review(&json!({"authenticated": true, "user": {"username": "alice", "uid": "7",
        "groups": ["dev"], "extra": {"scopes": ["a"]}}}))
}

#[tokio::test(start_paused = true)]
async fn the_host_reviews_a_token_and_its_answer_is_cached() {
    let host = Fake::new(alice());
    let tokens = tokens(&host);
    let many = futures::future::join_all((0..100).map(|_| tokens.review("t"))).await;
    let user = many.into_iter().last().unwrap().unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_deref()), ("alice", Some("7")));
    assert_eq!(user.groups, ["dev", "system:authenticated"]);
    assert_eq!(user.extra.get("scopes"), Some(&vec!["a".to_owned()]));
    assert!(host.requests().len() <= AT_ONCE, "{}", host.requests().len());
    assert_eq!(host.bodies()[0]["spec"]["token"], "t");
    let before = host.requests().len();
    host.answer(review(&json!({"authenticated": false})));
    assert!(tokens.review("t").await.unwrap().is_some());
    tokio::time::sleep(LIFETIME).await;
    assert_eq!(tokens.review("t").await, Ok(None));
    host.answer(alice());
    assert_eq!(tokens.review("t").await, Ok(None), "a refusal is believed for as long");
    assert_eq!(host.requests().len(), before + 1);
    assert!(tokens.review("another").await.unwrap().is_some());
}

/// Returns the code and the document by which the host names its issuer.
fn issuer(url: &str) -> (u16, Value) {
    (200, json!({"issuer": url}))
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_issuer_is_not_shown_to_the_host() {
    let host = Fake::new(alice());
    let named = Arc::new(Mutex::new(issuer("https://host")));
    let document = Arc::clone(&named);
    host.responds(move |line, _| match line {
        "GET /.well-known/openid-configuration" => Some(document.lock().unwrap().clone()),
        _ => Some(alice()),
    });
    let tokens = || HostTokens::new(host.client(), audiences(true), false).unwrap();
    let (strict, lenient) = (tokens(), tokens().reviewing_unknown(true));
    let of = |issuer: &str| jwt(&json!({"iss": issuer}));
    for (shown, is_known) in [
        (of("https://host"), true),
        (of("kubernetes/serviceaccount"), true),
        (of("https://other"), false),
        (jwt(&json!({"sub": "a"})), false),
        ("opaque".to_owned(), false),
    ] {
        let before = host.requests().len();
        assert_eq!(strict.review(&shown).await.unwrap().is_some(), is_known, "{shown}");
        let asked = host.requests().split_off(before);
        assert_eq!(asked.iter().any(|line| line.starts_with("POST")), is_known, "{asked:?}");
        assert!(lenient.review(&shown).await.unwrap().is_some(), "{shown}");
    }
    let documents = || host.requests().iter().filter(|line| line.starts_with("GET")).count();
    assert_eq!(documents(), 1, "unknown issuers cause no flood of questions");
    *named.lock().unwrap() = issuer("https://new");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(strict.review(&of("https://new")).await.unwrap().is_some(), "the host has changed its issuer");

    *named.lock().unwrap() = status(403);
    let unknown = tokens();
    assert!(unknown.review(&of("https://host")).await.unwrap().is_some(), "the issuer cannot be read");
    assert_eq!(unknown.review("opaque").await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_failed_token_review_is_not_a_refusal() {
    let host = Fake::new(status(503));
    let tokens = tokens(&host);
    assert!(tokens.review("t").await.unwrap_err().0.contains("try again"));
    host.answer(status(403));
    assert!(tokens.review("t").await.unwrap_err().0.contains("system:auth-delegator"));
    host.answer(alice());
    assert!(tokens.review("t").await.unwrap().is_some(), "a failure is not remembered");
}

#[tokio::test]
async fn administrators_of_the_host_are_none_here_unless_a_setting_trusts_them() {
    let groups = ["system:masters", "system:nodes", "system:serviceaccounts:team", "dev"];
    let host = Fake::new(review(&json!({"authenticated": true,
        "user": {"username": "alice", "groups": groups}})));
    for (trusts_masters, kept) in [(false, &groups[1..]), (true, &groups[..])] {
        let tokens = HostTokens::new(host.client(), audiences(true), trusts_masters).unwrap();
        let tokens = tokens.reviewing_unknown(true);
        let user = tokens.review("t").await.unwrap().unwrap();
        assert_eq!(user.groups, [kept, &["system:authenticated"]].concat());
    }
}

#[test]
fn only_an_authenticated_status_with_a_user_name_is_accepted() {
    let table = [
        (json!({}), false),
        (json!({"user": {"username": "a"}}), false),
        (json!({"authenticated": false, "user": {"username": "a"}}), false),
        (json!({"authenticated": true}), false),
        (json!({"authenticated": true, "user": {"username": ""}}), false),
        (json!({"authenticated": true, "user": {"username": "a"}}), true),
    ];
    for (status, good) in table {
        let parsed: TokenReviewStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(user(parsed).is_some(), good, "{status}");
    }
}
