use super::binding::AdmissionPolicyBindingStrategy;
use super::mutating::MutatingPolicyStrategy;
use super::*;

fn policy(changes: &Value) -> Value {
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let mut policy = json!({"metadata": {"name": "p.example.org"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "matchPolicy": "Equivalent"},
        "validations": [{"expression": "object.data.a == 'b'", "messageExpression": "'no ' + object.data.a"}]}});
    for (field, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => policy["spec"].as_object_mut().unwrap().remove(field),
            value => policy["spec"].as_object_mut().unwrap().insert(field.clone(), value.clone()),
        };
    }
    policy
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn each_field_of_a_policy_is_validated() {
    let found = |changes: &Value| texts(&AdmissionPolicyStrategy.validate(&policy(changes), None));
    for good in [
        json!({}),
        json!({"variables": [{"name": "a", "expression": "object.data"}, {"name": "b", "expression": "variables.a"}],
            "validations": [{"expression": "variables.b.size() > 0"}]}),
        json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [{"expression": "object.data.a == params.data.a"}]}),
        json!({"validations": null, "auditAnnotations": [{"key": "a", "valueExpression": "'x'"}]}),
    ] {
        assert_eq!(found(&good), Vec::<String>::new(), "{good}");
    }
    for (changes, expected) in [
        (json!({"matchConstraints": null}), "spec.matchConstraints: Required value"),
        (json!({"matchConstraints": {}}), "spec.matchConstraints.resourceRules: Required value"),
        (json!({"failurePolicy": "Maybe"}), "spec.failurePolicy: Unsupported value: \"Maybe\""),
        (
            json!({"paramKind": {"apiVersion": "apps/v1", "kind": "Deployment"}}),
            "spec.paramKind: Invalid value: \"apps/v1, Kind=Deployment\": Capstan does not serve",
        ),
        (json!({"paramKind": {"kind": "ConfigMap"}}), "spec.paramKind.apiVersion: Required value"),
        (
            json!({"validations": [{"expression": "object.a"}]}),
            "spec.validations[0].expression: Invalid value: \"object.a\": must evaluate to bool but got dyn",
        ),
        (
            json!({"validations": [{}]}),
            "spec.validations[0].expression: Required value: expression is not specified",
        ),
        (
            json!({"validations": [{"expression": "true", "message": "a\nb"}]}),
            "spec.validations[0].message: Invalid value",
        ),
        (
            json!({"validations": [{"expression": "true", "reason": "Gone"}]}),
            "spec.validations[0].reason: Unsupported value",
        ),
        (
            json!({"validations": [{"expression": "true", "messageExpression": "1"}]}),
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
        ),
        (
            json!({"variables": [{"name": "a", "expression": "variables.b"}]}),
            "spec.variables[0].expression: Invalid value",
        ),
        (
            json!({"variables": [{"name": "n", "expression": "1"}], "validations": [{"expression": "variables.n == 'a'"}]}),
            "spec.validations[0].expression: Invalid value: \"variables.n == 'a'\": compilation failed: ",
        ),
        (
            json!({"variables": [{"name": "1a", "expression": "1"}]}),
            "spec.variables[0].name: Invalid value: \"1a\": must be a valid CEL",
        ),
        (
            json!({"auditAnnotations": [{"key": "a/b", "valueExpression": "'x'"}]}),
            "spec.auditAnnotations[0].key: Invalid value",
        ),
        (
            json!({"auditAnnotations": [{"key": "a", "valueExpression": "true"}]}),
            "spec.auditAnnotations[0].valueExpression: Invalid value",
        ),
    ] {
        let errors = found(&changes);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{changes}: {errors:#?}");
    }
    assert_eq!(found(&json!({"validations": null})).len(), 2);
}

#[test]
fn each_field_of_a_binding_is_validated() {
    let found = |spec: Value| {
        texts(&AdmissionPolicyBindingStrategy { is_mutating: false }.validate(&json!({"spec": spec}), None))
    };
    let reference =
        |fields: Value| json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": fields});
    let good = reference(json!({"name": "a", "parameterNotFoundAction": "Deny"}));
    assert_eq!(found(good), Vec::<String>::new());
    for (spec, expected) in [
        (json!({"validationActions": ["Deny"]}), "spec.policyName: Required value"),
        (json!({"policyName": "p"}), "spec.validationActions: Required value: at least one"),
        (
            json!({"policyName": "p", "validationActions": ["Deny", "Warn"]}),
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both",
        ),
        (
            json!({"policyName": "p", "validationActions": ["Shout"]}),
            "spec.validationActions[0]: Unsupported value: \"Shout\"",
        ),
        (
            reference(json!({"parameterNotFoundAction": "Deny"})),
            "spec.paramRef: Required value: one of name or selector",
        ),
        (reference(json!({"name": "a"})), "spec.paramRef.parameterNotFoundAction: Required value"),
        (
            reference(json!({"name": "a", "parameterNotFoundAction": "Die"})),
            "spec.paramRef.parameterNotFoundAction: Unsupported",
        ),
    ] {
        let errors = found(spec.clone());
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{spec}: {errors:#?}");
    }
}

#[test]
fn each_mutation_of_a_policy_is_validated() {
    let found = |changes: &Value| {
        let mut policy = policy(
            &json!({"validations": null, "reinvocationPolicy": "Never", "mutations": [{"patchType":
            "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: Object.data{a: 'b'}}"}}]}),
        );
        policy["spec"].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        texts(&MutatingPolicyStrategy.validate(&policy, None))
    };
    let patch = |source: &str| json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": source}}]});
    assert_eq!(found(&json!({})), Vec::<String>::new());
    assert_eq!(found(&patch("[JSONPatch{op: 'remove', path: '/a'}]")), Vec::<String>::new());
    for (changes, expected) in [
        (
            patch("object"),
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"object\": must evaluate to list(JSONPatch)",
        ),
        (json!({"mutations": []}), "spec.mutations: Required value: mutations must contain"),
        (json!({"mutations": [{}]}), "spec.mutations[0].patchType: Required value"),
        (
            json!({"mutations": [{"patchType": "Merge"}]}),
            "spec.mutations[0].patchType: Unsupported value: \"Merge\"",
        ),
        (json!({"mutations": [{"patchType": "JSONPatch"}]}), "spec.mutations[0].jsonPatch: Required value"),
        (json!({"reinvocationPolicy": "Often"}), "spec.reinvocationPolicy: Unsupported value: \"Often\""),
        (json!({"reinvocationPolicy": ""}), "spec.reinvocationPolicy: Required value"),
    ] {
        let errors = found(&changes);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{changes}: {errors:#?}");
    }
}
