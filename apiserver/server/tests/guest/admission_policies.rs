//! Admission policies in CEL, with a real server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission_scene::{ADMISSION, MAPS, Scene, map, send, warnings};
use crate::client::Answer;
use crate::process::PATIENCE;

fn policy(name: &str, spec: &Value) -> Value {
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [{"operations": ["*"],
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}}});
    policy["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    policy
}

fn binding(name: &str, policy: &str, spec: &Value) -> Value {
    let mut binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": policy, "validationActions": ["Deny"]}});
    binding["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    binding
}

async fn bind(scene: &Scene, name: &str, of_policy: &Value, of_binding: &Value) {
    let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
    send(&scene.admin, "POST", &format!("{ADMISSION}/{policies}"), &policy(name, of_policy), 201).await;
    let bound = binding(&format!("{name}-binding"), name, of_binding);
    send(&scene.admin, "POST", &format!("{ADMISSION}/{bindings}"), &bound, 201).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_refuses_warns_or_audits_as_its_binding_says() {
    let mut scene = Scene::start().await;
    let validations = json!([
        {"expression": "!has(object.data) || !('bad' in object.data)", "messageExpression": "'bad is ' + object.data.bad"},
        {"expression": "request.operation != 'UPDATE' || object.data.a == oldObject.data.a", "message": "a is fixed", "reason": "Forbidden"},
    ]);
    let annotations = json!([{"key": "who", "valueExpression": "request.userInfo.username"}]);
    let spec = json!({"validations": validations, "auditAnnotations": annotations,
        "matchConditions": [{"name": "objects", "expression": "object != null"}]});
    bind(&scene, "deny.example.org", &spec, &json!({})).await;
    let soft = json!({"validations": [{"expression": "size(object.data) < 3", "message": "three"}],
        "matchConditions": [{"name": "objects", "expression": "object != null"}]});
    bind(&scene, "soft.example.org", &soft, &json!({"validationActions": ["Warn", "Audit"]})).await;

    let mut bad = map("bad");
    bad["data"]["bad"] = json!("x");
    let refused = send(&scene.alice, "POST", MAPS, &bad, 422).await;
    let denied = "ValidatingAdmissionPolicy 'deny.example.org' with binding 'deny.example.org-binding' denied request: bad is x";
    assert_eq!(refused["message"], format!("configmaps \"bad\" is forbidden: {denied}"));
    assert_eq!((&refused["reason"], &refused["details"]["kind"]), (&json!("Invalid"), &json!("configmaps")));
    assert_eq!(refused["details"]["causes"], json!([{"message": denied}]));

    send(&scene.alice, "POST", MAPS, &map("a"), 201).await;
    let one = format!("{MAPS}/a");
    let fixed = send(&scene.alice, "PATCH", &one, &json!({"data": {"a": "c"}}), 403).await;
    assert!(fixed["message"].as_str().unwrap().ends_with("denied request: a is fixed"), "{fixed}");
    let body = json!({"data": {"b": "1", "c": "2"}}).to_string();
    let warned = scene.alice.once("PATCH", &one, &body).await.unwrap();
    assert_eq!(warned.code, 200, "{}", warned.text());
    assert_eq!(
        warnings(&warned),
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'soft.example.org' with binding \
          'soft.example.org-binding': three\""]
    );
    send(&scene.alice, "DELETE", &one, &Value::Null, 200).await;
    scene.capstan.signal("TERM");
    scene.capstan.ended().await;
    let log = std::fs::read_to_string(scene.data.path().join("audit/audit.log")).unwrap();
    assert!(log.contains("\"deny.example.org/who\":\"alice\""), "the annotation is in the audit log");
    assert!(log.contains("validation.policy.admission.k8s.io/validation_failure"), "and so is the failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_reads_its_parameters_and_the_namespace() {
    let scene = Scene::start().await;
    let spec = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "most", "expression": "int(params.data.most)"}],
        "matchConditions": [{"name": "objects", "expression": "object != null"}],
        "validations": [{"expression": "size(object.data) <= variables.most || namespaceObject.metadata.name != 'default'",
            "messageExpression": "'at most ' + string(variables.most)"}]});
    let reference = json!({"name": "limits", "namespace": "kube-public", "parameterNotFoundAction": "Deny"});
    let of_binding =
        json!({"paramRef": reference, "matchResources": {"objectSelector": {"matchLabels": {"app": "a"}}}});
    bind(&scene, "params.example.org", &spec, &of_binding).await;
    let refused = send(&scene.alice, "POST", MAPS, &map("a"), 422).await;
    assert!(
        refused["message"].as_str().unwrap().ends_with(
            "denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        ),
        "{refused}"
    );
    let limits = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"most": "1"}});
    send(&scene.admin, "POST", "/api/v1/namespaces/kube-public/configmaps", &limits, 201).await;
    scene.until("POST", MAPS, &map("a"), |answer| answer.code == 201).await;
    let refused = send(&scene.alice, "PATCH", &format!("{MAPS}/a"), &json!({"data": {"x": "y"}}), 422).await;
    assert!(refused["message"].as_str().unwrap().ends_with("denied request: at most 1"), "{refused}");
    // Without the label, the binding does not match.
    let mut other = map("other");
    other["metadata"]["labels"] = json!({});
    other["data"]["x"] = json!("y");
    send(&scene.alice, "POST", MAPS, &other, 201).await;
    // A kind that Capstan does not serve has no parameters.
    let unknown = policy(
        "unknown.example.org",
        &json!({"paramKind": {"apiVersion": "apps/v1", "kind": "Deployment"},
        "validations": [{"expression": "true"}]}),
    );
    let refused =
        send(&scene.admin, "POST", &format!("{ADMISSION}/validatingadmissionpolicies"), &unknown, 422).await;
    assert!(refused["message"].as_str().unwrap().contains("spec.paramKind: Invalid value"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_reads_the_permissions_of_the_user() {
    let scene = Scene::start().await;
    let check = "authorizer.group('').resource('configmaps').namespace('default').check('approve').allowed()";
    let spec = json!({"validations": [{"expression": check, "message": "not approved"}],
        "matchConditions": [{"name": "labelled", "expression":
            "object != null && has(object.metadata.labels) && 'approve' in object.metadata.labels"}]});
    bind(&scene, "approved.example.org", &spec, &json!({})).await;
    let mut labelled = map("labelled");
    labelled["metadata"]["labels"]["approve"] = json!("");
    let refused = send(&scene.alice, "POST", MAPS, &labelled, 422).await;
    assert!(refused["message"].as_str().unwrap().ends_with("denied request: not approved"), "{refused}");
    send(&scene.alice, "POST", MAPS, &map("plain"), 201).await;
    send(&scene.admin, "POST", MAPS, &labelled, 201).await;
}

/// Returns the result of the type check of a policy, once it is that of a generation.
async fn type_checking(scene: &Scene, path: &str, generation: u64) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut policy = send(&scene.admin, "GET", path, &Value::Null, 200).await;
        if policy["status"]["observedGeneration"] == generation {
            return policy["status"]["typeChecking"].take();
        }
        assert!(Instant::now() < end, "{policy}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_policy_warns_of_wrong_types() {
    let scene = Scene::start().await;
    let spec = json!({"validations": [{"expression": "object == null || !has(object.dat)"},
        {"expression": "object == null || has(object.data)", "messageExpression": "'g' + object.metadata.generation"}]});
    bind(&scene, "typed.example.org", &spec, &json!({"validationActions": ["Audit"]})).await;
    let path = format!("{ADMISSION}/validatingadmissionpolicies/typed.example.org");
    let found = type_checking(&scene, &path, 1).await;
    let all = found["expressionWarnings"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{found}");
    for (warning, field, text) in [
        (&all[0], "spec.validations[0].expression", "undefined field 'dat'"),
        (&all[1], "spec.validations[1].messageExpression", "'_+_' applied to '(string, int)'"),
    ] {
        assert_eq!(warning["fieldRef"], field);
        let shown = warning["warning"].as_str().unwrap();
        assert!(
            shown.starts_with("/v1, Kind=ConfigMap: ERROR: <input>:1:") && shown.contains(text),
            "{shown}"
        );
    }
    // A policy with warnings is in force, and a change is checked again.
    send(&scene.alice, "POST", MAPS, &map("typed"), 201).await;
    let right = json!({"spec": {"validations": [{"expression": "object == null || has(object.data)"}]}});
    send(&scene.admin, "PATCH", &path, &right, 200).await;
    assert_eq!(type_checking(&scene, &path, 2).await, json!({}));
}

fn mutating(name: &str, mutation: &Value, changes: &Value) -> Value {
    let mut policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"reinvocationPolicy": "Never", "mutations": [mutation],
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": [""],
                "apiVersions": ["v1"], "resources": ["configmaps"]}]}}});
    policy["spec"].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    policy
}

async fn bind_mutating(scene: &Scene, name: &str, mutation: &Value, changes: &Value) {
    let policy = mutating(name, mutation, changes);
    send(&scene.admin, "POST", &format!("{ADMISSION}/mutatingadmissionpolicies"), &policy, 201).await;
    let mut binding = binding(name, name, &json!({}));
    binding["kind"] = json!("MutatingAdmissionPolicyBinding");
    binding["spec"].as_object_mut().unwrap().remove("validationActions");
    send(&scene.admin, "POST", &format!("{ADMISSION}/mutatingadmissionpolicybindings"), &binding, 201).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_policies_change_objects_before_the_validating_ones() {
    let scene = Scene::start().await;
    let apply = |expression: &str| json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let first = "Object{metadata: Object.metadata{labels: {'by': request.userInfo.username}}, \
                 data: {'seen': has(object.data.second) ? 'after' : 'before'}}";
    bind_mutating(&scene, "a-first.example.org", &apply(first), &json!({"reinvocationPolicy": "IfNeeded"}))
        .await;
    let second = "[JSONPatch{op: 'add', path: '/data/second', value: object.data.seen}]";
    bind_mutating(&scene, "b-second.example.org", &patch(second), &json!({})).await;
    bind(
        &scene,
        "check.example.org",
        &json!({"validations": [{"expression": "object == null || object.data.second == 'before'"}]}),
        &json!({}),
    )
    .await;
    let created = send(&scene.alice, "POST", MAPS, &map("m"), 201).await;
    assert_eq!(created["data"], json!({"a": "b", "seen": "after", "second": "before"}));
    assert_eq!(created["metadata"]["labels"], json!({"app": "a", "by": "alice"}));
    // An expression that fails refuses the write, unless the policy ignores it.
    let labelled = json!({"matchConditions": [{"name": "c", "expression": "object.metadata.name == 'bad'"}]});
    bind_mutating(
        &scene,
        "c-bad.example.org",
        &patch("[JSONPatch{op: 'remove', path: object.data.missing}]"),
        &labelled,
    )
    .await;
    let refused = send(&scene.alice, "POST", MAPS, &map("bad"), 403).await;
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("policy 'c-bad.example.org' with binding 'c-bad.example.org' denied request: ")
            && message.ends_with("no such key: missing"),
        "{message}"
    );
    let path = format!("{ADMISSION}/mutatingadmissionpolicies/c-bad.example.org");
    send(&scene.admin, "PATCH", &path, &json!({"spec": {"failurePolicy": "Ignore"}}), 200).await;
    scene.until("POST", MAPS, &map("bad"), |answer| answer.code == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_policy_without_its_parameters_refuses_the_write_as_forbidden() {
    let scene = Scene::start().await;
    let add = "[JSONPatch{op: 'add', path: '/data/x', value: params.data.x}]";
    let patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": add}});
    let kind = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    bind_mutating(&scene, "params.example.org", &patch, &kind).await;
    let path = format!("{ADMISSION}/mutatingadmissionpolicybindings/params.example.org");
    let reference = json!({"name": "limits", "namespace": "kube-public", "parameterNotFoundAction": "Deny"});
    send(&scene.admin, "PATCH", &path, &json!({"spec": {"paramRef": reference}}), 200).await;
    let is_expected = |answer: &Answer| answer.code == 403 && answer.text().contains("\"Forbidden\"");
    let refused = scene.until("POST", MAPS, &map("m"), is_expected).await;
    let refused: Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(
        refused["message"],
        "policy 'params.example.org' with binding 'params.example.org' denied request: failed to configure binding: no \
         params found for policy binding with `Deny` parameterNotFoundAction"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_json_patch_that_fails_refuses_the_write_unless_it_is_one_of_its_tests_that_fails() {
    let scene = Scene::start().await;
    let patch = |expression: &str| json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    let only = |name: &str| json!({"matchConditions": [{"name": "c", "expression": format!("object.metadata.name == '{name}'")}]});
    let failed = "[JSONPatch{op: 'test', path: '/data/a', value: 'other'}, JSONPatch{op: 'add', path: '/data/x', value: 'y'}]";
    bind_mutating(&scene, "a-test.example.org", &patch(failed), &only("tested")).await;
    let passed =
        "[JSONPatch{op: 'test', path: '/data/a', value: 'b'}, JSONPatch{op: 'remove', path: '/data/none'}]";
    bind_mutating(&scene, "b-remove.example.org", &patch(passed), &only("removed")).await;
    let tested = send(&scene.alice, "POST", MAPS, &map("tested"), 201).await;
    assert_eq!(tested["data"], json!({"a": "b"}));
    let refused = send(&scene.alice, "POST", MAPS, &map("removed"), 403).await;
    let message = refused["message"].as_str().unwrap();
    let cause = "denied request: JSON Patch: patch[1] (remove \"/data/none\"): the object has no such place";
    assert!(message.ends_with(cause), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_the_object_is_evaluated_again_if_it_allows_that() {
    let scene = Scene::start().await;
    let count = "[JSONPatch{op: 'add', path: '/data/n', value: string(int('n' in object.data ? object.data.n : '0') + 1)}]";
    let count = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": count}});
    bind_mutating(&scene, "a-once.example.org", &count, &json!({})).await;
    let once = send(&scene.alice, "POST", MAPS, &map("once"), 201).await;
    assert_eq!(once["data"]["n"], "1");
    bind_mutating(&scene, "b-again.example.org", &count, &json!({"reinvocationPolicy": "IfNeeded"})).await;
    let again = send(&scene.alice, "POST", MAPS, &map("again"), 201).await;
    assert_eq!(again["data"]["n"], "3", "as kube-apiserver");
}
