//! Tests of host events: copies, updates, and retries while the host is down.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::fake::{Fake, status};

fn event(name: &str, revision: &str, last: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Event", "message": "m", "lastTimestamp": last,
        "involvedObject": {"kind": "Machine", "name": "m1", "namespace": "n"},
        "metadata": {"name": name, "namespace": "n", "resourceVersion": revision, "uid": "u"}})
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
