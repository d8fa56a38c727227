//! Tests of the Secret with the kubeconfig of the administrator (D.3).

use controllers_bootstrap::certificates::certificate_authority;
use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::{Crash, FakeApi};

const PATH: &str = "/api/v1/namespaces/ns/secrets/blue-kubeconfig";
const SERVER: &str = "https://10.0.0.1:6443";

fn control_plane() -> KubeadmControlPlane {
    let spec = json!({"metadata": {"name": "blue", "namespace": "ns", "uid": "uid"}, "spec": {
        "version": "v1.33.0", "kubeadmConfigSpec": {"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}},
        "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "t"}}}}});
    serde_json::from_value(spec).unwrap()
}

/// Returns the time this many days ago.
fn ago(days: i64) -> Timestamp {
    Timestamp::now().checked_sub(SignedDuration::from_hours(24 * days)).unwrap()
}

fn authority(days: i64) -> PemPair {
    certificate_authority(KeyAlgorithm::EcdsaP256, None, ago(days)).unwrap()
}

async fn ensured(api: &FakeApi, server: &str, ca: &PemPair) -> Result<Vec<u8>, ReconcileError> {
    ensure_kubeconfig(&api.context("test"), &control_plane(), "blue", server, ca).await
}

/// Stores a Secret with a kubeconfig that was made this many days ago. Another object controls it.
fn stored(api: &FakeApi, kind: Option<&str>, ca: &PemPair, days: i64) -> String {
    let config = kubeconfig("blue", SERVER, ca, KeyAlgorithm::EcdsaP256, ago(days)).unwrap();
    let owners = json!([
        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blue", "uid": "c", "controller": true},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "o"},
    ]);
    let metadata = json!({"labels": {"mine": "yes"}, "ownerReferences": owners});
    let data = json!({"value": STANDARD.encode(&config), "other": "eA=="});
    api.put(PATH, json!({"metadata": metadata, "type": kind, "data": data}));
    config
}

/// Returns kind and uid of the owners, with a mark at the controller.
fn owners(secret: &Value) -> Vec<String> {
    let owners = secret["metadata"]["ownerReferences"].as_array().unwrap().iter();
    let text = |it: &Value| {
        let mark = if it["controller"] == true { "*" } else { "" };
        format!("{}{mark}", it["kind"].as_str().unwrap())
    };
    owners.map(text).collect()
}

#[tokio::test]
async fn d3_a_missing_kubeconfig_is_made_with_type_label_and_controller_whatever_write_fails() {
    for crash in [None, Some((1, Crash::Before)), Some((1, Crash::After))] {
        let (api, ca) = (FakeApi::default(), authority(0));
        api.crash_at(crash);
        assert_eq!(ensured(&api, SERVER, &ca).await.is_err(), crash.is_some());
        api.crash_at(None);
        let config = ensured(&api, SERVER, &ca).await.unwrap();
        let secret = api.get(PATH).unwrap();
        assert_eq!(secret["data"]["value"], STANDARD.encode(&config), "{crash:?}");
        assert_eq!(secret["type"], SECRET_TYPE);
        assert_eq!(secret["metadata"]["labels"][CLUSTER_NAME_LABEL], "blue");
        assert_eq!(owners(&secret), ["KubeadmControlPlane*"]);
        assert_eq!(api.replaced(), Vec::<String>::new(), "{crash:?}");
        let again = ensured(&api, SERVER, &ca).await.unwrap();
        assert_eq!((again, api.replaced().len()), (config, 0), "it is made once");
    }
}

#[tokio::test]
async fn d3_a_kubeconfig_is_renewed_before_it_expires_and_keeps_what_else_the_secret_has() {
    for (days, is_renewed) in [(0, false), (181, false), (184, true), (400, true)] {
        let (api, ca) = (FakeApi::default(), authority(500));
        let old = stored(&api, Some(SECRET_TYPE), &ca, days);
        let config = ensured(&api, SERVER, &ca).await.unwrap();
        assert_eq!(config != old.as_bytes(), is_renewed, "after {days} days");
        let secret = api.get(PATH).unwrap();
        assert_eq!(secret["data"]["value"], STANDARD.encode(&config));
        assert_eq!(
            (secret["data"]["other"].as_str(), secret["metadata"]["labels"]["mine"].as_str()),
            (Some("eA=="), Some("yes"))
        );
        let (server, authority, until) = inspect(&config).unwrap();
        assert_eq!((server.as_str(), authority), (SERVER, ca.certificate.clone()));
        assert!(until.duration_since(Timestamp::now()) >= RENEWAL, "after {days} days");
        let again = ensured(&api, SERVER, &ca).await.unwrap();
        assert_eq!((again, api.replaced().len()), (config, 1), "it is renewed once");
    }
}

#[tokio::test]
async fn d3_the_control_plane_becomes_the_controller_of_a_kubeconfig_whoever_was() {
    let (api, ca) = (FakeApi::default(), authority(0));
    let config = stored(&api, Some(SECRET_TYPE), &ca, 0);
    assert_eq!(ensured(&api, SERVER, &ca).await.unwrap(), config.as_bytes(), "it is still good");
    assert_eq!(owners(&api.get(PATH).unwrap()), ["ConfigMap", "KubeadmControlPlane*"]);
    ensured(&api, SERVER, &ca).await.unwrap();
    assert_eq!(api.replaced().len(), 1);
}

#[tokio::test]
async fn d3_a_kubeconfig_of_the_user_is_used_and_never_written() {
    for kind in [Some("Opaque"), None] {
        for (days, server) in [(400, SERVER), (0, "https://10.0.0.2:6443")] {
            let (api, ca) = (FakeApi::default(), authority(500));
            let config = stored(&api, kind, &ca, days);
            let before = api.get(PATH);
            assert_eq!(
                ensured(&api, server, &authority(0)).await.unwrap(),
                config.as_bytes(),
                "{kind:?} {days}"
            );
            assert_eq!(api.get(PATH), before, "{kind:?} {days}");
        }
    }
}

#[tokio::test]
async fn d3_a_kubeconfig_follows_the_endpoint_and_the_authority() {
    let (api, ca, other) = (FakeApi::default(), authority(0), authority(0));
    let old = stored(&api, Some(SECRET_TYPE), &ca, 0);
    let moved = ensured(&api, "https://10.0.0.2:6443", &ca).await.unwrap();
    assert_ne!(moved, old.as_bytes());
    assert_eq!(inspect(&moved).unwrap().0, "https://10.0.0.2:6443");
    let changed = ensured(&api, "https://10.0.0.2:6443", &other).await.unwrap();
    assert_eq!(inspect(&changed).unwrap().1, other.certificate);
    let mut broken = api.get(PATH).unwrap();
    broken["data"]["value"] = "bm90aGluZw==".into();
    api.put(PATH, broken);
    let repaired = ensured(&api, SERVER, &ca).await.unwrap();
    assert_eq!(inspect(&repaired).unwrap().0, SERVER, "it was not readable");
}

/// An authority that signs nothing would make a kubeconfig that no API server accepts.
#[tokio::test]
async fn d3_an_authority_that_has_expired_replaces_no_kubeconfig() {
    let (api, ca) = (FakeApi::default(), authority(500));
    let config = stored(&api, Some(SECRET_TYPE), &ca, 400);
    let expired = certificate_authority(KeyAlgorithm::EcdsaP256, Some(1), ago(500)).unwrap();
    assert_eq!(ensured(&api, SERVER, &expired).await.unwrap(), config.as_bytes());
}
