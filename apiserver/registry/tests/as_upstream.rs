//! Comparison with upstream's verdicts: results of its definitions and webhooks on nearly valid objects, recorded from
//! a kube-apiserver with Cluster API 1.14.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const CORE: &str = "cluster.x-k8s.io";

/// Creates an object of a kind of CAPI's core group; returns the code, and the fields of the errors.
async fn create(server: &Server, version: &str, kind: &str, spec: &Value) -> (u16, Vec<String>, Value) {
    let group = match kind {
        "KubeadmControlPlane" => "controlplane.cluster.x-k8s.io",
        "KubeadmConfig" => "bootstrap.cluster.x-k8s.io",
        "ClusterResourceSet" => "addons.cluster.x-k8s.io",
        _ => CORE,
    };
    let plural = if kind == "ClusterClass" {
        "clusterclasses".to_owned()
    } else {
        format!("{}s", kind.to_lowercase())
    };
    let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": {"generateName": "x-"}, "spec": spec});
    let at = format!("/apis/{group}/{version}/namespaces/ns/{plural}");
    let (code, answer) = server.admin("POST", &at, &object).await;
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    let mut fields: Vec<String> =
        causes.filter_map(|cause| cause["field"].as_str().map(str::to_owned)).collect();
    fields.sort_unstable();
    (code, fields, answer)
}

fn machine() -> Value {
    json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
        {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine", "name": "m"}})
}

fn deployment() -> Value {
    json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": machine()}})
}

fn with(mut base: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let mut at = &mut base;
    for step in parent.split('/').skip(1) {
        at = &mut at[step];
    }
    at[name] = value;
    base
}

/// Manifests and charts contain them although they have no meaning there.
#[tokio::test]
async fn empty_strings_of_the_older_version_are_dropped() {
    let server = Server::start().await;
    for field in ["failureDomain", "providerID", "version"] {
        let (code, _, answer) =
            create(&server, "v1beta1", "Machine", &with(machine(), &format!("/{field}"), json!(""))).await;
        assert_eq!((code, answer["spec"].get(field)), (201, None), "{answer}");
        let spec = with(deployment(), &format!("/template/spec/{field}"), json!(""));
        let (code, _, answer) = create(&server, "v1beta1", "MachineDeployment", &spec).await;
        assert_eq!((code, answer["spec"]["template"]["spec"].get(field)), (201, None), "{answer}");
    }
    let spec = with(machine(), "/taints", json!([]));
    assert_eq!(create(&server, "v1beta1", "Machine", &spec).await.0, 201);
    let spec = with(deployment(), "/strategy", json!({"type": "", "rollingUpdate": {"deletePolicy": ""}}));
    let (code, _, answer) = create(&server, "v1beta1", "MachineDeployment", &spec).await;
    assert_eq!((code, &answer["spec"]["strategy"]["type"]), (201, &json!("RollingUpdate")), "{answer}");
    let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}, "unhealthyRange": "",
        "unhealthyConditions": [{"type": "Ready", "status": "False"}]});
    let (code, _, answer) = create(&server, "v1beta1", "MachineHealthCheck", &spec).await;
    assert_eq!((code, &answer["spec"]["unhealthyConditions"][0]["timeout"]), (201, &json!("0s")), "{answer}");
}

#[tokio::test]
async fn an_empty_enum_value_means_the_default() {
    let server = Server::start().await;
    let spec = json!({"clusterSelector": {"matchLabels": {"a": "b"}}, "strategy": "",
        "resources": [{"kind": "Secret", "name": "s"}]});
    for version in ["v1beta1", "v1beta2"] {
        let (code, _, answer) = create(&server, version, "ClusterResourceSet", &spec).await;
        assert_eq!((code, &answer["spec"]["strategy"]), (201, &json!("ApplyOnce")), "{answer}");
    }
    let reference =
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "T", "name": "t"});
    for strategy in [json!({}), json!({"type": ""}), json!({"rollingUpdate": {}})] {
        let spec = json!({"version": "v1.34.1", "machineTemplate": {"infrastructureRef": reference},
            "kubeadmConfigSpec": {"format": ""}, "rolloutStrategy": strategy});
        let (code, _, answer) = create(&server, "v1beta1", "KubeadmControlPlane", &spec).await;
        let filled = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
        assert_eq!((code, &answer["spec"]["rolloutStrategy"]), (201, &filled), "{answer}");
    }
}

#[tokio::test]
async fn a_class_of_the_older_version_requires_templates() {
    let server = Server::start().await;
    let of = |holder: &str| ["apiVersion", "kind", "name"].map(|field| format!("spec.{holder}.ref.{field}"));
    let all: Vec<String> = [of("controlPlane"), of("infrastructure")].concat();
    let (code, fields, answer) = create(&server, "v1beta1", "ClusterClass", &json!({})).await;
    assert_eq!((code, fields), (422, all), "{answer}");
    let reference = json!({"apiVersion": "g/v1", "kind": "ATemplate", "name": "t"});
    let spec = json!({"infrastructure": {"ref": reference}, "controlPlane": {"ref": reference}});
    assert_eq!(create(&server, "v1beta1", "ClusterClass", &spec).await.0, 201);
    let empty = with(spec.clone(), "/patches", json!([{"name": "p", "definitions": []}]));
    let (code, fields, answer) = create(&server, "v1beta1", "ClusterClass", &empty).await;
    assert_eq!((code, fields), (422, vec!["spec.patches[0]".to_owned()]), "{answer}");
    let (code, fields, answer) = create(
        &server,
        "v1beta1",
        "ClusterClass",
        &with(spec, "/controlPlane/machineInfrastructure", json!({"ref": {}})),
    )
    .await;
    assert_eq!((code, fields), (422, of("controlPlane.machineInfrastructure").to_vec()), "{answer}");
}

/// Typed clients could not read a list with such an object.
#[tokio::test]
async fn values_that_overflow_go_types_are_refused() {
    let server = Server::start().await;
    let older = |value: Value| {
        with(
            deployment(),
            "/strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": value}}),
        )
    };
    assert_eq!(
        create(&server, "v1beta1", "MachineDeployment", &older(json!(2_147_483_647_i64))).await.0,
        201
    );
    for number in [2_147_483_648_i64, -2_147_483_649] {
        let (code, fields, answer) =
            create(&server, "v1beta1", "MachineDeployment", &older(json!(number))).await;
        assert_eq!(
            (code, fields),
            (422, vec!["spec.strategy.rollingUpdate.maxSurge".to_owned()]),
            "{answer}"
        );
    }
    let token = |token: &str| json!({"initConfiguration": {"bootstrapTokens": [{"token": token}]}});
    assert_eq!(create(&server, "v1beta2", "KubeadmConfig", &token("abcdef.0123456789abcdef")).await.0, 201);
    for wrong in ["abc", "abcdef.0123456789ABCDEF", "abcdef0123456789abcdef", "abcdef.0123456789abcde"] {
        let (code, fields, answer) = create(&server, "v1beta2", "KubeadmConfig", &token(wrong)).await;
        assert_eq!(
            (code, fields),
            (422, vec!["spec.initConfiguration.bootstrapTokens[0].token".to_owned()]),
            "{answer}"
        );
        assert!(!answer["message"].as_str().unwrap().contains(wrong), "{answer}");
    }
    let time = with(deployment(), "/rolloutAfter", json!("2026-01-01t00:00:00z"));
    assert_eq!(create(&server, "v1beta1", "MachineDeployment", &time).await.0, 422);
}

#[tokio::test]
async fn an_invalid_class_reference_is_reported_with_its_field() {
    let server = Server::start().await;
    let spec = json!({"topology": {"classRef": {"name": "abc", "namespace": ".."}, "version": "v1.34.1"}});
    let (code, fields, answer) = create(&server, "v1beta2", "Cluster", &spec).await;
    assert_eq!((code, fields), (422, vec!["spec.topology.classRef.namespace".to_owned()]), "{answer}");
}
