//! Tests of host events: copies, updates, and retries while the host is down.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::atomic::AtomicU16;

use async_trait::async_trait;
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

/// Record in memory.
#[derive(Default)]
struct Memory {
    copied: Mutex<Option<u64>>,
    losses: AtomicU64,
}

impl Memory {
    fn copied(&self) -> Option<u64> {
        *self.copied.lock().unwrap()
    }
}

#[async_trait]
impl EventRecord for Memory {
    async fn read(&self) -> Option<u64> {
        self.copied()
    }

    async fn write(&self, copied: u64) -> bool {
        *self.copied.lock().unwrap() = Some(copied);
        true
    }

    async fn report_loss(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }
}

fn typed(event: Value) -> Event {
    serde_json::from_value(event).unwrap()
}

fn now() -> String {
    Timestamp::now().to_string()
}

#[tokio::test(start_paused = true)]
async fn recent_events_are_copied_to_the_host() {
    let yesterday = (Timestamp::now() - Duration::from_secs(24 * 3600 + 1)).to_string();
    let own = own(&[event("a", "8", &now()), event("b", "2", &now()), event("old", "1", &yesterday)]);
    let host = Fake::new((201, event("x", "1", &now())));
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Arc::new(HostEvents::new(own.client(), host.client())).run(shutdown.clone()));
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
    tokio::spawn(Arc::new(HostEvents::new(own.client(), host.client())).run(CancellationToken::new()));
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
    tokio::spawn(Arc::new(HostEvents::new(own.client(), host.client())).run(CancellationToken::new()));
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
    tokio::spawn(Arc::new(HostEvents::new(own.client(), host.client())).run(CancellationToken::new()));
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
    tokio::spawn(Arc::new(events).run(CancellationToken::new()));
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

#[tokio::test(start_paused = true)]
async fn ho_33_events_of_a_dead_leader_reach_the_host_and_no_event_is_copied_again() {
    let (now, ago) = (now(), (Timestamp::now() - Duration::from_secs(5 * 3600)).to_string());
    let (record, host) = (Arc::new(Memory::default()), Fake::new((201, event("x", "1", &now))));
    let lead = async |own: &Fake, state: HostState| {
        let events = HostEvents::new(own.client(), host.client()).with_health(HostHealth::in_state(state));
        let events = Arc::new(events.with_record(record.clone()));
        let leading = Arc::clone(&events).run(CancellationToken::new());
        let _ = tokio::time::timeout(Duration::from_secs(60), leading).await;
        events
    };
    let copied = event("copied", "5", &now);
    lead(&own(std::slice::from_ref(&copied)), HostState::Up).await;
    assert_eq!((host.requests().len(), record.copied()), (1, Some(5)));
    // The leader dies while the host is down. Its Events are five hours old when the host is back.
    let all = [copied.clone(), event("late", "7", &ago), event("later", "6", &ago)];
    let former = lead(&own(&all), HostState::Down).await;
    assert_eq!((host.requests().len(), record.copied()), (1, Some(5)), "two Events wait");
    assert!(former.holds(&typed(all[1].clone())) && !former.holds(&typed(copied)));
    let next = lead(&own(&all), HostState::Up).await;
    let names: Vec<Value> = host.bodies()[1..].iter().map(|body| body["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["late", "later"]);
    assert_eq!(record.copied(), Some(7));
    assert!(all.iter().all(|event| !next.holds(&typed(event.clone()))), "they may expire");
}

#[tokio::test(start_paused = true)]
async fn ho_33_an_event_is_held_until_the_list_is_known_and_while_the_host_refuses_it() {
    let (own, host) = (own(&[event("a", "3", &now()), event("b", "9", &now())]), Fake::new(status(403)));
    host.responds(|line, body| {
        let is_refused = line.starts_with("POST") && body["metadata"]["name"] == "a";
        Some(if is_refused { status(403) } else { (201, body.clone()) })
    });
    let record = Arc::new(Memory::default());
    let events = Arc::new(HostEvents::new(own.client(), host.client()).with_record(record.clone()));
    let [a, b, newer] =
        [("a", "3"), ("b", "9"), ("c", "10")].map(|(name, at)| typed(event(name, at, &now())));
    assert!(events.holds(&a) && events.holds(&b), "the list is not known");
    tokio::spawn(Arc::clone(&events).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(events.holds(&a) && !events.holds(&b));
    assert!(events.holds(&newer), "the watch has not returned it yet");
    assert_eq!(record.copied(), Some(2), "the next leader tries the refused one again");
}

#[tokio::test(start_paused = true)]
async fn ho_33_a_full_queue_is_reported_once_for_each_outage() {
    let now = now();
    let all: Vec<Value> =
        (0..MOST_OF_NAMESPACE + 50).map(|number| event(&format!("e{number}"), "1", &now)).collect();
    let (own, host) = (own(&all), Fake::new((201, event("x", "1", &now))));
    let record = Arc::new(Memory::default());
    let health = HostHealth::in_state(HostState::Down);
    let events = HostEvents::new(own.client(), host.client()).with_health(health.clone());
    tokio::spawn(Arc::new(events.with_record(record.clone())).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(record.losses.load(Ordering::SeqCst), 1);
    assert_eq!(health.metrics().dropped_events(Loss::Full), 50);
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_request_that_hangs_stops_no_other_event() {
    let now = now();
    let events: Vec<Value> = [("hanging", "a"), ("hanging", "b"), ("team", "c"), ("team", "d")]
        .map(|(namespace, name)| event_in(namespace, name, "1", &now))
        .to_vec();
    let host = Fake::new(status(403));
    host.responds(|line, body| (!line.contains("/hanging/")).then(|| (201, body.clone())));
    let own = own(&events);
    tokio::spawn(Arc::new(HostEvents::new(own.client(), host.client())).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let of_team = host.requests().into_iter().filter(|line| line.contains("/team/")).count();
    assert_eq!(of_team, 2);
}

#[tokio::test(start_paused = true)]
async fn ho_02_an_event_that_a_host_refuses_while_it_starts_is_not_lost() {
    let (own, health) = (own(&[event("a", "1", &now())]), HostHealth::in_state(HostState::Up));
    let (host, starting) = (Fake::new(status(404)), health.clone());
    host.responds(move |_, _| {
        starting.set(HostState::Down);
        Some(status(404))
    });
    let events = HostEvents::new(own.client(), host.client()).with_health(health.clone());
    tokio::spawn(Arc::new(events).run(CancellationToken::new()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(host.requests().len(), 1);
    host.responds(|_, body| Some((201, body.clone())));
    health.set(HostState::Up);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(host.requests().len(), 2, "it has the namespace after all");
    assert_eq!(health.metrics().dropped_events(Loss::Refused), 0);
}
