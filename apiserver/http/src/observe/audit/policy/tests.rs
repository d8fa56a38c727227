//! Tests of audit policies: rules that match, and files that are refused.

use apiserver_access::User;
use http::Method;

use super::{Level, Policy};
use crate::observe::audit::Stage;
use crate::request::request_info::RequestInfo;

const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

fn policy(rest: &str) -> Policy {
    Policy::parse(&format!("{HEAD}{rest}")).unwrap()
}

fn level(policy: &Policy, method: &Method, path: &str) -> Level {
    let info = RequestInfo::resolve(method, path, false, None);
    let user = User::authenticated("alice", ["dev".to_owned()]);
    policy.decide(&info, Some(&user)).level
}

/// Returns true if a rule with these fields matches a request of alice, who is in the group dev.
fn is_matched(fields: &str, method: &Method, path: &str) -> bool {
    level(&policy(&format!("rules: [{{level: Metadata, {fields}}}]")), method, path) == Level::Metadata
}

const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines/m1";

#[test]
fn each_restriction_of_a_rule_must_hold() {
    let table = [
        ("users: [alice]", MACHINE, true),
        ("users: [bob]", MACHINE, false),
        ("userGroups: [ops, dev]", MACHINE, true),
        ("userGroups: [ops]", MACHINE, false),
        ("users: [alice], userGroups: [ops]", MACHINE, false),
        ("verbs: [get]", MACHINE, true),
        ("verbs: [list]", MACHINE, false),
        ("namespaces: [team]", MACHINE, true),
        ("namespaces: ['']", MACHINE, false),
        ("namespaces: ['']", "/api/v1/namespaces", true),
        ("namespaces: [team]", "/api/v1/namespaces/team", true),
        ("namespaces: [team]", "/version", false),
        ("nonResourceURLs: [/version]", "/version", true),
        ("nonResourceURLs: ['/ver*']", "/version", true),
        ("nonResourceURLs: ['*']", "/version", true),
        ("nonResourceURLs: ['*']", MACHINE, false),
        ("nonResourceURLs: [/ver]", "/version", false),
    ];
    for (fields, path, expected) in table {
        assert_eq!(is_matched(fields, &Method::GET, path), expected, "{fields} {path}");
    }
}

#[test]
fn resources_match_by_group_pattern_and_name() {
    let reboot = &format!("{MACHINE}/reboot");
    let table = [
        ("{group: cluster.x-k8s.io}", MACHINE, true),
        ("{group: cluster.x-k8s.io}", reboot, true),
        ("{group: ''}", MACHINE, false),
        ("{group: cluster.x-k8s.io, resources: [machines]}", MACHINE, true),
        ("{group: cluster.x-k8s.io, resources: [machines]}", reboot, false),
        ("{group: cluster.x-k8s.io, resources: [machines/reboot]}", reboot, true),
        ("{group: cluster.x-k8s.io, resources: ['machines/*']}", reboot, true),
        ("{group: cluster.x-k8s.io, resources: ['machines/*']}", MACHINE, true),
        ("{group: cluster.x-k8s.io, resources: ['*/reboot']}", reboot, true),
        ("{group: cluster.x-k8s.io, resources: ['*/reboot']}", MACHINE, false),
        ("{group: cluster.x-k8s.io, resources: ['*']}", reboot, true),
        ("{group: cluster.x-k8s.io, resources: ['*/*']}", reboot, false),
        ("{group: cluster.x-k8s.io, resources: ['mach*']}", MACHINE, false),
        ("{group: cluster.x-k8s.io, resources: [machines], resourceNames: [m1]}", MACHINE, true),
        ("{group: cluster.x-k8s.io, resources: [machines], resourceNames: [m2]}", MACHINE, false),
    ];
    for (group, path, expected) in table {
        let fields = format!("resources: [{group}]");
        assert_eq!(is_matched(&fields, &Method::POST, path), expected, "{group} {path}");
    }
}

#[test]
fn the_first_matching_rule_decides_and_without_one_nothing_is_recorded() {
    let rules = "rules: [{level: None, verbs: [get]}, {level: Request, users: [alice]}]";
    let policy = policy(rules);
    assert_eq!(level(&policy, &Method::GET, MACHINE), Level::None);
    assert_eq!(level(&policy, &Method::DELETE, MACHINE), Level::Request);
    let info = RequestInfo::resolve(&Method::DELETE, MACHINE, false, None);
    assert_eq!(policy.decide(&info, None).level, Level::None, "no user has the name alice");
    assert_eq!(level(&Policy::default(), &Method::GET, MACHINE), Level::Metadata);
}

#[test]
fn stages_are_omitted_by_the_policy_or_by_the_rule_and_managed_fields_by_the_nearer() {
    let policy = policy(
        "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
         - {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}\n- {level: Request}\n",
    );
    let decide = |method: &Method| policy.decide(&RequestInfo::resolve(method, MACHINE, false, None), None);
    let (get, delete) = (decide(&Method::GET), decide(&Method::DELETE));
    assert!(get.omitted.contains(Stage::RequestReceived) && get.omitted.contains(Stage::Panic));
    assert!(!get.omitted.contains(Stage::ResponseComplete) && !get.omits_managed_fields);
    assert!(!delete.omitted.contains(Stage::Panic) && delete.omits_managed_fields);
}

#[test]
fn no_policy_records_bodies_that_are_secrets() {
    let policy = policy("rules: [{level: RequestResponse}]");
    for path in ["/api/v1/secrets", "/api/v1/namespaces/n/serviceaccounts/a/token"] {
        assert_eq!(level(&policy, &Method::POST, path), Level::Metadata, "{path}");
    }
    assert_eq!(level(&policy, &Method::POST, MACHINE), Level::RequestResponse);
}

#[test]
fn an_invalid_file_is_refused_with_the_name_of_its_field() {
    let table = [
        ("rules: []", "rules: Required value"),
        ("rules: [{}]", "rules[0].level: Required value"),
        ("rules: [{level: All}]", "rules[0].level: Unsupported value: \"All\""),
        ("omitStages: [Begun]\nrules: [{level: None}]", "omitStages[0]: Unsupported value: \"Begun\""),
        ("rules: [{level: None, omitStages: [Begun]}]", "rules[0].omitStages[0]: Unsupported value"),
        ("rules: [{level: None, nonResourceURLs: [version]}]", "rules[0].nonResourceURLs[0]: Invalid value"),
        ("rules: [{level: None, nonResourceURLs: ['/a*b']}]", "rules[0].nonResourceURLs[0]: Invalid value"),
        (
            "rules: [{level: None, nonResourceURLs: [/a], namespaces: [n]}]",
            "rules[0].nonResourceURLs: Invalid",
        ),
        (
            "rules: [{level: None, resources: [{group: apps/v1}]}]",
            "rules[0].resources[0].group: Invalid value",
        ),
        (
            "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
            "rules[0].resources[0].resources: Required",
        ),
        (
            "rules: [{level: Request, resources: [{group: '', resources: [secrets]}]}]",
            "rules[0].resources[0].resources[0]: Forbidden: bodies of \"secrets\" are secrets",
        ),
    ];
    for (rest, expected) in table {
        let error = Policy::parse(&format!("{HEAD}{rest}")).unwrap_err();
        assert!(error.starts_with(expected), "{rest}: {error}");
    }
    let error = Policy::parse(&format!("{HEAD}rules: [{{level: None, user: [a]}}]")).unwrap_err();
    assert!(error.contains("user"), "{error}");
    let error = Policy::parse("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n").unwrap_err();
    assert!(error.contains("audit.k8s.io/v1beta1"), "{error}");
}
