//! Command `capstan orphans`, with a simulated cloud.

use std::path::Path;
use std::sync::Arc;

use controllers_infrastructure::{Cloud, CloudConnector, Credentials, NewNetwork, NewVolume, TaggedKind};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::process::{Capstan, command};

const CLUSTERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/default/openstackclusters";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Id in the ownership tags of an object.
const KNOWN: &str = "0b5d7b5e-0000-4000-8000-000000000001";

/// Id in the ownership tags of an object that is lost.
const LOST: &str = "0b5d7b5e-0000-4000-8000-000000000002";

/// Returns the cloud of the simulator.
async fn cloud(simulator: &Simulator) -> Arc<dyn Cloud> {
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let credentials = Credentials {
        clouds_yaml: simulator.clouds_yaml("demo"),
        cloud_name: "openstack".to_owned(),
        ca_certificate: None,
        region: None,
        identity: None,
    };
    connector.connect(&credentials).await.unwrap()
}

/// Creates a network. Returns its id.
async fn network(cloud: &Arc<dyn Cloud>, name: &str, description: &str) -> String {
    let [name, description] = [name, description].map(str::to_owned);
    cloud.create_network(&NewNetwork { name, description, ..NewNetwork::default() }).await.unwrap().id
}

async fn create(capstan: &Capstan, path: &str, object: &Value) {
    let answer = capstan.client().once("POST", path, &object.to_string()).await.unwrap();
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
}

/// Creates an OpenStackCluster of a backup: its uid is new, and its annotation has the id in the tags of its resources.
/// Without a Cluster, no controller acts on it.
async fn restored(capstan: &Capstan, simulator: &Simulator) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "openrc"},
        "stringData": {"clouds.yaml": simulator.clouds_yaml("demo")}});
    create(capstan, SECRETS, &secret).await;
    let cluster = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackCluster",
        "metadata": {"name": "kept", "annotations": {"capstan.dev/mark": KNOWN}},
        "spec": {"identityRef": {"name": "openrc", "cloudName": "openstack"},
            "managedSubnets": [{"cidr": "10.8.0.0/24"}]}});
    create(capstan, CLUSTERS, &cluster).await;
}

/// Creates resources with and without objects. Returns the ids of those without one.
async fn plant(cloud: &Arc<dyn Cloud>) -> [String; 3] {
    network(cloud, "kept", &format!("capstan: OpenStackCluster default/kept {KNOWN}")).await;
    network(cloud, "foreign", "made by hand").await;
    let described = network(cloud, "lost", &format!("capstan: OpenStackCluster default/lost {LOST}")).await;
    let tagged = network(cloud, "renamed", "by hand").await;
    cloud.set_tags(TaggedKind::Network, &tagged, &[format!("capstan-{LOST}")]).await.unwrap();
    let metadata = [("capstan".to_owned(), format!("capstan-{LOST}"))].into();
    let volume = NewVolume { name: "lost-root".to_owned(), size_gib: 1, metadata, ..NewVolume::default() };
    [described, tagged, cloud.create_volume(&volume).await.unwrap().id]
}

/// Lists orphans as JSON, with the exit code.
async fn list(arguments: &[&str]) -> (Value, i32) {
    let output = command(&[&["orphans", "-o", "json"], arguments].concat()).await;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let view = serde_json::from_slice(&output.stdout);
    (view.unwrap_or_else(|_| panic!("{errors}")), output.status.code().unwrap())
}

fn ids(view: &Value) -> Vec<&str> {
    let mut ids: Vec<&str> =
        view["resources"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

async fn delete(cloud: &Arc<dyn Cloud>, [described, tagged, volume]: &[String; 3]) {
    cloud.delete_network(described).await.unwrap();
    cloud.delete_network(tagged).await.unwrap();
    // A volume has to be created before it can be deleted.
    let end = std::time::Instant::now() + crate::process::PATIENCE;
    while let Err(error) = cloud.delete_volume(volume).await {
        assert!(std::time::Instant::now() < end, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    while cloud.volume(volume).await.is_ok() {
        assert!(std::time::Instant::now() < end, "the volume is not deleted");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Lists with the credentials in a file, and with an entry that the file does not have.
async fn with_file(data: &Path, kubeconfig: &str, simulator: &Simulator, expected: &[&str]) {
    let file = data.join("clouds.yaml").display().to_string();
    std::fs::write(&file, simulator.clouds_yaml("demo")).unwrap();
    let with = ["--kubeconfig", kubeconfig, "--clouds", &file, "--cloud", "openstack"];
    let (view, _) = list(&with).await;
    assert_eq!(ids(&view), expected, "{view}");
    let (view, code) = list(&[&with[..], &["--cloud", "other"]].concat()).await;
    assert_eq!((ids(&view), code), (expected.to_vec(), 1));
    assert!(view["gaps"][0].as_str().unwrap().contains("other"), "{view}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_resources_with_a_tag_that_no_object_has_are_listed_and_stay() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let kubeconfig = capstan.kubeconfig(data.path(), "capstan:admins");
    let arguments = ["--kubeconfig", &kubeconfig, "--allowed-endpoint", "127.0.0.1"];
    let output = command(&[&["orphans"], &arguments[..]].concat()).await;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("give --clouds FILE and --cloud NAME"), "{error}");

    restored(&capstan, &simulator).await;
    let cloud = cloud(&simulator).await;
    let planted = plant(&cloud).await;
    let mut expected: Vec<&str> = planted.iter().map(String::as_str).collect();
    expected.sort_unstable();
    let inventory = || format!("{:?}", simulator.inventory("demo"));
    let before = inventory();
    let (view, code) = list(&arguments).await;
    assert_eq!((ids(&view), code), (expected.clone(), 1), "{view}");
    assert!(view["gaps"].as_array().unwrap().is_empty(), "{view}");
    let lost =
        view["resources"].as_array().unwrap().iter().find(|it| it["id"] == planted[0].as_str()).unwrap();
    assert_eq!((&lost["kind"], &lost["owner"]), (&json!("network"), &json!("OpenStackCluster default/lost")));
    assert_eq!(lost["tag"], format!("capstan-{LOST}"));
    assert!(lost["createdTime"].is_string(), "{lost}");
    with_file(data.path(), &kubeconfig, &simulator, &expected).await;
    assert_eq!(inventory(), before, "nothing is deleted");

    let refused = command(&["orphans", "--kubeconfig", &kubeconfig]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("not complete") && error.contains("loopback"),
        "tenants write the Secrets: {error}"
    );

    delete(&cloud, &planted).await;
    let output = command(&[&["orphans"], &arguments[..]].concat()).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no resource without an object in 1 project\n");
}
