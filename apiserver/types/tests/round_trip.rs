//! Round-trip tests of typical objects: nothing is lost, renamed or added when a type reads and writes them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_types::{
    Cluster, ClusterResourceSet, ClusterResourceSetBinding, DESCRIPTORS, ExtensionConfig, IPAddress,
    IPAddressClaim, KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane, KubeadmControlPlaneTemplate,
    Machine, MachineOperation, OpenStackCluster, OpenStackMachine,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn again<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    serde_json::to_value(typed).unwrap()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_kind_survives_a_round_trip() {
    let cluster = read(include_str!("objects/cluster.json"));
    let machine = read(include_str!("objects/machine.json"));
    let openstack_cluster = read(include_str!("objects/openstack_cluster.json"));
    let openstack_machine = read(include_str!("objects/openstack_machine.json"));
    let operation = read(include_str!("objects/machine_operation.json"));
    assert_eq!(again::<Cluster>(&cluster), cluster);
    assert_eq!(again::<Machine>(&machine), machine);
    assert_eq!(again::<OpenStackCluster>(&openstack_cluster), openstack_cluster);
    assert_eq!(again::<OpenStackMachine>(&openstack_machine), openstack_machine);
    assert_eq!(again::<MachineOperation>(&operation), operation);
}

/// Reads an object into its type and writes it again.
type Again = fn(&Value) -> Value;

/// Kinds of bootstrap, control plane, addons, addresses and extensions.
const PROVIDERS: &[(Again, &str)] = &[
    (again::<KubeadmConfig>, include_str!("objects/kubeadm_config.json")),
    (again::<KubeadmConfigTemplate>, include_str!("objects/kubeadm_config_template.json")),
    (again::<KubeadmControlPlane>, include_str!("objects/kubeadm_control_plane.json")),
    (again::<KubeadmControlPlaneTemplate>, include_str!("objects/kubeadm_control_plane_template.json")),
    (again::<ClusterResourceSet>, include_str!("objects/cluster_resource_set.json")),
    (again::<ClusterResourceSetBinding>, include_str!("objects/cluster_resource_set_binding.json")),
    (again::<IPAddressClaim>, include_str!("objects/ip_address_claim.json")),
    (again::<IPAddress>, include_str!("objects/ip_address.json")),
    (again::<ExtensionConfig>, include_str!("objects/extension_config.json")),
];

#[test]
fn provider_kinds_survive_a_round_trip() {
    for (again, text) in PROVIDERS {
        let object = read(text);
        assert_eq!(again(&object), object);
    }
}

/// The schema knows every field of the same objects.
#[test]
fn the_schema_knows_every_field_of_the_objects() {
    fn unknown(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
        if schema.get("x-kubernetes-preserve-unknown-fields").is_some() || path.ends_with(".metadata") {
            return;
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            let at = format!("{path}.{name}");
            match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                Some(inner) => unknown(inner, field, &at, found),
                None => found.push(at),
            }
        }
        for item in value.as_array().into_iter().flatten() {
            unknown(&schema["items"], item, path, found);
        }
    }
    let mut found = Vec::new();
    for text in [
        include_str!("objects/cluster.json"),
        include_str!("objects/machine.json"),
        include_str!("objects/openstack_cluster.json"),
        include_str!("objects/openstack_machine.json"),
        include_str!("objects/machine_operation.json"),
    ]
    .iter()
    .chain(PROVIDERS.iter().map(|(_, text)| text))
    {
        let object = read(text);
        let descriptor = DESCRIPTORS.iter().find(|found| object["kind"] == found.kind).unwrap();
        assert_eq!(object["apiVersion"], format!("{}/{}", descriptor.group, descriptor.version));
        unknown(&apiserver_types::schema(descriptor).unwrap(), &object, descriptor.kind, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn an_object_always_has_api_version_and_kind() {
    let bare: Cluster = serde_json::from_value(json!({"metadata": {"name": "c"}})).unwrap();
    let expected = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c"}, "spec": {}});
    assert_eq!(serde_json::to_value(&bare).unwrap(), expected);
    assert_eq!(bare, Cluster::new("c", Default::default()));
    let new = serde_json::to_value(MachineOperation::default()).unwrap();
    assert_eq!(
        (&new["apiVersion"], &new["kind"], &new["metadata"]),
        (&json!("capstan.dev/v1alpha1"), &json!("MachineOperation"), &json!({}))
    );
}

#[test]
fn conditions_are_found_by_type() {
    let cluster: OpenStackCluster =
        serde_json::from_str(include_str!("objects/openstack_cluster.json")).unwrap();
    assert!(cluster.condition("NetworkReady").unwrap().holds());
    assert!(!cluster.condition("Ready").unwrap().holds());
    assert_eq!(cluster.condition("RouterReady"), None);
    assert_eq!(OpenStackCluster::default().condition("Ready"), None);
}

#[test]
fn an_unknown_enum_value_is_refused_and_named() {
    for (pointer, word) in
        [("/spec/action", "Explode"), ("/spec/reboot/type", "soft"), ("/status/phase", "running")]
    {
        let mut operation = read(include_str!("objects/machine_operation.json"));
        *operation.pointer_mut(pointer).unwrap() = json!(word);
        let error = serde_json::from_value::<MachineOperation>(operation).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown variant `{word}`")), "{pointer}: {error}");
    }
}
