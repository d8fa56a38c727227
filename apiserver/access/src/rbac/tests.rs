//! Decisions, listed rules and coverage, case by case.

use std::sync::Arc;

use super::*;
use crate::authorizer::{Attributes, Authorizer, Decision, Rule};
use crate::testing::block;
use crate::user::{Realm, UNSCOPED, User};

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
    Rule {
        verbs: texts(verbs),
        groups: texts(groups),
        resources: texts(resources),
        names: texts(names),
        ..Rule::default()
    }
}

fn paths(verbs: &[&str], paths: &[&str]) -> Rule {
    Rule { verbs: texts(verbs), paths: texts(paths), ..Rule::default() }
}

fn role(namespace: &str, name: &str, rules: Vec<Rule>) -> Role {
    Role { namespace: namespace.to_owned(), name: name.to_owned(), rules }
}

fn binding(namespace: &str, name: &str, role: &str, subject: Subject) -> Binding {
    let (is_cluster_role, role) = match role.strip_prefix("role:") {
        Some(role) => (false, role),
        None => (true, role),
    };
    Binding {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        role: RoleRef { is_cluster_role, name: role.to_owned() },
        subjects: vec![subject],
        admits_host: false,
        of_project: false,
    }
}

fn user(name: &str) -> Subject {
    Subject::User(name.to_owned())
}

fn group(name: &str) -> Subject {
    Subject::Group(name.to_owned())
}

fn account(namespace: &str, name: &str) -> Subject {
    Subject::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// A request: `group/resource/subresource` with namespace and name, or a path.
fn request(user: User, verb: &str, what: &str, namespace: &str, name: &str) -> Attributes {
    let mut attributes = Attributes { user: Arc::new(user), verb: verb.to_owned(), ..Attributes::default() };
    if what.starts_with('/') {
        what.clone_into(&mut attributes.path);
        return attributes;
    }
    let mut parts = what.split('|');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    (attributes.group, attributes.resource, attributes.subresource) = (next(), next(), next());
    (attributes.namespace, attributes.name) = (namespace.to_owned(), name.to_owned());
    attributes
}

fn alice() -> User {
    User::authenticated("alice", ["dev".to_owned()])
}

/// Returns the decision for alice, to whom a ClusterRoleBinding gives this rule.
fn with(rule: Rule, verb: &str, what: &str, name: &str) -> bool {
    let policy = Policy {
        roles: vec![role("", "r", vec![rule])],
        bindings: vec![binding("", "b", "r", user("alice"))],
    };
    let (decision, _) = Snapshot::new(policy).decide(&request(alice(), verb, what, "ns", name));
    decision == Decision::Allow
}

#[test]
fn a_rule_allows_exactly_its_verbs_groups_resources_and_names() {
    let of = |resources: &[&str]| rule(&["get"], &["g"], resources, &[]);
    let named = || rule(&["*"], &[""], &["secrets"], &["a", "b"]);
    for (rule, verb, what, name, expected) in [
        (of(&["pods"]), "get", "g|pods", "x", true),
        (of(&["pods"]), "list", "g|pods", "", false),
        (of(&["pods"]), "get", "|pods", "x", false),
        (of(&["pods"]), "get", "g|pods|log", "x", false),
        (of(&["pods/log"]), "get", "g|pods|log", "x", true),
        (of(&["pods/log"]), "get", "g|pods", "x", false),
        (of(&["*/log"]), "get", "g|pods|log", "x", true),
        (of(&["*/log"]), "get", "g|pods|status", "x", false),
        (of(&["*/log"]), "get", "g|pods", "x", false),
        (of(&["*"]), "get", "g|pods|log", "x", true),
        (of(&["*"]), "get", "g|pods", "x", true),
        (of(&["machines/*"]), "get", "g|machines|reboot", "x", false),
        (of(&["mach*"]), "get", "g|machines", "x", false),
        (of(&["*/*"]), "get", "g|pods|log", "x", false),
        (rule(&["*"], &["*"], &["*"], &[]), "reboot", "any|pods|x", "x", true),
        (rule(&["get"], &["*"], &["pods"], &[]), "get", "|pods", "x", true),
        (rule(&["g*"], &["g"], &["pods"], &[]), "get", "g|pods", "x", false),
        (rule(&["get"], &[""], &["pods"], &[]), "get", "|pods", "x", true),
        (rule(&["get"], &[], &["pods"], &[]), "get", "|pods", "x", false),
        (named(), "get", "|secrets", "a", true),
        (named(), "get", "|secrets", "c", false),
        (named(), "create", "|secrets", "", false),
        (named(), "list", "|secrets", "", false),
        (named(), "list", "|secrets", "b", true),
        (rule(&["get"], &["g"], &["*"], &[]), "get", "/metrics", "", false),
        (paths(&["get"], &["*"]), "get", "g|pods", "x", false),
    ] {
        assert_eq!(with(rule.clone(), verb, what, name), expected, "{rule:?} {verb} {what} {name}");
    }
}

#[test]
fn a_rule_about_paths_allows_equal_ones_and_those_below_a_prefix() {
    for (path, wanted, expected) in [
        ("/metrics", "/metrics", true),
        ("/metrics", "/metrics/", false),
        ("/livez*", "/livez/ping", true),
        ("/livez*", "/live", false),
        ("/livez/*", "/livez", false),
        ("/livez**", "/livez", true),
        ("*", "/anything", true),
        ("/*/ping", "/livez/ping", false),
    ] {
        assert_eq!(with(paths(&["get"], &[path]), "get", wanted, ""), expected, "{path} {wanted}");
        assert!(!with(paths(&["post"], &[path]), "get", wanted, ""), "{path} {wanted}");
    }
}

/// Policy in which `reader` reads pods and `writer` of namespace `a` writes them.
fn policy(bindings: Vec<Binding>) -> Snapshot {
    let roles = vec![
        role("", "reader", vec![rule(&["get"], &[""], &["pods"], &[]), paths(&["get"], &["/metrics"])]),
        role("a", "writer", vec![rule(&["update"], &[""], &["pods"], &[])]),
    ];
    Snapshot::new(Policy { roles, bindings })
}

#[test]
fn bindings_hold_for_their_subjects_in_their_scope() {
    let robot = || User::authenticated("system:serviceaccount:a:robot", []);
    let reader = "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"reader\" to";
    let local = "RBAC: allowed by RoleBinding \"b/a\" of ClusterRole \"reader\" to";
    for (binding, user, namespace, verb, expected) in [
        (binding("", "b", "reader", user("alice")), alice(), "a", "get", format!("{reader} User \"alice\"")),
        (binding("", "b", "reader", user("alice")), alice(), "", "get", format!("{reader} User \"alice\"")),
        (binding("", "b", "reader", group("dev")), alice(), "a", "get", format!("{reader} Group \"dev\"")),
        (binding("", "b", "reader", user("dev")), alice(), "a", "get", String::new()),
        (binding("", "b", "reader", group("alice")), alice(), "a", "get", String::new()),
        (binding("a", "b", "reader", user("alice")), alice(), "a", "get", format!("{local} User \"alice\"")),
        (binding("a", "b", "reader", user("alice")), alice(), "b", "get", String::new()),
        (binding("a", "b", "reader", user("alice")), alice(), "", "get", String::new()),
        (
            binding("a", "b", "role:writer", user("alice")),
            alice(),
            "a",
            "update",
            "RBAC: allowed by RoleBinding \"b/a\" of Role \"writer\" to User \"alice\"".to_owned(),
        ),
        (
            binding("", "b", "reader", account("a", "robot")),
            robot(),
            "b",
            "get",
            format!("{reader} ServiceAccount \"robot/a\""),
        ),
        (
            binding("a", "b", "reader", account("", "robot")),
            robot(),
            "a",
            "get",
            format!("{local} ServiceAccount \"robot/\""),
        ),
        (binding("b", "b", "reader", account("", "robot")), robot(), "b", "get", String::new()),
        (binding("", "b", "reader", account("", "robot")), robot(), "a", "get", String::new()),
    ] {
        let case = format!("{binding:?} {namespace}");
        let (decision, reason) = policy(vec![binding]).decide(&request(user, verb, "|pods", namespace, "x"));
        assert_eq!(reason, expected, "{case}");
        assert_eq!(decision == Decision::Allow, !expected.is_empty(), "{case}");
    }
    let local = policy(vec![binding("a", "b", "reader", user("alice"))]);
    assert_ne!(local.decide(&request(alice(), "get", "/metrics", "", "")).0, Decision::Allow);
}

#[test]
fn a_missing_role_gives_nothing_and_is_the_reason_of_the_refusal() {
    let missing = |bindings| {
        let (decision, _) = policy(bindings).decide(&request(alice(), "get", "|nodes", "b", "x"));
        let Decision::NoOpinion(reason) = decision else { panic!("{decision:?}") };
        reason
    };
    let gone = || binding("", "b", "gone", user("alice"));
    let other = || binding("b", "c", "role:writer", group("dev"));
    let gone_text = "clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    let other_text = "role.rbac.authorization.k8s.io \"writer\" not found";
    assert_eq!(missing(vec![]), "");
    assert_eq!(missing(vec![binding("", "b", "gone", user("bob"))]), "");
    assert_eq!(missing(vec![gone()]), format!("RBAC: {gone_text}"));
    assert_eq!(missing(vec![gone(), gone(), other()]), format!("RBAC: [{gone_text}, {other_text}]"));
    let both = policy(vec![gone(), binding("", "d", "reader", user("alice"))]);
    assert_eq!(both.decide(&request(alice(), "get", "|pods", "b", "x")).0, Decision::Allow);
}

#[test]
fn an_explanation_has_the_rule_that_allows_or_the_bindings_of_which_none_does() {
    let reader = || binding("", "b", "reader", user("alice"));
    let gone = || binding("a", "c", "gone", group("dev"));
    let host = || User { realm: Realm::Host, ..alice() };
    let no_binding =
        "no binding of the cluster and of the namespace \"a\" names the user or one of its groups";
    let left_out =
        "; and 1 that do not admit users of the host cluster (annotation capstan.dev/realms: host)";
    let all = || binding("", "d", "reader", group("system:authenticated"));
    for (bindings, user, verb, expected) in [
        (
            vec![gone(), reader()],
            alice(),
            "get",
            "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"reader\" to User \"alice\", by the rule \
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"
                .to_owned(),
        ),
        (
            vec![gone(), reader()],
            alice(),
            "list",
            "no rule of the user's bindings allows it: ClusterRoleBinding \"b\" of ClusterRole \"reader\"; \
             RoleBinding \"c/a\" of ClusterRole \"gone\", which does not exist"
                .to_owned(),
        ),
        (vec![], alice(), "get", no_binding.to_owned()),
        (vec![all()], alice(), "list", format!("{no_binding}; and 1 for all users")),
        (vec![reader()], host(), "get", format!("{no_binding}{left_out}")),
    ] {
        let request = request(user, verb, "|pods", "a", "x");
        let snapshot = policy(bindings);
        let (decision, reason) = snapshot.explain(&request);
        assert_eq!((decision, reason), (snapshot.decide(&request).0, expected));
    }
    let many =
        policy((0..12).map(|number| binding("", &number.to_string(), "reader", user("alice"))).collect());
    let (_, reason) = many.explain(&request(alice(), "list", "|pods", "a", "x"));
    assert!(reason.ends_with("\"9\" of ClusterRole \"reader\"; and 2 more"), "{reason}");
}

#[test]
fn identities_of_the_host_need_a_binding_that_admits_them() {
    let host = || User { realm: Realm::Host, ..alice() };
    let may = |binding: &Binding, user: User| {
        let snapshot = policy(vec![binding.clone()]);
        snapshot.decide(&request(user, "get", "|pods", "a", "x")).0 == Decision::Allow
    };
    for subject in [user("alice"), group("dev")] {
        let mut binding = binding("", "b", "reader", subject);
        assert!(may(&binding, alice()) && !may(&binding, host()), "{binding:?}");
        binding.admits_host = true;
        assert!(may(&binding, alice()) && may(&binding, host()), "{binding:?}");
    }
    assert!(may(&binding("", "b", "reader", user("alice")), User { realm: Realm::Keystone, ..alice() }));
    assert!(may(&binding("", "b", "reader", group("system:authenticated")), host()));
    let everyone = binding("", "b", "reader", group("system:unauthenticated"));
    assert!(may(&everyone, User::anonymous()));
}

#[test]
fn a_user_without_a_scope_has_what_all_authenticated_users_have() {
    let unscoped = || {
        let mut user = User { realm: Realm::Keystone, ..alice() };
        user.extra.insert(UNSCOPED.to_owned(), vec!["true".to_owned()]);
        user
    };
    for (subject, expected) in
        [(user("alice"), false), (group("dev"), false), (group("system:authenticated"), true)]
    {
        let snapshot = policy(vec![binding("", "b", "reader", subject.clone())]);
        let asked = request(unscoped(), "get", "|pods", "a", "x");
        let decision = snapshot.decide(&asked).0;
        assert_eq!(decision == Decision::Allow, expected, "{subject:?} {decision:?}");
        assert_eq!(snapshot.rules(&unscoped(), "a").is_empty(), !expected, "{subject:?}");
        assert_eq!(snapshot.explain(&asked).1.contains("has no scope"), !expected, "{subject:?}");
    }
}

#[test]
fn listed_rules_are_those_that_hold_in_the_namespace_each_once() {
    let bindings = vec![
        binding("", "b", "reader", user("alice")),
        binding("", "c", "reader", group("dev")),
        binding("a", "d", "role:writer", user("alice")),
    ];
    let snapshot = policy(bindings);
    assert_eq!(snapshot.rules(&alice(), "a").len(), 3);
    assert_eq!(snapshot.rules(&alice(), "b").len(), 2);
    assert_eq!(snapshot.rules(&User::authenticated("bob", []), "a"), []);
}

#[test]
fn nothing_is_decided_before_the_roles_are_read_and_controllers_get_nothing_from_bindings() {
    let rbac = RbacAuthorizer::default();
    let ask = |user: User| block(rbac.authorize(&request(user, "get", "|pods", "a", "x")));
    assert!(matches!(ask(alice()), Decision::Error(_)));
    assert!(!block(rbac.rules(&alice(), "a")).unknown.is_empty());
    rbac.set(policy(vec![binding("", "b", "reader", group("system:authenticated"))]));
    assert_eq!(ask(alice()), Decision::Allow);
    assert_eq!(block(rbac.rules(&alice(), "a")).rules.len(), 2);
    assert_eq!(ask(User::controller("machine-controller")), Decision::NoOpinion(String::new()));
}

#[test]
fn each_part_of_a_rule_is_covered_by_one_rule_of_the_writer() {
    let pods = |verbs: &[&str]| rule(verbs, &[""], &["pods"], &[]);
    let named = |names: &[&str]| rule(&["get"], &[""], &["pods"], names);
    for (held, wanted, expected) in [
        (vec![pods(&["get"])], pods(&["get"]), vec![]),
        (vec![pods(&["*"])], pods(&["get", "list"]), vec![]),
        (vec![pods(&["get"]), pods(&["list"])], pods(&["get", "list"]), vec![]),
        (vec![pods(&["get"])], pods(&["*"]), vec!["{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"*\"]}"]),
        (
            vec![pods(&["get"])],
            pods(&["get", "list", "watch"]),
            vec!["{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}"],
        ),
        (
            vec![rule(&["get"], &["*"], &["*"], &[])],
            rule(&["get"], &["a", "b"], &["x", "y/z", "*"], &[]),
            vec![],
        ),
        (vec![rule(&["get"], &["a"], &["*/log"], &[])], rule(&["get"], &["a"], &["pods/log"], &[]), vec![]),
        (
            vec![rule(&["get"], &["a"], &["pods"], &[])],
            rule(&["get"], &["a"], &["pods/log"], &[]),
            vec!["{APIGroups:[\"a\"], Resources:[\"pods/log\"], Verbs:[\"get\"]}"],
        ),
        (vec![pods(&["get"])], named(&["a"]), vec![]),
        (vec![named(&["a", "b"])], named(&["b"]), vec![]),
        (vec![named(&["a"]), named(&["b"])], named(&["a", "b"]), vec![]),
        (
            vec![named(&["a"])],
            named(&["a", "c"]),
            vec!["{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"c\"], Verbs:[\"get\"]}"],
        ),
        (
            vec![named(&["a"])],
            pods(&["get"]),
            vec!["{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"],
        ),
        (vec![paths(&["get"], &["/a*"])], paths(&["get"], &["/a/b", "/a*", "/a"]), vec![]),
        (
            vec![paths(&["get"], &["/a/*"])],
            paths(&["get"], &["/a", "*"]),
            vec!["{NonResourceURLs:[\"*\"], Verbs:[\"get\"]}", "{NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}"],
        ),
        (full_authority().to_vec(), rule(&["*"], &["*"], &["*"], &[]), vec![]),
        (full_authority().to_vec(), paths(&["*"], &["*"]), vec![]),
    ] {
        assert_eq!(uncovered(&held, std::slice::from_ref(&wanted)), expected, "{held:?} {wanted:?}");
    }
    let halves = [rule(&["get"], &["a"], &["x"], &[]), rule(&["list"], &["b"], &["x"], &[])];
    assert_eq!(uncovered(&halves, &[rule(&["list"], &["a"], &["x"], &[])]).len(), 1);
}

#[test]
fn a_rule_with_more_parts_than_fit_into_memory_is_refused_unless_one_rule_covers_it() {
    let many: Vec<String> = (0..50_000).map(|number| format!("n{number}")).collect();
    let wide = Rule {
        verbs: many.clone(),
        groups: many.clone(),
        resources: many.clone(),
        names: many,
        ..Rule::default()
    };
    let missing = uncovered(&[rule(&["get"], &["*"], &["*"], &[])], std::slice::from_ref(&wide));
    assert!(missing.len() == 1 && missing[0].contains("too many combinations"), "{missing:?}");
    assert!(missing[0].len() < 300, "{missing:?}");
    assert_eq!(uncovered(&full_authority(), &[wide]), Vec::<String>::new());
}

/// The index makes the time of a decision independent of the number of bindings. The bound is generous, because tests
/// run unoptimized and beside others.
#[test]
fn a_decision_among_ten_thousand_bindings_takes_microseconds() {
    let bindings = (0..10_000).map(|number| {
        let namespace = if number % 2 == 0 { String::new() } else { format!("n{}", number % 100) };
        binding(&namespace, &format!("b{number}"), "reader", user(&format!("u{number}")))
    });
    let snapshot = policy(bindings.collect());
    let asked = request(User::authenticated("u4242", []), "get", "|pods", "n1", "x");
    let refused = request(alice(), "get", "|pods", "n1", "x");
    let started = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(snapshot.decide(&asked).0, Decision::Allow);
        assert_ne!(snapshot.decide(&refused).0, Decision::Allow);
    }
    assert!(started.elapsed() < std::time::Duration::from_millis(400), "{:?}", started.elapsed());
}
