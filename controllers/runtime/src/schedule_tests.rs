//! Tests of the order of passes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

/// Schedule of namespaces with these weights.
fn weighted<K: Clone + Eq + Hash>(weights: &[(&str, i64)]) -> Schedule<K> {
    let weights: BTreeMap<String, i64> =
        weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
    Schedule::new(Arc::new(NamespaceWeights::new(&weights).unwrap()))
}

/// Schedule with requests that are due at once: names and clusters.
fn with(requests: &[(&'static str, &str)], now: Instant) -> Schedule<&'static str> {
    let mut schedule = weighted(&[]);
    for (key, cluster) in requests {
        schedule.request(*key, cluster, now);
    }
    schedule
}

/// Begins and ends passes until none is due.
fn order(schedule: &mut Schedule<&'static str>, now: Instant) -> Vec<&'static str> {
    let mut order = Vec::new();
    while let Some(key) = schedule.begin(now) {
        order.push(key);
        schedule.end(&key);
    }
    order
}

#[test]
fn clusters_take_turns_and_each_in_the_order_of_requests() {
    let now = Instant::now();
    let requests = [
        ("h1", "huge"),
        ("h2", "huge"),
        ("h3", "huge"),
        ("h4", "huge"),
        ("a1", "a"),
        ("b1", "b"),
        ("a2", "a"),
    ];
    let mut schedule = with(&requests, now);
    assert_eq!(order(&mut schedule, now), ["h1", "a1", "b1", "h2", "a2", "h3", "h4"]);
    assert_eq!(schedule.begin(now), None);
}

#[test]
fn the_earliest_request_counts() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let mut schedule = weighted(&[]);
    schedule.request("a", "c", now + 3 * second);
    schedule.request("b", "c", now + second);
    assert_eq!(schedule.next(), Some(now + second));
    schedule.request("a", "c", now + 2 * second);
    schedule.request("a", "c", now + 5 * second);
    assert_eq!(order(&mut schedule, now), Vec::<&str>::new());
    assert_eq!(order(&mut schedule, now + second), ["b"]);
    assert_eq!(schedule.next(), Some(now + 2 * second));
    assert_eq!(order(&mut schedule, now + 2 * second), ["a"]);
    assert_eq!(schedule.next(), None);
}

#[test]
fn an_object_never_has_two_passes_and_a_request_during_its_pass_is_not_lost() {
    let now = Instant::now();
    let mut schedule = with(&[("a", "c")], now);
    assert_eq!(schedule.begin(now), Some("a"));
    for _ in 0..3 {
        schedule.request("a", "c", now);
        assert_eq!(schedule.begin(now), None);
    }
    assert_eq!(schedule.running(), 1);
    schedule.end(&"a");
    assert_eq!(order(&mut schedule, now), ["a"]);
    assert_eq!(schedule.running(), 0);
}

#[test]
fn a_later_request_during_a_pass_keeps_its_time() {
    let now = Instant::now();
    let later = now + Duration::from_secs(9);
    let mut schedule = with(&[("a", "c")], now);
    assert_eq!(schedule.begin(now), Some("a"));
    schedule.request("a", "c", later);
    schedule.end(&"a");
    assert_eq!(schedule.begin(now), None);
    assert_eq!(schedule.begin(later), Some("a"));
}

/// Requests passes over as many objects of a namespace, each of its own cluster. Each has the name of the namespace.
fn request(schedule: &mut Schedule<(&'static str, u32)>, namespace: &'static str, count: u32, now: Instant) {
    for number in 0..count {
        schedule.request((namespace, number), &format!("{namespace}/{number}"), now);
    }
}

/// Begins and ends as many passes. Returns the namespaces of their objects.
fn namespaces(schedule: &mut Schedule<(&'static str, u32)>, count: usize, now: Instant) -> Vec<&'static str> {
    let pass = |_| {
        let key = schedule.begin(now)?;
        schedule.end(&key);
        Some(key.0)
    };
    (0..count).map_while(pass).collect()
}

#[test]
fn am_08_a_tenant_with_500_clusters_delays_another_one_by_one_pass() {
    let now = Instant::now();
    let mut schedule = weighted(&[]);
    request(&mut schedule, "huge", 500, now);
    request(&mut schedule, "small", 1, now);
    assert_eq!(namespaces(&mut schedule, 3, now), ["huge", "small", "huge"]);
    // It comes back while the other one still has work.
    request(&mut schedule, "small", 1, now);
    assert_eq!(namespaces(&mut schedule, 3, now), ["huge", "small", "huge"]);
    let rest = namespaces(&mut schedule, 1000, now);
    assert_eq!((rest.len(), rest.iter().all(|it| *it == "huge")), (496, true), "no object is lost");
}

#[test]
fn am_08_clusters_take_turns_within_their_namespace() {
    let now = Instant::now();
    let requests = [("a1", "n/a"), ("a2", "n/a"), ("b1", "n/b"), ("c1", "m/c"), ("c2", "m/c"), ("c3", "m/c")];
    let mut schedule = with(&requests, now);
    assert_eq!(order(&mut schedule, now), ["a1", "c1", "b1", "c2", "a2", "c3"]);
}

#[test]
fn am_08_a_namespace_has_as_many_passes_in_its_turn_as_its_weight() {
    let now = Instant::now();
    let mut schedule = weighted(&[("heavy", 3)]);
    request(&mut schedule, "heavy", 5, now);
    request(&mut schedule, "a", 3, now);
    request(&mut schedule, "b", 1, now);
    let expected = ["heavy", "heavy", "heavy", "a", "b", "heavy", "heavy", "a", "a"];
    assert_eq!(namespaces(&mut schedule, 100, now), expected);
}

#[test]
fn am_08_a_namespace_whose_last_object_leaves_gives_up_its_turn_and_comes_back_with_a_whole_one() {
    let now = Instant::now();
    let mut schedule = weighted(&[("n", 2)]);
    schedule.request("n1", "n/c", now);
    schedule.request("m1", "m/c", now);
    schedule.request("m2", "m/c", now);
    assert_eq!(schedule.begin(now), Some("n1"), "one of the two passes of its turn");
    schedule.end(&"n1");
    assert!(!schedule.due.contains_key("n"), "nothing is kept of a namespace without objects");
    for key in ["n1", "n2", "n3"] {
        schedule.request(key, "n/c", now);
    }
    assert_eq!(order(&mut schedule, now), ["m1", "n1", "n2", "m2", "n3"]);
    assert!(schedule.due.is_empty() && schedule.turns.is_empty());
}

#[test]
fn am_08_an_object_that_is_due_again_after_its_pass_returns_to_its_namespace() {
    let now = Instant::now();
    let mut schedule = with(&[("n1", "n/c"), ("m1", "m/c"), ("m2", "m/c")], now);
    assert_eq!(schedule.begin(now), Some("n1"));
    schedule.request("n1", "n/c", now);
    assert_eq!(schedule.begin(now), Some("m1"));
    schedule.end(&"n1");
    schedule.end(&"m1");
    assert_eq!(order(&mut schedule, now), ["m2", "n1"]);
}
