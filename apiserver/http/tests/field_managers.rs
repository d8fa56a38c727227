//! Tests of `managedFields` in responses: within a write their sets are text, and responses must show them as trees.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";
const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const OLD_GADGETS: &str = "/apis/toys.example.com/v1beta1/namespaces/default/gadgets";

/// The sets of an object's owners, of which there must be some; each must be a tree.
#[track_caller]
fn sets(answer: &(u16, Value)) -> Vec<Value> {
    let owners =
        answer.1["metadata"]["managedFields"].as_array().unwrap_or_else(|| panic!("no owners: {answer:?}"));
    let sets: Vec<Value> = owners.iter().map(|owner| owner["fieldsV1"].clone()).collect();
    assert!(!sets.is_empty() && sets.iter().all(Value::is_object), "{answer:?}");
    sets
}

/// Returns a widget with more fields than a set needs to be shared by objects.
fn widget(name: &str) -> Value {
    let labels: serde_json::Map<_, _> =
        (0..12).map(|number| (format!("label-{number}"), json!("a"))).collect();
    json!({"apiVersion": "lab.example.io/v1", "kind": "Widget", "metadata": {"name": name, "labels": labels},
        "spec": {"labelsMap": {"a": "1"}}})
}

#[tokio::test]
async fn every_write_returns_field_sets_as_json_objects() {
    let server = Server::of_widgets().await;
    let (at, dry) = (format!("{WIDGETS}/a"), "?dryRun=All");
    sets(&server.post(&format!("{WIDGETS}{dry}"), &widget("a")).await);
    let made = server.post(WIDGETS, &widget("a")).await;
    let first = sets(&made);
    assert_eq!(sets(&server.get(&at).await), first);
    let change = json!({"metadata": {"annotations": {"a": "b"}}});
    sets(&server.patch(&format!("{at}{dry}"), "merge", &change).await);
    let patched = server.patch(&at, "merge", &change).await;
    assert_ne!(sets(&patched), first);
    assert_eq!(server.patch(&at, "merge", &change).await, patched, "nothing is changed");
    let add = json!([{"op": "add", "path": "/metadata/annotations/c", "value": "d"}]);
    sets(&server.patch(&format!("{at}{dry}"), "json", &add).await);
    sets(&server.patch(&at, "json", &add).await);
    let mut config = widget("a");
    config["spec"]["labelsMap"] = json!({"b": "2"});
    sets(&server.apply(&at, "applier&dryRun=All", &config).await);
    let applied = server.apply(&at, "applier", &config).await;
    sets(&applied);
    assert_eq!(server.apply(&at, "applier", &config).await, applied, "nothing is changed");
    assert_eq!(server.put(&at, &applied.1).await, applied, "nothing is changed");
    let mut held = applied.1;
    held["metadata"]["finalizers"] = json!(["lab.example.io/held"]);
    sets(&server.put(&at, &held).await);
    sets(&server.delete(&format!("{at}{dry}")).await);
    sets(&server.delete(&at).await);
    sets(&server.delete(&at).await);
    let freed = server.patch(&at, "merge", &json!({"metadata": {"finalizers": null}})).await;
    sets(&freed);
    assert_eq!(server.get(&at).await.0, 404);
}

#[tokio::test]
async fn every_version_returns_field_sets_as_json_objects() {
    let server = Server::start().await;
    let (old, new) = (format!("{OLD_GADGETS}/a"), format!("{GADGETS}/a"));
    let gadget = json!({"apiVersion": "toys.example.com/v1beta1", "kind": "Gadget", "metadata": {"name": "a"},
        "spec": {"width": 3}});
    sets(&server.post(OLD_GADGETS, &gadget).await);
    sets(&server.patch(&old, "merge", &json!({"spec": {"width": 4}})).await);
    sets(&server.patch(&new, "merge", &json!({"spec": {"size": 5}})).await);
    let shown = server.get(&old).await;
    assert_eq!(server.put(&old, &shown.1).await, shown, "nothing is changed");
    let mut more = shown.1;
    more["spec"]["width"] = json!(6);
    sets(&server.put(&format!("{old}?dryRun=All"), &more).await);
    sets(&server.put(&old, &more).await);
    sets(&server.apply(&old, "applier&force=true", &gadget).await);
}

#[tokio::test]
async fn a_field_set_that_is_sent_as_a_string_is_ignored() {
    let server = Server::of_widgets().await;
    let hostile =
        "{}}],\"name\":\"b\"},\"spec\":{\"labelsMap\":{\"x\":\"y\"}},\"more\":{\"a\":[{\"b\":{\"c\":{}";
    for text in ["{}", "{\"f:spec\":{}}", hostile] {
        let mut sent = widget("a");
        sent["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update",
            "apiVersion": "lab.example.io/v1", "fieldsType": "FieldsV1", "fieldsV1": text}]);
        let made = server.post(WIDGETS, &sent).await;
        assert_eq!(made.0, 201, "{made:?}");
        assert!(sets(&made).iter().any(|set| set.pointer("/f:spec/f:labelsMap").is_some()), "{made:?}");
        let mut again = made.1.clone();
        again["metadata"]["managedFields"] = sent["metadata"]["managedFields"].clone();
        again["metadata"]["annotations"] = json!({"text": text});
        let written = server.put(&format!("{WIDGETS}/a"), &again).await;
        assert_eq!((written.0, &written.1["spec"]), (200, &made.1["spec"]), "{written:?}");
        assert_eq!(sets(&written)[0].pointer("/f:spec"), sets(&made)[0].pointer("/f:spec"));
        let replace = json!([{"op": "replace", "path": "/metadata/managedFields", "value": sent["metadata"]["managedFields"]}]);
        let patched = server.patch(&format!("{WIDGETS}/a"), "json", &replace).await;
        assert_eq!(sets(&patched), sets(&written));
        assert_eq!(server.get(&format!("{WIDGETS}/a")).await, patched);
        assert_eq!(server.delete(&format!("{WIDGETS}/a")).await.0, 200);
    }
}
