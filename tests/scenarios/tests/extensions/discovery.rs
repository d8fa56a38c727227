//! ExtensionConfigs with the whole server and all controllers.

use std::time::Duration;

use apiserver_types::ExtensionConfig;
use controllers_extensions::Hook;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_scenarios::{ExtensionServer, Reply, World, run};
use tokio_util::sync::CancellationToken;

/// Time in which a change has its effect: the longest interval between two attempts, twice.
const LIMIT: Duration = Duration::from_secs(120);

/// Annotation with the Secret of the CA certificates.
const INJECT: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";

async fn create(client: &Client, config: Value) {
    let config: ExtensionConfig = serde_json::from_value(config).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &config).await.unwrap();
}

/// Waits until an ExtensionConfig is as expected, and returns it.
async fn until(client: &Client, expected: impl Fn(&ExtensionConfig) -> bool) -> ExtensionConfig {
    let api: Api<ExtensionConfig> = Api::all(client.clone());
    let wait = async {
        loop {
            let config = api.get("ext").await.unwrap();
            if expected(&config) {
                return config;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(LIMIT, wait).await;
    let last = api.get("ext").await.unwrap().status;
    found.unwrap_or_else(|_| panic!("it has still {last:#?}"))
}

/// Returns status, reason and message of the condition `Discovered`; empty texts without one.
fn discovered(config: &ExtensionConfig) -> (String, String, String) {
    let condition = config.condition("Discovered").cloned();
    condition.map(|it| (format!("{:?}", it.status), it.reason, it.message)).unwrap_or_default()
}

fn handlers(config: &ExtensionConfig) -> Vec<String> {
    let handlers = config.status.as_ref().and_then(|status| status.handlers.clone()).unwrap_or_default();
    handlers.iter().map(|it| format!("{} {}", it.name, it.request_hook.hook)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handlers_of_a_server_are_listed_and_stay_while_it_is_down() {
    let world = World::start().await.unwrap();
    // Events about objects without a namespace are there.
    world.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n").await.unwrap();
    let client = world.admin();
    let server = ExtensionServer::start().await.unwrap();
    server.handle(Hook::BeforeClusterCreate, "gate", &json!({"timeoutSeconds": 5}), |_| Reply::success());
    server.handle(Hook::GeneratePatches, "patch", &json!({}), |_| Reply::success());
    let term = CancellationToken::new();
    let running = run(&world, &term);
    create(&client, server.config("ext")).await;
    let config = until(&client, |config| discovered(config).0 == "True").await;
    assert_eq!(discovered(&config).1, "Discovered");
    assert_eq!(handlers(&config), ["gate.ext BeforeClusterCreate", "patch.ext GeneratePatches"]);
    let listed = config.status.clone().unwrap().handlers.unwrap();
    assert_eq!([listed[0].timeout_seconds, listed[1].timeout_seconds], [Some(5), Some(10)]);
    assert!(!config.condition("Paused").unwrap().holds());
    // A change of the spec is followed by a discovery, which fails.
    server.set_down(true);
    let change = Patch::Merge(json!({"spec": {"settings": {"a": "b"}}}));
    let api: Api<ExtensionConfig> = Api::all(client.clone());
    api.patch("ext", &PatchParams::default(), &change).await.unwrap();
    let config = until(&client, |config| discovered(config).0 == "False").await;
    let (_, reason, message) = discovered(&config);
    assert_eq!(reason, "NotDiscovered");
    let expected = format!("ExtensionConfig ext, hook Discovery: POST {}/hooks", server.url());
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!(handlers(&config).len(), 2, "calls go on, and fail by their policies");
    // It is called again by itself.
    server.set_down(false);
    until(&client, |config| discovered(config).0 == "True").await;
    let events: Api<Event> = Api::namespaced(client, "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let reasons: Vec<&str> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert!(reasons.contains(&"Discovered") && reasons.contains(&"DiscoveryFailed"), "{reasons:?}");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificates_of_a_secret_are_injected_when_it_appears() {
    let world = World::start().await.unwrap();
    world.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: tools}\n").await.unwrap();
    let client = world.admin();
    let server = ExtensionServer::start().await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let mut config = server.config("ext");
    let bundle = config["spec"]["clientConfig"]["caBundle"].take();
    config["spec"]["clientConfig"] = json!({"url": server.url()});
    config["metadata"]["annotations"] = json!({INJECT: "tools/extension-ca"});
    create(&client, config).await;
    let config = until(&client, |config| discovered(config).0 == "False").await;
    assert!(discovered(&config).2.contains("Secret tools/extension-ca"), "{}", discovered(&config).2);
    assert_eq!(server.discoveries(), 0, "a server is not called before its certificates are known");
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "extension-ca"},
        "type": "Opaque", "data": {"ca.crt": bundle},
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "tools");
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let config = until(&client, |config| discovered(config).0 == "True").await;
    assert_eq!(json!(config.spec.client_config.ca_bundle.unwrap().0), bundle);
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_valid_registers_nothing() {
    let world = World::start().await.unwrap();
    let client = world.admin();
    let server = ExtensionServer::start().await.unwrap();
    server.handle(Hook::UpdateMachine, "Not_A_Label", &json!({"timeoutSeconds": 99}), |_| Reply::success());
    let term = CancellationToken::new();
    let running = run(&world, &term);
    create(&client, server.config("ext")).await;
    let config = until(&client, |config| discovered(config).0 == "False").await;
    let message = discovered(&config).2;
    assert!(message.contains("is no DNS label") && message.contains("not between 0 and 30"), "{message}");
    assert!(handlers(&config).is_empty());
    term.cancel();
    running.join_all().await;
}
