use serde_json::{Value, json};

use super::*;
use crate::cel::{AuthorizationAnswer, AuthorizationOracle, AuthorizationQuestion};

fn inputs() -> AdmissionInputs {
    let object = json!({"metadata": {"name": "a", "labels": {"a-b/c": "d"}}, "spec": {"replicas": 3, "ratio": 0.5,
        "namespace": "n", "list": [1, 2]}});
    let request = json!({"operation": "CREATE", "userInfo": {"username": "alice", "groups": ["dev"]}, "dryRun": false,
        "name": "a", "options": {"kind": "CreateOptions", "fieldManager": "m"}});
    let namespace = json!({"metadata": {"name": "ns", "uid": "7", "labels": {"team": "x"},
        "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": []}});
    AdmissionInputs::new(Some(&object), None, &request, Some(&namespace))
}

fn compiled(source: &str, wanted: Wanted) -> Result<AdmissionExpression, String> {
    AdmissionExpression::compile(source, &Declared { params: true, ..Declared::default() }, wanted)
}

fn value(source: &str) -> Result<Value, String> {
    let expression = compiled(source, Wanted::Any)?;
    let inputs = inputs().with_params(Some(&json!({"data": {"most": "5"}})));
    let mut evaluation = Evaluation::new(&inputs, &[], 10_000);
    let found = evaluation.evaluate(&expression).map_err(|error| error.to_string())?;
    Ok(found.to_json().unwrap_or_default())
}

#[test]
fn expressions_read_the_request_and_its_objects() {
    for (source, expected) in [
        ("object.spec.replicas", json!(3)),
        ("object.spec.replicas + 1", json!(4)),
        ("object.spec.ratio", json!(0.5)),
        ("object.metadata.labels['a-b/c']", json!("d")),
        ("object.spec.namespace", json!("n")),
        ("oldObject == null", json!(true)),
        ("has(object.spec.missing)", json!(false)),
        ("request.userInfo.username in ['alice']", json!(true)),
        ("request.userInfo.groups.exists(g, g == 'dev')", json!(true)),
        ("request.options.fieldManager", json!("m")),
        ("has(request.namespace)", json!(false)),
        ("has(namespaceObject.metadata.namespace) || object.spec.namespace == 'n'", json!(true)),
        ("namespaceObject.metadata.labels.team", json!("x")),
        ("namespaceObject.metadata.UID", json!("7")),
        ("namespaceObject.metadata.creationTimestamp < timestamp('2027-01-01T00:00:00Z')", json!(true)),
        ("int(params.data.most) > object.spec.replicas", json!(true)),
        ("object.spec.list.map(x, x * 2)", json!([2, 4])),
    ] {
        assert_eq!(value(source), Ok(expected), "{source}");
    }
    let missing = value("request.namespace == 'a'").unwrap_err();
    assert_eq!(missing, "expression 'request.namespace == 'a'' resulted in error: no such key: namespace");
    let missing = value("object.spec.missing == 1").unwrap_err();
    assert_eq!(missing, "expression 'object.spec.missing == 1' resulted in error: no such key: missing");
}

#[test]
fn an_expression_has_the_wanted_type_and_known_fields() {
    for (source, wanted, expected) in [
        ("object.spec.replicas", Wanted::Bool, "must evaluate to bool but got dyn"),
        ("'a'", Wanted::Bool, "must evaluate to bool but got string"),
        ("1", Wanted::Text, "must evaluate to string but got int"),
        ("true", Wanted::TextOrNull, "must evaluate to one of [string null_type] but got bool"),
        ("request.foo == 'a'", Wanted::Bool, "undefined field 'foo'"),
        ("other == 'a'", Wanted::Bool, "undeclared reference to 'other'"),
        ("variables.x == 'a'", Wanted::Bool, "undeclared reference to 'variables'"),
    ] {
        let error = compiled(source, wanted).unwrap_err();
        assert!(error.contains(expected), "{source}: {error}");
    }
    assert!(compiled("null", Wanted::TextOrNull).is_ok() && compiled("''", Wanted::TextOrNull).is_ok());
    let without = AdmissionExpression::compile("params.a == 'a'", &Declared::default(), Wanted::Bool);
    assert!(without.unwrap_err().contains("undeclared reference to 'params'"));
}

#[test]
fn variables_are_evaluated_when_they_are_read() {
    let mut declared = Declared { variables: Some(Vec::new()), ..Declared::default() };
    let mut variables = Vec::new();
    for (name, source) in
        [("n", "object.spec.replicas"), ("bad", "object.spec.missing"), ("twice", "variables.n * 2")]
    {
        let compiled = AdmissionExpression::compile(source, &declared, Wanted::Any).unwrap();
        variables.push((name.to_owned(), compiled));
        declared.variables.as_mut().unwrap().push(name.to_owned());
    }
    let inputs = inputs();
    let run = |source: &str| {
        let expression = AdmissionExpression::compile(source, &declared, Wanted::Bool)?;
        let mut evaluation = Evaluation::new(&inputs, &variables, 10_000);
        evaluation.evaluate(&expression).map(|it| it.is_true()).map_err(|error| error.to_string())
    };
    assert_eq!(run("variables.twice == 6"), Ok(true));
    assert_eq!(run("true || variables.bad"), Ok(true));
    let error = run("variables.bad == 1").unwrap_err();
    assert!(
        error.ends_with("composited variable \"bad\" fails to evaluate: no such key: missing"),
        "{error}"
    );
    assert!(run("variables.none == 1").unwrap_err().contains("undefined field 'none'"));
}

#[test]
fn all_expressions_share_one_budget() {
    let expression = compiled("[1, 2, 3, 4, 5].all(x, x < 9)", Wanted::Bool).unwrap();
    let inputs = inputs();
    let mut evaluation = Evaluation::new(&inputs, &[], 60);
    let mut count = 0;
    while evaluation.evaluate(&expression).is_ok() {
        count += 1;
    }
    assert!((1..10).contains(&count), "{count}");
    assert_eq!(evaluation.evaluate(&expression).unwrap_err(), EvaluationError::OutOfBudget);
}

#[test]
fn an_open_question_interrupts_and_its_answer_decides() {
    let oracle = AuthorizationOracle::default();
    let requested = AuthorizationQuestion { resource: "maps".to_owned(), ..AuthorizationQuestion::default() };
    let inputs = inputs().with_authorizer(&oracle, requested.clone());
    let declared = Declared { authorizer: true, ..Declared::default() };
    let run = |source: &str| {
        let expression = AdmissionExpression::compile(source, &declared, Wanted::Bool).unwrap();
        let found = Evaluation::new(&inputs, &[], 10_000_000).evaluate(&expression);
        found.map(|value| value.is_true()).map_err(|error| error.to_string())
    };
    let asked = "authorizer.group('g').resource('r').subresource('s').namespace('n').name('x').check('use').allowed()";
    assert!(run(asked).is_err());
    let question = oracle.take_open().pop().unwrap();
    let expected = AuthorizationQuestion {
        verb: "use".to_owned(),
        group: "g".to_owned(),
        resource: "r".to_owned(),
        subresource: "s".to_owned(),
        namespace: "n".to_owned(),
        name: "x".to_owned(),
        ..AuthorizationQuestion::default()
    };
    assert_eq!(question, expected);
    let allowed = AuthorizationAnswer { allowed: true, reason: "why".to_owned(), error: String::new() };
    oracle.answer(question, allowed.clone());
    assert_eq!(run(asked), Ok(true));
    // The other side of an `||` does not hide an open question.
    assert!(run("authorizer.path('/x').check('get').allowed() || true").is_err());
    let path = oracle.take_open().pop().unwrap();
    assert_eq!((path.path.as_str(), path.verb.as_str()), ("/x", "get"));
    assert!(run("authorizer.requestResource.check('delete').allowed()").is_err());
    assert_eq!(oracle.take_open(), [AuthorizationQuestion { verb: "delete".to_owned(), ..requested }]);
    assert!(run("authorizer.serviceAccount('ns', 'sa').path('/y').check('get').errored()").is_err());
    assert_eq!(oracle.take_open()[0].service_account, Some(("ns".to_owned(), "sa".to_owned())));
    let wrong = AdmissionExpression::compile("authorizer.check('x').allowed()", &declared, Wanted::Bool);
    assert!(wrong.unwrap_err().contains("found no matching overload for 'check'"));
}

#[test]
fn patches_are_created_as_objects_with_the_names_of_their_paths() {
    let declared = Declared { patches: true, ..Declared::default() };
    let run = |source: &str, wanted: Wanted| {
        let expression = AdmissionExpression::compile(source, &declared, wanted)?;
        let inputs = inputs();
        let found = Evaluation::new(&inputs, &[], 10_000).evaluate(&expression);
        found.map(|value| value.to_json().unwrap()).map_err(|error| error.to_string())
    };
    let object = "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{__namespace__: object.metadata.name, \
                  ?none: object.spec.?missing}}";
    let expected = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"namespace": "a"}});
    assert_eq!(run(object, Wanted::ApplyConfiguration), Ok(expected));
    let patch = "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y~z'), value: Object.a{b: 1}}]";
    let expected = json!([{"op": "add", "path": "/a/x~1y~0z", "value": {"b": 1}}]);
    assert_eq!(run(patch, Wanted::JsonPatch), Ok(expected));
    assert_eq!(run("[]", Wanted::JsonPatch), Ok(json!([])));
    for (source, wanted, expected) in [
        ("{'a': 'b'}", Wanted::ApplyConfiguration, "must evaluate to Object but got map(string, string)"),
        ("Object{spec: Object.other{}}", Wanted::ApplyConfiguration, "expected \"Object.spec\""),
        ("[JSONPatch{verb: 'add'}]", Wanted::JsonPatch, "undefined field 'verb'"),
        ("[JSONPatch{op: 1}]", Wanted::JsonPatch, "expected type of field 'op' is 'string'"),
        ("Other{}", Wanted::ApplyConfiguration, "undeclared reference to 'Other'"),
    ] {
        let error = run(source, wanted).unwrap_err();
        assert!(error.contains(expected), "{source}: {error}");
    }
    assert!(compiled("Object{} == Object{}", Wanted::Bool).is_err(), "other expressions create no objects");
}
