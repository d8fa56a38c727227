//! Tests of patches.

use serde_json::json;

use super::*;

fn class(patches: &Value) -> ClusterClass {
    serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {
        "infrastructure": {"templateRef": {"apiVersion": "g/v1", "kind": "ITemplate", "name": "i"}},
        "controlPlane": {"templateRef": {"apiVersion": "g/v1", "kind": "PTemplate", "name": "p"}},
        "variables": [{"name": "image", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}},
            {"name": "disks", "required": false, "schema": {"openAPIV3Schema": {"type": "array"}}}],
        "patches": patches}}))
    .unwrap()
}

fn item(place: Place, kind: &str) -> Item {
    Item {
        place,
        template: json!({"apiVersion": "g/v1", "kind": kind, "metadata": {"name": "t"},
            "spec": {"template": {"spec": {"image": "old", "list": ["b"]}}}}),
        variables: BTreeMap::new(),
        builtin: Value::Null,
    }
}

fn workers(class: &str) -> Item {
    let place = Place::DeploymentInfrastructure { class: class.to_owned(), topology_name: "md-0".to_owned() };
    let mut item = item(place, "MTemplate");
    item.builtin = json!({"machineDeployment": {"class": class, "version": "v1.33.0"}});
    item
}

fn selector(kind: &str, matches: &Value) -> Value {
    json!({"apiVersion": "g/v1", "kind": kind, "matchResources": matches})
}

/// Applies one patch with these operations to the infrastructure of the Cluster, and returns its `spec.template`.
fn patched(operations: &Value) -> Result<Value, String> {
    let class = class(&json!([{"name": "one", "definitions": [
        {"selector": selector("ITemplate", &json!({"infrastructureCluster": true})), "jsonPatches": operations}]}]));
    let variables = BTreeMap::from([
        ("image".to_owned(), json!("new")),
        ("disks".to_owned(), json!([{"size": 5}])),
        ("foreign".to_owned(), json!(1)),
    ]);
    let builtin = json!({"cluster": {"name": "c1"}});
    let items = vec![item(Place::InfrastructureCluster, "ITemplate")];
    apply(&class, &variables, &builtin, items)
        .map(|items| items[0].template["spec"]["template"].clone())
        .map_err(|error| error.to_string())
}

#[test]
fn values_are_literals_variables_or_rendered_templates() {
    let path = "/spec/template/spec/image";
    for (source, expected) in [
        (json!({"value": {"a": 1}}), json!({"a": 1})),
        (json!({"valueFrom": {"variable": "image"}}), json!("new")),
        (json!({"valueFrom": {"variable": "disks[0].size"}}), json!(5)),
        (json!({"valueFrom": {"variable": "builtin.cluster.name"}}), json!("c1")),
        (
            json!({"valueFrom": {"template": "a: {{ .image }}\nb: {{ (index .disks 0).size }}"}}),
            json!({"a": "new", "b": 5}),
        ),
        (json!({"valueFrom": {"template": "{{ .foreign }}"}}), json!("<no value>")),
        (json!({"valueFrom": {"template": ""}}), Value::Null),
        (json!({"valueFrom": {"template": "a: 1\nb: 0644\na: 2"}}), json!({"a": 2, "b": 420})),
    ] {
        let mut operation = json!({"op": "replace", "path": path});
        operation.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let expected = json!({"spec": {"image": expected, "list": ["b"]}});
        assert_eq!(patched(&json!([operation])), Ok(expected), "{source}");
    }
}

#[test]
fn operations_follow_the_rules_of_lists_and_objects() {
    let spec = |operation: Value| patched(&json!([operation])).map(|template| template["spec"].clone());
    let add =
        |at: &str| spec(json!({"op": "add", "path": format!("/spec/template/spec/{at}"), "value": "x"}));
    assert_eq!(add("list/0"), Ok(json!({"image": "old", "list": ["x", "b"]})));
    assert_eq!(add("list/-"), Ok(json!({"image": "old", "list": ["b", "x"]})));
    assert_eq!(add("a~1b"), Ok(json!({"image": "old", "list": ["b"], "a/b": "x"})));
    assert!(add("list/1").unwrap_err().contains("a list can be changed at \"0\""));
    assert!(add("none/x").unwrap_err().contains("does not exist in the template"));
    let other = |op: &str, at: &str| spec(json!({"op": op, "path": at, "value": 1}));
    assert_eq!(other("remove", "/spec/template/spec/image"), Ok(json!({"list": ["b"]})));
    assert_eq!(
        other("remove", "/spec/template/spec/none").unwrap_err(),
        "patch \"one\": infrastructure cluster: definitions[0].jsonPatches[0]: path \"/spec/template/spec/none\" does not exist in the template, so remove cannot be applied: use add, or set the field in the template"
    );
    assert!(other("replace", "/spec/template/spec/none").is_err());
    assert!(other("replace", "/spec/template/spec/list/0").is_err());
    assert!(other("replace", "/metadata/name").unwrap_err().contains("must start with"));
}

#[test]
fn patches_change_only_the_spec_and_the_metadata_of_the_template() {
    let changes = json!([
        {"op": "add", "path": "/spec/other", "value": 1},
        {"op": "add", "path": "/spec/template/status", "value": 1},
        {"op": "add", "path": "/spec/template/metadata", "value": {"labels": {"a": "b"}, "name": "x"}},
        {"op": "add", "path": "/spec/template/spec/image", "value": 2}]);
    let expected = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"image": 2, "list": ["b"]}});
    assert_eq!(patched(&changes), Ok(expected));
}

#[test]
fn missing_variables_and_failing_templates_name_their_place() {
    for (from, expected) in [
        (json!({"variable": "none"}), "variable \"none\" has no value"),
        (json!({"variable": "disks[3]"}), "index 3 is not below the length 1"),
        (json!({"variable": "disks[x]"}), "is invalid"),
        (json!({"variable": "image.x"}), "the value before \"x\" is no object"),
        (json!({"variable": "builtin.cluster.uid"}), "\"uid\" is not set"),
        (json!({"template": "{{ .image.x }}"}), "can't evaluate field x in type string"),
        (json!({"template": "{{ fail \"no\" }}"}), "valueFrom.template:1: error calling fail: no"),
        (json!({"template": "a: b: c"}), "no YAML"),
    ] {
        let error =
            patched(&json!([{"op": "add", "path": "/spec/template/spec/x", "valueFrom": from}])).unwrap_err();
        assert!(error.starts_with("patch \"one\": infrastructure cluster: definitions[0]"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn selectors_choose_templates_by_kind_and_use() {
    let table = [
        (json!({"machineDeploymentClass": {"names": ["default-worker"]}}), true),
        (json!({"machineDeploymentClass": {"names": ["default-*"]}}), true),
        (json!({"machineDeploymentClass": {"names": ["*-worker"]}}), true),
        (json!({"machineDeploymentClass": {"names": ["*"]}}), true),
        (json!({"machineDeploymentClass": {"names": ["worker", "a-*"]}}), false),
        (json!({"machinePoolClass": {"names": ["*"]}}), false),
        (json!({"controlPlane": true, "infrastructureCluster": true}), false),
    ];
    for (matches, expected) in table {
        let selector = serde_json::from_value(selector("MTemplate", &matches)).unwrap();
        assert_eq!(select::selects(&selector, &workers("default-worker")), expected, "{matches}");
    }
    let of_plane = serde_json::from_value(selector("MTemplate", &json!({"controlPlane": true}))).unwrap();
    assert!(select::selects(&of_plane, &item(Place::ControlPlaneInfrastructureMachine, "MTemplate")));
    assert!(!select::selects(&of_plane, &item(Place::ControlPlaneInfrastructureMachine, "Other")));
}

#[test]
fn overrides_replace_whole_variables_of_their_item() {
    let class = class(&json!([{"name": "one", "enabledIf": "{{ ne .image \"off\" }}", "definitions": [{
        "selector": selector("MTemplate", &json!({"machineDeploymentClass": {"names": ["*"]}})),
        "jsonPatches": [{"op": "replace", "path": "/spec/template/spec/image",
            "valueFrom": {"template": "{{ .image }}-{{ .builtin.machineDeployment.version }}-{{ .builtin.cluster.name }}"}}]}]}]));
    let variables = BTreeMap::from([("image".to_owned(), json!("base"))]);
    let image = |image: Option<&str>| {
        let mut item = workers("w");
        item.variables = image.map(|image| ("image".to_owned(), json!(image))).into_iter().collect();
        let items = apply(&class, &variables, &json!({"cluster": {"name": "c1"}}), vec![item]).unwrap();
        items[0].template["spec"]["template"]["spec"]["image"].clone()
    };
    assert_eq!(image(None), json!("base-v1.33.0-c1"));
    assert_eq!(image(Some("own")), json!("own-v1.33.0-c1"));
    // The condition is evaluated with the overrides, too.
    assert_eq!(image(Some("off")), json!("old"));
}

#[test]
fn external_patches_are_refused() {
    let class = class(&json!([{"name": "ext", "external": {"generatePatchesExtension": "e"}}]));
    let error = apply(&class, &BTreeMap::new(), &Value::Null, Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "patch \"ext\": external patches are not supported: replace it by definitions"
    );
}
