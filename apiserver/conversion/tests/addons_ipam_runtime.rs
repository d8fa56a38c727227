//! Tests of conversion with typical resource sets, addresses and extensions, in their older versions and in v1beta2.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_conversion::conversion;
use serde_json::{Value, json};

fn whole(group: &str, version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = format!("{group}/{version}").into();
    object["kind"] = kind.into();
    if object.get("metadata").is_none() {
        object["metadata"] = json!({"name": "a", "namespace": "ns"});
    }
    object
}

/// Asserts that each of two objects is the conversion of the other.
fn same((group, kind, version): (&str, &str, &str), older: Value, stored: Value) {
    let conversion = conversion(group, kind, version).unwrap();
    let (older, stored) = (whole(group, version, kind, older), whole(group, "v1beta2", kind, stored));
    assert_eq!(conversion.stored(older.clone()), stored, "to the stored version");
    assert_eq!(conversion.served(stored), older, "from the stored version");
}

fn old_condition() -> Value {
    json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T06:00:00Z"}])
}

fn new_condition() -> Value {
    json!([{"type": "Paused", "status": "False", "reason": "NotPaused", "message": "", "lastTransitionTime": "2026-11-21T06:00:00Z"}])
}

#[test]
fn conditions_move_between_their_old_and_new_fields() {
    for (group, kind, version) in [
        ("addons.cluster.x-k8s.io", "ClusterResourceSet", "v1beta1"),
        ("ipam.cluster.x-k8s.io", "IPAddressClaim", "v1beta1"),
        ("runtime.cluster.x-k8s.io", "ExtensionConfig", "v1alpha1"),
    ] {
        same(
            (group, kind, version),
            json!({"status": {"conditions": old_condition(), "v1beta2": {"conditions": new_condition()}}}),
            json!({"status": {"conditions": new_condition(), "deprecated": {"v1beta1": {"conditions": old_condition()}}}}),
        );
    }
}

#[test]
fn specs_are_the_same_in_every_version() {
    let set = json!({"spec": {"strategy": "Reconcile", "clusterSelector": {"matchLabels": {"cni": "calico"}},
        "resources": [{"kind": "ConfigMap", "name": "calico"}]}});
    let binding = json!({"spec": {"clusterName": "a", "bindings": [{"clusterResourceSetName": "cni", "resources": [
        {"kind": "ConfigMap", "name": "calico", "applied": true, "hash": "sha256:0", "lastAppliedTime": "2026-11-21T06:00:00Z"}]}]}});
    let address = json!({"spec": {"address": "10.0.0.7", "prefix": 24, "gateway": "10.0.0.1", "claimRef": {"name": "a"},
        "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"}}});
    let extension = json!({"spec": {"clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}, "caBundle": "QQ=="},
        "namespaceSelector": {}, "settings": {"a": "b"}},
        "status": {"handlers": [{"name": "h", "failurePolicy": "Fail", "timeoutSeconds": 10,
            "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterCreate"}}]}});
    for (group, kind, version, object) in [
        ("addons.cluster.x-k8s.io", "ClusterResourceSet", "v1beta1", &set),
        ("addons.cluster.x-k8s.io", "ClusterResourceSetBinding", "v1beta1", &binding),
        ("ipam.cluster.x-k8s.io", "IPAddress", "v1beta1", &address),
        ("ipam.cluster.x-k8s.io", "IPAddress", "v1alpha1", &address),
        ("runtime.cluster.x-k8s.io", "ExtensionConfig", "v1alpha1", &extension),
    ] {
        same((group, kind, version), object.clone(), object.clone());
    }
}

/// v1alpha1 has no field for the cluster, and uses a label.
#[test]
fn a_claim_names_its_cluster_by_a_label_in_v1alpha1() {
    let kind = ("ipam.cluster.x-k8s.io", "IPAddressClaim", "v1alpha1");
    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "p"});
    let labelled = json!({"name": "a", "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
    same(
        kind,
        json!({"metadata": labelled, "spec": {"poolRef": pool}}),
        json!({"metadata": labelled, "spec": {"poolRef": pool, "clusterName": "c"}}),
    );
    let by_annotation = json!({"name": "a", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
        "annotations": {"conversion.cluster.x-k8s.io/cluster-name-label-set": "false"}});
    same(
        kind,
        json!({"metadata": by_annotation, "spec": {"poolRef": pool}}),
        json!({"metadata": {"name": "a"}, "spec": {"poolRef": pool, "clusterName": "c"}}),
    );
    same(kind, json!({"spec": {"poolRef": pool}}), json!({"spec": {"poolRef": pool}}));
}

/// v1alpha1 has no new conditions. They are kept when a client of v1alpha1 writes.
#[test]
fn a_claim_keeps_fields_that_v1alpha1_lacks() {
    let (group, kind) = ("ipam.cluster.x-k8s.io", "IPAddressClaim");
    let conversion = conversion(group, kind, "v1alpha1").unwrap();
    let stored = whole(
        group,
        "v1beta2",
        kind,
        json!({"spec": {"poolRef": {"name": "p"}},
        "status": {"conditions": new_condition(), "addressRef": {"name": "x"}}}),
    );
    let mut older = conversion.served(stored.clone());
    assert_eq!(older["status"], json!({"addressRef": {"name": "x"}}));
    assert_eq!(conversion.stored(older.clone()), stored);
    older["status"]["addressRef"]["name"] = json!("y");
    let again = conversion.stored(older);
    assert_eq!(again["status"], json!({"conditions": new_condition(), "addressRef": {"name": "y"}}));
}
