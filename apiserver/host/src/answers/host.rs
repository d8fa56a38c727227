//! Host cluster of the test: its answers, its roles, and its tokens.

use apiserver_access::Rule;
use apiserver_access::rbac::{Binding, Policy, Role, RoleRef, Snapshot, Subject};
use jiff::Timestamp;
use serde_json::{Value, json};
use tests_oidc_issuer::SigningKey;

use super::Situation;
use crate::fake::{Fake, status};
use crate::tokens::KeptKeys;

/// Issuer of the host's tokens.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";

/// Service account with rights.
pub(super) const ACCOUNT: &str = "system:serviceaccount:team:ci";

/// Token that only the host can review.
pub(super) const OPAQUE: &str = "opaque";

/// Rights of the account, and of alice: verb, group and resource.
const RIGHTS: [(&str, &str, &str); 5] = [
    ("get", "cluster.x-k8s.io", "machines"),
    ("patch", "cluster.x-k8s.io", "machines"),
    ("create", "capstan.dev", "machineoperations"),
    ("get", "", "secrets"),
    ("impersonate", "", "users"),
];

/// Tokens of the host.
pub(super) struct HostTokensOfTest {
    pub(super) good: String,
    pub(super) forged: String,
    pub(super) expired: String,
    pub(super) of_other_audience: String,
}

/// Returns the tokens, and the keys that the host has published at a time.
pub(super) fn tokens(at: Timestamp) -> (HostTokensOfTest, KeptKeys) {
    let key = SigningKey::new("ES256");
    let now = Timestamp::now().as_second();
    let token = |key: &SigningKey, audience: &str, end: i64| {
        let claims = json!({"iss": ISSUER, "aud": [audience], "sub": ACCOUNT, "iat": end - 600, "exp": end,
            "kubernetes.io": {"namespace": "team", "serviceaccount": {"name": "ci", "uid": "u1"}}});
        key.token(&json!({"alg": "ES256", "kid": "k1"}), &claims)
    };
    let tokens = HostTokensOfTest {
        good: token(&key, "capstan", now + 600),
        forged: token(&SigningKey::new("ES256"), "capstan", now + 600),
        expired: token(&key, "capstan", now - 1),
        of_other_audience: token(&key, "another", now + 600),
    };
    let document = json!({"keys": [key.public("k1")]}).to_string();
    (tokens, KeptKeys { issuer: ISSUER.to_owned(), document, at: at.as_second() })
}

/// Returns the permissions of the host's users.
pub(super) fn permissions() -> Snapshot {
    let rules = RIGHTS.map(|(verb, group, resource)| Rule {
        verbs: vec![verb.to_owned()],
        groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        ..Rule::default()
    });
    let role = Role { namespace: String::new(), name: "r".to_owned(), rules: rules.to_vec() };
    let account = Subject::ServiceAccount { namespace: "team".to_owned(), name: "ci".to_owned() };
    let binding = Binding {
        name: "b".to_owned(),
        role: RoleRef { is_cluster_role: true, name: "r".to_owned() },
        subjects: vec![account, Subject::User("alice".to_owned())],
        admits_host: true,
        ..Binding::default()
    };
    Snapshot::new(Policy { roles: vec![role], bindings: vec![binding] })
}

/// Lets a host answer as in a situation. A host that has just returned knows none of its service accounts yet.
pub(super) fn answer(host: &Fake, situation: Situation, good: &str) {
    if situation == Situation::Silent {
        return host.hang();
    }
    let (good, knows_accounts) = (good.to_owned(), situation != Situation::Returned);
    host.responds(move |line, body| {
        Some(match line {
            "GET /.well-known/openid-configuration" => (200, json!({"issuer": ISSUER})),
            "GET /api/v1/namespaces/team" => (200, namespace("team", "Active")),
            "POST /apis/authentication.k8s.io/v1/tokenreviews" => {
                let is_known = [good.as_str(), OPAQUE].contains(&body["spec"]["token"].as_str().unwrap());
                token_review(is_known && knows_accounts)
            }
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                let user = body["spec"]["user"].as_str().unwrap();
                let is_known = user == "alice" || (user == ACCOUNT && knows_accounts);
                access_review(is_known && has_right(&body["spec"]["resourceAttributes"]))
            }
            _ => status(404),
        })
    });
}

/// Returns a namespace in a phase.
pub(super) fn namespace(name: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": "n1"},
        "status": {"phase": phase}})
}

fn token_review(is_known: bool) -> (u16, Value) {
    let status = match is_known {
        true => json!({"authenticated": true, "audiences": ["capstan"], "user": {"username": ACCOUNT}}),
        false => json!({"authenticated": false}),
    };
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": {}, "status": status});
    (201, body)
}

fn access_review(is_allowed: bool) -> (u16, Value) {
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {}, "status": {"allowed": is_allowed}});
    (201, body)
}

fn has_right(asked: &Value) -> bool {
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    RIGHTS.contains(&(text("verb"), text("group"), text("resource")))
}
