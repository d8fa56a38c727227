//! The judge notices each kind of violation.

use super::*;
use crate::record::{Rollout, Seen, Watched, Write};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn call(realm: Realm, at: u64, code: u16) -> Call {
    let answer = (code != 0).then(|| (code, String::new()));
    let user = format!("{realm:?}");
    Call { user, realm, method: "GET", begun: s(at), ended: s(at), broken: 0, answer }
}

/// A run with the host down from 100 s to 200 s, whose leader was killed at 120 s and started again at 140 s.
fn run() -> Records {
    let marks = [
        (100, HOST_KILLED),
        (120, "leader killed"),
        (140, REPLICA_STARTED),
        (195, HOST_STARTED),
        (200, HOST_RETURNED),
    ];
    let marks = marks.map(|(at, text)| (s(at), text.to_owned()));
    Records {
        marks: marks.to_vec(),
        holders: vec![(s(1), "a".to_owned()), (s(128), "b".to_owned())],
        ..Records::default()
    }
}

fn violations(records: &Records) -> Vec<String> {
    judge(records, &CloudState::default()).violations
}

#[test]
fn answers_are_judged_by_realm_and_time() {
    for (realm, at, code, is_wrong) in [
        (Realm::Own, 150, 200, false),
        (Realm::Own, 150, 503, true),
        (Realm::Own, 150, 0, true),
        (Realm::Own, 50, 403, true),
        (Realm::Denied, 150, 403, false),
        (Realm::Denied, 150, 200, true),
        (Realm::Denied, 150, 503, true),
        (Realm::Host, 50, 200, false),
        (Realm::Host, 50, 503, true),
        (Realm::Host, 105, 200, false),
        (Realm::Host, 105, 503, false),
        (Realm::Host, 130, 200, false),
        (Realm::Host, 130, 503, true),
        // A replica has started.
        (Realm::Host, 150, 503, false),
        (Realm::Host, 150, 403, true),
        (Realm::Host, 150, 401, true),
        (Realm::Host, 210, 200, false),
        (Realm::Host, 300, 503, true),
        (Realm::Aggregated, 50, 200, false),
        (Realm::Aggregated, 50, 503, true),
        (Realm::Aggregated, 125, 503, false),
        (Realm::Aggregated, 150, 403, true),
        (Realm::Aggregated, 197, 401, false),
        (Realm::Aggregated, 210, 401, false),
        (Realm::Aggregated, 300, 401, true),
        (Realm::Aggregated, 300, 503, true),
    ] {
        let records = Records { calls: vec![call(realm, at, code)], ..run() };
        assert_eq!(!violations(&records).is_empty(), is_wrong, "{realm:?} {code} at {at} s");
    }
}

#[test]
fn ho_42_users_of_the_host_write_until_their_copy_is_too_old_and_read_for_longer() {
    let mut run = run();
    run.marks.push((s(170), CLOCKS_ADVANCED.to_owned()));
    // There is always one write that has met the bound.
    let met = Call { method: "PUT", ..call(Realm::Host, 185, 503) };
    for (method, at, code, is_wrong) in [
        ("PUT", 160, 200, false),
        ("PUT", 160, 503, true),
        ("PUT", 172, 200, false),
        ("PUT", 172, 503, false),
        ("PUT", 182, 200, true),
        ("PUT", 182, 503, false),
        ("GET", 182, 200, false),
        ("GET", 182, 503, true),
        ("PUT", 197, 503, false),
    ] {
        let asked = Call { method, ..call(Realm::Host, at, code) };
        let records = Records { calls: vec![asked, met.clone()], ..run.clone() };
        assert_eq!(!violations(&records).is_empty(), is_wrong, "{method} {code} at {at} s");
    }
    assert_eq!(violations(&run).len(), 1, "no write has met the bound");
}

#[test]
fn ho_42_a_rollout_takes_at_most_a_third_longer_and_each_failover_a_known_time() {
    let rollout = |begun, ended, workers| Rollout { begun: s(begun), ended: s(ended), workers };
    let table = [
        (rollout(150, 207, 4), true),
        (rollout(150, 205, 4), false),
        // Twice as many workers, beside the end of the leader.
        (rollout(110, 267, 8), false),
        (rollout(110, 268, 8), true),
    ];
    for (second, is_wrong) in table {
        let text = format!("{second:?}");
        // 20 seconds for four workers.
        let records = Records { rollouts: vec![rollout(50, 70, 4), second], ..run() };
        assert_eq!(!violations(&records).is_empty(), is_wrong, "{text}");
    }
}

#[test]
fn ho_42_a_replica_that_starts_and_a_host_that_returns_have_time_until_the_caller_has_seen_them() {
    let mut run = run();
    // The replica that was seen ready at 140 s.
    run.marks.insert(2, (s(135), REPLICA_STARTS.to_owned()));
    run.marks.push((s(250), HOST_SERVES.to_owned()));
    for (realm, at, is_wrong) in [
        (Realm::Host, 134, true),
        (Realm::Host, 136, false),
        (Realm::Host, 155, false),
        (Realm::Host, 156, true),
        (Realm::Aggregated, 245, false),
        (Realm::Aggregated, 266, true),
    ] {
        let records = Records { calls: vec![call(realm, at, 503)], ..run.clone() };
        assert_eq!(!violations(&records).is_empty(), is_wrong, "{realm:?} at {at} s");
    }
}

#[test]
fn a_late_leader_is_a_violation() {
    let late = Records { holders: vec![(s(1), "a".to_owned()), (s(133), "b".to_owned())], ..run() };
    assert_eq!(violations(&late).len(), 1);
    assert_eq!(violations(&Records { holders: Vec::new(), ..run() }).len(), 1);
    assert!(violations(&run()).is_empty());
}

#[test]
fn ho_42_the_latency_of_own_users_may_double_without_the_host() {
    let took = |(at, took): &(u64, u64)| Call {
        ended: s(*at) + Duration::from_millis(*took),
        ..call(Realm::Own, *at, 200)
    };
    // Each call with its begin in seconds, and its duration in milliseconds.
    let table: [(&[(u64, u64)], bool); 7] = [
        (&[(50, 600), (150, 1190)], false),
        (&[(50, 600), (150, 1210)], true),
        (&[(50, 20), (150, 990)], false),
        (&[(50, 20), (150, 1010)], true),
        // The machine was busy for one slice of three, or is busier since the host is back.
        (&[(50, 20), (150, 20), (155, 3000), (160, 20)], false),
        (&[(50, 20), (150, 1010), (155, 3000), (160, 20)], true),
        (&[(50, 20), (150, 1190), (300, 600)], false),
    ];
    for (calls, is_wrong) in table {
        let records = Records { calls: calls.iter().map(took).collect(), ..run() };
        assert_eq!(!violations(&records).is_empty(), is_wrong, "{calls:?}");
    }
}

fn watched(from: u64, until: Option<u64>) -> Watched {
    Watched { watcher: "x".to_owned(), from, until, listed: Vec::new() }
}

#[test]
fn a_watcher_that_lists_again_knows_what_was_written_in_between() {
    let write = |revision| Write { object: "w".to_owned(), revision };
    let listed = |revision| {
        let again = Watched { listed: vec![("w".to_owned(), revision)], ..watched(30, None) };
        Records {
            writes: vec![write(20), write(25), write(30), write(40)],
            watched: vec![watched(10, Some(20)), again],
            seen: [20, 40].map(|revision| Seen { watcher: "x".to_owned(), revision }).to_vec(),
            ..run()
        }
    };
    assert!(violations(&listed(30)).is_empty());
    assert_eq!(violations(&listed(25)).len(), 1, "the list is older than an acknowledged write");
}

#[test]
fn a_watch_must_have_every_write_once_and_in_order() {
    let write = |revision| Write { object: "w".to_owned(), revision };
    let seen = |revisions: &[u64]| Records {
        writes: vec![write(10), write(20), write(30)],
        watched: vec![watched(10, None)],
        seen: revisions
            .iter()
            .map(|revision| Seen { watcher: "x".to_owned(), revision: *revision })
            .collect(),
        ..run()
    };
    assert!(violations(&seen(&[20, 30])).is_empty());
    // Written by an attempt without a response.
    assert!(violations(&seen(&[20, 25, 30])).is_empty());
    assert_eq!(violations(&seen(&[20])).len(), 1, "missing");
    assert_eq!(violations(&seen(&[20, 20, 30])).len(), 1, "twice");
    assert_eq!(violations(&seen(&[30, 20])).len(), 1, "order");
}

#[test]
fn the_cloud_has_each_server_once() {
    let named: BTreeSet<String> = ["a".to_owned()].into();
    let (servers, doubled) = (named.clone(), Vec::new());
    let good = CloudState { created: 2, wanted: 2, servers, named, doubled };
    assert!(judge(&run(), &good).violations.is_empty());
    assert_eq!(judge(&run(), &CloudState { created: 3, ..good.clone() }).violations.len(), 1);
    assert_eq!(judge(&run(), &CloudState { servers: BTreeSet::new(), ..good.clone() }).violations.len(), 1);
    let doubled = vec!["2 ports have the name a".to_owned()];
    assert_eq!(judge(&run(), &CloudState { doubled, ..good }).violations.len(), 1);
}
