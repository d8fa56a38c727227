//! Tests of the host's namespaces.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use super::presence::{Presence, UNCERTAIN};
use super::*;
use crate::fake::{Fake, status};

impl HostNamespaces {
    /// Loses a namespace, as in a list after an outage.
    pub(crate) fn lose(&self, name: &str) {
        self.write().0.get_mut(name).unwrap().presence = Presence::Missing;
        self.believe_absence();
    }
}

fn namespace(name: &str, phase: &str) -> Namespace {
    let value = json!({"metadata": {"name": name}, "status": {"phase": phase}});
    serde_json::from_value(value).unwrap()
}

fn phase(found: &Value) -> &str {
    found.pointer("/status/phase").and_then(Value::as_str).unwrap()
}

#[tokio::test(start_paused = true)]
async fn watched_namespaces_are_cached_and_others_are_requested() {
    let host = Fake::new(status(404));
    let namespaces = HostNamespaces::new(host.client());
    let mut listing = Listing::default();
    for event in [Event::Init, Event::InitApply(namespace("team", "Active")), Event::InitDone] {
        namespaces.take(&mut listing, event);
    }
    assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Active");
    namespaces.take(&mut listing, Event::Apply(namespace("team", "Terminating")));
    assert_eq!(phase(&namespaces.namespace("team").await.unwrap().unwrap()), "Terminating");
    assert!(host.requests().is_empty(), "{:?}", host.requests());
    // Created just now: the watch reports it before the host must be asked.
    let asking = tokio::spawn({
        let namespaces = namespaces.clone();
        async move { namespaces.namespace("new").await }
    });
    tokio::time::sleep(WATCH_DELAY / 2).await;
    namespaces.take(&mut listing, Event::Apply(namespace("new", "Active")));
    assert!(asking.await.unwrap().unwrap().is_some());
    assert!(host.requests().is_empty(), "{:?}", host.requests());
    assert_eq!(namespaces.namespace("none").await, Ok(None));
    assert_eq!(host.requests(), ["GET /api/v1/namespaces/none"]);
    namespaces.take(&mut listing, Event::Delete(namespace("team", "Terminating")));
    assert_eq!(namespaces.namespace("team").await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_page_of_a_proxy_does_not_say_that_a_namespace_is_absent() {
    let host = Fake::new((404, json!("404 page not found")));
    let namespaces = HostNamespaces::new(host.client());
    assert_eq!(namespaces.namespace("team").await.unwrap_err().code, 503);
}

#[tokio::test(start_paused = true)]
async fn while_the_host_is_down_known_namespaces_are_served_and_others_fail() {
    let host = Fake::new(status(503));
    let namespaces = HostNamespaces::new(host.client());
    namespaces.take(&mut Listing::default(), Event::Apply(namespace("team", "Active")));
    assert!(namespaces.namespace("team").await.unwrap().is_some());
    assert_eq!(namespaces.namespace("other").await.unwrap_err().code, 503);
}

/// Applies a list.
fn list(namespaces: &HostNamespaces, names: &[&str]) {
    let mut listing = Listing::default();
    namespaces.take(&mut listing, Event::Init);
    for name in names {
        namespaces.take(&mut listing, Event::InitApply(namespace(name, "Active")));
    }
    namespaces.take(&mut listing, Event::InitDone);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_gone_only_if_a_host_that_is_up_says_so() {
    let host = Fake::new(status(404));
    let health = HostHealth::in_state(HostState::Up);
    let namespaces = HostNamespaces::new(host.client()).with_health(health.clone());
    list(&namespaces, &["a", "b"]);
    health.set(HostState::Probation);
    list(&namespaces, &["a"]);
    namespaces.take(&mut Listing::default(), Event::Delete(namespace("a", "Active")));
    for name in ["a", "b", "never"] {
        assert_eq!(namespaces.namespace(name).await.unwrap_err().code, 503, "{name}");
    }
    assert_eq!(namespaces.snapshot().len(), 2, "a restart knows them");
    assert_eq!(namespaces.compare(["a"].into_iter()), Listed { known: 2, missing: 1 });
    health.set(HostState::Up);
    namespaces.believe_absence();
    for name in ["a", "never"] {
        assert_eq!(namespaces.namespace(name).await, Ok(None), "{name}");
    }
    assert_eq!(namespaces.namespace("b").await.unwrap_err().code, 503, "its deletion was not seen");
    assert_eq!(namespaces.compare(std::iter::empty()), Listed { known: 0, missing: 0 });
    tokio::time::sleep(UNCERTAIN - Duration::from_secs(60)).await;
    namespaces.believe_absence();
    assert_eq!((namespaces.is_uncertain("b"), namespaces.snapshot().len()), (true, 1), "a restart knows it");
    tokio::time::sleep(Duration::from_secs(60)).await;
    namespaces.believe_absence();
    assert_eq!(namespaces.namespace("b").await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn ho_03_a_namespace_that_a_restart_does_not_find_is_uncertain_until_it_is_back() {
    let namespaces = HostNamespaces::new(Fake::new(status(404)).client());
    let stored = ["a", "b"].map(|name| (name.to_owned(), relevant_fields(&namespace(name, "Active"))));
    namespaces.restore(stored.into());
    let mut listing = Listing::default();
    for event in [Event::Init, Event::InitApply(namespace("a", "Active")), Event::InitDone] {
        namespaces.take(&mut listing, event);
    }
    assert_eq!(namespaces.namespace("b").await.unwrap_err().code, 503);
    assert!(namespaces.is_uncertain("b") && !namespaces.is_reported("b") && namespaces.is_reported("a"));
    // A list in between, in which "a" is gone although the watch goes on.
    for event in [Event::Init, Event::InitDone] {
        namespaces.take(&mut listing, event);
    }
    assert_eq!(namespaces.namespace("a").await, Ok(None));
    assert!(namespaces.is_uncertain("b"));
    namespaces.take(&mut listing, Event::Apply(namespace("b", "Active")));
    assert!(namespaces.namespace("b").await.unwrap().is_some() && !namespaces.is_uncertain("b"));
}

#[tokio::test(start_paused = true)]
async fn known_namespaces_are_served_at_once_for_a_week_while_the_host_is_down() {
    let host = Fake::new(status(404));
    let health = HostHealth::in_state(HostState::Up);
    let namespaces = HostNamespaces::new(host.client()).with_health(health.clone());
    list(&namespaces, &["a"]);
    health.set(HostState::Down);
    let begun = tokio::time::Instant::now();
    assert!(namespaces.namespace("a").await.unwrap().is_some());
    assert_eq!(namespaces.namespace("b").await.unwrap_err().code, 503);
    assert_eq!(
        (begun.elapsed(), host.requests().len()),
        (Duration::ZERO, 0),
        "no request waits for the host"
    );
    tokio::time::sleep(BOUND).await;
    assert!(namespaces.known("a").is_some());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(namespaces.known("a").is_none());
    assert_eq!(namespaces.namespace("a").await.unwrap_err().code, 503);
}

#[tokio::test(start_paused = true)]
async fn restored_namespaces_never_replace_reported_ones_and_another_host_has_none() {
    let health = HostHealth::in_state(HostState::Up);
    let namespaces = HostNamespaces::new(Fake::new(status(404)).client()).with_health(health.clone());
    namespaces.take(&mut Listing::default(), Event::Apply(namespace("a", "Terminating")));
    let stored = ["a", "b"].map(|name| (name.to_owned(), relevant_fields(&namespace(name, "Active"))));
    namespaces.restore(stored.into());
    assert_eq!(phase(&namespaces.known("a").unwrap()), "Terminating");
    assert_eq!(phase(&namespaces.known("b").unwrap()), "Active");
    health.set(HostState::Other);
    assert!(namespaces.known("b").is_none());
}

#[tokio::test(start_paused = true)]
async fn ho_35_only_a_namespace_that_is_new_in_an_outage_is_provisional() {
    let health = HostHealth::in_state(HostState::Up);
    let namespaces = HostNamespaces::new(Fake::new(status(404)).client()).with_health(health.clone());
    list(&namespaces, &["known", "lost"]);
    assert!(!namespaces.lacks("new"), "its user creates it in the host");
    for state in [HostState::Down, HostState::Probation, HostState::Other] {
        health.set(state);
        assert!(namespaces.lacks("new") && !namespaces.lacks("known"), "{state:?}");
    }
    namespaces.lose("lost");
    assert!(!namespaces.lacks("lost"), "the host may get it back");
    health.set(HostState::Up);
    health.set(HostState::Slow);
    assert!(!namespaces.lacks("new"), "the host answers");
}
