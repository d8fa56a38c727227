//! Tests of OpenAPI documents, compared with those of a kube-apiserver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_machinery::open_api;
use apiserver_machinery::resource::Registry;
use serde_json::{Value, json};

/// Responses of a kube-apiserver 1.36 about Widgets, as the conformance suite recorded them.
const RECORDED: &str = include_str!("../../../tests/conformance/goldens/openapi.json");

const ITEM: &str = "/apis/lab.example.io/v1/namespaces/{namespace}/widgets/{name}";

fn registry() -> Registry {
    Registry::new(tests_widget::resources().unwrap())
}

/// The recorded operation at a path of the v3 document.
fn recorded(path: &str, method: &str) -> Value {
    let goldens: Value = serde_json::from_str(RECORDED).unwrap();
    let pointer = format!("/paths/{}/{method}", path.replace('/', "~1"));
    let steps = goldens["openapi-v3-operations"].as_array().unwrap();
    steps.iter().find_map(|step| step["body"].get(&pointer)).unwrap().clone()
}

/// Name and type of each parameter.
fn parameters(operation: &Value, of_type: &str) -> Vec<Value> {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    parameters.map(|parameter| json!([parameter["name"], parameter.pointer(of_type).unwrap()])).collect()
}

#[test]
fn a_deletion_has_the_parameters_and_the_body_of_upstream() {
    let expected = recorded(ITEM, "delete");
    let v3 = open_api::v3(&registry(), "lab.example.io", "v1");
    let delete = &v3["paths"][ITEM]["delete"];
    assert_eq!(parameters(delete, "/schema/type"), parameters(&expected, "/schema/type"));
    assert_eq!(delete["requestBody"], expected["requestBody"]);
    assert_eq!(delete["responses"], expected["responses"]);
    let v2 = open_api::v2(&registry());
    let delete = &v2["paths"][ITEM]["delete"];
    let mut listed = delete["parameters"].as_array().unwrap().clone();
    let body = listed.pop().unwrap();
    assert_eq!(parameters(&json!({"parameters": listed}), "/type"), parameters(&expected, "/schema/type"));
    assert_eq!((&body["name"], body.get("required")), (&json!("body"), None));
}

#[test]
fn a_patch_has_the_parameters_of_upstream() {
    let v3 = open_api::v3(&registry(), "lab.example.io", "v1");
    let expected = recorded(ITEM, "patch");
    let patch = &v3["paths"][ITEM]["patch"];
    assert_eq!(parameters(patch, "/schema/type"), parameters(&expected, "/schema/type"));
    assert_eq!(patch["requestBody"]["required"], json!(true));
}
