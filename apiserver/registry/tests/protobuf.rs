//! Tests of the kinds that typed clients send in protobuf, with hand-written bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_machinery::protobuf;
use apiserver_schema::field_errors::FieldPath;
use serde_json::{Value, json};

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(u8::try_from(number % 128).unwrap() + 128);
        number /= 128;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field * 8), varint(value)].concat()
}

fn part(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field * 8 + 2), varint(u64::try_from(value.len()).unwrap()), value.to_vec()].concat()
}

/// Decodes a message of `kind`, and checks that the schema knows every decoded field.
fn decoded(api_version: &str, kind: &str, raw: &[u8]) -> Value {
    let registry = apiserver_registry::registry();
    let resource = registry.resources().iter().find(|resource| resource.kind == kind).unwrap();
    let envelope = [part(1, [part(1, api_version), part(2, kind)].concat()), part(2, raw)].concat();
    let body = [b"k8s\0".to_vec(), envelope].concat();
    let mut object = protobuf::decode(&body, kind, resource.strategy.protobuf().unwrap()).unwrap();
    assert_eq!(resource.schema.prune(&mut object, &FieldPath::default()), Vec::<String>::new());
    object
}

fn metadata() -> Vec<u8> {
    part(1, [part(1, "a"), part(3, "ns"), part(8, "")].concat())
}

/// 2026-11-18T11:06:40Z
const MOMENT: u64 = 1_795_000_000;

#[test]
fn namespaces_and_secrets_are_decoded() {
    let raw = [metadata(), part(2, part(1, "kubernetes")), part(3, part(1, ""))].concat();
    let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"finalizers": ["kubernetes"]}, "status": {}});
    assert_eq!(decoded("v1", "Namespace", &raw), expected);
    let raw = [
        metadata(),
        part(2, [part(1, "k"), part(2, "hunter2")].concat()),
        part(3, "Opaque"),
        part(4, [part(1, "p"), part(2, "plain")].concat()),
        number(5, 0),
    ];
    let expected = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "ns"},
        "data": {"k": "aHVudGVyMg=="}, "type": "Opaque", "stringData": {"p": "plain"}, "immutable": false});
    assert_eq!(decoded("v1", "Secret", &raw.concat()), expected);
}

#[test]
fn events_are_decoded() {
    let reference = |fields: [&str; 7]| -> Vec<u8> {
        (1..).zip(fields).flat_map(|(number, text)| part(number, text)).collect()
    };
    let raw = [
        metadata(),
        part(2, reference(["Machine", "ns", "m1", "u", "cluster.x-k8s.io/v1beta2", "7", "spec"])),
        part(3, "Rebooted"),
        part(4, "it did"),
        part(5, [part(1, "capstan"), part(2, "h")].concat()),
        part(6, number(1, MOMENT)),
        part(7, number(1, MOMENT + 1)),
        number(8, 2),
        part(9, "Normal"),
        part(10, [number(1, MOMENT), number(2, 123_456_789)].concat()),
        part(11, [number(1, 3), part(2, number(1, MOMENT))].concat()),
        part(12, "Reboot"),
        part(13, reference(["Cluster", "ns", "c", "", "", "", ""])),
        part(14, "capstan.dev/x"),
        part(15, "x-1"),
    ];
    let expected = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a", "namespace": "ns"},
        "involvedObject": {"kind": "Machine", "namespace": "ns", "name": "m1", "uid": "u",
            "apiVersion": "cluster.x-k8s.io/v1beta2", "resourceVersion": "7", "fieldPath": "spec"},
        "reason": "Rebooted", "message": "it did", "source": {"component": "capstan", "host": "h"},
        "firstTimestamp": "2026-11-18T11:06:40Z", "lastTimestamp": "2026-11-18T11:06:41Z", "count": 2,
        "type": "Normal", "eventTime": "2026-11-18T11:06:40.123456Z",
        "series": {"count": 3, "lastObservedTime": "2026-11-18T11:06:40.000000Z"}, "action": "Reboot",
        "related": {"kind": "Cluster", "namespace": "ns", "name": "c"},
        "reportingComponent": "capstan.dev/x", "reportingInstance": "x-1"});
    assert_eq!(decoded("v1", "Event", &raw.concat()), expected);
}

#[test]
fn leases_are_decoded() {
    let spec = [
        part(1, ""),
        number(2, 15),
        part(3, number(1, MOMENT)),
        part(4, [number(1, MOMENT), number(2, 1_000)].concat()),
        number(5, 0),
        part(6, "OldestEmulationVersion"),
        part(7, "b"),
    ];
    let raw = [metadata(), part(2, spec.concat())].concat();
    let expected = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "acquireTime": "2026-11-18T11:06:40.000000Z",
            "renewTime": "2026-11-18T11:06:40.000001Z", "leaseTransitions": 0,
            "strategy": "OldestEmulationVersion", "preferredHolder": "b"}});
    assert_eq!(decoded("coordination.k8s.io/v1", "Lease", &raw), expected);
}

#[test]
fn roles_and_bindings_are_decoded() {
    let version = "rbac.authorization.k8s.io/v1";
    let rule =
        [part(1, "get"), part(1, "list"), part(2, ""), part(3, "pods"), part(4, "a"), part(5, "/x")].concat();
    let selector = [
        part(1, [part(1, "k"), part(2, "v")].concat()),
        part(2, [part(1, "a"), part(2, "In"), part(3, "b")].concat()),
    ];
    let raw = [metadata(), part(2, rule), part(3, part(1, selector.concat()))].concat();
    let rules = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"],
        "nonResourceURLs": ["/x"]}]);
    let expected = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": "a", "namespace": "ns"},
        "rules": rules, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"k": "v"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}});
    assert_eq!(decoded(version, "ClusterRole", &raw), expected);
    let raw = [
        metadata(),
        part(
            2,
            [part(1, "User"), part(2, "rbac.authorization.k8s.io"), part(3, "alice"), part(4, "")].concat(),
        ),
        part(3, [part(1, "rbac.authorization.k8s.io"), part(2, "Role"), part(3, "r")].concat()),
    ];
    let expected = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": {"name": "a", "namespace": "ns"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    assert_eq!(decoded(version, "RoleBinding", &raw.concat()), expected);
}

#[test]
fn hosted_kinds_have_no_protobuf_form() {
    let registry = apiserver_registry::registry();
    for resource in registry.resources().iter().filter(|resource| resource.hosted) {
        assert!(resource.strategy.protobuf().is_none(), "{}", resource.kind);
    }
}
