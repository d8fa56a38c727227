//! Tests of the authorizer against a fake webhook.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Attributes, Authorizer, Chain, Decision, User};
use serde_json::{Value, json};

use super::client::WebhookClient;
use super::conditions::{self, Conditions};
use super::*;
use crate::fake::{Fake, status};

/// Webhook that allows alice, denies mallory, does both with grace, fails about carol and frank, never answers about
/// dave, and has no opinion about others.
fn webhook() -> Fake {
    let webhook = Fake::new(status(500));
    webhook.responds(|line, review| {
        assert_eq!(line, "POST /authorize");
        let answer = |status: Value| {
            let mut review = review.clone();
            review["status"] = status;
            Some((200, review))
        };
        match review["spec"]["user"].as_str().unwrap() {
            "alice" => answer(json!({"allowed": true, "reason": "a friend"})),
            "mallory" => answer(json!({"allowed": false, "denied": true, "reason": "an enemy"})),
            "carol" => Some(status(503)),
            "dave" => None,
            "frank" => Some(status(500)),
            "grace" => answer(json!({"allowed": true, "denied": true})),
            "erin" => Some((
                200,
                json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "metadata": {}, "spec": {}}),
            )),
            _ => answer(json!({"allowed": false, "reason": "a stranger"})),
        }
    });
    webhook
}

fn authorizer(webhook: &Fake, denies_on_failure: bool, sources: &[&str]) -> WebhookAuthorizer {
    let settings = WebhookSettings {
        name: "w".to_owned(),
        kubeconfig: PathBuf::new(),
        timeout: Duration::from_secs(3),
        allowed_ttl: Duration::from_secs(300),
        denied_ttl: Duration::from_secs(30),
        denies_on_failure,
        conditions: Conditions(sources.iter().map(|it| conditions::compile(it).unwrap()).collect()),
    };
    WebhookAuthorizer::with(WebhookClient::of(webhook.client()), settings)
}

fn asks(user: &str) -> Attributes {
    Attributes {
        user: User::authenticated(user, []).into(),
        verb: "get".to_owned(),
        resource: "machines".to_owned(),
        ..Attributes::default()
    }
}

/// Returns the word of a decision.
fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny(_) => "deny",
        Decision::NoOpinion(_) => "no opinion",
        Decision::Error(_) => "error",
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_allows_denies_or_fails_as_its_policy_says() {
    let webhook = webhook();
    for (denies, failure) in [(false, "error"), (true, "deny")] {
        let authorizer = authorizer(&webhook, denies, &[]);
        for (user, expected) in [
            ("alice", "allow"),
            ("mallory", "deny"),
            ("bob", "no opinion"),
            ("carol", failure),
            ("dave", failure),
            ("erin", failure),
            ("frank", failure),
            ("grace", "deny"),
        ] {
            let started = tokio::time::Instant::now();
            let verdict = authorizer.judge(&asks(user)).await;
            assert_eq!(word(&verdict.decision), expected, "{user}");
            assert_eq!(verdict.authorizer, "Webhook/w");
            assert!(started.elapsed() <= Duration::from_secs(3), "{user} {:?}", started.elapsed());
        }
    }
    let internal = Attributes { user: User::controller("a").into(), ..asks("a") };
    assert_eq!(word(&authorizer(&webhook, true, &[]).authorize(&internal).await), "no opinion");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_too_late_after_an_error_is_reported_with_the_error() {
    let webhook = webhook();
    let authorizer = authorizer(&webhook, false, &[]);
    for (user, has_error) in [("frank", true), ("dave", false)] {
        let Decision::Error(why) = authorizer.authorize(&asks(user)).await else { panic!("{user}") };
        assert!(why.contains("it did not answer in time"), "{why}");
        assert_eq!(why.contains("before that it failed"), has_error, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_for_their_time_and_failures_are_not() {
    let webhook = webhook();
    let authorizer = authorizer(&webhook, false, &[]);
    let calls = || webhook.requests().len();
    for (user, lifetime) in [("alice", 300), ("mallory", 30), ("bob", 30)] {
        let before = calls();
        authorizer.authorize(&asks(user)).await;
        tokio::time::advance(Duration::from_secs(lifetime - 1)).await;
        authorizer.authorize(&asks(user)).await;
        assert_eq!(calls() - before, 1, "{user}");
        tokio::time::advance(Duration::from_secs(1)).await;
        authorizer.authorize(&asks(user)).await;
        assert_eq!(calls() - before, 2, "{user}");
    }
    let before = calls();
    authorizer.authorize(&asks("carol")).await;
    authorizer.authorize(&asks("carol")).await;
    assert_eq!(calls() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_condition_leaves_out_is_not_shown_to_the_webhook() {
    let webhook = webhook();
    let fails = "request.extra['scope'][0] == 'x'";
    for (sources, user, expected, is_asked) in [
        (vec!["request.user != 'bob'"], "alice", "allow", true),
        (vec!["request.user != 'mallory'"], "mallory", "no opinion", false),
        (vec![fails, "request.user != 'mallory'"], "mallory", "no opinion", false),
        (vec![fails], "alice", "error", false),
    ] {
        let before = webhook.requests().len();
        let decision = authorizer(&webhook, false, &sources).authorize(&asks(user)).await;
        assert_eq!(word(&decision), expected, "{sources:?}");
        assert_eq!(webhook.requests().len() > before, is_asked, "{sources:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_leaves_the_decision_to_the_next_authorizer() {
    let webhook = webhook();
    let next: Arc<dyn Authorizer> = Arc::new(authorizer(&webhook, false, &["request.user == 'carol'"]));
    let allow: Arc<dyn Authorizer> = Arc::new(apiserver_access::LocalPolicy::default());
    let chain = Chain(vec![next, allow]);
    let carol = User::authenticated("carol", ["system:masters".to_owned()]);
    let attributes = Attributes { user: carol.into(), ..asks("carol") };
    assert_eq!(word(&chain.authorize(&attributes).await), "allow");
    assert_eq!(word(&chain.authorize(&asks("carol")).await), "error", "503, and not 403");
}
