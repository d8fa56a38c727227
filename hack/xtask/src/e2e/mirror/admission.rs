//! Webhooks, policies, quotas and client certificates of a real host, for the first server: while the host is up, while it
//! is down, and after a restart without it.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::endpoint::{Ask, Endpoint};
use super::limits;
use super::users::Users;
use super::webhooks::Webhooks;
use crate::e2e::lab::{Lab, until};

/// Time after which the leader has written the copies to the store.
const COPIED: Duration = Duration::from_secs(3);

const DENIED: &str = "ValidatingAdmissionPolicy 'rules' with binding 'rules' denied request: a bad name";

/// Objects of the host: a policy with its binding, a webhook without a server, and one of a provider that Capstan replaces.
fn configurations() -> Value {
    let version = "admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["*"],
        "resources": ["machinedrainrules"]}]);
    let begins = |prefix: &str| format!("object.metadata.?generateName.orValue('') == '{prefix}'");
    let hook = |name: &str, condition: &str| {
        json!({"name": format!("{name}.example.org"), "rules": rules, "sideEffects": "None", "timeoutSeconds": 2,
            "admissionReviewVersions": ["v1"], "matchConditions": [{"name": "all", "expression": condition}],
            "clientConfig": {"service": {"namespace": "team", "name": name}}})
    };
    let webhooks = |metadata: Value, hook: Value| {
        json!({"apiVersion": version, "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata, "webhooks": [hook]})
    };
    let label = json!({"cluster.x-k8s.io/provider": "cluster-api"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "rules"},
            "spec": {"matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": format!("!({})", begins("bad-")), "message": "a bad name"}]}},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "rules"},
            "spec": {"policyName": "rules", "validationActions": ["Deny"]}},
        webhooks(json!({"name": "gate"}), hook("gate", &begins("hooked-"))),
        webhooks(json!({"name": "capi", "labels": label}), hook("replaced", "true")),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gate", "namespace": "team"},
            "spec": {"selector": {"app": "gate"}, "ports": [{"port": 443}]}},
    ]})
}

/// Code and text of the answer to each write.
const UP: [(&str, u16, &str); 3] =
    [("bad-", 422, DENIED), ("hooked-", 500, "no endpoint of the Service is ready"), ("made-", 201, "")];

const DOWN: [(&str, u16, &str); 3] = [
    ("bad-", 422, DENIED),
    ("hooked-", 503, "failed calling webhook \\\"gate.example.org\\\""),
    ("made-", 201, ""),
];

fn check(first: &Endpoint, users: &Users, expected: [(&'static str, u16, &str); 3]) -> anyhow::Result<()> {
    for (prefix, code, text) in expected {
        let found = first.ask(&users.bot, Ask::Write(prefix))?;
        ensure!(found.code == code && found.text.contains(text), "{prefix}: {} {}", found.code, found.text);
    }
    Ok(())
}

/// Waits until the server applies the configurations of the host, or does not any more.
fn until_denied(first: &Endpoint, users: &Users, code: u16) -> anyhow::Result<()> {
    until("the policy of the host has its effect", || {
        Ok(first.ask(&users.bot, Ask::Write("bad-"))?.code == code)
    })
}

/// Runs the scenario.
pub(super) fn run(lab: &Lab, webhooks: &Webhooks, first: &Endpoint, users: &Users) -> anyhow::Result<()> {
    let accepted = super::accepting_all()?;
    let settings = super::settings(webhooks, "mirror", &accepted);
    lab.start_with(&settings)?;
    until("the server has found its host", || first.host_is(lab, "up"))?;
    let file = lab.file("admission.json", &configurations().to_string())?;
    lab.kubectl("admin", &["apply", "-f", &file])?;
    until_denied(first, users, 422)?;
    check(first, users, UP)?;
    certificates(lab, first)?;
    through_the_host(lab)?;
    limits::apply(lab, first, users)?;
    std::thread::sleep(COPIED);
    lab.kill_host()?;
    until("the server has noticed the outage", || first.host_is(lab, "down"))?;
    check(first, users, DOWN)?;
    limits::check(lab, first, users)?;
    certificates(lab, first)?;
    lab.start_with(&settings)?;
    until("the server has noticed the outage", || first.host_is(lab, "down"))?;
    check(first, users, DOWN)?;
    limits::check(lab, first, users)?;
    certificates(lab, first)?;
    lab.start_host()?;
    until("the host is up again", || first.host_is(lab, "up"))?;
    limits::change(lab, first, users)?;
    lab.kubectl("admin", &["delete", "validatingadmissionpolicybinding", "rules"])?;
    until_denied(first, users, 201)
}

/// A certificate of the host names its user, whom the host's roles or their copies let read. The administrator of the host
/// is none here: the group `system:masters` does not count.
fn certificates(lab: &Lab, first: &Endpoint) -> anyhow::Result<()> {
    for (user, code) in [("alice", 200), ("admin", 403)] {
        let found = first.ask_with_certificate(lab, user)?;
        ensure!(found.code == code, "a certificate of {user}: {} {}", found.code, found.text);
    }
    Ok(())
}

/// The policy applies to requests through the host, too: the host itself does not consult it for groups of others.
fn through_the_host(lab: &Lab) -> anyhow::Result<()> {
    let file = lab.file("bad.json", &super::endpoint::rule("bad-").to_string())?;
    let (is_created, _, error) = lab.try_kubectl("admin", &["create", "-f", &file])?;
    ensure!(!is_created && error.contains(DENIED), "through the host: {error}");
    Ok(())
}
