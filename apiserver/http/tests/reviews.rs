//! Tests of reviews of identity and permissions, and of impersonation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{
    AccessRule, AccessRules, Attributes, Authorizer, Chain, Decision, IDENTITY_STALE, LocalPolicy, Realm,
    TokenLimits, User, Verdict,
};
use apiserver_http::{AuditFile, AuditLog, Settings};
use serde_json::{Value, json};
use server::{DELEGATOR, REVIEWER, Server, Setup};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

#[tokio::test]
async fn access_reviews_return_the_permissions_of_a_user() {
    let server = Server::start().await;
    let bob = server.seen_by("bob", &["dev"]);
    let ask = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "gadgets", "group": "toys.example.com"}}});
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for (asker, allowed) in [(&server, true), (&bob, false)] {
        let (code, answer) = asker.post(&path, &ask).await;
        assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(allowed)), "{answer}");
        assert_eq!(answer["kind"], "SelfSubjectAccessReview");
    }
    let other =
        json!({"spec": {"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
    let others = format!("{AUTHORIZATION}/subjectaccessreviews");
    assert_eq!(server.post(&others, &other).await.1["status"], json!({"allowed": false}));
    let known = json!({"spec": {"user": "bob", "groups": ["system:authenticated"],
        "nonResourceAttributes": {"verb": "get", "path": "/apis"}}});
    let reason = "local policy: a path that every user may read";
    assert_eq!(server.post(&others, &known).await.1["status"], json!({"allowed": true, "reason": reason}));
    assert_eq!(bob.post(&others, &other).await.0, 403);
    let (code, rules) = bob
        .post(&format!("{AUTHORIZATION}/selfsubjectrulesreviews"), &json!({"spec": {"namespace": "default"}}))
        .await;
    assert_eq!((code, &rules["status"]["incomplete"]), (201, &json!(false)), "{rules}");
    let known = rules["status"]["resourceRules"].as_array().unwrap();
    assert!(known.iter().any(|rule| rule["resources"] == json!(["selfsubjectreviews"])), "{rules}");
    let (code, me) = bob.post(SELF, &json!({})).await;
    let info = json!({"username": "bob", "groups": ["dev", "system:authenticated"]});
    assert_eq!((code, &me["status"]["userInfo"]), (201, &info));
    assert!(me.get("spec").is_none() && me["metadata"]["creationTimestamp"].is_string(), "{me}");
    assert_eq!(rules["spec"], json!({}), "{rules}");
    let local = json!({"spec": {"user": "bob", "resourceAttributes": {"namespace": "default", "verb": ""}}});
    let (_, asked) =
        server.post(&format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"), &local).await;
    assert_eq!(asked["metadata"], json!({"namespace": "default"}));
    assert_eq!(asked["spec"]["resourceAttributes"], json!({"namespace": "default"}));
}

#[tokio::test]
async fn an_explanation_has_the_answer_of_each_authorizer() {
    let server = Server::start().await;
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let explained = format!("{path}?explain=direct");
    let ask = |groups: &[&str], realm: &str| {
        json!({"spec": {"user": "bob", "groups": groups, "extra": {"capstan.dev/realm": [realm]},
            "resourceAttributes": {"verb": "list", "resource": "gadgets", "group": "toys.example.com"}}})
    };
    let (code, answer) = server.post(&explained, &ask(&["system:masters"], "host")).await;
    let status = &answer["status"];
    assert_eq!((code, &status["allowed"], &status["decidedBy"]), (201, &json!(true), &json!("System")));
    assert_eq!(status["realm"], "host");
    let reason = "local policy: the group system:masters";
    assert_eq!(status["reason"], reason);
    // The second one is of the test, and has no name and no opinion.
    let each = json!([{"name": "System", "answer": "Allowed", "reason": reason},
        {"name": "", "answer": "NoOpinion", "reason": ""}]);
    assert_eq!(status["authorizers"], each, "{status}");
    let (_, answer) = server.post(&format!("{path}?explain=host"), &ask(&["dev"], "own")).await;
    let status = &answer["status"];
    assert_eq!(
        (&status["allowed"], &status["decidedBy"], &status["realm"]),
        (&json!(false), &json!(""), &json!("host"))
    );
    assert_eq!(status["authorizers"][0]["answer"], "NoOpinion");
    assert!(status.get("reason").is_none(), "the client of a refused request gets none: {status}");

    let bob = server.seen_by("bob", &["dev"]);
    assert_eq!(bob.post(&explained, &ask(&[], "own")).await.0, 403, "the permission is that of the review");
    let own = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "gadgets"}}});
    let own_path = format!("{AUTHORIZATION}/selfsubjectaccessreviews?explain=direct");
    assert_eq!(bob.post(&own_path, &own).await.1["status"], json!({"allowed": false}));
    for (path, realm, expected, text) in [
        (format!("{path}?explain=x"), "own", 400, "explain must be \"direct\" or \"host\", not \"x\""),
        (explained, "x", 422, "spec.extra[capstan.dev/realm]: Unsupported value: \"x\""),
    ] {
        let (code, answer) = server.post(&path, &ask(&[], realm)).await;
        assert_eq!(code, expected, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{answer}");
    }
}

#[tokio::test]
async fn iz_40_only_masters_and_delegators_name_a_realm_in_a_review() {
    let server = Server::start().await;
    let callers = [server.clone(), server.seen_by(DELEGATOR, &[]), server.seen_by(REVIEWER, &[])];
    let ask = |realm: Option<&str>| {
        let extra = realm.map_or_else(|| json!({}), |realm| json!({"capstan.dev/realm": [realm]}));
        json!({"spec": {"user": "bob", "extra": extra,
            "resourceAttributes": {"namespace": "default", "verb": "list", "resource": "gadgets"}}})
    };
    let reviews = [
        format!("{AUTHORIZATION}/subjectaccessreviews"),
        format!("{AUTHORIZATION}/subjectaccessreviews?explain=direct"),
        format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"),
    ];
    for path in &reviews {
        for realm in [None, Some("own"), Some("host"), Some("machine"), Some("issuer/https://a")] {
            let is_named = realm.is_some_and(|realm| realm != "own");
            for (caller, may_name) in callers.iter().zip([true, true, false]) {
                let (code, answer) = caller.post(path, &ask(realm)).await;
                let expected = if is_named && !may_name { 403 } else { 201 };
                assert_eq!(code, expected, "{path} {realm:?}: {answer}");
                if code == 403 {
                    let message = answer["message"].as_str().unwrap();
                    assert!(message.contains("may not name the realm"), "{message}");
                    assert!(message.contains("system:auth-delegator"), "{message}");
                }
            }
        }
    }
    // All users of the host's endpoint are of its realm.
    let path = format!("{AUTHORIZATION}/subjectaccessreviews?explain=host");
    for (caller, expected) in callers.iter().zip([201, 201, 403]) {
        assert_eq!(caller.post(&path, &ask(None)).await.0, expected);
    }
    // The realm of the caller is that of its credential, and is not named.
    let own = json!({"spec": {"extra": {"capstan.dev/realm": ["host"]},
        "resourceAttributes": {"verb": "list", "resource": "gadgets"}}});
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    assert_eq!(callers[2].post(&path, &own).await.0, 201);
}

#[tokio::test]
async fn access_reviews_may_be_protobuf_and_are_validated() {
    let server = Server::start().await;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let headers = [
        ("content-type", "application/vnd.kubernetes.protobuf"),
        ("accept", "application/vnd.kubernetes.protobuf,application/json"),
    ];
    // Unknown{typeMeta, raw: {metadata: {}, spec: {resourceAttributes: {verb: "get", resource: "pods"}}}}
    let body = b"k8s\0\x0a\x32\x0a\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\
        \x12\x11\x0a\0\x12\x0d\x0a\x0b\x12\x03get\x2a\x04pods";
    let answer = server.request("POST", &path, &headers, body.to_vec()).await;
    assert_eq!(answer.status(), 201);
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let others = format!("{AUTHORIZATION}/subjectaccessreviews");
    let attributes = |namespace: &str| json!({"verb": "get", "resource": "pods", "namespace": namespace});
    let cases = [
        (
            &path,
            json!({"spec": {}}),
            422,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            &others,
            json!({"spec": {"resourceAttributes": attributes("")}}),
            422,
            "at least one of user or group must be specified",
        ),
        (
            &local,
            json!({"spec": {"user": "b", "resourceAttributes": attributes("x")}}),
            422,
            "must match metadata.namespace",
        ),
        (
            &local,
            json!({"spec": {"user": "b", "nonResourceAttributes": {"verb": "get", "path": "/"}}}),
            422,
            "disallowed on this kind of request",
        ),
        (&path, json!({"kind": "Foo"}), 400, "kind must be"),
        (&path, json!([1]), 400, "unrecognized"),
        (&path, json!({"spec": 1}), 400, "spec must be an object"),
    ];
    for (path, body, expected, text) in cases {
        let (code, answer) = server.post(path, &body).await;
        assert_eq!(code, expected, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{body}: {answer}");
    }
    assert_eq!(server.get(&path).await.0, 405);
    assert_eq!(server.get(&format!("{path}/x")).await.0, 404);
    assert_eq!(server.post(&format!("{AUTHORIZATION}/localsubjectaccessreviews"), &json!({})).await.0, 404);
    let (_, groups) = server.get("/apis").await;
    assert!(groups.to_string().contains("authorization.k8s.io/v1"), "{groups}");
    let (_, list) = server.get(AUTHORIZATION).await;
    assert_eq!(
        (list["resources"].as_array().unwrap().len(), &list["resources"][0]["verbs"]),
        (4, &json!(["create"]))
    );
}

#[tokio::test]
async fn invalid_access_reviews_are_refused() {
    let server = Server::start().await;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let cases = [
        (
            json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"verb": "get", "path": "/"}}}),
            422,
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in \
             combination with resourceAttributes",
        ),
        (
            json!({"spec": {"resourceAttributes": {"verb": "get", "fieldSelector": {}}}}),
            422,
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when \
             spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ),
        (
            json!({"spec": {"resourceAttributes": {"labelSelector": {"rawSelector": "a=b", "requirements": [{}]}}}}),
            422,
            "spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a=b\": may not specified at the same \
             time as requirements",
        ),
        (
            json!({"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [{"operator": "Exists"}]}}}}),
            422,
            "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
        ),
        (
            json!({"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [{"key": "a", "operator": "In"}]}}}}),
            422,
            "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when \
             `operator` is 'In' or 'NotIn'",
        ),
        (
            json!({"spec": {"resourceAttributes": {"labelSelector": {"requirements": [
                {"key": "a", "operator": "Exists", "values": ["b"]}]}}}}),
            422,
            "spec.resourceAttributes.labelSelector.requirements[0].values: Forbidden: may not be specified when \
             `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}}),
            422,
            "metadata: Invalid value: {\"name\":\"x\"}: must be empty",
        ),
        (
            json!({"spec": {"resourceAttributes": "x"}}),
            400,
            "json: cannot unmarshal string into Go struct field \
             SelfSubjectAccessReviewSpec.spec.resourceAttributes of type v1.ResourceAttributes",
        ),
    ];
    for (body, expected, text) in cases {
        let (code, answer) = server.post(&path, &body).await;
        assert_eq!(code, expected, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_review_with_a_field_of_another_type_is_refused_as_upstream_refuses_it() {
    let server = Server::start().await;
    let access = |spec: Value| ("authorization.k8s.io", "subjectaccessreviews", json!({"spec": spec}));
    let of = |attributes: Value| access(json!({"user": "b", "resourceAttributes": attributes}));
    let selector = json!({"verb": "get", "labelSelector": {"requirements": [{"key": 7}]}});
    for ((group, plural, body), cause) in [
        (
            access(json!({"user": 5})),
            "unmarshal number into Go struct field SubjectAccessReviewSpec.spec.user of type string",
        ),
        (
            access(json!({"groups": "a"})),
            "unmarshal string into Go struct field SubjectAccessReviewSpec.spec.groups of type []string",
        ),
        (
            access(json!({"extra": {"a": "b"}})),
            "unmarshal string into Go struct field SubjectAccessReviewSpec.spec.extra of type v1.ExtraValue",
        ),
        (
            of(json!({"verb": 5})),
            "unmarshal number into Go struct field ResourceAttributes.spec.resourceAttributes.verb of type string",
        ),
        (
            of(selector),
            "LabelSelectorRequirement.spec.resourceAttributes.labelSelector.requirements.key of type string",
        ),
        (
            ("authentication.k8s.io", "tokenreviews", json!({"spec": {"token": 5}})),
            "unmarshal number into Go struct field TokenReviewSpec.spec.token of type string",
        ),
    ] {
        let (code, answer) = server.post(&format!("/apis/{group}/v1/{plural}"), &body).await;
        assert_eq!(code, 400, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().ends_with(cause), "{body}: {answer}");
    }
    let local = format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews");
    let elsewhere = json!({"metadata": {"namespace": "other"},
        "spec": {"user": "b", "resourceAttributes": {"namespace": "default"}}});
    assert_eq!(server.post(&local, &elsewhere).await.0, 400);
}

#[tokio::test]
async fn a_review_warns_of_fields_that_it_does_not_have() {
    let server = Server::start().await;
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let body = json!({"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "nmespace": "a"}}});
    let headers = [("content-type", "application/json")];
    for (query, code, count) in [("", 201, 2), ("?fieldValidation=Ignore", 201, 0)] {
        let answer =
            server.request("POST", &format!("{path}{query}"), &headers, body.to_string().into_bytes()).await;
        assert_eq!(answer.status(), code);
        let warnings: Vec<_> = answer.headers().get_all("warning").iter().collect();
        assert_eq!(warnings.len(), count, "{warnings:?}");
        let unknown = |field: &str| format!("299 - \"unknown field \\\"{field}\\\"\"");
        for field in ["spec.user", "spec.resourceAttributes.nmespace"].iter().take(count) {
            assert!(warnings.iter().any(|warning| *warning == unknown(field).as_str()), "{warnings:?}");
        }
    }
    let (code, answer) = server.post(&format!("{path}?fieldValidation=Strict"), &body).await;
    let cause = "strict decoding error: unknown field \"spec.user\", unknown field \"spec.resourceAttributes.nmespace\"";
    assert_eq!(code, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().ends_with(cause), "{answer}");
    let (_, answer) = server.post(&path, &body).await;
    assert_eq!(answer["spec"], json!({"resourceAttributes": {"verb": "get"}}), "it is not repeated");
}

/// Authorizer whose reason has the selectors of the request.
#[derive(Debug)]
struct Selectors;

#[async_trait::async_trait]
impl Authorizer for Selectors {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let why = format!("{}|{}", attributes.field_selector, attributes.label_selector);
        Verdict::of(Decision::NoOpinion(why), self.name())
    }
}

#[tokio::test]
async fn authorizers_get_the_selectors_of_a_review() {
    let authorizer: Arc<dyn Authorizer> =
        Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), Arc::new(Selectors)]));
    let server = Server::start_with(Setup { authorizer, ..Setup::default() }).await.seen_by("bob", &[]);
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let in_a = json!({"requirements": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    for (fields, labels, reason, error) in [
        (
            json!({"rawSelector": "metadata.name=a"}),
            json!({"rawSelector": "b in (c)"}),
            "metadata.name=a|b in (c)",
            None,
        ),
        (
            in_a,
            json!({"rawSelector": "b in"}),
            "metadata.name=a|",
            Some("spec.resourceAttributes.labelSelector ignored due to parse error"),
        ),
    ] {
        let ask = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "gadgets",
            "fieldSelector": fields, "labelSelector": labels}}});
        let (code, answer) = server.post(&path, &ask).await;
        let status = &answer["status"];
        assert_eq!((code, &status["reason"]), (201, &json!(reason)), "{answer}");
        assert_eq!(status["evaluationError"].as_str(), error, "{answer}");
    }
}

/// Authorizer that allows `get` by a copy.
#[derive(Debug)]
struct Copied;

#[async_trait::async_trait]
impl Authorizer for Copied {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let is_read = attributes.verb == "get";
        let decision = if is_read { Decision::Allow } else { Decision::NoOpinion(String::new()) };
        let age = Some(Duration::from_secs(75));
        Verdict { age, ..Verdict::of(decision, "HostMirror") }
    }
}

#[tokio::test]
async fn iz_40_a_review_has_the_age_of_the_data_that_allow() {
    let authorizer: Arc<dyn Authorizer> =
        Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), Arc::new(Copied)]));
    let server = Server::start_with(Setup { authorizer, ..Setup::default() }).await.seen_by("bob", &[]);
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let ask = |verb: &str| {
        json!({"spec": {"resourceAttributes":
            {"namespace": "default", "verb": verb, "resource": "gadgets"}}})
    };
    let (code, answer) = server.post(&path, &ask("get")).await;
    let text = "decided by the permissions that the host cluster had 75 s ago";
    assert_eq!((code, &answer["status"]), (201, &json!({"allowed": true, "evaluationError": text})));
    assert_eq!(server.post(&path, &ask("list")).await.1["status"], json!({"allowed": false}));
}

#[tokio::test]
async fn impersonation_requires_permission() {
    let server = Server::start().await;
    let as_bob = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "a"),
        ("impersonate-group", "system:capstan:controllers"),
        ("impersonate-group", "system:machines"),
        ("impersonate-uid", "1"),
        ("impersonate-extra-foo%2fbar", "x"),
        ("impersonate-extra-authentication.kubernetes.io%2fcredential-id", "JTI=1"),
    ];
    let (code, me) = server.send("POST", SELF, &as_bob, "{}").await;
    assert_eq!(code, 201, "{me}");
    let expected = json!({"username": "bob", "uid": "1", "groups": ["a", "system:authenticated"],
        "extra": {"capstan.dev/realm": ["own"], "foo/bar": ["x"]}});
    assert_eq!(me["status"]["userInfo"], expected);
    let account = [("impersonate-user", "system:serviceaccount:ns:sa")];
    let (_, me) = server.send("POST", SELF, &account, "{}").await;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    assert_eq!(me["status"]["userInfo"]["groups"], groups);
    let realm = [("impersonate-user", "bob"), ("impersonate-extra-capstan.dev%2frealm", "own")];
    assert_eq!(
        server.send("POST", SELF, &realm, "{}").await.0,
        403,
        "only the server sets its own attributes"
    );
    let gadgets = "/apis/toys.example.com/v1/namespaces/default/gadgets";
    let (code, answer) = server.send("GET", gadgets, &[("impersonate-user", "bob<x>")], "").await;
    let text = "gadgets.toys.example.com is forbidden: User \"bob&lt;x&gt;\" cannot list resource \"gadgets\" in \
                API group \"toys.example.com\" in the namespace \"default\"";
    assert_eq!((code, answer["message"].as_str()), (403, Some(text)));
    assert_eq!(answer["details"], json!({"group": "toys.example.com", "kind": "gadgets"}));
    let (code, answer) =
        server.seen_by("bob", &[]).send("GET", "/version", &[("impersonate-user", "admin")], "").await;
    let text = "users \"admin\" is forbidden: User \"bob\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
    assert_eq!((code, answer["message"].as_str()), (403, Some(text)));
    let (code, answer) = server.send("GET", "/version", &[("impersonate-group", "x")], "").await;
    assert_eq!(code, 400);
    assert!(answer["message"].as_str().unwrap().ends_with("without impersonating a user name"), "{answer}");
    let answer = server.request("GET", "/version", &[("impersonate-group", "x")], "").await;
    assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "it quotes what was asked");
    let (_, answer) = server.seen_by("bob", &[]).send("FOO", "/x", &[], "").await;
    assert_eq!(answer["message"], "forbidden: User \"bob\" cannot foo path \"/x\"");
}

#[tokio::test]
async fn a_user_who_is_known_by_an_earlier_answer_of_keystone_gets_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = AuditLog::to_file(AuditFile::open(&file, 1_000_000, 1).unwrap(), Vec::new()).unwrap();
    let settings = Settings { audit: Some(audit.clone()), ..Settings::default() };
    let server = Server::start_with(Setup { settings, ..Setup::default() }).await;
    let stale = "299 - \"Keystone does not answer; the user is known by its answer of 75 s ago\"";
    for (name, realm, expected) in [("demo", Realm::Keystone, Some(stale)), ("other", Realm::Host, None)] {
        let mut user = User::authenticated(name, []).in_realm(realm);
        user.extra.insert(IDENTITY_STALE.to_owned(), vec!["75".to_owned()]);
        let answer = server.as_user(user).request("POST", SELF, &[], "{}").await;
        assert_eq!(answer.status(), 201, "{name}");
        let warning = answer.headers().get("warning").map(|value| value.to_str().unwrap());
        assert_eq!(warning, expected, "{name}");
    }
    audit.flush();
    let events = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let age_of = |name: &str| {
        let is_end =
            |event: &&Value| event["stage"] == "ResponseComplete" && event["user"]["username"] == name;
        events.iter().find(is_end).unwrap()["annotations"][IDENTITY_STALE].clone()
    };
    assert_eq!((age_of("demo"), age_of("other")), (json!("75"), Value::Null));
}

#[tokio::test]
async fn ia_52_a_token_with_access_rules_is_for_their_requests_alone_whatever_its_user_may() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit.log");
    let audit = AuditLog::to_file(AuditFile::open(&file, 1_000_000, 1).unwrap(), Vec::new()).unwrap();
    let settings = Settings { audit: Some(audit.clone()), ..Settings::default() };
    let server = Server::start_with(Setup { settings, ..Setup::default() }).await;
    let path = "/apis/*/v1/namespaces/{name}/gadgets".to_owned();
    let rule = AccessRule { method: "GET".to_owned(), path };
    let requests = Some(AccessRules::new("container-infra", vec![rule]));
    let limits = Some(Arc::new(TokenLimits { requests, certificate: None }));
    let user = User::authenticated("demo", ["system:masters".to_owned()]);
    let limited = server.as_user(User { limits, ..user });
    let gadgets = "/apis/toys.example.com/v1/namespaces/default/gadgets";
    let watch = format!("{gadgets}?watch=true&timeoutSeconds=1");
    for (method, path, expected) in [
        ("GET", gadgets, 200),
        ("GET", watch.as_str(), 200),
        ("POST", gadgets, 403),
        ("DELETE", gadgets, 403),
        ("GET", "/apis/toys.example.com/v1/gadgets", 403),
        ("GET", "/apis/toys.example.com/v1/namespaces/default/swarms", 403),
        ("GET", "/apis", 403),
        ("GET", "/readyz", 403),
        ("POST", SELF, 403),
    ] {
        let answer = limited.request(method, path, &[], "").await;
        assert_eq!(answer.status(), expected, "{method} {path}");
    }
    // A user who is impersonated has no token. That of the request counts.
    let (code, answer) = limited.send("GET", "/apis", &[("impersonate-user", "bob")], "").await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("no access rule of its application credential"), "{answer}");
    assert!(message.starts_with("forbidden: User \"demo\" cannot get path \"/apis\": "), "{answer}");
    let (_, answer) = limited.send("GET", "/apis/toys.example.com/v1/gadgets", &[], "").await;
    let details = json!({"group": "toys.example.com", "kind": "gadgets"});
    assert_eq!((&answer["reason"], &answer["details"]), (&json!("Forbidden"), &details), "{answer}");
    audit.flush();
    let events = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let refused = events.iter().find(|event| event["requestURI"] == "/readyz").unwrap();
    let annotations = &refused["annotations"];
    assert_eq!(annotations["authorization.k8s.io/decision"], "forbid", "{refused}");
    let reason = "no access rule of the token allows the request";
    assert_eq!(annotations["authorization.k8s.io/reason"], reason, "{refused}");
}

#[tokio::test]
async fn ia_52_self_reviews_of_a_token_with_access_rules_know_the_rules() {
    let server = Server::start().await;
    let rule = |method: &str, path: &str| AccessRule { method: method.to_owned(), path: path.to_owned() };
    let rules = vec![
        rule("POST", "/apis/authorization.k8s.io/v1/*"),
        rule("GET", "/apis/toys.example.com/v1/namespaces/{name}/gadgets"),
        rule("GET", "/apis"),
    ];
    let requests = Some(AccessRules::new("container-infra", rules));
    let limits = Some(Arc::new(TokenLimits { requests, certificate: None }));
    let user = User::authenticated("demo", ["system:masters".to_owned()]);
    let (free, limited) = (server.as_user(user.clone()), server.as_user(User { limits, ..user }));
    let of = |verb: &str, namespace: &str| {
        let group = "toys.example.com";
        json!({"resourceAttributes": {"verb": verb, "namespace": namespace, "group": group, "resource": "gadgets"}})
    };
    let at = |verb: &str, path: &str| json!({"nonResourceAttributes": {"verb": verb, "path": path}});
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for (spec, expected) in [
        (of("list", "default"), true),
        (of("watch", "default"), true),
        (of("get", "default"), false),
        (of("list", ""), false),
        (of("delete", "default"), false),
        (of("*", "default"), false),
        // It is a permission without a request.
        (of("use", "default"), true),
        (at("get", "/apis"), true),
        (at("get", "/readyz"), false),
        (at("*", "/apis"), false),
    ] {
        let review = json!({"spec": spec});
        assert_eq!(free.post(&path, &review).await.1["status"]["allowed"], true, "{review}");
        let (code, answer) = limited.post(&path, &review).await;
        let status = &answer["status"];
        assert_eq!((code, &status["allowed"]), (201, &json!(expected)), "{answer}");
        assert_eq!(status["denied"] == true, !expected, "{answer}");
        let reason = status["reason"].as_str().unwrap_or_default();
        let names_the_rule = reason.contains("no access rule of its application credential has the service");
        assert_eq!(names_the_rule, !expected, "{answer}");
    }
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let review = json!({"spec": {"namespace": "default"}});
    assert_eq!(free.post(&path, &review).await.1["status"]["incomplete"], false);
    let (code, answer) = limited.post(&path, &review).await;
    let status = &answer["status"];
    assert_eq!((code, &status["incomplete"]), (201, &json!(true)), "{answer}");
    let error = status["evaluationError"].as_str().unwrap();
    assert!(error.contains("has access rules"), "{answer}");
}
