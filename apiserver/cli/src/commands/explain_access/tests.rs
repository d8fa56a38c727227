//! Questions, and their answers as text and as JSON.

use clap::Parser;
use serde_json::{Value, json};

use super::resource::{of_name, one};
use super::review::Question;
use super::view::{text, view};
use super::*;
use crate::fake_api::{FakeApi, block_on};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    arguments: ExplainAccessArguments,
}

/// Parses arguments, separated by spaces. The user is alice.
fn parse(arguments: &str) -> Result<ExplainAccessArguments, clap::Error> {
    let arguments = ["test", "--user", "alice"].into_iter().chain(arguments.split(' '));
    Command::try_parse_from(arguments).map(|command| command.arguments)
}

/// Returns the question of arguments that need no server.
fn question(arguments: &str) -> Result<Question, Failure> {
    block_on(async { Question::of(&FakeApi::default().client(), &parse(arguments).unwrap()).await })
}

const ACTION: &str = "--group dev --verb create --resource machines.cluster.x-k8s.io --subresource reboot --namespace team --name m1";

#[test]
fn the_review_has_all_arguments_and_the_groups_that_the_server_adds() {
    let review = question(ACTION).unwrap().review();
    let expected = json!({"user": "alice", "groups": ["dev", "system:authenticated"],
        "extra": {"capstan.dev/realm": ["own"]}, "resourceAttributes": {"verb": "create", "group": "cluster.x-k8s.io",
            "version": "*", "resource": "machines", "subresource": "reboot", "namespace": "team", "name": "m1"}});
    assert_eq!(review["spec"], expected);
    let review = question("--verb get --path /metrics --as-realm machine --uid u1").unwrap().review();
    assert_eq!(review["spec"]["nonResourceAttributes"], json!({"verb": "get", "path": "/metrics"}));
    assert_eq!(
        (&review["spec"]["uid"], &review["spec"]["extra"]["capstan.dev/realm"][0]),
        (&json!("u1"), &json!("machine"))
    );
    for (user, expected) in [
        ("system:anonymous", json!(["system:unauthenticated"])),
        (
            "system:serviceaccount:ns:ci",
            json!(["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]),
        ),
    ] {
        let question = Question { user: user.to_owned(), ..question("--verb get --path /").unwrap() };
        let groups = review::groups(user, &[]);
        assert_eq!(Question { groups, ..question }.review()["spec"]["groups"], expected);
    }
}

#[test]
fn users_of_the_endpoint_of_the_host_have_its_realm() {
    let realm = |arguments: &str| {
        question(arguments).map(|question| question.realm).map_err(|error| error.to_string())
    };
    assert_eq!(realm("--verb get --path / --endpoint host").unwrap(), "host");
    assert_eq!(realm("--verb get --path / --as-realm keystone").unwrap(), "keystone");
    let refused = realm("--verb get --path / --endpoint host --as-realm own").unwrap_err();
    assert!(refused.contains("--as-realm own"), "{refused}");
    for wrong in
        ["--verb get", "--verb get --path / --resource x", "--verb get --path / --name x", "--resource x"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_kind_is_found_by_its_plural_its_singular_and_its_short_name() {
    let kind = |plural: &str, singular: &str, scope: &str| json!({"resource": plural, "singularResource": singular, "shortNames": ["ma"], "scope": scope});
    let group = |name: &str, kinds: Value| {
        json!({"metadata": {"name": name}, "versions": [{"version": "v2", "resources": kinds},
            {"version": "v1", "resources": kinds}]})
    };
    let document = json!({"items": [group("a", json!([kind("machines", "machine", "Namespaced")])),
        group("b", json!([kind("things", "thing", "Cluster")])), {}]});
    for name in ["machines", "machine"] {
        let found = one(name, of_name(&document, name)).unwrap();
        assert_eq!(
            (found.group.as_str(), found.version.as_str(), found.plural.as_str()),
            ("a", "v2", "machines")
        );
    }
    for (name, text) in [
        ("ma", "--resource ma: several kinds have this name: machines.a, things.b"),
        ("nodes", "--resource nodes: the server has no such kind"),
    ] {
        let error = one(name, of_name(&document, name)).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// Status of a review by a server.
fn status(verdict: &Value, answers: &[(&str, &str, &str, Option<u64>)]) -> Value {
    let answers = answers.iter().map(|(name, answer, reason, age)| {
        let mut answer = json!({"name": name, "answer": answer, "reason": reason});
        if let Some(age) = age {
            answer["ageSeconds"] = json!(age);
        }
        answer
    });
    let mut status = json!({"realm": "own", "authorizers": answers.collect::<Vec<_>>()});
    status.as_object_mut().unwrap().extend(verdict.as_object().unwrap().clone());
    status
}

#[test]
fn the_answers_are_a_table_in_the_order_of_the_chain() {
    let allowed = json!({"allowed": true, "decidedBy": "HostMirror"});
    let answers = [
        ("System", "NoOpinion", "no constant rule", None),
        ("Host", "Unavailable", "it is down", None),
        ("HostMirror", "Allowed", "RBAC: allowed by \u{1b}x", Some(4200)),
    ];
    let view = view(&question(ACTION).unwrap(), &status(&allowed, &answers));
    let expected = "\
REQUEST   create machines.cluster.x-k8s.io/reboot m1, in namespace team
USER      alice, of realm own, in groups dev, system:authenticated
ENDPOINT  direct

AUTHORIZER  ANSWER       AGE  REASON
System      no opinion   -    no constant rule
Host        unavailable  -    it is down
HostMirror  allowed      70m  RBAC: allowed by \u{fffd}x

VERDICT  allowed by HostMirror
";
    assert_eq!(text(&view), expected);
    assert_eq!(view["schema"], "capstan.dev/explain-access/v1");
    assert_eq!(view["authorizers"][2]["ageSeconds"], 4200);
    assert_eq!(view["verdict"], json!({"answer": "Allowed", "reason": "", "decidedBy": "HostMirror"}));
    let written = ViewForm::Yaml.text(String::new, &view).unwrap();
    assert!(written.contains("endpoint: direct"), "{written}");
}

#[test]
fn the_verdict_of_a_refusal_has_the_status_that_the_client_gets() {
    for (verdict, code, expected) in [
        (
            json!({"allowed": false, "denied": true, "reason": "frozen", "decidedBy": "Webhook/w"}),
            403,
            "403: denied by Webhook/w: frozen",
        ),
        (json!({"allowed": false, "decidedBy": ""}), 403, "403: no authorizer allows it"),
        (
            json!({"allowed": false, "evaluationError": "it is down", "decidedBy": ""}),
            503,
            "503: no authorizer allows it, and one could not decide: it is down",
        ),
    ] {
        let view = view(&question("--verb list --resource secrets.").unwrap(), &status(&verdict, &[]));
        let text = text(&view);
        assert!(text.ends_with(&format!("VERDICT  {expected}\n")), "{text}");
        assert!(text.starts_with("REQUEST   list secrets, in no namespace or in all\n"), "{text}");
        assert_eq!(view["verdict"]["httpStatus"], code);
        assert_eq!(view["request"], json!({"verb": "list", "group": "", "resource": "secrets"}));
    }
}
