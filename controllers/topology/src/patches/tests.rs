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
    apply_definitions(&class, &variables, &builtin, items)
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
        let builtin = json!({"cluster": {"name": "c1"}});
        let items = apply_definitions(&class, &variables, &builtin, vec![item]).unwrap();
        items[0].template["spec"]["template"]["spec"]["image"].clone()
    };
    assert_eq!(image(None), json!("base-v1.33.0-c1"));
    assert_eq!(image(Some("own")), json!("own-v1.33.0-c1"));
    // The condition is evaluated with the overrides, too.
    assert_eq!(image(Some("off")), json!("old"));
}

#[test]
fn a_condition_is_a_value_of_yaml() {
    let variables = BTreeMap::from([("image".to_owned(), json!("new"))]);
    for (condition, expected) in [
        ("true", true),
        ("\n  True\n", true),
        ("yes", true),
        ("{{ eq .image \"new\" }} # the new one", true),
        ("\"true\"", false),
        ("{{ .image }}", false),
        ("1", false),
        ("{{ if eq .image \"old\" }}true{{ end }}", false),
        ("true\n---\nfalse", true),
        ("--- false\n--- true", false),
        ("%YAML 1.1\n# first\n---\ntrue\n...\n]", true),
        ("\"true\n  ---\"", false),
    ] {
        assert_eq!(value::is_enabled(Some(condition), &variables), Ok(expected), "{condition:?}");
    }
    assert_eq!(value::is_enabled(None, &variables), Ok(true));
    assert!(value::is_enabled(Some("[true"), &variables).is_err());
}

#[test]
fn patches_of_servers_come_between_those_of_the_class() {
    let definition = |value: &str| {
        json!([{"selector": selector("ITemplate", &json!({"infrastructureCluster": true})), "jsonPatches": [
            {"op": "replace", "path": "/spec/template/spec/image", "valueFrom": {"template": value}}]}])
    };
    let class = class(&json!([
        {"name": "first", "definitions": definition("one")},
        {"name": "ext", "external": {"generatePatchesExtension": "e"}},
        {"name": "last", "definitions": definition("{{ .image }}")},
    ]));
    let variables = BTreeMap::from([("image".to_owned(), json!("last"))]);
    let items = || vec![item(Place::InfrastructureCluster, "ITemplate")];
    let patches = class.spec.patches.clone().unwrap();
    let mut patching = Patching::new(&class, &variables, &Value::Null, items());
    patching.apply_definitions(&patches[0]).unwrap();
    let generated = json!([
        {"op": "test", "path": "/spec/template/spec/image", "value": "one"},
        {"op": "add", "path": "/spec/template/spec/list/1", "value": "c"},
    ]);
    patching.apply_generated(&patches[1], 0, Generated::Operations(&generated)).unwrap();
    patching.apply_definitions(&patches[2]).unwrap();
    let spec = json!({"image": "last", "list": ["b", "c"]});
    assert_eq!(patching.items()[0].template["spec"]["template"]["spec"], spec);
    let error = patching.apply_generated(&patches[1], 0, Generated::Operations(&generated)).unwrap_err();
    assert!(error.to_string().starts_with("patch \"ext\": infrastructure cluster: operation 0: "), "{error}");
    assert!(patching.apply_generated(&patches[1], 1, Generated::Operations(&json!([]))).is_err());
    // Without servers, the definitions of the class alone are applied.
    let found = apply_definitions(&class, &variables, &Value::Null, items()).unwrap();
    assert_eq!(found[0].template["spec"]["template"]["spec"], json!({"image": "last", "list": ["b"]}));
}

#[test]
fn a_server_sees_the_variables_that_its_patch_declares_and_the_built_in_ones() {
    let mut class = class(&json!([{"name": "ext", "external": {"generatePatchesExtension": "e"}}]));
    let definition = |from: &str| json!({"from": from, "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}});
    let status = json!({"variables": [
        {"name": "both", "definitions": [definition("inline"), definition("ext")]},
        {"name": "image", "definitions": [definition("inline")]},
        {"name": "own", "definitions": [definition("ext")]},
        {"name": "builtin", "definitions": [definition("ext")]},
    ]});
    class.status = Some(serde_json::from_value(status).unwrap());
    let names = ["image", "own", "both", "builtin", "none"];
    let variables: BTreeMap<String, Value> =
        names.into_iter().map(|name| (name.to_owned(), json!("cluster"))).collect();
    let mut item = workers("w");
    item.variables = BTreeMap::from([("own".to_owned(), json!(1)), ("image".to_owned(), json!(2))]);
    let builtin = json!({"cluster": {"name": "c1"}});
    let plain = self::item(Place::InfrastructureCluster, "ITemplate");
    let patching = Patching::new(&class, &variables, &builtin, vec![item, plain]);
    let patch = &class.spec.patches.as_ref().unwrap()[0];
    let owned = |pairs: &[(&str, Value)]| -> Vec<(String, Value)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let of_cluster = || json!("cluster");
    let expected = [("both", of_cluster()), ("own", of_cluster()), ("builtin", builtin.clone())];
    assert_eq!(patching.variables(patch), owned(&expected));
    let own = json!({"machineDeployment": {"class": "w", "version": "v1.33.0"}});
    let of_item = |position: usize| patching.item_variables(patch, &patching.items()[position]);
    assert_eq!(of_item(0), owned(&[("own", json!(1)), ("builtin", own)]));
    assert!(of_item(1).is_empty());
}
