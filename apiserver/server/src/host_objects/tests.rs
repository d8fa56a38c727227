//! Tests of the objects in the store that have to do with the host cluster.

use std::collections::{BTreeSet, HashMap};

use apiserver_host::{HostNamespaces, SecretReferences};
use serde_json::{Value, json};

use super::gone::{GoneNamespaces, missing};
use super::references::add;

fn keys(names: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    names.iter().map(|(namespace, name)| ((*namespace).to_owned(), (*name).to_owned())).collect()
}

/// Returns the Secrets of an object in the namespace `n`.
fn references(kind: &str, spec: &Value) -> SecretReferences {
    let mut found = SecretReferences::default();
    add(kind, &json!({"metadata": {"namespace": "n", "name": "blue"}, "spec": spec}), &mut found);
    found
}

#[test]
fn c3_each_sort_of_reference_to_a_secret_is_found() {
    let table = [
        ("OpenStackCluster", json!({"identityRef": {"name": "a", "cloudName": "c"}})),
        (
            "OpenStackMachineTemplate",
            json!({"template": {"spec": {"identityRef": {"name": "a", "type": "Secret"}}}}),
        ),
        ("Machine", json!({"bootstrap": {"dataSecretName": "a"}})),
        ("KubeadmConfig", json!({"files": [{"contentFrom": {"secret": {"name": "a", "key": "k"}}}]})),
        ("KubeadmConfig", json!({"users": [{"passwdFrom": {"secret": {"name": "a", "key": "k"}}}]})),
        (
            "ClusterResourceSet",
            json!({"resources": [{"kind": "Secret", "name": "a"}, {"kind": "ConfigMap", "name": "b"}]}),
        ),
    ];
    for (kind, spec) in table {
        assert_eq!(references(kind, &spec).named, keys(&[("n", "a")]), "{kind} {spec}");
    }
    for spec in [
        json!({"identityRef": {"name": "a", "type": "ClusterIdentity"}}),
        json!({"bootstrap": {"dataSecretName": "../a"}}),
        json!({"identityRef": "a", "secret": ["a"]}),
    ] {
        assert_eq!(references("OpenStackMachine", &spec), SecretReferences::default(), "{spec}");
    }
}

#[test]
fn c3_only_a_shared_identity_names_a_secret_of_another_namespace() {
    let spec = json!({"secretRef": {"namespace": "other", "name": "a"}});
    assert_eq!(references("OpenStackClusterIdentity", &spec).named, keys(&[("other", "a")]));
    let stolen = json!({"identityRef": {"namespace": "other", "name": "a"}, "secretRef": {"namespace": "other", "name": "b"}});
    assert_eq!(references("OpenStackMachine", &stolen).named, keys(&[("n", "a")]));
    let derived = references("Cluster", &json!({})).derived;
    assert!(derived.is_superset(&keys(&[("n", "blue-ca"), ("n", "blue-kubeconfig")])), "{derived:?}");
}

/// Returns a client of a host that has the namespace `late`, and no other.
fn client() -> kube::Client {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let (code, body) = if request.uri().path().ends_with("/late") {
            (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}))
        } else {
            (
                404,
                json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": "no",
                "reason": "NotFound", "code": 404}),
            )
        };
        let response = http::Response::builder().status(code).header("content-type", "application/json");
        Ok::<_, std::convert::Infallible>(
            response.body(kube::client::Body::from(body.to_string().into_bytes())).unwrap(),
        )
    });
    kube::Client::new(service, "default")
}

#[tokio::test]
async fn c2_a_namespace_with_objects_that_the_host_does_not_have_is_gone() {
    let namespaces = HostNamespaces::new(client());
    namespaces.restore(HashMap::from([("team".to_owned(), json!({"metadata": {"name": "team"}}))]));
    let used = ["team", "late", "old"].map(str::to_owned);
    let found = missing(used.into(), &namespaces).await;
    assert_eq!(found, Some(BTreeSet::from(["old".to_owned()])), "the watch is behind with one");
    let gone = GoneNamespaces::default();
    assert_eq!(gone.names(&namespaces), None, "nothing is known at the start");
    gone.note(found);
    assert_eq!(gone.clone().names(&namespaces).unwrap().len(), 1);
    namespaces.restore(HashMap::from([("old".to_owned(), json!({"metadata": {"name": "old"}}))]));
    assert_eq!(gone.names(&namespaces), Some(BTreeSet::new()), "the host has it again");
    gone.note(None);
    assert_eq!(gone.names(&namespaces), None, "a comparison that failed proves nothing");
}
