//! Tests of the certificates: crashes around their creation, and the renewal of the kubeconfig.

use apiserver_types::{Cluster, ClusterSpec, KubeadmConfigSpec};
use controllers_bootstrap::certificates::certificate_authority;
use serde_json::{Value, json};

use super::super::replica::examples::replica;
use super::*;
use crate::api_in_memory::{Crash, FakeApi};

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

/// Names of the Secrets that a control plane with stacked etcd generates.
const GENERATED: [&str; 4] = ["blue-ca", "blue-etcd", "blue-proxy", "blue-sa"];

/// Returns a control plane whose keys are short, so that the test is fast.
fn control_plane() -> KubeadmControlPlane {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.name = Some("blue".to_owned());
    control_plane.metadata.namespace = Some("ns".to_owned());
    control_plane.metadata.uid = Some("uid-of-the-control-plane".to_owned());
    let spec: KubeadmConfigSpec =
        serde_json::from_value(json!({"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}}))
            .unwrap();
    control_plane.spec.kubeadm_config_spec = Some(spec);
    control_plane
}

fn observed() -> Observed {
    let mut cluster = Cluster::new("blue", ClusterSpec::default());
    cluster.metadata.namespace = Some("ns".to_owned());
    Observed { cluster, ..Observed::default() }
}

/// Returns the Secrets with their data, as far as they exist.
fn stored(api: &FakeApi) -> Vec<(&'static str, Value)> {
    let data = |name| Some((name, api.get(&format!("{SECRETS}/{name}"))?["data"].clone()));
    GENERATED.into_iter().filter_map(data).collect()
}

#[tokio::test]
async fn no_crash_around_the_creation_of_an_authority_replaces_one() {
    let (control_plane, observed) = (control_plane(), observed());
    for crash in [Crash::Before, Crash::After] {
        for at in 1.. {
            let api = FakeApi::default();
            let context = api.context("test");
            api.crash_at(Some((at, crash)));
            let failed = authorities(&context, &control_plane, &observed).await.is_err();
            let before = stored(&api);
            let missing = if crash == Crash::Before { at - 1 } else { at };
            assert_eq!(before.len(), missing.min(GENERATED.len()), "{crash:?} at write {at}");
            api.crash_at(None);
            let found = authorities(&context, &control_plane, &observed).await.unwrap();
            let after = stored(&api);
            assert_eq!(after.len(), GENERATED.len());
            assert!(before.iter().all(|secret| after.contains(secret)), "{crash:?} at write {at}");
            let ca = STANDARD.encode(&found.get(Purpose::ClusterCa).unwrap().certificate);
            assert_eq!(after[0].1["tls.crt"], ca, "what is stored is used");
            assert_eq!(api.replaced(), Vec::<String>::new());
            if !failed {
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_authority_that_a_machine_may_have_is_missed_and_not_made_again() {
    let api = FakeApi::default();
    let context = api.context("test");
    let (control_plane, mut observed) = (control_plane(), observed());
    authorities(&context, &control_plane, &observed).await.unwrap();
    let mut first = replica("m", 1);
    observed.replicas = vec![first.clone()];
    api.remove(&format!("{SECRETS}/blue-etcd")).unwrap();
    let found = authorities(&context, &control_plane, &observed).await.unwrap();
    assert!(found.missing.is_empty(), "no machine has it, so it is made");
    first.machine.spec.bootstrap.data_secret_name = Some("m".to_owned());
    observed.replicas = vec![first];
    for name in ["blue-etcd", "blue-ca"] {
        api.remove(&format!("{SECRETS}/{name}")).unwrap();
    }
    let found = authorities(&context, &control_plane, &observed).await.unwrap();
    assert_eq!(found.missing, [Purpose::ClusterCa, Purpose::EtcdCa]);
    assert_eq!(stored(&api).len(), 2, "neither is made again");
}

/// The authorities were made again in the moment between the data of the first Machine and the field of the Machine that
/// names it. The Machine began a cluster with authorities that were lost.
#[tokio::test]
async fn d3_an_authority_in_bootstrap_data_is_not_made_again_before_the_machine_names_the_data() {
    let config = |status: Value| {
        let mut replica = replica("m", 1);
        let config = json!({"metadata": {"name": "m", "namespace": "ns"}, "spec": {}, "status": status});
        replica.config = serde_json::from_value(config).unwrap();
        replica
    };
    let table = [
        ("without data", json!({}), false, false),
        ("the data is named", json!({"dataSecretName": "m"}), false, true),
        ("the data is made", json!({"initialization": {"dataSecretCreated": true}}), false, true),
        ("the status is not written", json!({}), true, true),
    ];
    for (case, status, has_secret, is_used) in table {
        let api = FakeApi::default();
        let context = api.context("test");
        let (control_plane, mut observed) = (control_plane(), observed());
        authorities(&context, &control_plane, &observed).await.unwrap();
        if has_secret {
            api.put(&format!("{SECRETS}/m"), json!({"data": {}}));
        }
        api.remove(&format!("{SECRETS}/blue-ca")).unwrap();
        for standalone in [false, true] {
            let replicas = vec![config(status.clone())];
            (observed.replicas, observed.standalone) =
                if standalone { (Vec::new(), replicas) } else { (replicas, Vec::new()) };
            let found = authorities(&context, &control_plane, &observed).await.unwrap();
            let expected: &[Purpose] = if is_used { &[Purpose::ClusterCa] } else { &[] };
            assert_eq!(found.missing, expected, "{case}, {standalone}");
        }
    }
}

#[tokio::test]
async fn a_broken_or_expired_authority_is_told_and_does_not_end_the_care_for_the_control_plane() {
    let old = certificate_authority(KeyAlgorithm::EcdsaP256, Some(1), Timestamp::UNIX_EPOCH).unwrap();
    let broken = PemPair { certificate: "no certificate".to_owned(), ..old.clone() };
    for (pair, expected) in
        [(old, "Secret blue-ca: the certificate is valid from"), (broken, "Secret blue-ca: no certificate")]
    {
        let api = FakeApi::default();
        let context = api.context("test");
        let (control_plane, mut observed) = (control_plane(), observed());
        observed.cluster.spec.control_plane_endpoint =
            serde_json::from_value(json!({"host": "10.0.0.1", "port": 6443})).unwrap();
        ensure(&context, &control_plane, &mut observed).await.unwrap();
        assert!(observed.certificates.is_available() && observed.certificates.kubeconfig.is_none());
        let path = format!("{SECRETS}/blue-ca");
        let mut secret = api.get(&path).unwrap();
        secret["data"]["tls.crt"] = STANDARD.encode(&pair.certificate).into();
        secret["data"]["tls.key"] = STANDARD.encode(&pair.key).into();
        api.put(&path, secret);
        let kubeconfig = api.get(&format!("{SECRETS}/blue-kubeconfig"));
        ensure(&context, &control_plane, &mut observed).await.unwrap();
        let condition = observed.certificates.condition(&Time::default()).unwrap();
        assert_eq!(
            (condition.status, condition.reason.as_str()),
            (ConditionStatus::Unknown, "InternalError")
        );
        assert!(condition.message.starts_with(expected), "{}", condition.message);
        assert!(!observed.certificates.is_available(), "no Machine is made");
        assert_eq!(api.get(&format!("{SECRETS}/blue-kubeconfig")), kubeconfig, "the old one is not replaced");
        api.remove(&format!("{SECRETS}/blue-kubeconfig"));
        ensure(&context, &control_plane, &mut observed).await.unwrap();
    }
}

/// The pass ended without its authority, so that a deleted Machine kept its hook.
#[tokio::test]
async fn d3_without_its_authority_a_control_plane_has_the_kubeconfig_that_exists() {
    let lost = Some("Secret blue-ca does not exist or has no tls.key");
    for (has_machine, config, reason) in [
        (true, Some("kubeconfig"), None),
        (true, Some(""), lost),
        (true, None, lost),
        (false, Some("kubeconfig"), lost),
    ] {
        let api = FakeApi::default();
        let context = api.context("test");
        let (mut control_plane, mut observed) = (control_plane(), observed());
        observed.cluster.spec.control_plane_endpoint =
            serde_json::from_value(json!({"host": "10.0.0.1", "port": 6443})).unwrap();
        authorities(&context, &control_plane, &observed).await.unwrap();
        api.remove(&format!("{SECRETS}/blue-ca")).unwrap();
        control_plane.status.get_or_insert_default().initialization =
            serde_json::from_value(json!({"controlPlaneInitialized": true})).unwrap();
        observed.replicas = if has_machine { vec![replica("m", 1)] } else { Vec::new() };
        if let Some(config) = config {
            let secret = json!({"type": SECRET_TYPE, "data": {"value": STANDARD.encode(config)}});
            api.put(&format!("{SECRETS}/blue-kubeconfig"), secret);
        }
        ensure(&context, &control_plane, &mut observed).await.unwrap();
        assert_eq!(observed.certificates.kubeconfig.as_deref(), reason, "{has_machine} {config:?}");
        assert!(!observed.certificates.is_available(), "scaling up is blocked");
        let error = context.workloads.client(&connection::key(&observed)).err().unwrap().to_string();
        assert_eq!(error.contains("no kubeconfig was given"), reason.is_some(), "{error}");
    }
}

#[tokio::test]
async fn no_machine_is_made_before_the_secrets_of_an_external_etcd_exist() {
    let api = FakeApi::default();
    let context = api.context("test");
    let (mut control_plane, mut observed) = (control_plane(), observed());
    let external = json!({"etcd": {"external": {"endpoints": ["https://e:2379"], "caFile": "/e/ca", "certFile": "/e/crt",
        "keyFile": "/e/key"}}, "encryptionAlgorithm": "ECDSA-P256"});
    control_plane.spec.kubeadm_config_spec.get_or_insert_default().cluster_configuration =
        serde_json::from_value(external).unwrap();
    let error = ensure(&context, &control_plane, &mut observed).await.unwrap_err().to_string();
    assert!(error.contains("blue-etcd, blue-apiserver-etcd-client"), "{error}");
    let condition = observed.certificates.condition(&Time::default()).unwrap();
    assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::Unknown, "InternalError"));
    let ca = certificate_authority(KeyAlgorithm::EcdsaP256, None, Timestamp::now()).unwrap();
    for name in ["blue-etcd", "blue-apiserver-etcd-client"] {
        let data = json!({"tls.crt": STANDARD.encode(&ca.certificate), "tls.key": STANDARD.encode(&ca.key)});
        api.put(&format!("{SECRETS}/{name}"), json!({"type": "kubernetes.io/tls", "data": data}));
    }
    ensure(&context, &control_plane, &mut observed).await.unwrap();
    assert!(observed.certificates.is_available(), "{:?}", observed.certificates);
}

#[test]
fn a_kubeconfig_is_replaced_for_another_server_or_authority_and_after_half_a_year() {
    let now = Timestamp::now();
    let day = |days: i64| now.checked_add(SignedDuration::from_hours(24 * days)).unwrap();
    let make = || certificate_authority(KeyAlgorithm::EcdsaP256, None, now).unwrap();
    let (ca, other) = (make(), make());
    let server = "https://10.0.0.1:6443";
    let config = kubeconfig("c", server, &ca, KeyAlgorithm::EcdsaP256, now).unwrap();
    let table = [
        (config.as_str(), server, &ca, day(0), true),
        (&config, server, &ca, day(182), true),
        (&config, server, &ca, day(183), false),
        (&config, "https://10.0.0.2:6443", &ca, day(0), false),
        (&config, server, &other, day(0), false),
        ("no kubeconfig", server, &ca, day(0), false),
    ];
    for (config, server, ca, now, expected) in table {
        assert_eq!(is_current(config.as_bytes(), server, ca, now), expected, "{server} {now}");
    }
}
