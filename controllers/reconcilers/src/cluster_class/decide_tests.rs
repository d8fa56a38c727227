//! Tests of the decision.

use apiserver_types::RemediationTemplateRef;
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::*;

fn class(spec: &Value) -> ClusterClass {
    let reference =
        json!({"templateRef": {"apiVersion": "a.example/v1", "kind": "FooTemplate", "name": "t"}});
    let mut whole = json!({"infrastructure": reference, "controlPlane": reference});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "c", "namespace": "ns", "uid": "u"}, "spec": whole,
    }))
    .unwrap()
}

fn template(name: &str, version: &str, state: State) -> Template {
    let reference = RemediationTemplateRef {
        api_version: format!("a.example/{version}"),
        kind: "FooTemplate".to_owned(),
        name: name.to_owned(),
    };
    Template { reference, state }
}

fn found(owners: Vec<OwnerReference>) -> State {
    let resource = ApiResource {
        group: "a.example".to_owned(),
        version: "v2".to_owned(),
        api_version: "a.example/v2".to_owned(),
        kind: "FooTemplate".to_owned(),
        plural: "footemplates".to_owned(),
    };
    let metadata = ObjectMeta { owner_references: Some(owners), ..ObjectMeta::default() };
    State::Found(Box::new(metadata), resource)
}

fn outcome(class: &ClusterClass, templates: &[Template]) -> Outcome {
    match decide(class, templates, &[]) {
        Step::Report(outcome) => outcome,
        step @ Step::Own(_) => panic!("{step:?}"),
    }
}

#[test]
fn templates_that_exist_get_their_owner_before_a_missing_one_is_reported() {
    let class = class(&json!({}));
    let owner = ownership::shared(&class);
    let mut templates = [
        template("a", "v2", State::Missing),
        template("b", "v2", found(vec![owner.clone()])),
        template("c", "v2", found(Vec::new())),
        template("d", "v9", State::NotServed),
    ];
    assert_eq!(decide(&class, &templates, &[]), Step::Own(2));
    templates[2].state = found(vec![owner]);
    let expected = "FooTemplate ns/a does not exist. Create it, or correct the reference in the ClusterClass\n\
                    FooTemplate ns/d: this kind is not served here in a.example/v9. Correct the reference in the \
                    ClusterClass";
    assert_eq!(outcome(&class, &templates).references, References::Missing(expected.to_owned()));
}

#[test]
fn a_class_joins_other_owners_and_replaces_its_predecessor() {
    let class = class(&json!({}));
    let owner = ownership::shared(&class);
    assert_eq!((owner.controller, owner.block_owner_deletion), (None, None));
    let of = |api_version: &str, kind: &str, uid: &str| OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        uid: uid.to_owned(),
        ..owner.clone()
    };
    let old = of("cluster.x-k8s.io/v1beta1", "ClusterClass", "u");
    let predecessor = of("cluster.x-k8s.io/v1beta2", "ClusterClass", "former");
    let cluster = of("cluster.x-k8s.io/v1beta2", "Cluster", "other");
    let foreign = of("example.com/v1", "ClusterClass", "foreign");
    for due in [old, predecessor] {
        let state = found(vec![cluster.clone(), due.clone(), foreign.clone()]);
        assert_eq!(decide(&class, &[template("a", "v2", state.clone())], &[]), Step::Own(0));
        let State::Found(metadata, _) = state else { panic!() };
        let expected = [cluster.clone(), foreign.clone(), owner.clone()];
        assert_eq!(owners(&metadata, owner.clone()), expected);
    }
}

#[test]
fn references_to_older_versions_have_a_line_each() {
    let class = class(&json!({}));
    let owned = || found(vec![ownership::shared(&class)]);
    let latest = template("a", "v2", owned());
    assert_eq!(outcome(&class, std::slice::from_ref(&latest)).references, References::Latest);
    let templates = [latest, template("b", "v1", owned()), template("c", "v1", owned())];
    let expected =
        "* FooTemplate b: current: v1, latest: v2\n* FooTemplate c: current: v1, latest: v2".to_owned();
    assert_eq!(outcome(&class, &templates).references, References::Outdated(expected));
}

#[test]
fn inline_variables_are_published_by_name_with_their_definition() {
    let schema = json!({"openAPIV3Schema": {"type": "string", "default": "x"}});
    let metadata = json!({"labels": {"a": "b"}});
    let class = class(&json!({"variables": [
        {"name": "z", "required": true, "schema": schema, "deprecatedV1Beta1Metadata": metadata},
        {"name": "a", "required": false, "schema": schema},
    ]}));
    let found = serde_json::to_value(outcome(&class, &[]).variables.unwrap()).unwrap();
    let expected = json!([
        {"name": "a", "definitionsConflict": false, "definitions": [
            {"from": "inline", "required": false, "schema": schema},
        ]},
        {"name": "z", "definitionsConflict": false, "definitions": [
            {"from": "inline", "required": true, "schema": schema, "deprecatedV1Beta1Metadata": metadata},
        ]},
    ]);
    assert_eq!(found, expected);
}

#[test]
fn the_report_has_the_variables_that_servers_declare() {
    let class = class(&json!({}));
    let schema = json!({"openAPIV3Schema": {"type": "string"}});
    let variable = json!([{"name": "size", "required": false, "schema": schema}]);
    let variables = Ok(serde_json::from_value(variable).unwrap());
    let declared = [Declared { patch: "ext".to_owned(), variables }];
    let Step::Report(outcome) = decide(&class, &[], &declared) else { panic!() };
    let names: Vec<String> = outcome.variables.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["size"]);
    let declared = [Declared { patch: "ext".to_owned(), variables: Err("no answer".to_owned()) }];
    let Step::Report(outcome) = decide(&class, &[], &declared) else { panic!() };
    assert_eq!(outcome.variables.unwrap_err(), "patch \"ext\": no answer");
}
