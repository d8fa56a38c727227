//! Tests of tokens while the host does not answer.

use std::collections::HashMap;
use std::time::Duration;

use apiserver_access::{TokenSource, UNVERIFIED};
use jiff::Timestamp;
use serde_json::{Value, json};
use tests_oidc_issuer::SigningKey;

use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;
use crate::mirror::Bounds;

const ISSUER: &str = "https://kubernetes.default.svc";

/// Changes of the claims, and the expected user: none for a refusal.
type Case = (Value, Option<Option<&'static str>>);

fn now() -> i64 {
    Timestamp::now().as_second()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": ["capstan"], "sub": "system:serviceaccount:team:ci", "iat": now(),
        "exp": now() + 600, "jti": "7", "kubernetes.io": {"namespace": "team",
            "serviceaccount": {"name": "ci", "uid": "u1"}}})
}

fn signed(key: &SigningKey, id: &str, claims: &Value) -> String {
    key.token(&json!({"alg": "ES256", "kid": id}), claims)
}

/// Returns a host with a mirror that knows one service account, and the keys of an hour ago.
fn scene(key: &SigningKey) -> (Fake, HostHealth, HostTokens, HostKeys) {
    let host = Fake::new(status(500));
    let health = HostHealth::in_state(HostState::Up);
    let mirror = HostMirror::new(health.clone(), Bounds::default(), Timestamp::UNIX_EPOCH);
    mirror.set_accounts(HashMap::from([("team/ci".to_owned(), "u1".to_owned())]));
    mirror.synchronized();
    let keys = HostKeys::new(host.client(), health.clone());
    let document = json!({"keys": [key.public("k1")]}).to_string();
    keys.restore(KeptKeys { issuer: ISSUER.to_owned(), document, at: now() - 3600 });
    let audiences = Audiences { own: vec!["capstan".to_owned()], accepts_host: true };
    let tokens = HostTokens::new(host.client(), audiences, false).unwrap();
    let tokens = tokens.with_health(health.clone()).with_mirror(keys.clone(), mirror);
    (host, health, tokens, keys)
}

#[tokio::test]
async fn a_token_is_verified_without_the_host_as_far_as_that_is_possible() {
    let key = SigningKey::new("ES256");
    let (host, health, tokens, _) = scene(&key);
    health.set(HostState::Down);
    let asked = host.requests().len();
    let good = Some(Some("system:serviceaccount:team:ci"));
    let (refused, undecided) = (Some(None), None);
    let cases: [Case; 14] = [
        (json!({}), good),
        (json!({"/aud": [ISSUER]}), good),
        (json!({"/aud": ["other"]}), refused),
        (json!({"/iss": "https://other"}), refused),
        (json!({"/exp": now() - 1}), refused),
        (json!({"/exp": null}), refused),
        (json!({"/exp": now() + 25 * 3600}), refused),
        (json!({"/exp": now() + 400 * 86_400, "/kubernetes.io/warnafter": now() + 3607}), good),
        (json!({"/kubernetes.io/warnafter": now() - 1}), refused),
        (json!({"/sub": "system:serviceaccount:team:admin"}), refused),
        (json!({"/sub": "alice"}), refused),
        (json!({"/kubernetes.io/serviceaccount/uid": "u2"}), undecided),
        (
            json!({"/sub": "system:serviceaccount:team:new", "/kubernetes.io/serviceaccount/name": "new"}),
            undecided,
        ),
        (json!({"/kubernetes.io": null}), refused),
    ];
    for (changes, expected) in cases {
        let mut changed = claims();
        for (pointer, value) in changes.as_object().unwrap() {
            match changed.pointer_mut(pointer) {
                Some(place) => *place = value.clone(),
                None => changed["kubernetes.io"]["warnafter"] = value.clone(),
            }
        }
        let found = tokens.review(&signed(&key, "k1", &changed)).await;
        let found = found.map(|user| user.map(|user| user.name)).ok();
        assert_eq!(found, expected.map(|name| name.map(str::to_owned)), "{changes}");
    }
    let user = tokens.review(&signed(&key, "k1", &claims())).await.unwrap().unwrap();
    assert_eq!(user.uid.as_deref(), Some("u1"));
    assert!(user.is_in("system:serviceaccounts:team") && user.is_in("system:serviceaccounts"));
    assert!(!user.extra.contains_key(UNVERIFIED));
    let mut bound = claims();
    bound["kubernetes.io"]["pod"] = json!({"name": "p", "uid": "p1"});
    let user = tokens.review(&signed(&key, "k1", &bound)).await.unwrap().unwrap();
    assert_eq!(user.extra[UNVERIFIED], ["pod"], "the pod may be gone");
    let forged = signed(&SigningKey::new("ES256"), "k1", &claims());
    assert_eq!(tokens.review(&forged).await, Ok(None));
    assert!(tokens.review(&signed(&key, "k2", &claims())).await.is_err(), "the host may have a new key");
    assert_eq!(host.requests().len(), asked, "no request waits for a host that is down");
    health.set(HostState::Other);
    assert_eq!(tokens.review(&signed(&key, "k1", &claims())).await, Ok(None), "of another cluster");
}

#[tokio::test(start_paused = true)]
async fn a_slow_host_is_asked_for_two_seconds() {
    let key = SigningKey::new("ES256");
    let (host, health, tokens, _) = scene(&key);
    host.hang();
    let token = signed(&key, "k1", &claims());
    assert!(tokens.review(&token).await.is_err(), "it is up, and only it knows whether the pod exists");
    health.set(HostState::Slow);
    let started = tokio::time::Instant::now();
    assert!(tokens.review(&token).await.unwrap().is_some());
    // The first two seconds are for the issuer's document.
    assert!(started.elapsed() <= 2 * PATIENCE, "{:?}", started.elapsed());
    assert!(host.requests().iter().any(|line| line.contains("tokenreviews")));
}

#[tokio::test(start_paused = true)]
async fn keys_count_for_a_day_and_an_unknown_key_is_fetched_once() {
    let key = SigningKey::new("ES256");
    let (host, health, tokens, keys) = scene(&key);
    let next = SigningKey::new("ES256");
    let document = json!({"keys": [next.public("k2")]});
    host.responds(move |line, _| {
        Some(match line {
            "GET /.well-known/openid-configuration" => (200, json!({"issuer": ISSUER})),
            "GET /openid/v1/jwks" => (200, document.clone()),
            _ => status(500),
        })
    });
    health.set(HostState::Slow);
    let token = signed(&next, "k2", &claims());
    assert!(tokens.review(&token).await.unwrap().is_some(), "the keys are read for it");
    let reads = || host.requests().iter().filter(|line| line.ends_with("jwks")).count();
    assert_eq!(reads(), 1);
    assert!(tokens.review(&signed(&key, "k1", &claims())).await.is_err());
    assert_eq!(reads(), 1, "anybody can send tokens of unknown keys");
    assert_eq!(keys.kept().unwrap().issuer, ISSUER);
    health.set(HostState::Down);
    tokio::time::advance(Duration::from_secs(24 * 3600 + 1)).await;
    let old = tokens.review(&token).await.unwrap_err().0;
    assert!(old.contains("24 h ago"), "{old}");
}

#[tokio::test]
async fn an_opaque_token_is_undecided_if_the_host_would_review_it() {
    let key = SigningKey::new("ES256");
    let (_host, health, tokens, _) = scene(&key);
    health.set(HostState::Down);
    assert_eq!(tokens.review("opaque").await, Ok(None));
    let tokens = tokens.reviewing_unknown(true);
    assert!(tokens.review("opaque").await.is_err());
    assert!(tokens.review(&signed(&key, "k1", &claims())).await.unwrap().is_some());
}
