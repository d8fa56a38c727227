//! Tests of the mirror against a fake host.

use apiserver_access::rbac::{Binding, Policy, Role, RoleRef, Subject};
use apiserver_access::{OfRealm, Realm, Rule, UNVERIFIED, User};
use serde_json::{Value, json};

use super::*;
use crate::authorizer::HostAuthorizer;
use crate::fake::{Fake, status};

const GROUP: &str = "cluster.x-k8s.io";

fn rule(verbs: &[&str], group: &str, resource: &str) -> Rule {
    Rule {
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        ..Rule::default()
    }
}

/// Returns the permissions of a host: alice manages machines, and root may do everything.
fn permissions() -> Snapshot {
    let role = |name: &str, rules| Role { namespace: String::new(), name: name.to_owned(), rules };
    let binding = |role: &str, user: &str| Binding {
        name: format!("{role}-{user}"),
        role: RoleRef { is_cluster_role: true, name: role.to_owned() },
        subjects: vec![Subject::User(user.to_owned())],
        admits_host: true,
        ..Binding::default()
    };
    let all = ["get", "list", "delete", "create"];
    let machines = [rule(&all, GROUP, "machines"), rule(&all, GROUP, "machines/reboot")];
    let machines = [machines.to_vec(), vec![rule(&["get"], "", "secrets")]].concat();
    Snapshot::new(Policy {
        roles: vec![role("machines", machines), role("all", vec![rule(&["*"], "*", "*")])],
        bindings: vec![binding("machines", "alice"), binding("all", "root")],
    })
}

fn asks(user: &str, verb: &str, group: &str, resource: &str) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        user: User::authenticated(user, []).in_realm(Realm::Host).into(),
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: "team".to_owned(),
        ..Attributes::default()
    }
}

fn review(status: &Value) -> (u16, Value) {
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "metadata": {}, "spec": {}, "status": status});
    (201, body)
}

/// Returns a host in this state, its mirror, and the authorizer of its users.
fn scene(state: HostState) -> (Fake, HostHealth, HostMirror, OfRealm) {
    let host = Fake::new(review(&json!({"allowed": true, "reason": "the host says so"})));
    let health = HostHealth::in_state(state);
    let mirror = HostMirror::new(health.clone(), Bounds::default(), Timestamp::UNIX_EPOCH);
    let authorizer = Arc::new(HostAuthorizer::new(host.client()).with_health(health.clone()));
    let authorizer = Arc::new(MirroredAuthorizer::deciding(authorizer, mirror.clone()));
    (host, health, mirror, OfRealm { realm: Realm::Host, authorizer })
}

/// Returns the mirror of a host that was up a moment ago.
fn synchronized(mirror: &HostMirror, health: &HostHealth) {
    health.set(HostState::Up);
    mirror.set_permissions(permissions());
    mirror.synchronized();
}

/// Returns the class of the answer to a client: 200, 403 or 503.
fn code(verdict: &Verdict) -> u16 {
    match verdict.decision {
        Decision::Allow => 200,
        Decision::Deny(_) | Decision::NoOpinion(_) => 403,
        Decision::Error(_) => 503,
    }
}

#[tokio::test(start_paused = true)]
async fn the_mirror_decides_within_its_bounds_while_the_host_is_down() {
    let (host, health, mirror, authorizer) = scene(HostState::Probation);
    synchronized(&mirror, &health);
    health.set(HostState::Down);
    let before = host.requests().len();
    let hours = |count: u64| Duration::from_secs(count * 3600);
    let second = Duration::from_secs(1);
    let mut age = Duration::ZERO;
    for (at, read, write) in [
        (second, 200, 200),
        (hours(4) - second, 200, 200),
        (hours(4) + second, 200, 503),
        (hours(24) - second, 200, 503),
        (hours(24) + second, 503, 503),
    ] {
        tokio::time::advance(at - age).await;
        age = at;
        for (user, verb, group, resource, expected) in [
            ("alice", "get", GROUP, "machines", read),
            ("alice", "delete", GROUP, "machines", write),
            ("alice", "create", GROUP, "machines/reboot", write),
            ("alice", "get", "", "secrets", 503),
            ("alice", "get", GROUP, "clusters", 403),
            ("root", "get", GROUP, "machines", 503),
            ("mallory", "get", GROUP, "machines", 403),
        ] {
            let verdict = authorizer.judge(&asks(user, verb, group, resource)).await;
            assert_eq!(code(&verdict), expected, "{user} {verb} {resource} at {at:?}: {verdict:?}");
            if expected == 200 {
                assert_eq!((verdict.authorizer.as_str(), verdict.age), (NAME, Some(at)));
                assert!(verdict.reason.contains("machines-alice"), "{}", verdict.reason);
            }
        }
    }
    assert_eq!(host.requests().len(), before, "no request waits for a host that is down");
}

#[tokio::test(start_paused = true)]
async fn the_host_decides_while_it_answers_and_its_refusals_count_only_when_it_is_up() {
    let (host, health, mirror, authorizer) = scene(HostState::Probation);
    synchronized(&mirror, &health);
    let verdict = authorizer.judge(&asks("mallory", "get", GROUP, "machines")).await;
    assert_eq!((code(&verdict), verdict.authorizer.as_str(), verdict.age), (200, "Host", None));
    host.answer(review(&json!({"allowed": false})));
    health.set(HostState::Probation);
    let verdict = authorizer.judge(&asks("alice", "get", GROUP, "machines")).await;
    assert_eq!((code(&verdict), verdict.authorizer.as_str()), (200, NAME), "it may not have read its roles");
    health.set(HostState::Up);
    assert_eq!(code(&authorizer.judge(&asks("alice", "list", GROUP, "machines")).await), 403);
    host.answer(status(500));
    let verdict = authorizer.judge(&asks("alice", "delete", GROUP, "machines")).await;
    assert_eq!(code(&verdict), 503, "it is up, and only it decides");
    health.set(HostState::Slow);
    let verdict = authorizer.judge(&asks("alice", "delete", GROUP, "machines")).await;
    assert_eq!((code(&verdict), verdict.authorizer.as_str()), (200, NAME));
    health.set(HostState::Other);
    let verdict = authorizer.judge(&asks("alice", "create", GROUP, "machines")).await;
    assert_eq!(code(&verdict), 503, "another host has other users");
}

#[tokio::test(start_paused = true)]
async fn the_answers_have_the_state_of_the_host_and_the_age_of_the_copy() {
    let (_host, health, mirror, authorizer) = scene(HostState::Probation);
    synchronized(&mirror, &health);
    let answers = authorizer.answers(&asks("alice", "get", GROUP, "machines")).await;
    let [host] = answers.each.as_slice() else { panic!("{answers:?}") };
    assert_eq!((host.authorizer.as_str(), host.why(), host.age), ("Host", "the host says so", None));
    health.set(HostState::Down);
    let age = Duration::from_secs(5 * 3600);
    tokio::time::advance(age).await;
    for (user, verb, expected) in [("alice", "get", 200), ("mallory", "get", 403), ("alice", "delete", 503)] {
        let question = asks(user, verb, GROUP, "machines");
        let answers = authorizer.answers(&question).await;
        let [host, copy] = answers.each.as_slice() else { panic!("{answers:?}") };
        assert_eq!((host.authorizer.as_str(), code(host)), ("Host", 503));
        assert!(host.why().ends_with("in the state down"), "{host:?}");
        assert_eq!((copy.authorizer.as_str(), code(copy), copy.age), (NAME, expected, Some(age)));
        assert_eq!(answers.verdict, authorizer.judge(&question).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_mirror_and_a_mirror_of_another_realm_allow_nothing() {
    let (_host, health, mirror, authorizer) = scene(HostState::Down);
    let question = asks("alice", "get", GROUP, "machines");
    assert_eq!(code(&authorizer.judge(&question).await), 503, "never read");
    mirror.set_permissions(permissions());
    assert_eq!(code(&authorizer.judge(&question).await), 503, "read at an unknown time");
    // A process that starts without the host has the copies of an earlier one.
    let recorded = Timestamp::now() - Duration::from_secs(3600);
    mirror.restore_contact(recorded);
    assert_eq!(code(&authorizer.judge(&question).await), 503, "the host itself was never seen");
    health.restore_contact(recorded);
    let verdict = authorizer.judge(&question).await;
    assert_eq!((code(&verdict), verdict.age.map(|age| age.as_secs())), (200, Some(3600)));
    let own = User::authenticated("alice", []);
    let own = Attributes { user: own.into(), ..question };
    assert_eq!(code(&authorizer.judge(&own).await), 403, "own alice is another person");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_denies_more_than_its_rbac_closes_the_mirror() {
    let (host, health, mirror, authorizer) = scene(HostState::Probation);
    synchronized(&mirror, &health);
    host.answer(review(&json!({"allowed": false, "denied": true, "reason": "a webhook"})));
    let asker = HostAuthorizer::new(host.client()).with_health(health.clone());
    let question = asks("alice", "get", GROUP, "machines");
    assert_eq!(code(&authorizer.judge(&question).await), 403);
    assert!(mirror.confirm(&asker).await.is_empty(), "the host may be late");
    tokio::time::advance(SECOND_ANSWER).await;
    mirror.synchronized();
    let found = mirror.confirm(&asker).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(health.metrics().disagreements("wider"), 1);
    health.set(HostState::Down);
    assert_eq!(code(&authorizer.judge(&question).await), 503, "of this class");
    let other = asks("alice", "delete", GROUP, "machines");
    assert_eq!(code(&authorizer.judge(&other).await), 200, "of another class");
    tokio::time::advance(Duration::from_secs(1)).await;
    for number in 0..10 {
        let question = format!("another {number}");
        mirror.add(Disagreement { question, ..found[0].clone() });
    }
    assert_eq!(code(&authorizer.judge(&other).await), 503, "of all, after more than ten in an hour");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_a_moment_late_does_not_close_the_mirror() {
    let (host, health, mirror, authorizer) = scene(HostState::Probation);
    synchronized(&mirror, &health);
    host.answer(review(&json!({"allowed": false})));
    let asker = HostAuthorizer::new(host.client()).with_health(health.clone());
    let question = asks("alice", "get", GROUP, "machines");
    authorizer.judge(&question).await;
    host.answer(review(&json!({"allowed": true})));
    tokio::time::advance(SECOND_ANSWER).await;
    mirror.synchronized();
    assert!(mirror.confirm(&asker).await.is_empty());
    health.set(HostState::Down);
    assert_eq!(code(&authorizer.judge(&question).await), 200);
}

#[tokio::test]
async fn a_token_that_is_not_verified_in_full_gets_no_credentials() {
    #[derive(Debug)]
    struct AllowAll;
    #[async_trait::async_trait]
    impl Authorizer for AllowAll {
        async fn judge(&self, _: &Attributes) -> Verdict {
            Verdict::of(Decision::Allow, self.name())
        }
    }
    let authorizer = Cautious(Arc::new(AllowAll));
    for (verb, group, resource, expected) in [
        ("get", GROUP, "machines", 200),
        ("get", "", "secrets", 503),
        ("create", "", "serviceaccounts/token", 503),
        ("impersonate", "", "users", 503),
        ("impersonate:user-info", "authentication.k8s.io", "users", 503),
        ("bind", "rbac.authorization.k8s.io", "roles", 503),
    ] {
        let mut attributes = asks("alice", verb, group, resource);
        assert_eq!(code(&authorizer.judge(&attributes).await), 200, "{verb} {resource}");
        let mut user = (*attributes.user).clone();
        user.extra.insert(UNVERIFIED.to_owned(), vec!["pod".to_owned()]);
        attributes.user = user.into();
        assert_eq!(code(&authorizer.judge(&attributes).await), expected, "{verb} {resource}");
    }
}
