//! Tests of server-side apply beyond the recorded vectors: permissions, refusals, concurrent applies and field
//! ownership.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";
const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const OLD_GADGETS: &str = "/apis/toys.example.com/v1beta1/namespaces/default/gadgets";

#[allow(clippy::needless_pass_by_value, reason = "written out where it is called")]
fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "lab.example.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn at(name: &str) -> String {
    format!("{WIDGETS}/{name}")
}

/// Owners as `manager:operation`, each with its fields.
fn owners(object: &Value) -> Vec<(String, Value)> {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let name = |entry: &Value| format!("{}:{}", text(entry, "manager"), text(entry, "operation"));
    list.iter().map(|entry| (name(entry), entry["fieldsV1"].clone())).collect()
}

#[tokio::test]
async fn fifty_concurrent_patches_of_one_object_all_succeed() {
    let server = Server::of_widgets().await;
    let (code, _) = server.post(WIDGETS, &widget("a", json!({"labelsMap": {}}))).await;
    assert_eq!(code, 201);
    let patches = (0..50).map(|number| {
        let server = server.clone();
        tokio::spawn(async move {
            let change = json!({"spec": {"labelsMap": {format!("k{number}"): "v"}}});
            server.patch(&format!("{WIDGETS}/a"), "merge", &change).await.0
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        assert_eq!(patch.await.unwrap(), 200);
    }
    let (_, object) = server.get(&at("a")).await;
    assert_eq!(object["spec"]["labelsMap"].as_object().unwrap().len(), 50);
    assert_eq!(object["metadata"]["generation"], 51);
}

#[tokio::test]
async fn twenty_concurrent_appliers_create_one_object_and_each_owns_its_fields() {
    let server = Server::of_widgets().await;
    let applies = (0..20).map(|number| {
        let server = server.clone();
        tokio::spawn(async move {
            let config = widget("a", json!({"labelsMap": {format!("k{number}"): "v"}}));
            server.apply(&at("a"), &format!("m{number}"), &config).await.0
        })
    });
    let mut codes = Vec::new();
    for apply in applies.collect::<Vec<_>>() {
        codes.push(apply.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!((codes.len(), codes.iter().filter(|code| **code == 201).count()), (20, 1), "{codes:?}");
    let (_, object) = server.get(&at("a")).await;
    assert_eq!(object["spec"]["labelsMap"].as_object().unwrap().len(), 20);
    assert_eq!(owners(&object).len(), 20);
}

#[tokio::test]
async fn apply_without_create_permission_works_on_existing_objects() {
    let server = Server::of_widgets().await;
    let patcher = server.as_patcher();
    let (code, answer) = patcher.apply(&at("a"), "p", &widget("a", json!({"replicas": 1}))).await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("cannot create resource"), "{answer}");
    assert_eq!(server.get(&at("a")).await.0, 404);
    assert_eq!(server.post(WIDGETS, &widget("a", json!({}))).await.0, 201);
    let (code, answer) = patcher.apply(&at("a"), "p", &widget("a", json!({"replicas": 1}))).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn invalid_options_and_bodies_get_the_errors_of_kube_apiserver() {
    let server = Server::of_widgets().await;
    let header = "apiVersion: lab.example.io/v1\nkind: Widget\nmetadata:";
    let apply = "application/apply-patch+yaml";
    let merge = "application/merge-patch+json";
    let options = "PatchOptions.meta.k8s.io \"\" is invalid: ";
    let unknown_form = "the body of the request was in an unknown format - accepted media types include: \
                        application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let typed = "failed to create typed patch object (/a; lab.example.io/v1, Kind=Widget): ";
    let cases: Vec<(&str, &str, String, u16, String)> = vec![
        ("", apply, "{}".into(), 422, format!("{options}fieldManager: Required value: is required for apply patch")),
        ("?force=true", merge, "{}".into(), 422, format!("{options}force: Forbidden: may not be specified for non-apply patch")),
        ("?fieldManager=a%0ab", apply, "{}".into(), 422, format!("{options}fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)")),
        ("?fieldManager=a", "application/apply-patch+cbor", "x".into(), 415, unknown_form.into()),
        ("", "application/strategic-merge-patch+json", "{}".into(), 415, unknown_form.into()),
        ("?fieldManager=a", apply, String::new(), 400, "invalid object type: /, Kind=".into()),
        ("?fieldManager=a", apply, format!("{header} {{name: a, uid: q}}"), 409, "Operation cannot be fulfilled on widgets.lab.example.io \"a\": uid mismatch: the provided object specified uid q, and no existing object was found".into()),
        ("?fieldManager=a", apply, format!("{header} {{name: a, namespace: other}}"), 400, "the namespace of the provided object does not match the namespace sent on the request".into()),
        ("?fieldManager=a", apply, format!("{header} {{name: a, labels: {{a: 1}}}}"), 500, format!("{typed}.metadata.labels.a: expected string, got &value.valueUnstructured{{Value:1}}")),
        ("?fieldManager=a", apply, format!("{header} {{name: a, foo: 1}}"), 500, format!("{typed}.metadata.foo: field not declared in schema")),
    ];
    for (query, media, body, code, message) in cases {
        let headers = [("content-type", media)];
        let (found, answer) = server.send("PATCH", &format!("{WIDGETS}/a{query}"), &headers, &body).await;
        assert_eq!((found, answer["message"].as_str().unwrap()), (code, message.as_str()), "{query} {body}");
    }
    assert_eq!(server.get(&at("a")).await.0, 404);
}

#[tokio::test]
async fn preconditions_in_an_applied_configuration_are_checked() {
    let server = Server::of_widgets().await;
    let apply = |metadata: Value, replicas: i64| {
        let server = server.clone();
        let mut config = widget("a", json!({"replicas": replicas}));
        config["metadata"] = metadata;
        async move { server.apply(&at("a"), "m", &config).await }
    };
    // What it says of a revision means nothing while there is no object.
    let (code, made) = apply(json!({"name": "a", "resourceVersion": "44"}), 1).await;
    assert_eq!(code, 201, "{made}");
    let (code, answer) = apply(json!({"name": "a", "resourceVersion": "1"}), 2).await;
    assert_eq!((code, &answer["reason"]), (409, &json!("Conflict")));
    assert_eq!(answer["details"], json!({"name": "a", "group": "lab.example.io", "kind": "widgets"}));
    let (code, answer) = apply(json!({"name": "a", "uid": "zzz"}), 2).await;
    let text =
        "Widget.lab.example.io \"a\" is invalid: metadata.uid: Invalid value: \"zzz\": field is immutable";
    assert_eq!((code, answer["message"].as_str().unwrap()), (422, text));
    // The object is there, so its name need not be repeated.
    let (code, answer) = apply(json!({"resourceVersion": made["metadata"]["resourceVersion"]}), 2).await;
    assert_eq!((code, &answer["spec"]["replicas"]), (200, &json!(2)), "{answer}");
}

#[tokio::test]
async fn a_managed_fields_entry_is_compared_in_its_own_version() {
    let server = Server::start().await;
    let old = json!({"apiVersion": "toys.example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "a"},
        "spec": {"width": 3}});
    let (code, answer) = server.apply(&format!("{OLD_GADGETS}/a"), "old", &old).await;
    assert_eq!(code, 201, "{answer}");
    let new = |size: i64| {
        json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
            "spec": {"size": size}})
    };
    let (code, answer) = server.apply(&format!("{GADGETS}/a"), "new", &new(4)).await;
    let text = "Apply failed with 1 conflict: conflict with \"old\": .spec.width";
    assert_eq!((code, answer["message"].as_str().unwrap()), (409, text));
    let (code, answer) = server.apply(&format!("{GADGETS}/a"), "new", &new(3)).await;
    assert_eq!((code, owners(&answer).len()), (200, 2), "{answer}");
    // Who applied in the old version and goes on in the new one gives up what it no longer says.
    let bare = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
        "spec": {"colour": "red"}});
    let (code, _) = server.apply(&format!("{GADGETS}/a"), "new", &bare).await;
    assert_eq!(code, 200);
    let (code, answer) = server.apply(&format!("{GADGETS}/a"), "old", &bare).await;
    assert_eq!((code, &answer["spec"]), (200, &json!({"colour": "red"})), "{answer}");
}

#[tokio::test]
async fn every_write_has_a_field_manager_and_an_empty_change_is_no_write() {
    let server = Server::of_widgets().await;
    let agent = [("user-agent", "kubectl/v1.36.3 (linux/amd64)")];
    let body = widget("a", json!({"replicas": 1})).to_string();
    let (_, made) = server.send("POST", WIDGETS, &agent, &body).await;
    assert_eq!(owners(&made)[0].0, "kubectl:Update");
    // In this process a client is called as its user.
    let (_, patched) = server.patch(&at("a"), "merge", &json!({"spec": {"name": "n"}})).await;
    assert_eq!(owners(&patched)[1], ("tester:Update".to_owned(), json!({"f:spec": {"f:name": {}}})));
    let (code, same) = server.put(&at("a"), &patched).await;
    assert_eq!((code, &same), (200, &patched));
    let mut younger = patched.clone();
    younger["metadata"]["managedFields"][0]["time"] = json!("2001-01-01T00:00:00Z");
    let (code, same) = server.put(&at("a"), &younger).await;
    assert_eq!((code, &same), (200, &patched));
    let (code, deleted) = server.delete(&at("a")).await;
    assert_eq!(code, 200, "{deleted}");
}

#[tokio::test]
async fn malformed_managed_fields_are_a_bad_request() {
    let server = Server::of_widgets().await;
    let (_, made) = server.post(WIDGETS, &widget("a", json!({"replicas": 1}))).await;
    for owners in [json!("x"), json!([{"manager": 5}]), json!([{"time": "soon"}])] {
        let mut sent = made.clone();
        sent["metadata"]["managedFields"] = owners.clone();
        let (code, answer) = server.put(&at("a"), &sent).await;
        assert_eq!((code, &answer["reason"]), (400, &json!("BadRequest")), "{owners}: {answer}");
    }
    assert_eq!(server.get(&at("a")).await.1, made);
}

#[tokio::test]
async fn an_object_that_managed_fields_make_too_large_is_stored_without_them() {
    let server = Server::of_widgets().await;
    // A little under what the store takes; the owners, which repeat the keys, are beyond.
    let map: serde_json::Map<String, Value> =
        (0..4_200).map(|number| (format!("{number:0>200}"), json!("v".repeat(100)))).collect();
    let (code, made) = server.post(WIDGETS, &widget("a", json!({"labelsMap": map}))).await;
    assert_eq!(code, 201, "{}", made["message"]);
    assert_eq!(owners(&made), []);
    let (code, answer) = server.apply(&at("b"), "m", &widget("b", json!({"labelsMap": map}))).await;
    assert_eq!(code, 413, "{}", answer["message"]);
}

#[tokio::test]
async fn managed_fields_of_a_scale_and_its_object_agree() {
    let server = Server::of_widgets().await;
    let (_, made) = server.post(WIDGETS, &widget("a", json!({"replicas": 1, "name": "n"}))).await;
    assert_eq!(owners(&made)[0].0, "tester:Update");
    let path = format!("{}/scale", at("a"));
    let scale = |replicas: i64| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
            "spec": {"replicas": replicas}})
    };
    let (code, shown) = server.get(&path).await;
    assert_eq!((code, &shown["metadata"]["managedFields"]), (200, &Value::Null));
    let (code, answer) = server.apply(&path, "s", &scale(2)).await;
    let text = "Apply failed with 1 conflict: conflict with \"tester\" using autoscaling/v1: .spec.replicas";
    assert_eq!((code, answer["message"].as_str().unwrap()), (409, text));
    let headers = [("content-type", "application/apply-patch+yaml")];
    let forced = format!("{path}?fieldManager=s&force=true");
    let (code, answer) = server.send("PATCH", &forced, &headers, &scale(2).to_string()).await;
    assert_eq!((code, &answer["spec"]["replicas"]), (200, &json!(2)), "{answer}");
    let (_, object) = server.get(&at("a")).await;
    let entry = &object["metadata"]["managedFields"][0];
    let found = (&entry["manager"], &entry["subresource"], &entry["apiVersion"], entry.get("time"));
    assert_eq!(found, (&json!("s"), &json!("scale"), &json!("lab.example.io/v1"), None));
    assert_eq!(owners(&object)[1].1, json!({"f:spec": {".": {}, "f:defaulted": {}, "f:name": {}}}));
    // Any other write takes the number from who applied it, and then conflicts.
    let (code, _) = server.patch(&path, "merge", &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(code, 200);
    let (code, answer) = server.apply(&at("a"), "m", &widget("a", json!({"replicas": 7}))).await;
    let text = "Apply failed with 1 conflict: conflict with \"tester\" with subresource \"scale\" using \
                lab.example.io/v1: .spec.replicas";
    assert_eq!((code, answer["message"].as_str().unwrap()), (409, text));
    let missing = format!("{WIDGETS}/none/scale");
    let mut config = scale(1);
    config["metadata"]["name"] = json!("none");
    assert_eq!(server.apply(&missing, "s", &config).await.0, 404);
}
