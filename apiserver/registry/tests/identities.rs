//! Tests of the permission to use OpenStackClusterIdentities, over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_http::Settings;
use serde_json::{Value, json};
use server::Server;

const PATH: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/ns";
const IMAGE: &str = "0c2ee0a5-3b0b-4a60-a2b4-2f6f0b6d7d11";
const USE: &str = "use openstackclusteridentities";
const MAY: [&str; 6] = [
    "create openstackclusters",
    "update openstackclusters",
    "patch openstackclusters",
    "create openstackmachinetemplates",
    "create openstackservers",
    "create openstackfloatingippools",
];

async fn start() -> Server {
    Server::start_with(Settings { requires_use: true, ..Settings::default() }).await
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"type": kind, "name": name, "cloudName": "openstack"})
}

fn cluster(name: &str, identity: &Value) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackCluster",
        "metadata": {"name": name}, "spec": {"identityRef": identity}})
}

#[tokio::test]
async fn r4_4_an_object_that_names_an_identity_needs_the_permission_to_use_it() {
    let server = start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("ClusterIdentity", "shared"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{answer}");
    let expected = "openstackclusters.infrastructure.cluster.x-k8s.io \"c\" is forbidden: spec.identityRef: \
        openstackclusteridentities.infrastructure.cluster.x-k8s.io \"shared\" is forbidden: User \"bob\" cannot use \
        resource \"openstackclusteridentities\" in API group \"infrastructure.cluster.x-k8s.io\" at the cluster scope. \
        The server requires it, since identities.requireUse is set. Bind a ClusterRole with the verb use on \
        openstackclusteridentities \"shared\" to the user, or name another identity or a Secret";
    assert_eq!(answer["message"], expected);
    let (code, answer) = server.with(&MAY, "APPLY", &format!("{clusters}/c?fieldManager=t"), &named).await;
    assert_eq!(code, 403, "{answer}");
    let may = [MAY.as_slice(), &[USE]].concat();
    assert_eq!(server.with(&may, "POST", &clusters, &named).await.0, 201);
    let own = cluster("own", &reference("Secret", "shared"));
    assert_eq!(server.with(&MAY, "POST", &clusters, &own).await.0, 201);
}

#[tokio::test]
async fn r4_4_an_update_needs_it_only_for_a_new_reference() {
    let server = start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let path = format!("{clusters}/c");
    let made = server.admin("POST", &clusters, &cluster("c", &reference("ClusterIdentity", "shared"))).await;
    assert_eq!(made.0, 201, "{made:?}");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &labelled).await;
    assert_eq!(code, 200, "{answer}");
    let another = json!({"spec": {"identityRef": {"name": "another"}}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &another).await;
    assert_eq!(code, 403, "{answer}");
    let bastion = json!({"enabled": true, "spec": {"flavor": "f", "image": {"id": IMAGE},
        "identityRef": reference("ClusterIdentity", "another")}});
    let bastion = json!({"spec": {"bastion": bastion}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &bastion).await;
    assert_eq!(code, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains(": spec.bastion.spec.identityRef: "), "{answer}");
    let may = [MAY.as_slice(), &[USE]].concat();
    assert_eq!(server.with(&may, "PATCH", &path, &another).await.0, 200);
}

#[tokio::test]
async fn r4_4_every_kind_with_a_reference_is_covered() {
    let server = start().await;
    let identity = reference("ClusterIdentity", "shared");
    let machine = json!({"flavor": "f", "image": {"id": IMAGE}, "identityRef": identity});
    let table = [
        ("v1beta1", "OpenStackMachineTemplate", json!({"template": {"spec": machine}})),
        ("v1alpha1", "OpenStackServer", {
            let mut server = machine.clone();
            server["ports"] = json!([{}]);
            server["sshKeyName"] = json!("k");
            server
        }),
        ("v1alpha1", "OpenStackFloatingIPPool", json!({"identityRef": identity, "reclaimPolicy": "Delete"})),
    ];
    for (version, kind, spec) in table {
        let group = format!("infrastructure.cluster.x-k8s.io/{version}");
        let path = format!("/apis/{group}/namespaces/ns/{}s", kind.to_lowercase());
        let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let (code, answer) = server.with(&MAY, "POST", &path, &object).await;
        assert_eq!(code, 403, "{kind}: {answer}");
        let may = [MAY.as_slice(), &[USE]].concat();
        let (code, answer) = server.with(&may, "POST", &path, &object).await;
        assert_eq!(code, 201, "{kind}: {answer}");
    }
}

#[tokio::test]
async fn a_secret_that_the_user_cannot_read_is_no_identity_of_its_object() {
    let settings = Settings { requires_secret_read: None, ..Settings::default() };
    let server = Server::start_with(settings).await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("Secret", "openrc"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 403, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(": spec.identityRef: secrets \"openrc\" is forbidden: "), "{message}");
    assert!(
        message.contains(
            "see identities.requireSecretRead. Bind a Role with the verb get on secrets \"openrc\""
        ),
        "{message}"
    );
    let may = [MAY.as_slice(), &["get secrets"]].concat();
    assert_eq!(server.with(&may, "POST", &clusters, &named).await.0, 201);
    // A reference that stays needs no permission, and a new one does.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.with(&MAY, "PATCH", &format!("{clusters}/c"), &labelled).await.0, 200);
    let another = json!({"spec": {"identityRef": {"name": "another"}}});
    assert_eq!(server.with(&MAY, "PATCH", &format!("{clusters}/c"), &another).await.0, 403);
    // The setting is about Secrets only.
    let shared = cluster("shared", &reference("ClusterIdentity", "shared"));
    assert_eq!(server.with(&MAY, "POST", &clusters, &shared).await.0, 201);
}

#[tokio::test]
async fn a_reference_cannot_name_the_namespace_of_a_secret() {
    let server = Server::start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let mut identity = reference("Secret", "openrc");
    identity["namespace"] = json!("tenant-b");
    let named = cluster("c", &identity);
    let strict = format!("{clusters}?fieldValidation=Strict");
    let (code, answer) = server.with(&MAY, "POST", &strict, &named).await;
    assert_eq!(code, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("identityRef.namespace"), "{answer}");
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["spec"]["identityRef"].get("namespace"), None, "{answer}");
}

#[tokio::test]
async fn r4_4_without_the_setting_no_permission_is_needed() {
    let server = Server::start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("ClusterIdentity", "shared"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 201, "{answer}");
}
