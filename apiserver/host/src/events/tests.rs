//! Tests of host events: copies, updates, and retries while the host is down.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;

fn event(name: &str, revision: &str, last: &str) -> Value {
    event_in("n", name, revision, last)
}

fn event_in(namespace: &str, name: &str, revision: &str, last: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "message": "m", "lastTimestamp": last,
        "involvedObject": {"kind": "Machine", "name": "m1", "namespace": namespace},
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": revision, "uid": "u"}})
}

/// Returns our store with these Events, and no more to come.
fn own(events: &[Value]) -> Fake {
    let list = json!({"apiVersion": "v1", "kind": "EventList", "metadata": {"resourceVersion": "9"}, "items": events});
    let own = Fake::new(status(404));
    own.responds(move |line, _| (!line.starts_with("WATCH")).then(|| (200, list.clone())));
    own
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn now() -> String {
    Timestamp::now().to_string()
}

#[tokio::test(start_paused = true)]
async fn recent_events_are_copied_to_the_host() {
    let own =
        own(&[event("a", "8", &now()), event("b", "2", &now()), event("old", "1", "2020-01-01T00:00:00Z")]);
    let host = Fake::new((201, event("x", "1", &now())));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(HostEvents::new(own.client(), host.client()).run(shutdown.clone()));
    until(|| host.requests().len() == 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.requests(), ["POST /api/v1/namespaces/n/events", "POST /api/v1/namespaces/n/events"]);
    let names: Vec<Value> = host.bodies().iter().map(|body| body["metadata"].clone()).collect();
    assert_eq!(names, [json!({"name": "a", "namespace": "n"}), json!({"name": "b", "namespace": "n"})]);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_exists_on_the_host_is_patched() {
    let own = own(&[event("a", "1", &now())]);
    let host = Fake::new(status(409));
    host.responds(|line, body| match line.split(' ').next() {
        Some("POST") => Some(status(409)),
        _ => Some((200, body.clone())),
    });
    tokio::spawn(HostEvents::new(own.client(), host.client()).run(CancellationToken::new()));
    until(|| host.requests().len() == 2).await;
    assert_eq!(host.requests()[1], "PATCH /api/v1/namespaces/n/events/a");
}

#[tokio::test(start_paused = true)]
async fn events_are_retried_while_the_host_is_down_and_do_not_block_others() {
    let own = own(&[event("a", "1", &now()), event("b", "2", &now())]);
    let host = Fake::new(status(503));
    let code = Arc::new(AtomicU16::new(503));
    let says = Arc::clone(&code);
    // Not `a`'s error: its namespace exists in Capstan alone, once the host is up.
    host.responds(move |_, body| match (says.load(Ordering::SeqCst), body["metadata"]["name"].as_str()) {
        (201, Some("a")) => Some(status(404)),
        (201, _) => Some((201, body.clone())),
        (code, _) => Some(status(code)),
    });
    tokio::spawn(HostEvents::new(own.client(), host.client()).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(600)).await;
    let tries = host.requests().len();
    assert!((5..30).contains(&tries), "{tries} tries in ten minutes");
    code.store(201, Ordering::SeqCst);
    until(|| host.bodies().last().is_some_and(|body| body["metadata"]["name"] == "b")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(host.requests().len(), tries + 2, "each was sent once more, and no more");
}

#[tokio::test(start_paused = true)]
async fn one_forbidden_namespace_does_not_stop_the_events_of_others() {
    let (now, names) = (now(), ["a", "b", "c"]);
    let mut events: Vec<Value> = names.map(|name| event_in("forbidden", name, "1", &now)).to_vec();
    events.extend(names.map(|name| event_in("team", name, "2", &now)));
    let host = Fake::new(status(403));
    host.responds(|line, body| {
        Some(if line.contains("/forbidden/") { status(403) } else { (201, body.clone()) })
    });
    let own = own(&events);
    tokio::spawn(HostEvents::new(own.client(), host.client()).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let of = |namespace: &str| {
        host.requests().iter().filter(|line| line.contains(&format!("/{namespace}/"))).count()
    };
    assert_eq!(of("team"), 3, "{:?}", host.requests());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(of("team"), 3);
    assert!((20..75).contains(&of("forbidden")), "{} attempts in an hour", of("forbidden"));
}

#[tokio::test(start_paused = true)]
async fn events_wait_until_the_host_is_up_and_losses_are_counted() {
    let now = now();
    let all: Vec<Value> =
        (0..=MOST_OF_NAMESPACE).map(|number| event(&format!("e{number}"), "1", &now)).collect();
    let own = own(&all);
    let host = Fake::new((201, event("x", "1", &now)));
    let health = HostHealth::in_state(HostState::Probation);
    let events = HostEvents::new(own.client(), host.client()).with_health(health.clone());
    tokio::spawn(events.run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(host.requests().is_empty());
    assert_eq!(health.metrics().dropped_events(Loss::Full), 1);
    let (waiting, oldest) = health.metrics().outbox(Outbox::Events);
    assert_eq!(waiting, i64::try_from(MOST_OF_NAMESPACE).unwrap());
    assert!((50..=60).contains(&oldest), "{oldest}");
    health.set(HostState::Up);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.requests().len(), MOST_OF_NAMESPACE);
    assert_eq!(health.metrics().outbox(Outbox::Events), (0, 0));
}
