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
        ("request.?namespace.hasValue()", json!(false)),
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

/// Compiles variables, and declares them. One that cannot be compiled has the reason.
fn declared(sources: &[(&str, &str)]) -> (Vec<PolicyVariable>, Declared) {
    let mut declared = Declared { variables: Some(DeclaredVariables::default()), ..Declared::default() };
    let mut variables = Vec::new();
    for (name, source) in sources {
        let compiled = AdmissionExpression::compile(source, &declared, Wanted::Any);
        declared.variables.as_mut().unwrap().declare(name, compiled.as_ref().ok());
        variables.push(((*name).to_owned(), compiled));
    }
    (variables, declared)
}

#[test]
fn variables_are_evaluated_when_they_are_read() {
    let sources = [
        ("n", "object.spec.replicas"),
        ("bad", "object.spec.missing"),
        ("twice", "variables.n * 2"),
        ("worse", "variables.bad + 1"),
        ("broken", "1 + 'a'"),
    ];
    let (variables, declared) = declared(&sources);
    let inputs = inputs();
    let run = |source: &str| {
        let expression = AdmissionExpression::compile(source, &declared, Wanted::Bool)?;
        let mut evaluation = Evaluation::new(&inputs, &variables, 10_000);
        evaluation.evaluate(&expression).map(|it| it.is_true()).map_err(|error| error.to_string())
    };
    for right in [
        "variables.twice == 6",
        "true || variables.bad",
        "has(variables.n) && variables.?twice.hasValue()",
        "[1, 2].all(x, x < variables.n)",
        "dyn(variables)['twice'] == 6",
    ] {
        assert_eq!(run(right), Ok(true), "{right}");
    }
    for (wrong, expected) in [
        ("variables.bad == 1", "composited variable \"bad\" fails to evaluate: no such key: missing"),
        (
            "variables.worse == 1",
            "composited variable \"worse\" fails to evaluate: composited variable \"bad\" fails to evaluate: no such key: \
             missing",
        ),
        ("variables.?bad.hasValue()", "composited variable \"bad\" fails to evaluate: no such key: missing"),
    ] {
        let error = run(wrong).unwrap_err();
        assert!(error.ends_with(&format!("resulted in error: {expected}")), "{wrong}: {error}");
    }
    let error = run("variables.broken == 1").unwrap_err();
    assert!(
        error.contains("composited variable \"broken\" fails to compile: compilation failed: "),
        "{error}"
    );
    assert!(run("variables.none == 1").unwrap_err().contains("undefined field 'none'"));
}

#[test]
fn a_variable_costs_once_and_only_if_it_is_read() {
    let all = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(x, x < 10)";
    let (variables, declared) = declared(&[("dear", all)]);
    let inputs = inputs();
    let compiled = |source: &str| AdmissionExpression::compile(source, &declared, Wanted::Bool).unwrap();
    let mut evaluation = Evaluation::new(&inputs, &variables, 10_000);
    let mut cost = |source: &str| {
        let before = evaluation.left();
        evaluation.evaluate(&compiled(source)).unwrap();
        before - evaluation.left()
    };
    let unread = cost("has(object.spec.missing) ? variables.dear : true");
    let (first, second) = (cost("variables.dear"), cost("variables.dear"));
    assert_eq!(second, 2, "a name and a field");
    assert!(first > 20 && unread < 10, "{first} {unread}");
    // The budget ends within a variable, too.
    let mut evaluation = Evaluation::new(&inputs, &variables, 10);
    let ended = evaluation.evaluate(&compiled("variables.dear || true")).unwrap_err();
    assert_eq!((ended, evaluation.left()), (EvaluationError::OutOfBudget, 0));
}

#[test]
fn a_long_chain_of_variables_ends_with_an_error() {
    let names: Vec<String> = (0..1100).map(|number| format!("v{number}")).collect();
    let sources: Vec<String> = std::iter::once("1".to_owned())
        .chain(names.iter().map(|name| format!("variables.{name} + 1")))
        .collect();
    let pairs: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(sources.iter().map(String::as_str)).collect();
    let (variables, declared) = declared(&pairs);
    let inputs = inputs();
    let run = |source: &str| {
        let expression = AdmissionExpression::compile(source, &declared, Wanted::Bool).unwrap();
        Evaluation::new(&inputs, &variables, 10_000_000).evaluate(&expression).map(|it| it.is_true())
    };
    assert_eq!(run("variables.v900 == 901"), Ok(true));
    assert!(run("variables.v1099 == 1100").unwrap_err().to_string().contains("1000 variables in a chain"));
}

#[test]
fn a_variable_has_the_type_of_its_expression() {
    let sources = [
        ("n", "1"),
        ("names", "['a']"),
        ("object", "request.userInfo"),
        ("any", "object.spec"),
        ("bad", "1 + 'a'"),
        ("later", "variables.n"),
    ];
    let (_, declared) = declared(&sources);
    let compiled = |source: &str| AdmissionExpression::compile(source, &declared, Wanted::Bool).map(|_| ());
    for right in
        ["variables.names[0].startsWith('a')", "variables.any.x == 1", "variables.bad", "variables.object.x"]
    {
        let whole = format!("{right} == true");
        assert!(compiled(&whole).is_ok(), "{whole}: {:?}", compiled(&whole));
    }
    for (wrong, expected) in [
        ("variables.later == 'a'", "no matching overload for '_==_' applied to '(int, string)'"),
        ("variables.names == 1", "no matching overload for '_==_' applied to '(list(string), int)'"),
        (
            "variables['n'] == 1",
            "no matching overload for '_[_]' applied to '(kubernetes.variables, string)'",
        ),
        ("variables.any", "must evaluate to bool but got dyn"),
    ] {
        let error = compiled(wrong).unwrap_err();
        assert!(error.contains(expected), "{wrong}: {error}");
    }
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

fn gadget() -> Schema {
    Schema::compile(&json!({"type": "object", "properties": {"apiVersion": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "namespace": {"type": "string"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true}}}}}))
    .unwrap()
}

#[test]
fn a_type_check_knows_the_fields_of_objects() {
    let (gadget, variables) = (gadget(), [("n", "object.spec.replicas"), ("bad", "object.spec.none")]);
    let check = TypeCheck::new(&gadget, CheckedParams::Absent, variables);
    for right in [
        "object.spec.replicas > oldObject.spec.replicas",
        "object.spec.replicas",
        "object.metadata.namespace == 'a' && object.metadata.?namespace.orValue('') != ''",
        "object.metadata.labels.namespace == 'a' && request.namespace == 'a'",
        "object.spec.port == 1 || object.spec.port == 'a'",
        "object != null && variables.n == 1 && variables.bad == 'a'",
        "authorizer.requestResource.check('get').allowed()",
        "namespaceObject.metadata.labels['a'] == 'b'",
    ] {
        assert_eq!(check.errors(right), None, "{right}");
    }
    let error = "ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica > 5\n | ...........^";
    assert_eq!(check.errors("object.spec.replica > 5").as_deref(), Some(error));
    for (wrong, expected) in [
        ("has(oldObject.status)", "undefined field 'status'"),
        ("object.spec.any == 1", "undefined field 'any'"),
        ("object.spec.replicas == '5'", "no matching overload for '_==_' applied to '(int, string)'"),
        ("variables.n == 'a'", "no matching overload for '_==_' applied to '(int, string)'"),
        ("object.metadata.name + 1", "no matching overload for '_+_' applied to '(string, int)'"),
        ("object.spec.namespace == 'a'", "undefined field 'namespace'"),
        ("object.spec.?other.hasValue()", "undefined field 'other'"),
        ("params.a == 1", "undeclared reference to 'params'"),
        ("object.", "Syntax error"),
        ("object.metadata.name.matches('[')", "invalid matches argument"),
    ] {
        let error = check.errors(wrong).unwrap_or_default();
        assert!(error.starts_with("ERROR: <input>:1:") && error.contains(expected), "{wrong}: {error}");
    }
}

#[test]
fn a_type_check_knows_the_parameters_if_their_kind_is_known() {
    let gadget = gadget();
    let errors = |params: CheckedParams<'_>| {
        TypeCheck::new(&gadget, params, []).errors("params.spec.most > 1").unwrap_or_default()
    };
    assert!(errors(CheckedParams::Absent).contains("undeclared reference to 'params'"));
    assert_eq!(errors(CheckedParams::Unknown), "");
    assert!(errors(CheckedParams::Known(&gadget)).contains("undefined field 'most'"));
}
