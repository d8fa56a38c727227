//! Tests of requests in older versions with values that the stored version cannot represent or does not require.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const CORE: &str = "cluster.x-k8s.io";
const PLANE: &str = "controlplane.cluster.x-k8s.io";

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/ns/{plural}")
}

/// Returns an object of a kind in v1beta1, with a spec if one is given.
fn older(group: &str, kind: &str, spec: Option<&Value>) -> Value {
    let mut object =
        json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "metadata": {"name": "a"}});
    if let Some(spec) = spec {
        object["spec"] = spec.clone();
    }
    object
}

fn machine() -> Value {
    json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine", "name": "m"}})
}

fn check() -> Value {
    json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}, "unhealthyConditions": [],
        "remediationTemplate": {"apiVersion": "g.x/v1", "kind": "K", "name": "n"}})
}

fn plane() -> Value {
    json!({"version": "v1.34.1", "kubeadmConfigSpec": {}, "machineTemplate": {"infrastructureRef":
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachineTemplate", "name": "n"}}})
}

/// Returns the causes of a rejection, each as `field: message`.
fn causes((code, answer): (u16, Value)) -> Vec<String> {
    assert_eq!(code, 422, "{answer}");
    let causes = answer["details"]["causes"].as_array().unwrap();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap().to_owned();
    causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect()
}

#[tokio::test]
async fn an_invalid_duration_is_refused_and_not_replaced_by_the_default() {
    let server = Server::start().await;
    let template = json!({"clusterName": "c", "template": {"spec": machine()}});
    for (kind, plural, spec, field) in [
        ("Machine", "machines", machine(), "nodeDeletionTimeout"),
        ("MachinePool", "machinepools", template, "template.spec.nodeDeletionTimeout"),
        ("MachineHealthCheck", "machinehealthchecks", check(), "nodeStartupTimeout"),
    ] {
        let collection = path(CORE, "v1beta1", plural);
        let mut wrong = older(CORE, kind, Some(&spec));
        let (parent, name) = field.rsplit_once('.').unwrap_or(("", field));
        let place = if parent.is_empty() { String::new() } else { format!("/{}", parent.replace('.', "/")) };
        wrong["spec"].pointer_mut(&place).unwrap()[name] = json!("1d");
        let expected =
            [format!("spec.{field}: Invalid value: \"1d\": time: unknown unit \"d\" in duration \"1d\"")];
        assert_eq!(causes(server.admin("POST", &collection, &wrong).await), expected);
        assert_eq!(causes(server.apply(&format!("{collection}/a"), "m", &wrong).await), expected);
        let right = older(CORE, kind, Some(&spec));
        assert_eq!(server.admin("POST", &collection, &right).await.0, 201, "{kind}");
        let patched =
            server.admin("PATCH", &format!("{collection}/a"), &json!({"spec": wrong["spec"]})).await;
        assert_eq!(causes(patched), expected);
    }
}

#[tokio::test]
async fn a_reference_with_an_invalid_api_version_is_refused() {
    let server = Server::start().await;
    let mut spec = machine();
    spec["infrastructureRef"]["apiVersion"] = json!("a/b/c");
    let posted =
        server.admin("POST", &path(CORE, "v1beta1", "machines"), &older(CORE, "Machine", Some(&spec))).await;
    let problem = "Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c";
    assert_eq!(causes(posted), [format!("spec.infrastructureRef.apiVersion: {problem}")]);
}

#[tokio::test]
async fn a_control_plane_requires_an_infrastructure_reference() {
    let server = Server::start().await;
    let collection = path(PLANE, "v1beta1", "kubeadmcontrolplanes");
    let mut empty = older(PLANE, "KubeadmControlPlane", Some(&plane()));
    empty["spec"]["machineTemplate"]["infrastructureRef"] = json!({"kind": "K"});
    let cause = |field: &str| {
        format!("spec.machineTemplate.infrastructure.{field}: Invalid value: \"\": cannot be empty")
    };
    assert_eq!(causes(server.admin("POST", &collection, &empty).await), [cause("apiGroup"), cause("name")]);
    let good = older(PLANE, "KubeadmControlPlane", Some(&plane()));
    assert_eq!(server.admin("POST", &collection, &good).await.0, 201);
    let cleared = json!({"spec": {"machineTemplate": {"infrastructureRef":
        {"apiVersion": null, "kind": null, "name": null, "namespace": null}}}});
    let patched = server.admin("PATCH", &format!("{collection}/a"), &cleared).await;
    assert_eq!(causes(patched), [cause("apiGroup"), cause("kind"), cause("name")]);
    let (code, answer) = server.admin("PATCH", &format!("{collection}/a"), &json!({"spec": null})).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test]
async fn an_object_without_a_spec_is_validated_like_one_with_an_empty_spec() {
    let server = Server::start().await;
    for (group, kind, plural) in [
        (PLANE, "KubeadmControlPlane", "kubeadmcontrolplanes"),
        (CORE, "MachineHealthCheck", "machinehealthchecks"),
        ("ipam.cluster.x-k8s.io", "IPAddress", "ipaddresses"),
    ] {
        let (code, answer) =
            server.admin("POST", &path(group, "v1beta1", plural), &older(group, kind, None)).await;
        assert_eq!(code, 422, "{kind}: {answer}");
    }
    // A Cluster can be empty, and clients of the stored version can still remove its finalizers.
    let mut cluster = older(CORE, "Cluster", None);
    cluster["metadata"]["finalizers"] = json!(["a.b/c"]);
    let (code, made) = server.admin("POST", &path(CORE, "v1beta1", "clusters"), &cluster).await;
    assert_eq!((code, made.get("spec")), (201, None), "{made}");
    let one = format!("{}/a", path(CORE, "v1beta2", "clusters"));
    assert_eq!(server.admin("DELETE", &one, &Value::Null).await.0, 200);
    let (code, answer) = server.admin("PATCH", &one, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn references_are_in_the_namespace_of_their_object() {
    let server = Server::start().await;
    for (group, kind, plural, spec, reference) in [
        (CORE, "MachineHealthCheck", "machinehealthchecks", check(), "/spec/remediationTemplate"),
        (
            PLANE,
            "KubeadmControlPlane",
            "kubeadmcontrolplanes",
            plane(),
            "/spec/machineTemplate/infrastructureRef",
        ),
    ] {
        let object = older(group, kind, Some(&spec));
        let (code, made) = server.admin("POST", &path(group, "v1beta1", plural), &object).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made.pointer(reference).unwrap()["namespace"], "ns", "{made}");
    }
}

#[tokio::test]
async fn references_are_served_with_the_contract_version() {
    let server = Server::start().await;
    let collection = path(CORE, "v1beta1", "machines");
    let (code, made) = server.admin("POST", &collection, &older(CORE, "Machine", Some(&machine()))).await;
    let expected = json!("infrastructure.cluster.x-k8s.io/v1beta2");
    assert_eq!((code, &made["spec"]["infrastructureRef"]["apiVersion"]), (201, &expected), "{made}");
    let (_, read) = server.admin("GET", &format!("{collection}/a"), &Value::Null).await;
    assert_eq!(read, made);
}

#[tokio::test]
async fn an_integer_that_the_stored_version_cannot_hold_is_refused() {
    let server = Server::start().await;
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let collection = path(infrastructure, "v1beta1", "openstackclusters");
    let mut spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "networkMTU": 3_000_000_000_u32,
        "controlPlaneEndpoint": {"host": "h"}});
    let cluster = older(infrastructure, "OpenStackCluster", Some(&spec));
    let problem = "spec.networkMTU: Invalid value: 3000000000: must be an integer of 32 bits";
    assert_eq!(causes(server.admin("POST", &collection, &cluster).await), [problem]);
    spec["networkMTU"] = json!(1500);
    let cluster = older(infrastructure, "OpenStackCluster", Some(&spec));
    let (code, made) = server.admin("POST", &collection, &cluster).await;
    assert_eq!(code, 201, "{made}");
}

#[tokio::test]
async fn an_int_or_string_of_another_type_has_three_causes() {
    let server = Server::start().await;
    let mut spec = check();
    spec["maxUnhealthy"] = json!(true);
    let posted = server
        .admin(
            "POST",
            &path(CORE, "v1beta1", "machinehealthchecks"),
            &older(CORE, "MachineHealthCheck", Some(&spec)),
        )
        .await;
    let wrong = "spec.maxUnhealthy: Invalid value: \"boolean\": spec.maxUnhealthy in body must be of type";
    let expected = [
        format!("{wrong} integer,string: \"boolean\""),
        "<nil>: Invalid value: \"\": \"spec.maxUnhealthy\" must validate at least one schema (anyOf)"
            .to_owned(),
        format!("{wrong} integer: \"boolean\""),
    ];
    assert_eq!(causes(posted)[..3], expected);
}
