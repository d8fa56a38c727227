//! Tests of HostStatus.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn facts(state: HostState) -> HostFacts {
    HostFacts {
        replica: "a_1".to_owned(),
        begun: at("2026-01-01T00:00:00Z"),
        now: at("2026-01-01T10:00:00.5Z"),
        state,
        since: at("2026-01-01T09:00:00Z"),
        since_contact: Duration::from_secs(5),
        probe: Some(Probe::Ready(None)),
        pinned: Some("u1".to_owned()),
        credential_end: Some(at("2026-02-01T00:00:00Z")),
        mirrors: vec![MirrorFacts::new("namespaces", 3, Duration::ZERO, Some(Duration::from_secs(60)))],
        gone: None,
        outbox: vec![("events", Backlog::default()), ("secrets", Backlog::default())],
    }
}

/// Returns status and reason of a condition.
fn condition(facts: &HostFacts, kind: &str) -> (String, String) {
    let object = host_status(facts, &mut Transitions::default());
    let all = object["status"]["conditions"].as_array().unwrap().clone();
    let found = all.into_iter().find(|it| it["type"] == kind).unwrap();
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    assert!(!text("message").is_empty());
    (text("status"), text("reason"))
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn each_state_is_shown_with_its_reason() {
    for (state, word, status, reason) in [
        (HostState::Up, "Up", "True", "Up"),
        (HostState::Slow, "Slow", "True", "Slow"),
        (HostState::Down, "Down", "False", "Down"),
        (HostState::Probation, "Probation", "True", "Probation"),
        (HostState::Other, "Other", "False", "OtherCluster"),
    ] {
        let facts = facts(state);
        assert_eq!(host_status(&facts, &mut Transitions::default())["status"]["state"], word);
        assert_eq!(condition(&facts, "Reachable"), pair(status, reason));
    }
    let unseen = |state, probe| HostFacts { since_contact: Duration::MAX, probe, ..facts(state) };
    let down = unseen(HostState::Down, Some(Probe::Silent));
    assert_eq!(condition(&down, "Reachable"), pair("False", "NeverSeen"));
    let begun = unseen(HostState::Probation, None);
    assert_eq!(condition(&begun, "Reachable"), pair("Unknown", "NoAnswerYet"));
    let status = &host_status(&begun, &mut Transitions::default())["status"];
    assert!(status.get("lastContactTime").is_none(), "{status}");
}

#[test]
fn the_credential_is_refused_by_the_host_or_by_its_end() {
    for (probe, status, reason) in [
        (None, "Unknown", "NoAnswer"),
        (Some(Probe::Silent), "Unknown", "NoAnswer"),
        (Some(Probe::Unready), "Unknown", "NotReady"),
        (Some(Probe::Refused), "True", "Refused"),
        (Some(Probe::Ready(None)), "False", "Accepted"),
        (Some(Probe::Stranger), "False", "Accepted"),
        (Some(Probe::Older(1)), "False", "Accepted"),
    ] {
        let facts = HostFacts { probe, ..facts(HostState::Down) };
        assert_eq!(condition(&facts, "CredentialRefused"), pair(status, reason), "{probe:?}");
    }
    for (end, reason) in [("2026-01-08T10:00:00Z", "EndsSoon"), ("2026-01-08T10:00:01Z", "Accepted")] {
        let soon = HostFacts { credential_end: Some(at(end)), ..facts(HostState::Up) };
        assert_eq!(condition(&soon, "CredentialRefused"), pair("False", reason), "{end}");
    }
    let ended = HostFacts { credential_end: Some(at("2026-01-01T10:00:00Z")), ..facts(HostState::Up) };
    assert_eq!(condition(&ended, "CredentialRefused"), pair("True", "Expired"));
}

#[test]
fn a_mirror_is_fresh_until_its_bound_and_one_without_a_bound_always() {
    let minute = Some(Duration::from_secs(60));
    for (seconds, bound, expected) in [
        (60, minute, pair("True", "WithinBounds")),
        (61, minute, pair("False", "Stale")),
        (1_000_000, None, pair("True", "WithinBounds")),
    ] {
        let old = MirrorFacts::new("permissions", 7, Duration::from_secs(seconds), bound);
        let facts = HostFacts { mirrors: vec![old], ..facts(HostState::Down) };
        assert_eq!(condition(&facts, "MirrorFresh"), expected, "{seconds}");
    }
    let never = MirrorFacts::new("token-keys", 0, Duration::MAX, None);
    let closed = MirrorFacts { is_closed: true, ..MirrorFacts::new("permissions", 1, Duration::ZERO, None) };
    for (mirror, reason) in [(never.clone(), "NeverRead"), (closed, "Closed")] {
        let facts = HostFacts { mirrors: vec![mirror], ..facts(HostState::Up) };
        assert_eq!(condition(&facts, "MirrorFresh"), pair("False", reason));
    }
    let unread = vec!["ConfigMap team/limits: refused".to_owned()];
    let partial = MirrorFacts { unread, ..MirrorFacts::new("parameters", 0, Duration::ZERO, minute) };
    let partial = HostFacts { mirrors: vec![partial], ..facts(HostState::Up) };
    assert_eq!(condition(&partial, "MirrorFresh"), pair("False", "Unread"));
    let shown = &host_status(&partial, &mut Transitions::default())["status"]["mirrors"][0];
    assert_eq!(shown["unread"], json!(["ConfigMap team/limits: refused"]));
    assert_eq!(shown["usable"], json!(true), "the others are used");
    assert_eq!(condition(&facts(HostState::Up), "MirrorFresh"), pair("True", "Followed"));
    let facts = HostFacts { mirrors: vec![never], ..facts(HostState::Up) };
    let shown = &host_status(&facts, &mut Transitions::default())["status"]["mirrors"][0];
    assert_eq!(*shown, json!({"name": "token-keys", "objects": 0, "usable": false}));
}

#[test]
fn the_write_back_waits_is_refused_or_belongs_to_another_replica() {
    let backlog = |objects, refused| Backlog { objects, oldest: Duration::from_secs(90), refused };
    for (backlog, status, reason) in [
        (backlog(0, 0), "True", "CaughtUp"),
        (backlog(2, 0), "False", "Waiting"),
        (backlog(2, 1), "False", "Waiting"),
        (backlog(0, 1), "False", "Refused"),
    ] {
        let facts = HostFacts { outbox: vec![("secrets", backlog)], ..facts(HostState::Up) };
        assert_eq!(condition(&facts, "WriteBackCaughtUp"), pair(status, reason), "{backlog:?}");
    }
    let follower = HostFacts { outbox: Vec::new(), ..facts(HostState::Up) };
    assert_eq!(condition(&follower, "WriteBackCaughtUp"), pair("Unknown", "NotLeader"));
    let facts = HostFacts { outbox: vec![("secrets", backlog(2, 1))], ..facts(HostState::Down) };
    let shown = &host_status(&facts, &mut Transitions::default())["status"]["outbox"][0];
    assert_eq!(
        *shown,
        json!({"kind": "secrets", "objects": 2, "refused": 1, "oldestTime": "2026-01-01T09:58:30Z"})
    );
}

/// Returns the message of a condition.
fn message(facts: &HostFacts, kind: &str) -> String {
    let object = host_status(facts, &mut Transitions::default());
    let all = object["status"]["conditions"].as_array().unwrap().clone();
    let found = all.into_iter().find(|it| it["type"] == kind).unwrap();
    found["message"].as_str().unwrap().to_owned()
}

#[test]
fn ho_03_an_older_host_is_named_with_the_value_that_accepts_it() {
    let older = HostFacts { probe: Some(Probe::Older(100)), ..facts(HostState::Other) };
    assert_eq!(condition(&older, "Reachable"), pair("False", "OtherCluster"));
    let found = message(&older, "Reachable");
    assert!(found.ends_with("set host.acceptNewIdentity to u1@100"), "{found}");
}

#[test]
fn c2_namespaces_that_the_host_does_not_have_are_listed() {
    let with = |count: usize| {
        let gone = (0..count).map(|number| format!("n{number:02}")).collect();
        HostFacts { gone: Some(gone), ..facts(HostState::Up) }
    };
    assert_eq!(condition(&facts(HostState::Up), "NamespacesGone"), pair("Unknown", "NotCompared"));
    assert_eq!(condition(&with(0), "NamespacesGone"), pair("False", "AllPresent"));
    assert_eq!(condition(&with(12), "NamespacesGone"), pair("True", "NamespacesGone"));
    let found = message(&with(12), "NamespacesGone");
    assert!(found.contains(": n00, n01") && found.ends_with("n09 and 2 more"), "{found}");
    let status = |facts: &HostFacts| host_status(facts, &mut Transitions::default())["status"].clone();
    assert_eq!(status(&with(12))["namespacesGone"].as_array().unwrap().len(), 12);
    assert!(status(&with(0)).get("namespacesGone").is_none());
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let mut transitions = Transitions::default();
    let mut at_second = |second: i64, state| {
        let now = at("2026-01-01T10:00:00Z") + SignedDuration::from_secs(second);
        let object = host_status(&HostFacts { now, ..facts(state) }, &mut transitions);
        let condition = &object["status"]["conditions"][0];
        assert_eq!(condition["type"], "Reachable");
        condition["lastTransitionTime"].as_str().unwrap().to_owned()
    };
    assert_eq!(at_second(0, HostState::Up), "2026-01-01T10:00:00Z");
    assert_eq!(at_second(1, HostState::Slow), "2026-01-01T10:00:00Z", "still reachable");
    assert_eq!(at_second(2, HostState::Down), "2026-01-01T10:00:02Z");
    assert_eq!(at_second(3, HostState::Down), "2026-01-01T10:00:02Z");
}
