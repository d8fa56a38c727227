//! Clouds: Secrets with credentials that the controllers try, and objects that use them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

use crate::caller::Caller;
use crate::process::PATIENCE;
use crate::scan::Markers;

/// Objects of a cluster with one worker. They are those of the scenarios of operations.
const OBJECTS: [&str; 2] = [
    include_str!("../../../../tests/scenarios/tests/operations/cluster.yaml"),
    include_str!("../../../../tests/scenarios/tests/operations/machine.yaml"),
];

const CLUSTERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/openstackclusters";
const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/w";

/// Returns files that are no valid logins, each with the name of its place and secret.
fn bad_logins(simulator: &Simulator, markers: &mut Markers) -> Vec<(&'static str, String)> {
    let url = simulator.auth_url();
    let good = simulator.clouds_yaml("demo");
    let mut secret = |place: &str| markers.plant(&format!("clouds.yaml: {place}"));
    let application = |secret: &str| {
        format!(
            "clouds:\n  openstack:\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: {url}\n      \
             application_credential_id: abc\n      application_credential_secret: \"{secret}\"\n"
        )
    };
    let replaced = |line: &str| good.replace("password: demo", line);
    vec![
        ("wrong-password", replaced(&format!("password: \"{}\"", secret("wrong password")))),
        ("application", application(&secret("secret of an application credential"))),
        ("open-quote", replaced(&format!("password: \"{}", secret("quote that is not closed")))),
        ("list", replaced(&format!("password: [\"{}\"]", secret("list instead of a password")))),
        ("map", replaced(&format!("password: {{\"{}\": 1}}", secret("map instead of a password")))),
        (
            "unknown",
            replaced(&format!("password: demo\n      \"{}\": x", secret("name of an unknown field"))),
        ),
        ("alias", replaced(&format!("password: *{}", &secret("alias of YAML").replace("+/", "x")))),
        (
            "in-url",
            good.replace(
                "http://",
                &format!("http://demo:{}@", secret("password in a URL").replace("+/", "x")),
            ),
        ),
        ("text", secret("text that is no file")),
    ]
}

/// Creates a cluster with each of these logins, and waits until the controllers have reported all.
pub(crate) async fn fail_to_log_in(caller: &Caller, simulator: &Simulator, markers: &mut Markers) {
    let logins = bad_logins(simulator, markers);
    for (name, clouds) in &logins {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"clouds.yaml": clouds}});
        caller.json("POST", "/api/v1/namespaces/default/secrets", &secret, 201).await;
        let infrastructure = "infrastructure.cluster.x-k8s.io";
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"infrastructureRef": {"apiGroup": infrastructure, "kind": "OpenStackCluster", "name": name}}});
        caller
            .json("POST", "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters", &cluster, 201)
            .await;
        let cluster = json!({"apiVersion": format!("{infrastructure}/v1beta2"), "kind": "OpenStackCluster",
            "metadata": {"name": name}, "spec": {"identityRef": {"name": name, "cloudName": "openstack"},
                "managedSubnets": [{"cidr": "10.8.0.0/24"}]}});
        caller.json("POST", CLUSTERS, &cluster, 201).await;
    }
    let end = Instant::now() + PATIENCE;
    for (name, _) in &logins {
        loop {
            let cluster: Value =
                serde_json::from_slice(&caller.text(&format!("{CLUSTERS}/{name}")).await).unwrap();
            let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
            // A login with an unknown field works.
            let is_reported = |it: &Value| {
                it["status"] == "True" || it["message"].as_str().is_some_and(|message| !message.is_empty())
            };
            if conditions.is_some_and(|conditions| conditions.iter().any(is_reported)) {
                break;
            }
            assert!(Instant::now() < end, "{name} is not reported: {cluster}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Returns the path of the collection of a document.
fn collection(document: &Value) -> String {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = format!("{}s", text("/kind").to_lowercase());
    let namespace = if text("/kind") == "Namespace" { "" } else { "/namespaces/ns" };
    format!("{root}{namespace}/{plural}")
}

/// Creates a cluster whose worker has bootstrap data with a secret, and waits until the cloud has the worker's server.
pub(crate) async fn create_worker(caller: &Caller, simulator: &Simulator, markers: &mut Markers) {
    let clouds: String = simulator.clouds_yaml("demo").lines().map(|line| format!("    {line}\n")).collect();
    let data = format!("#cloud-config # {}", markers.plant("bootstrap data of a machine"));
    for manifest in OBJECTS {
        let text = manifest.replace("CLOUDS\n", &clouds).replace("NAMESPACE", "ns").replace("ROOT", "");
        for mut document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            if document["metadata"]["name"] == "bootstrap" {
                document["stringData"]["value"] = json!(data);
            }
            caller.json("POST", &collection(&document), &document, 201).await;
        }
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let machine: Value = serde_json::from_slice(&caller.text(MACHINE).await).unwrap();
        if machine.pointer("/status/phase").and_then(Value::as_str) == Some("Provisioned") {
            return;
        }
        assert!(Instant::now() < end, "the worker has no server: {machine}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
