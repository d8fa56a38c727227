//! Tests of token reviews by a fake webhook.

use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use apiserver_access::TokenSource;
use serde_json::{Value, json};

use super::client::WebhookClient;
use super::tokens::{TokenWebhookSettings, WebhookTokens};
use crate::fake::{Fake, status};

fn settings(prefix: &str, seconds: u64) -> TokenWebhookSettings {
    TokenWebhookSettings {
        kubeconfig: "/nowhere".into(),
        timeout: Duration::from_secs(3),
        cache_ttl: Duration::from_secs(seconds),
        audiences: vec!["capstan".to_owned()],
        prefix: prefix.to_owned(),
    }
}

fn tokens(webhook: &Fake, prefix: &str) -> WebhookTokens {
    WebhookTokens::with(WebhookClient::of(webhook.client()), settings(prefix, 60)).unwrap()
}

fn review(status: &Value) -> (u16, Value) {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status});
    (200, body)
}

fn alice() -> (u16, Value) {
    review(&json!({"authenticated": true, "user": {"username": "alice", "uid": "7",
        "groups": ["dev", "system:masters"], "extra": {"scopes": ["a"]}}}))
}

#[tokio::test]
async fn a_webhook_names_the_user_with_a_prefix_that_no_other_source_has() {
    let webhook = Fake::new(alice());
    let user = tokens(&webhook, "webhook:").review("t").await.unwrap().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_deref()), ("webhook:alice", Some("7")));
    assert_eq!(user.groups, ["webhook:dev", "webhook:system:masters", "system:authenticated"]);
    assert_eq!(user.extra.get("scopes"), Some(&vec!["a".to_owned()]));
    assert_eq!(webhook.requests(), ["POST /authorize"], "the path of the kubeconfig");
    let body = &webhook.bodies()[0];
    assert_eq!(body["spec"], json!({"token": "t", "audiences": ["capstan"]}), "{body}");
    assert_eq!(
        (&body["apiVersion"], &body["kind"]),
        (&json!("authentication.k8s.io/v1"), &json!("TokenReview"))
    );
    let plain = tokens(&webhook, "").review("t").await.unwrap().unwrap();
    assert_eq!(plain.name, "alice");
}

#[tokio::test]
async fn only_an_authenticated_status_with_a_name_and_our_audience_is_a_user() {
    let user = json!({"username": "a"});
    for (status, is_user) in [
        (json!({"authenticated": true, "user": user}), true),
        (json!({"authenticated": true, "user": user, "audiences": ["x", "capstan"]}), true),
        (json!({"authenticated": true, "user": user, "audiences": ["x"]}), false),
        (json!({"authenticated": false, "user": user}), false),
        (json!({"user": user}), false),
        (json!({"authenticated": true}), false),
        (json!({"authenticated": true, "user": {"username": ""}}), false),
        (json!({"authenticated": false, "error": "expired"}), false),
    ] {
        let found = tokens(&Fake::new(review(&status)), "").review("t").await.unwrap();
        assert_eq!(found.is_some(), is_user, "{status}");
    }
}

/// Answer of `k8s-keystone-auth` about a token that Keystone does not know.
fn refusal() -> (u16, Value) {
    let user = json!({"username": "", "uid": "", "groups": null, "extra": null});
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "metadata": {"creationTimestamp": null}, "spec": {"token": "t", "audiences": ["capstan"]},
        "status": {"authenticated": false, "user": user}});
    (401, body)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_with_the_code_401_is_a_refusal_and_is_cached_as_one() {
    let webhook = Fake::new(refusal());
    let tokens = tokens(&webhook, "");
    assert_eq!(tokens.review("t").await, Ok(None));
    webhook.answer(alice());
    assert_eq!(tokens.review("t").await, Ok(None));
    assert_eq!(webhook.requests().len(), 1);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(tokens.review("t").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_undecided_within_its_time_and_nothing_is_remembered() {
    let webhook = Fake::new(status(503));
    let tokens = tokens(&webhook, "");
    let no_status = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"});
    let older = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview"});
    for (answer, word) in [
        (status(503), "503"),
        (status(500), "in time; before that it failed: its answer has the code 500"),
        (status(401), "401"),
        (status(403), "403"),
        (status(404), "404"),
        ((401, alice().1), "401"),
        ((401, no_status.clone()), "401"),
        ((403, refusal().1), "403"),
        ((200, no_status), "no status"),
        ((200, older), "no TokenReview"),
    ] {
        webhook.answer(answer);
        let started = tokio::time::Instant::now();
        let error = tokens.review("secret-token").await.unwrap_err().0;
        assert!(error.contains(word) && error.contains("capstan kubeconfig"), "{error}");
        assert!(!error.contains("secret-token"), "{error}");
        assert!(started.elapsed() <= Duration::from_secs(3), "{word}: {:?}", started.elapsed());
    }
    webhook.hang();
    let started = tokio::time::Instant::now();
    assert!(tokens.review("secret-token").await.is_err());
    assert_eq!(started.elapsed(), Duration::from_secs(3));
    webhook.answer(alice());
    assert!(tokens.review("secret-token").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_cached_for_a_minute_and_a_refusal_for_ten_seconds() {
    let webhook = Fake::new(alice());
    let tokens = tokens(&webhook, "");
    let (day, second) = (Duration::from_secs(86_400), Duration::from_secs(1));
    for (answer, lifetime) in [(alice(), 60), (review(&json!({"authenticated": false})), 10)] {
        tokio::time::advance(day).await;
        webhook.answer(answer);
        let before = webhook.requests().len();
        let first = tokens.review("t").await.unwrap();
        webhook.answer(status(503));
        tokio::time::advance(Duration::from_secs(lifetime) - second).await;
        assert_eq!(tokens.review("t").await.unwrap(), first, "a webhook that ends is not noticed before");
        assert_eq!(webhook.requests().len() - before, 1);
        tokio::time::advance(second).await;
        assert!(tokens.review("t").await.is_err(), "nothing older is used");
    }
    let without = WebhookTokens::with(WebhookClient::of(webhook.client()), settings("", 0)).unwrap();
    webhook.answer(alice());
    let before = webhook.requests().len();
    assert!(without.review("t").await.unwrap().is_some() && without.review("t").await.unwrap().is_some());
    assert_eq!(webhook.requests().len() - before, 2, "the cache can be switched off");
}

#[tokio::test(start_paused = true)]
async fn guessed_tokens_wait_in_a_bounded_queue() {
    let webhook = Fake::new(alice());
    webhook.hang();
    let tokens = &tokens(&webhook, "");
    // Four of each address.
    let all = futures::future::join_all((0..400_u16).map(|number| async move {
        let address = IpAddr::from([192, 0, 2, u8::try_from(number / 4).unwrap()]);
        tokens.review_from(&number.to_string(), Some(address)).await
    }));
    let all = all.await;
    let overloaded = all.iter().filter(|found| found.as_ref().unwrap_err().0.contains("too many")).count();
    // 64 are in flight, and 256 wait for two seconds. All others are refused at once.
    assert_eq!((overloaded, webhook.requests().len()), (400 - 64, 64));
}

#[tokio::test(start_paused = true)]
async fn guessed_tokens_of_one_address_leave_room_for_those_of_others() {
    let webhook = Fake::new(alice());
    webhook.hang();
    let tokens = &tokens(&webhook, "");
    let [stranger, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
    let mut guesses = std::pin::pin!(futures::future::join_all(
        (0..100).map(|number| async move { tokens.review_from(&number.to_string(), Some(stranger)).await })
    ));
    tokio::select! {
        _ = &mut guesses => panic!("the webhook does not answer"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(webhook.requests().len(), 4);
    webhook.answer(alice());
    assert!(tokens.review_from("good", Some(other)).await.unwrap().is_some());
}

#[tokio::test]
async fn a_changed_kubeconfig_is_used_and_an_invalid_one_changes_nothing() {
    let write = |file: &tempfile::NamedTempFile, text: &str| {
        let mut file = std::fs::File::create(file.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let with_server = |url: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        )
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let of = || TokenWebhookSettings { kubeconfig: file.path().to_owned(), ..settings("", 60) };
    assert!(WebhookTokens::open(of()).await.is_err(), "an empty file is no kubeconfig");
    write(&file, &with_server("http://127.0.0.1:1/review"));
    let tokens = WebhookTokens::open(of()).await.unwrap();
    assert!(!tokens.reload().await.unwrap());
    write(&file, "kind: Other");
    assert!(tokens.reload().await.is_err());
    write(&file, &with_server("http://127.0.0.1:2/review"));
    assert!(tokens.reload().await.unwrap() && !tokens.reload().await.unwrap());
}
