//! Tests of the order of passes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

/// Schedule of namespaces with these weights.
fn weighted<K: Clone + Eq + Hash>(weights: &[(&str, i64)]) -> Schedule<K> {
    let weights: BTreeMap<String, i64> =
        weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
    Schedule::new(Slots::new(100), Arc::new(NamespaceWeights::new(&weights).unwrap()))
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
    assert_eq!(schedule.in_progress.in_turn(), 1);
    schedule.end(&"a");
    assert_eq!(order(&mut schedule, now), ["a"]);
    assert_eq!(schedule.in_progress.in_turn(), 0);
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

/// Schedule with this many slots taken in turns. Objects are numbers in a cluster.
fn limited(concurrency: u16) -> Schedule<(&'static str, u32)> {
    Schedule::new(Slots::new(concurrency), Arc::default())
}

/// Requests passes over objects of a cluster.
fn due(
    schedule: &mut Schedule<(&'static str, u32)>,
    cluster: &'static str,
    objects: std::ops::Range<u32>,
    now: Instant,
) {
    for number in objects {
        schedule.request((cluster, number), cluster, now);
    }
}

/// Begins as many passes as it can, and ends none.
fn begun(schedule: &mut Schedule<(&'static str, u32)>, now: Instant) -> Vec<(&'static str, u32)> {
    std::iter::from_fn(|| schedule.begin(now)).collect()
}

#[test]
fn am_08_a_cluster_alone_has_all_slots_taken_in_turns_and_no_spare_one() {
    let now = Instant::now();
    for concurrency in [1, 4, 16, 200] {
        let mut schedule = limited(concurrency);
        due(&mut schedule, "n/huge", 0..500, now);
        assert_eq!(begun(&mut schedule, now).len(), usize::from(concurrency));
        schedule.end(&("n/huge", 0));
        assert_eq!(begun(&mut schedule, now).len(), 1);
    }
}

#[test]
fn am_08_an_object_waits_for_no_long_pass_of_another_cluster() {
    let now = Instant::now();
    let mut schedule = limited(16);
    due(&mut schedule, "h/huge", 0..30, now);
    assert_eq!(begun(&mut schedule, now).len(), 16);
    due(&mut schedule, "a/a", 0..3, now);
    assert_eq!(begun(&mut schedule, now), [("a/a", 0), ("a/a", 1)], "two slots are left for others");
    due(&mut schedule, "b/b", 0..2, now);
    due(&mut schedule, "c/c", 0..2, now);
    assert_eq!(begun(&mut schedule, now), [("b/b", 0), ("c/c", 0)]);
    assert!(!schedule.has_slot());
    schedule.end(&("a/a", 0));
    assert!(begun(&mut schedule, now).is_empty(), "each of them has one pass already");
    schedule.end(&("a/a", 1));
    assert_eq!(begun(&mut schedule, now), [("a/a", 2)]);
    schedule.end(&("h/huge", 0));
    assert_eq!(begun(&mut schedule, now), [("h/huge", 16)], "the turns are those without spare slots");
}

#[test]
fn am_08_the_clusters_of_one_namespace_leave_half_of_the_spare_slots_to_others() {
    let now = Instant::now();
    let mut schedule = limited(16);
    due(&mut schedule, "h/huge", 0..30, now);
    begun(&mut schedule, now);
    for cluster in ["h/a", "h/b", "h/c"] {
        due(&mut schedule, cluster, 0..2, now);
    }
    assert_eq!(begun(&mut schedule, now), [("h/a", 0), ("h/b", 0)]);
    due(&mut schedule, "m/d", 0..1, now);
    assert_eq!(begun(&mut schedule, now), [("m/d", 0)]);
    schedule.end(&("h/b", 0));
    assert!(begun(&mut schedule, now).is_empty(), "the two that are left are for other namespaces");
    schedule.end(&("m/d", 0));
    assert_eq!(begun(&mut schedule, now), [("h/c", 0)]);
}

#[test]
fn am_08_with_spare_slots_an_object_still_never_has_two_passes_and_none_is_lost() {
    let now = Instant::now();
    let mut schedule = limited(4);
    due(&mut schedule, "h/huge", 0..6, now);
    let mut passes = begun(&mut schedule, now);
    due(&mut schedule, "a/a", 0..2, now);
    passes.extend(begun(&mut schedule, now));
    assert_eq!(passes.last(), Some(&("a/a", 0)));
    due(&mut schedule, "a/a", 0..1, now);
    assert!(begun(&mut schedule, now).is_empty(), "its pass is in progress");
    let mut number = 0;
    while let Some(key) = passes.pop() {
        number += 1;
        schedule.end(&key);
        passes.extend(begun(&mut schedule, now));
    }
    assert_eq!(number, 9, "six, two, and one again");
    assert!(schedule.due.is_empty() && schedule.turns.is_empty() && schedule.waiting.is_empty());
    assert_eq!((schedule.in_progress.in_turn(), schedule.in_progress.spare()), (0, 0));
}
