//! Tests of the kubeadm files: parsed trees for each API version.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apiserver_types::{ClusterConfiguration, ClusterNetwork, InitConfiguration, JoinConfiguration};
use serde_json::{Value, json};

use super::{Init, RenderError, init, join, join_with_key};
use crate::certificates::{CertificateKey, PemPair};

/// Parses the documents of a file.
fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("---\n").filter(|part| !part.is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

fn network() -> ClusterNetwork {
    serde_json::from_value(json!({
        "serviceDomain": "cluster.local",
        "services": {"cidrBlocks": ["10.96.0.0/16", "fd00::/108"]},
        "pods": {"cidrBlocks": ["10.244.0.0/16"]}
    }))
    .unwrap()
}

fn first_node(version: &str, cluster: Value, node: Value) -> Vec<Value> {
    let cluster: ClusterConfiguration = serde_json::from_value(cluster).unwrap();
    let node: InitConfiguration = serde_json::from_value(node).unwrap();
    let input = Init {
        cluster_name: "blue",
        version,
        endpoint: Some("203.0.113.10:6443"),
        network: Some(&network()),
        cluster: &cluster,
        node: &node,
    };
    documents(&init(&input).unwrap())
}

fn joining(version: &str, node: Value) -> Value {
    let node: JoinConfiguration = serde_json::from_value(node).unwrap();
    documents(&join(version, &node).unwrap()).remove(0)
}

/// Settings that differ between the API versions.
fn settings() -> (Value, Value) {
    let cluster = json!({
        "apiServer": {
            "certSANs": ["api.blue.lab"],
            "extraArgs": [{"name": "profiling", "value": "false"}, {"name": "v", "value": "2"},
                {"name": "v", "value": "4"}],
            "extraEnvs": [{"name": "GOMEMLIMIT", "value": "3GiB"}]
        },
        "caCertificateValidityPeriodDays": 3650,
        "certificateValidityPeriodDays": 180,
        "encryptionAlgorithm": "ECDSA-P256",
        "etcd": {"local": {"extraArgs": [{"name": "quota-backend-bytes", "value": "8589934592"}]}}
    });
    let node = json!({
        "nodeRegistration": {
            "name": "{{ local_hostname }}",
            "imagePullSerial": false,
            "kubeletExtraArgs": [{"name": "provider-id", "value": "openstack:///{{ instance_id }}"}]
        },
        "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 86400}],
        "timeouts": {"controlPlaneComponentHealthCheckSeconds": 300, "discoverySeconds": 30}
    });
    (cluster, node)
}

#[test]
fn v1beta3_has_maps_of_arguments_and_lacks_later_fields() {
    let (cluster, node) = settings();
    let expected = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "ClusterConfiguration",
        "apiServer": {
            "certSANs": ["api.blue.lab"],
            "extraArgs": {"profiling": "false", "v": "4"},
            "timeoutForControlPlane": "5m0s"
        },
        "clusterName": "blue",
        "controlPlaneEndpoint": "203.0.113.10:6443",
        "controllerManager": {}, "dns": {}, "scheduler": {},
        "etcd": {"local": {"dataDir": "", "extraArgs": {"quota-backend-bytes": "8589934592"}}},
        "kubernetesVersion": "v1.30.14",
        "networking": {"dnsDomain": "cluster.local", "podSubnet": "10.244.0.0/16",
            "serviceSubnet": "10.96.0.0/16,fd00::/108"}
    });
    let init = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttl": "24h0m0s"}],
        "localAPIEndpoint": {},
        "nodeRegistration": {
            "name": "{{ local_hostname }}",
            "kubeletExtraArgs": {"provider-id": "openstack:///{{ instance_id }}"},
            "taints": null
        }
    });
    assert_eq!(first_node("v1.30.14", cluster, node), [expected, init]);
}

#[test]
fn v1beta4_keeps_lists_of_arguments_and_has_timeouts_and_periods() {
    let (cluster, node) = settings();
    let documents = first_node("v1.31.0-rc.1", cluster.clone(), node);
    let written = &documents[0];
    assert_eq!(written["apiVersion"], "kubeadm.k8s.io/v1beta4", "a release candidate counts as its release");
    assert_eq!(written["apiServer"], cluster["apiServer"], "order and repeated flags remain");
    assert_eq!(written["certificateValidityPeriod"], "4320h0m0s");
    assert_eq!(written["caCertificateValidityPeriod"], "87600h0m0s");
    assert_eq!(written["encryptionAlgorithm"], "ECDSA-P256");
    assert_eq!(written["proxy"], json!({}));
    let names: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert!(!names.iter().any(|name| name.ends_with("Days")), "{names:?}");
    let timeouts = json!({"controlPlaneComponentHealthCheck": "5m0s", "discovery": "30s"});
    assert_eq!(documents[1]["timeouts"], timeouts);
    assert_eq!(documents[1]["nodeRegistration"]["imagePullSerial"], false);
}

#[test]
fn the_users_endpoint_has_priority_and_absent_values_are_left_out() {
    let documents = first_node("v1.36.3", json!({"controlPlaneEndpoint": "api.blue.lab:443"}), json!({}));
    assert_eq!(documents[0]["controlPlaneEndpoint"], "api.blue.lab:443");
    assert_eq!(documents[0]["etcd"], json!({}));
    assert_eq!(documents[1]["nodeRegistration"], json!({"taints": null}));
}

#[test]
fn a_join_has_its_timeout_where_the_version_expects_it() {
    let discovery = json!({"bootstrapToken": {
        "apiServerEndpoint": "203.0.113.10:6443",
        "caCertHashes": ["sha256:3f1c0e5a9d7b44e0a1c2d3e4f5061728394a5b6c7d8e9f00112233445566778a"],
        "token": "k3v9qz.1x5w8m2c7r4t6y0p"
    }});
    let node = json!({
        "controlPlane": {},
        "discovery": discovery,
        "nodeRegistration": {"taints": []},
        "timeouts": {"tlsBootstrapSeconds": 300, "controlPlaneComponentHealthCheckSeconds": 240}
    });
    let mut old = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta3",
        "kind": "JoinConfiguration",
        "controlPlane": {"localAPIEndpoint": {}},
        "discovery": discovery,
        "nodeRegistration": {"taints": []}
    });
    old["discovery"]["timeout"] = "5m0s".into();
    assert_eq!(joining("v1.29.1", node.clone()), old);
    let mut other = node.clone();
    other["timeouts"] = json!({"discoverySeconds": 60});
    assert_eq!(joining("v1.30.1", other)["discovery"]["timeout"], "1m0s");
    let new = joining("v1.36.3", node);
    assert_eq!(new["discovery"], discovery);
    assert_eq!(new["timeouts"], json!({"tlsBootstrap": "5m0s", "controlPlaneComponentHealthCheck": "4m0s"}));
}

#[test]
fn a_control_plane_node_gets_the_key_of_its_certificates_where_kubeadm_reads_it() {
    let ca = PemPair { certificate: "c".to_owned(), key: "k".to_owned() };
    let key = CertificateKey::derive(&ca, "uid");
    let node: JoinConfiguration = serde_json::from_value(json!({"controlPlane": {}})).unwrap();
    for version in ["v1.30.1", "v1.36.3"] {
        let document = documents(&join_with_key(version, &node, Some(&key)).unwrap()).remove(0);
        let expected = json!({"certificateKey": key.text(), "localAPIEndpoint": {}});
        assert_eq!(document["controlPlane"], expected, "{version}");
    }
}

#[test]
fn the_kubeconfig_of_discovery_is_no_part_of_the_file() {
    let node = json!({"discovery": {"file": {"kubeConfigPath": "/run/discovery.yaml",
        "kubeConfig": {"user": {"exec": {"command": "token"}}}}}});
    let expected = json!({"file": {"kubeConfigPath": "/run/discovery.yaml"}});
    assert_eq!(joining("v1.36.3", node)["discovery"], expected);
}

#[test]
fn text_that_reads_as_another_type_stays_text() {
    for value in ["true", "no", "0777", "1e3", "null", "~", "12:30", "{{ x }}", "a: b", "- a", "* a", ""] {
        let cluster = json!({"scheduler": {"extraArgs": [{"name": "x", "value": value}]}});
        let documents = first_node("v1.36.3", cluster, json!({}));
        assert_eq!(documents[0]["scheduler"]["extraArgs"][0]["value"], value);
    }
}

#[test]
fn an_unusable_version_is_named() {
    let join = |version: &str| join(version, &JoinConfiguration::default()).unwrap_err();
    assert!(matches!(join("latest"), RenderError::Version { version, .. } if version == "latest"));
    assert_eq!(
        join("v1.21.14").to_string(),
        "version \"v1.21.14\" is not supported: the first supported version of Kubernetes is v1.22.0"
    );
}
