//! Tests of the kinds whose objects the server defines: CustomResourceDefinition, Provider and HostStatus.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};

use server::Server;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

const PROVIDERS: &str = "/apis/clusterctl.cluster.x-k8s.io/v1alpha3/providers";

/// A watch that ends with the events of the existing objects.
const SHORT: &str = "watch=true&timeoutSeconds=3";

async fn get(server: &Server, path: &str) -> Value {
    let (code, found) = server.admin("GET", path, &Value::Null).await;
    assert_eq!(code, 200, "{path}: {found}");
    found
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_definition_has_what_clients_look_up_before_they_read_objects() {
    let server = Server::start().await;
    let definition = get(&server, &format!("{DEFINITIONS}/clusters.cluster.x-k8s.io")).await;
    let labels = &definition["metadata"]["labels"];
    for (label, value) in [
        ("clusterctl.cluster.x-k8s.io", ""),
        ("cluster.x-k8s.io/provider", "cluster-api"),
        ("cluster.x-k8s.io/v1beta1", "v1beta1"),
        ("cluster.x-k8s.io/v1beta2", "v1beta2"),
    ] {
        assert_eq!(labels[label], value, "{label}");
    }
    assert!(labels["clusterctl.cluster.x-k8s.io/move"].is_null(), "{labels}");
    let identities = "openstackclusteridentities.infrastructure.cluster.x-k8s.io";
    let identities = get(&server, &format!("{DEFINITIONS}/{identities}")).await;
    assert_eq!(identities["metadata"]["labels"]["clusterctl.cluster.x-k8s.io/move"], "");
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let seen: Vec<(&Value, &Value)> = versions.iter().map(|it| (&it["name"], &it["storage"])).collect();
    assert_eq!(seen, [(&json!("v1beta2"), &json!(true)), (&json!("v1beta1"), &json!(false))]);
    for version in versions {
        assert_eq!(version["served"], true);
        assert!(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].is_object());
        assert!(!version["additionalPrinterColumns"].as_array().unwrap().is_empty());
    }
    assert_eq!(definition["status"]["storedVersions"], json!(["v1beta2"]));
}

#[tokio::test]
async fn definitions_and_providers_are_listed_selected_watched_and_shown_as_tables() {
    let server = Server::start().await;
    let selector = "labelSelector=cluster.x-k8s.io/provider%3Dinfrastructure-openstack";
    let found = get(&server, &format!("{DEFINITIONS}?{selector}")).await;
    assert!(names(&found).contains(&"openstackmachines.infrastructure.cluster.x-k8s.io"));
    assert!(!names(&found).contains(&"machines.cluster.x-k8s.io"));
    let all = get(&server, DEFINITIONS).await;
    assert!(names(&all).contains(&"images.openstack.k-orc.cloud"));
    assert!(!names(&all).iter().any(|name| name.ends_with("capstan.dev")));
    let providers = get(&server, PROVIDERS).await;
    let watched = get(&server, &format!("{PROVIDERS}?{SHORT}")).await;
    let events = watched.as_str().unwrap().lines().count();
    assert_eq!(events, names(&providers).len(), "one event for each object");
    assert_eq!(
        names(&providers),
        ["bootstrap-kubeadm", "cluster-api", "control-plane-kubeadm", "infrastructure-openstack"]
    );
    let elsewhere = "/apis/clusterctl.cluster.x-k8s.io/v1alpha3/namespaces/ns/providers";
    assert!(names(&get(&server, elsewhere).await).is_empty());
    let (code, _) = server.admin("GET", &format!("{DEFINITIONS}/nothing"), &Value::Null).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn discovery_and_open_api_offer_reads_only() {
    let server = Server::start().await;
    let found = get(&server, "/apis/apiextensions.k8s.io/v1").await;
    assert_eq!(found["resources"][0]["verbs"], json!(["get", "list", "watch"]));
    let document = get(&server, "/openapi/v3/apis/apiextensions.k8s.io/v1").await;
    for path in [DEFINITIONS.to_owned(), format!("{DEFINITIONS}/{{name}}")] {
        let methods: Vec<&String> = document["paths"][&path].as_object().unwrap().keys().collect();
        assert!(
            methods.contains(&&"get".to_owned()) && !methods.iter().any(|it| *it == "post" || *it == "put")
        );
    }
}

#[tokio::test]
async fn the_state_of_the_host_is_described_and_cannot_be_written() {
    let server = Server::start().await;
    let list = "/apis/capstan.dev/v1alpha1/hoststatuses";
    let found = get(&server, "/apis/capstan.dev/v1alpha1").await;
    let kinds = found["resources"].as_array().unwrap();
    let kind = kinds.iter().find(|it| it["name"] == "hoststatuses").unwrap();
    assert_eq!(kind["verbs"], json!(["get", "list", "watch"]));
    assert_eq!(kind["namespaced"], false);
    let document = get(&server, "/openapi/v3/apis/capstan.dev/v1alpha1").await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let schema = schemas.iter().find(|(name, _)| name.ends_with(".HostStatus")).unwrap().1;
    let status = schema["properties"]["status"]["properties"].as_object().unwrap();
    for field in ["conditions", "credentialEndTime", "lastContactTime", "mirrors", "outbox", "state"] {
        assert!(status[field]["description"].is_string(), "{field}");
    }
    assert_eq!(get(&server, list).await["items"], json!([]), "no host is configured");
    let (code, status) = server.admin("POST", list, &json!({})).await;
    assert_eq!(code, 405, "{status}");
}

#[tokio::test]
async fn writes_are_refused_with_the_reason() {
    let server = Server::start().await;
    let one = format!("{DEFINITIONS}/clusters.cluster.x-k8s.io");
    let provider =
        "/apis/clusterctl.cluster.x-k8s.io/v1alpha3/namespaces/capstan-system/providers/cluster-api"
            .to_owned();
    for (method, path) in [
        ("POST", &DEFINITIONS.to_owned()),
        ("DELETE", &DEFINITIONS.to_owned()),
        ("PUT", &one),
        ("PATCH", &one),
        ("DELETE", &one),
        ("DELETE", &provider),
    ] {
        let (code, status) = server.admin(method, path, &json!({})).await;
        assert_eq!(code, 405, "{method} {path}: {status}");
        assert!(status["message"].as_str().unwrap().contains("are read-only"), "{status}");
    }
}
