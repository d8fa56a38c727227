//! Tests of the variables of a topology: defaults, overrides and validation.

use super::*;

fn class() -> Value {
    json!({"spec": {"variables": [
        {"name": "size", "required": true, "schema": {"openAPIV3Schema": {"type": "integer", "default": 1,
            "maximum": 9, "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only grows"},
                {"rule": "self != 7", "messageExpression": "'no ' + string(self)"}]}}},
        {"name": "image", "required": true, "schema": {"openAPIV3Schema": {"type": "string", "minLength": 2}}},
        {"name": "net", "required": false, "schema": {"openAPIV3Schema": {"type": "object",
            "required": ["zone"],
            "properties": {"mtu": {"type": "integer", "default": 1500}, "zone": {"type": "string", "enum": ["a", "b"]}}}}}]}})
}

fn cluster(values: &Value) -> Value {
    json!({"spec": {"topology": {"variables": values}}})
}

fn settled(mut cluster: Value, old: Option<&Value>, class: &Value) -> (Value, Vec<String>) {
    let errors = default_and_validate(&mut cluster, old, &Definitions::of(class));
    (cluster["spec"]["topology"].take(), errors.iter().map(ToString::to_string).collect())
}

#[test]
fn defaults_are_appended_to_given_variables_and_merged_into_them() {
    let given = json!([{"name": "net", "value": {"zone": "a"}}, {"name": "image", "value": "ab"}]);
    let (topology, errors) = settled(cluster(&given), None, &class());
    assert_eq!(errors, Vec::<String>::new());
    let expected = json!([{"name": "net", "value": {"zone": "a", "mtu": 1500}},
        {"name": "image", "value": "ab"}, {"name": "size", "value": 1}]);
    assert_eq!(topology["variables"], expected);
    // A second pass changes nothing.
    assert_eq!(settled(cluster(&expected), None, &class()).0["variables"], expected);
    // Without defaults and values there is no list.
    let plain =
        json!({"spec": {"variables": [{"name": "a", "schema": {"openAPIV3Schema": {"type": "string"}}}]}});
    assert_eq!(settled(json!({"spec": {"topology": {}}}), None, &plain), (json!({}), vec![]));
}

#[test]
fn overrides_get_nested_defaults_but_no_new_variables() {
    let pool = |name: &str, value: &Value| json!({"name": name, "class": "w", "variables": {"overrides": [{"name": "net", "value": value}]}});
    let mut new = cluster(&json!([{"name": "image", "value": "ab"}]));
    new["spec"]["topology"]["controlPlane"] =
        json!({"variables": {"overrides": [{"name": "net", "value": {"zone": "b"}}]}});
    new["spec"]["topology"]["workers"] = json!({
        "machineDeployments": [{"name": "x", "class": "w"}, pool("y", &json!({"zone": "c"}))],
        "machinePools": [pool("z", &json!({}))]});
    let (topology, errors) = settled(new, None, &class());
    assert_eq!(
        topology["controlPlane"]["variables"]["overrides"],
        json!([{"name": "net", "value": {"zone": "b", "mtu": 1500}}])
    );
    assert_eq!(
        errors,
        [
            r#"spec.topology.workers.machineDeployments[y].variables.overrides[net].value.zone: Unsupported value: "{\"mtu\":1500,\"zone\":\"c\"}": supported values: "a", "b""#,
            "spec.topology.workers.machinePools[z].variables.overrides[net].value.zone: Required value",
        ]
    );
}

#[test]
fn values_must_match_the_schemas_of_the_class() {
    let found = |values: &Value| settled(cluster(values), None, &class()).1;
    assert_eq!(
        found(&json!([])),
        ["spec.topology.variables: Required value: required variable \"image\" must be set"]
    );
    // Defaulting finds the error first, and validation again.
    let undefined = r#"spec.topology.variables[other]: Invalid value: "\"x\"": variable is not defined"#;
    assert_eq!(
        found(
            &json!([{"name": "image", "value": "a"}, {"name": "size", "value": 1}, {"name": "other", "value": "x"}])
        ),
        [
            undefined,
            r#"spec.topology.variables[image].value: Invalid value: "\"a\"": should be at least 2 chars long"#,
            undefined
        ]
    );
    let twice = found(&json!([{"name": "image", "value": "ab"}, {"name": "image", "value": "ac"}]));
    let said =
        r#"spec.topology.variables[image]: Invalid value: "\"ac\"": variable "image" is set more than once"#;
    assert_eq!(twice, [said, said]);
    let image = json!({"name": "image", "value": "ab"});
    for (value, expected) in [
        (
            json!({"name": "image", "value": 1}),
            r#"[image].value: Invalid value: "1": must be of type string: "integer""#,
        ),
        (
            json!({"name": "size", "value": 10}),
            r#"[size].value: Invalid value: "10": should be less than or equal to 9"#,
        ),
        (json!({"name": "size", "value": 7}), r#"[size].value: Invalid value: "7": no 7"#),
        (
            json!({"name": "net", "value": {"zone": "a", "mtu": "x"}}),
            r#"[net].value.mtu: Invalid value: "{\"mtu\":\"x\",\"zone\":\"a\"}": mtu in body must be of type integer: "string""#,
        ),
        (
            json!({"name": "net", "value": {"zone": "a", "x": {"y": 1}}}),
            r#"[net]: Invalid value: "{\"mtu\":1500,\"x\":{\"y\":1},\"zone\":\"a\"}": failed validation: "x" field(s) are not specified in the variable schema of variable "net""#,
        ),
    ] {
        let values = if value["name"] == "image" { json!([value]) } else { json!([image, value]) };
        assert_eq!(found(&values), [format!("spec.topology.variables{expected}")], "{values}");
    }
}

#[test]
fn rules_see_the_old_value_and_also_refuse_unchanged_values() {
    let with =
        |size: i64| cluster(&json!([{"name": "image", "value": "ab"}, {"name": "size", "value": size}]));
    let found = |new: i64, old: i64| settled(with(new), Some(&with(old)), &class()).1;
    assert_eq!(found(5, 4), Vec::<String>::new());
    assert_eq!(found(4, 5), [r#"spec.topology.variables[size].value: Invalid value: "4": only grows"#]);
    assert_eq!(found(7, 7), [r#"spec.topology.variables[size].value: Invalid value: "7": no 7"#]);
}

#[test]
fn variable_definitions_in_the_status_take_precedence() {
    let variable = |conflict: bool| {
        let inline = &class()["spec"]["variables"][1];
        json!({"name": "extra", "definitionsConflict": conflict, "definitions": [
            {"from": "patch", "required": true, "schema": inline["schema"]}]})
    };
    let mut collected = class();
    collected["metadata"] = json!({"generation": 2});
    collected["status"] = json!({"observedGeneration": 2, "variables": [variable(false)],
        "conditions": [{"type": "VariablesReady", "status": "True"}]});
    let values = cluster(&json!([{"name": "extra", "value": "a"}]));
    let found = |class: &Value| settled(values.clone(), None, class).1;
    assert_eq!(
        found(&collected),
        [r#"spec.topology.variables[extra].value: Invalid value: "\"a\"": should be at least 2 chars long"#]
    );
    let mut contradicting = collected.clone();
    contradicting["status"]["variables"] = json!([variable(true), {"name": "b", "definitions": []}]);
    let said = "spec.topology.variables: Invalid value: \"[Name: extra,Name: b]\": variable definitions in the ClusterClass not valid: [variable \"extra\" has conflicting definitions, variable \"b\" has no definitions]";
    assert_eq!(found(&contradicting), [said, said]);
    // Variables are unknown if the status is out of date, or if extensions define them.
    let mut unknown = [collected.clone(), collected.clone(), collected, class()];
    unknown[0]["metadata"]["generation"] = json!(3);
    unknown[1]["status"]["conditions"][0]["status"] = json!("False");
    unknown[2]["status"]["conditions"] = json!([]);
    unknown[3]["spec"]["patches"] = json!([{"external": {"discoverVariablesExtension": "e"}}]);
    for class in unknown {
        assert!(matches!(Definitions::of(&class), Definitions::Unknown), "{class}");
    }
}

#[test]
fn malformed_variables_are_left_unchanged() {
    for values in [json!("x"), json!([1]), json!([{"value": 1}]), json!({"a": 1})] {
        let (topology, errors) = settled(cluster(&values), None, &class());
        assert_eq!((&topology["variables"], errors), (&values, vec![]));
    }
}
