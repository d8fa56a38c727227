//! Tests of the kinds of bootstrap, control plane, addons, addresses and extensions: whole objects in every served
//! version, in all steps between a request and the store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::store::validate_metadata;
use apiserver_schema::field_errors::FieldPath;
use serde_json::{Value, json};

const OBJECTS: [&str; 9] = [
    include_str!("../../types/tests/objects/kubeadm_config.json"),
    include_str!("../../types/tests/objects/kubeadm_config_template.json"),
    include_str!("../../types/tests/objects/kubeadm_control_plane.json"),
    include_str!("../../types/tests/objects/kubeadm_control_plane_template.json"),
    include_str!("../../types/tests/objects/cluster_resource_set.json"),
    include_str!("../../types/tests/objects/cluster_resource_set_binding.json"),
    include_str!("../../types/tests/objects/ip_address_claim.json"),
    include_str!("../../types/tests/objects/ip_address.json"),
    include_str!("../../types/tests/objects/extension_config.json"),
];

fn objects() -> impl Iterator<Item = Value> {
    OBJECTS.iter().map(|text| serde_json::from_str(text).unwrap())
}

/// Returns the versions of an object's kind, the stored one first.
fn versions(registry: &Registry, object: &Value) -> Vec<Arc<Resource>> {
    let resources = registry.resources().iter();
    resources.filter(|resource| object["kind"] == resource.kind.as_str()).map(Arc::clone).collect()
}

/// Prunes and defaults an object, as the server does with a request in this version.
fn received(resource: &Resource, mut object: Value) -> Value {
    let unknown = resource.schema.prune(&mut object, &FieldPath::default());
    assert_eq!(unknown, Vec::<String>::new(), "{} {}", resource.kind, resource.version);
    resource.schema.fill_in(&mut object);
    object
}

fn errors(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = validate_metadata(resource, object, old);
    errors.extend(resource.schema.validate(object, old, &FieldPath::default()));
    errors.extend(resource.strategy.validate(object, old));
    errors.iter().map(ToString::to_string).collect()
}

fn prepared(resource: &Resource, mut object: Value, old: Option<&Value>) -> Value {
    resource.strategy.prepare(&mut object, old);
    object
}

#[test]
fn good_objects_are_admitted_in_every_version() {
    let registry = apiserver_registry::registry();
    for object in objects() {
        let versions = versions(&registry, &object);
        assert!(versions.len() > 1, "{}", object["kind"]);
        let stored = &versions[0];
        let good = prepared(stored, received(stored, object), None);
        assert_eq!(errors(stored, &good, None), Vec::<String>::new(), "new {}", stored.kind);
        for older in &versions[1..] {
            let what = format!("{} {}", older.kind, older.version);
            let conversion = older.conversion.as_ref().unwrap();
            let seen = received(older, conversion.served(good.clone()).unwrap());
            let checked = older.schema.validate(&seen, None, &FieldPath::default());
            assert_eq!(checked, [], "{what}: {seen}");
            // A client of the older version writes what it read. Nothing changes, and there is no error.
            let again = prepared(stored, conversion.stored(seen).unwrap(), Some(&good));
            assert_eq!(again, good, "{what}");
            assert_eq!(errors(stored, &again, Some(&good)), Vec::<String>::new(), "{what}");
        }
    }
}

/// Kind, a change of its valid object, and the error of the update.
type Change<'a> = (&'a str, &'a str, Value, &'a str);

#[test]
fn changes_of_immutable_fields_name_the_field() {
    let registry = apiserver_registry::registry();
    let table: [Change<'_>; 7] = [
        (
            "KubeadmControlPlane",
            "/spec/kubeadmConfigSpec/clusterConfiguration/certificatesDir",
            json!("/other"),
            "spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot be modified",
        ),
        (
            "KubeadmControlPlane",
            "/spec/version",
            json!("v1.36.0"),
            "spec.version: Forbidden: cannot update Kubernetes version from v1.34.1 to v1.36.0",
        ),
        (
            "KubeadmControlPlane",
            "/spec/kubeadmConfigSpec/clusterConfiguration/dns/imageTag",
            json!("v1.11.3"),
            "spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Forbidden: cannot migrate CoreDNS up to '1.11.3' from '1.12.1': cannot migrate up to '1.11.3' from '1.12.1'",
        ),
        (
            "ClusterResourceSet",
            "/spec/strategy",
            json!("ApplyOnce"),
            "spec.strategy: Invalid value: \"ApplyOnce\": field is immutable",
        ),
        (
            "ClusterResourceSetBinding",
            "/spec/clusterName",
            json!("b"),
            "spec.clusterName: Invalid value: \"b\": field is immutable",
        ),
        (
            "IPAddressClaim",
            "/spec/poolRef/name",
            json!("q"),
            "spec: Forbidden: IPAddressClaim spec is immutable",
        ),
        ("IPAddress", "/spec/prefix", json!(25), "spec: Forbidden: IPAddress spec is immutable"),
    ];
    for (kind, pointer, value, expected) in table {
        let object = objects().find(|object| object["kind"] == kind).unwrap();
        let resource = &versions(&registry, &object)[0];
        let old = prepared(resource, received(resource, object), None);
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        let new = prepared(resource, new, Some(&old));
        assert_eq!(errors(resource, &new, Some(&old)), [expected], "{kind} {pointer}");
    }
}
