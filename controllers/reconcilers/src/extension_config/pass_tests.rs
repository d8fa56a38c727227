//! Tests of whole passes, with a server that does not answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::FakeApi;

const PATH: &str = "/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs/ext";

/// Stores an ExtensionConfig with these annotations. No server listens at its address.
#[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
fn api(annotations: Value) -> FakeApi {
    let api = FakeApi::default();
    let config = json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"annotations": annotations}, "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}},
    });
    api.put(PATH, config);
    api
}

fn stored(api: &FakeApi) -> ExtensionConfig {
    serde_json::from_value(api.get(PATH).unwrap()).unwrap()
}

fn reconciler(api: &FakeApi) -> ExtensionConfigReconciler {
    ExtensionConfigReconciler::new(api.context("extensionconfig-controller"))
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_reported_and_called_again_only_later() {
    let api = api(json!({}));
    let reconciler = reconciler(&api);
    let second = Duration::from_secs(1);
    assert_eq!(reconciler.reconcile(&stored(&api)).await.unwrap(), Requeue::Retry(second));
    let condition = stored(&api).condition("Discovered").unwrap().clone();
    assert_eq!((condition.holds(), condition.reason.as_str()), (false, "NotDiscovered"));
    let expected = "ExtensionConfig ext, hook Discovery: POST https://127.0.0.1:1/hooks.runtime";
    assert!(condition.message.starts_with(expected), "{}", condition.message);
    // The write of the status triggers the next pass.
    let next = reconciler.reconcile(&stored(&api)).await.unwrap();
    assert!(matches!(next, Requeue::After(rest) if rest <= second), "{next:?}");
    let events: Vec<Value> = api.events().iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(events, ["DiscoveryFailed"]);
}

#[tokio::test]
async fn the_certificates_of_the_secret_are_written_before_the_server_is_called() {
    let api = api(json!({"runtime.cluster.x-k8s.io/inject-ca-from-secret": "ns/ca"}));
    let reconciler = reconciler(&api);
    reconciler.reconcile(&stored(&api)).await.unwrap();
    let message = stored(&api).condition("Discovered").unwrap().message.clone();
    assert!(message.contains("Secret ns/ca") && message.contains("does not exist"), "{message}");
    let bundle = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    api.put("/api/v1/namespaces/ns/secrets/ca", json!({"data": {"ca.crt": bundle}}));
    // As the watch does when the Secret changes.
    reconciler.requeue.forget("uid-ext");
    reconciler.reconcile(&stored(&api)).await.unwrap();
    assert_eq!(stored(&api).spec.client_config.ca_bundle.unwrap().0, bundle);
    let events: Vec<Value> = api.events().iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(events, ["DiscoveryFailed", "CABundleInjected", "DiscoveryFailed"]);
}

#[tokio::test]
async fn a_paused_config_is_left_alone() {
    let api = api(json!({"cluster.x-k8s.io/paused": ""}));
    assert_eq!(reconciler(&api).reconcile(&stored(&api)).await.unwrap(), Requeue::OnChange);
    let config = stored(&api);
    assert!(config.condition("Paused").unwrap().holds() && config.condition("Discovered").is_none());
}
