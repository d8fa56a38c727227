//! Tests of objects that are decoded without their field managers.

use apiserver_types::Machine;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DynamicObject, ObjectList, PartialObjectMeta, WatchEvent};
use serde_json::{Value, json};

use super::*;

fn machine() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "annotations": {"managedFields": "kept", "a\"b": ""}, "labels": {"a": "b"},
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:clusterName": {}}}}],
            "name": "m", "resourceVersion": "7",
        },
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}},
        "status": {"phase": "Running"},
    })
}

fn without(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

fn decoded<K: DeserializeOwned>(text: &str) -> K {
    serde_json::from_str::<WithoutManagedFields<K>>(text).unwrap().0
}

#[test]
fn only_the_field_managers_of_the_object_itself_are_skipped() {
    let nested = json!({"metadata": {"managedFields": [1], "name": "n"}, "managedFields": 2});
    let object = json!({"metadata": {"managedFields": [{"a": [1]}], "name": "m", "metadata": nested},
        "spec": nested, "managedFields": 3});
    assert_eq!(decoded::<Value>(&object.to_string()), without(object.clone()));
    // A name with an escape is not a slice of the text, and the order of the fields does not matter.
    let text = r#"{"spec": 1, "meta\u0064ata": {"name": "m", "managed\u0046ields": null, "uid": "u"}}"#;
    assert_eq!(decoded::<Value>(text), json!({"spec": 1, "metadata": {"name": "m", "uid": "u"}}));
    for same in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{}}"#] {
        assert_eq!(decoded::<Value>(same), serde_json::from_str::<Value>(same).unwrap());
    }
}

#[test]
fn each_type_of_object_is_decoded_as_before_without_the_field_managers() {
    let (whole, brief) = (machine().to_string(), without(machine()).to_string());
    assert_eq!(decoded::<Machine>(&whole), serde_json::from_str::<Machine>(&brief).unwrap());
    let partial = decoded::<PartialObjectMeta<DynamicObject>>(&whole);
    assert_eq!(partial.types.unwrap().kind, "Machine");
    assert_eq!((partial.metadata.name.as_deref(), partial.metadata.managed_fields), (Some("m"), None));
    let dynamic = decoded::<DynamicObject>(&whole);
    assert_eq!((dynamic.metadata.managed_fields, &dynamic.data["spec"]), (None, &machine()["spec"]));
    // The metadata of this type is optional.
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace"});
    assert_eq!(decoded::<Namespace>(&namespace.to_string()), Namespace::default());
    namespace["metadata"] = machine()["metadata"].clone();
    let namespace = decoded::<Namespace>(&namespace.to_string());
    assert_eq!((namespace.metadata.name.as_deref(), namespace.metadata.managed_fields), (Some("m"), None));
}

#[test]
fn events_and_lists_are_decoded_without_the_field_managers() {
    let object = machine().to_string();
    for text in [
        format!(r#"{{"type":"MODIFIED","object":{object}}}"#),
        format!(r#"{{"object":{object},"type":"MODIFIED"}}"#),
    ] {
        let event: WatchEvent<WithoutManagedFields<Machine>> = serde_json::from_str(&text).unwrap();
        let WatchEvent::Modified(WithoutManagedFields(machine)) = event else { panic!("{text}") };
        assert_eq!((machine.metadata.managed_fields, machine.spec.cluster_name), (None, "c".to_owned()));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [machine(), machine()]});
    let list: ObjectList<WithoutManagedFields<Machine>> = serde_json::from_str(&list.to_string()).unwrap();
    assert!(list.items.len() == 2 && list.items.iter().all(|it| it.meta().managed_fields.is_none()));
}

#[test]
fn an_object_that_cannot_be_decoded_is_an_error() {
    for text in [r#"{"metadata": 1}"#, r#"{"metadata": {"managedFields": [}}"#, "[]"] {
        assert!(serde_json::from_str::<WithoutManagedFields<Machine>>(text).is_err(), "{text}");
    }
}

#[test]
fn it_is_the_same_resource() {
    let of = |namespace| {
        (WithoutManagedFields::<Machine>::url_path(&(), namespace), Machine::url_path(&(), namespace))
    };
    for (found, expected) in [of(None), of(Some("n"))] {
        assert_eq!(found, expected);
    }
    assert!(!WithoutManagedFields::<Machine>::metadata_api());
    assert!(WithoutManagedFields::<PartialObjectMeta<Machine>>::metadata_api());
}
