//! Tests of kubeadm's record of a running cluster.

use super::*;

/// Record as kubeadm 1.30 writes it, with fields that only people and later kubeadms know.
const V1BETA3: &str = "apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
apiServer:
  extraArgs:
    authorization-mode: Node,RBAC
    audit-log-path: /var/log/audit
  timeoutForControlPlane: 4m0s
  unknownOfServer: kept
certificatesDir: /etc/kubernetes/pki
clusterName: blue
controlPlaneEndpoint: 203.0.113.10:6443
controllerManager: {}
dns: {}
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
      quota-backend-bytes: '8589934592'
imageRepository: registry.k8s.io
kubernetesVersion: v1.30.4
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
  serviceSubnet: 10.96.0.0/16
scheduler: {}
unknown: kept
";

fn tree(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn settings(value: Value) -> ClusterConfiguration {
    serde_json::from_value(value).unwrap()
}

fn changed(text: &str, version: &str, wish: Option<Value>) -> Value {
    let wish = wish.map(settings);
    let new = recorded(text, version, wish.as_ref()).unwrap().expect("a change");
    assert_eq!(
        recorded(&new, version, wish.as_ref()).unwrap(),
        None,
        "the second time nothing differs:\n{new}"
    );
    tree(&new)
}

#[test]
fn d9_without_settings_only_the_version_changes() {
    let mut expected = tree(V1BETA3);
    expected["kubernetesVersion"] = json!("v1.30.9");
    assert_eq!(changed(V1BETA3, "v1.30.9", None), expected);
    assert_eq!(recorded(V1BETA3, "v1.30.4", None).unwrap(), None);
}

#[test]
fn d9_the_first_version_with_v1beta4_gets_a_record_of_v1beta4() {
    let mut expected = tree(V1BETA3);
    expected["apiVersion"] = json!("kubeadm.k8s.io/v1beta4");
    expected["kubernetesVersion"] = json!("v1.31.0");
    expected["apiServer"] = json!({"unknownOfServer": "kept", "extraArgs": [
        {"name": "audit-log-path", "value": "/var/log/audit"},
        {"name": "authorization-mode", "value": "Node,RBAC"}]});
    expected["etcd"]["local"]["extraArgs"] = json!([{"name": "quota-backend-bytes", "value": "8589934592"}]);
    assert_eq!(changed(V1BETA3, "v1.31.0", None), expected);
}

#[test]
fn d9_each_setting_that_can_change_follows_and_all_others_stay() {
    let wish = json!({
        "imageRepository": "registry.example.com", "featureGates": {"PublicKeysECDSA": true},
        "certificateValidityPeriodDays": 90, "encryptionAlgorithm": "ECDSA-P256",
        "apiServer": {"certSANs": ["api.example.com"], "extraArgs": [{"name": "v", "value": "3"}]},
        "controllerManager": {"extraEnvs": [{"name": "A", "value": "b"}]},
        "etcd": {"local": {"imageTag": "3.6.6-0"}},
        "certificatesDir": "/other", "controlPlaneEndpoint": "other:6443", "caCertificateValidityPeriodDays": 9,
    });
    let found = changed(V1BETA3, "v1.33.1", Some(wish));
    let mut expected = tree(V1BETA3);
    for (field, value) in [
        ("apiVersion", json!("kubeadm.k8s.io/v1beta4")),
        ("kubernetesVersion", json!("v1.33.1")),
        ("imageRepository", json!("registry.example.com")),
        ("featureGates", json!({"PublicKeysECDSA": true, "ControlPlaneKubeletLocalMode": true})),
        ("certificateValidityPeriod", json!("2160h0m0s")),
        ("encryptionAlgorithm", json!("ECDSA-P256")),
        ("controllerManager", json!({"extraEnvs": [{"name": "A", "value": "b"}]})),
        ("etcd", json!({"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.6-0"}})),
    ] {
        expected[field] = value;
    }
    expected["apiServer"] = json!({"unknownOfServer": "kept", "certSANs": ["api.example.com"],
        "extraArgs": [{"name": "v", "value": "3"}]});
    assert_eq!(found, expected);
}

#[test]
fn d9_settings_that_were_removed_leave_the_record() {
    let first = json!({"apiServer": {"extraArgs": [{"name": "v", "value": "3"}]}, "featureGates": {"PublicKeysECDSA": true},
        "encryptionAlgorithm": "ECDSA-P256"});
    let with = serde_saphyr::to_string(&changed(V1BETA3, "v1.36.0", Some(first))).unwrap();
    let found = changed(&with, "v1.36.0", Some(json!({"certificatesDir": "/etc/kubernetes/pki"})));
    assert_eq!(found["apiServer"], json!({"unknownOfServer": "kept"}));
    assert!(found.get("featureGates").is_none() && found.get("encryptionAlgorithm").is_none(), "{found}");
    assert_eq!(found["imageRepository"], "registry.k8s.io", "it follows only if it is set");
}

#[test]
fn d9_fields_of_a_later_kubeadm_stay() {
    let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.0\n\
        dns: {disabled: true}\nproxy: {disabled: true}\netcd:\n  external:\n    endpoints: ['https://a']\n    \
        caFile: /a\n    certFile: /b\n    keyFile: /c\n    httpEndpoints: ['http://a']\n";
    let external = json!({"endpoints": ["https://b"], "caFile": "/a", "certFile": "/b", "keyFile": "/c"});
    let found = changed(text, "v1.36.0", Some(json!({"etcd": {"external": external}})));
    assert_eq!((&found["dns"]["disabled"], &found["proxy"]["disabled"]), (&json!(true), &json!(true)));
    assert_eq!(found["etcd"]["external"]["endpoints"], json!(["https://b"]));
    assert_eq!(found["etcd"]["external"]["httpEndpoints"], json!(["http://a"]));
}

#[test]
fn d9_a_record_goes_back_to_the_api_of_an_older_version() {
    let new = recorded(
        V1BETA3,
        "v1.31.0",
        Some(&settings(json!({"encryptionAlgorithm": "ECDSA-P256",
        "apiServer": {"extraArgs": [{"name": "v", "value": "3"}]}}))),
    )
    .unwrap()
    .unwrap();
    let found = changed(&new, "v1.30.4", None);
    assert_eq!(found["apiVersion"], "kubeadm.k8s.io/v1beta3");
    assert_eq!(found["apiServer"]["extraArgs"], json!({"v": "3"}));
    assert!(found.get("encryptionAlgorithm").is_none());
}

#[test]
fn d9_what_cannot_be_read_is_an_error_that_says_so() {
    for (text, version, expected) in [
        ("- a list", "v1.33.0", "no YAML object"),
        ("kind: ClusterConfiguration", "v1.33.0", "apiVersion \"\" is not known"),
        ("apiVersion: kubeadm.k8s.io/v1beta2", "v1.33.0", "kubeadm config migrate"),
        (V1BETA3, "v1.21.0", "not supported"),
        (V1BETA3, "latest", "is not a Kubernetes version"),
    ] {
        let error = recorded(text, version, None).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
