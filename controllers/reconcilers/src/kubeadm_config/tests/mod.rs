//! Whole passes over an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod first_data;
mod joins;
mod lock;
mod pool;
mod versions;
mod workload_objects;

use std::time::Duration;

use controllers_bootstrap::token::{self, Token};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::{Crash, FakeApi};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const CLUSTER: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/blue";
const CONFIGS: &str = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const LOCK: &str = "/api/v1/namespaces/ns/configmaps/blue-lock";

fn reconciler(api: &FakeApi) -> KubeadmConfigReconciler {
    KubeadmConfigReconciler::new(api.context(CONTROLLER.identity))
}

/// Stores the Cluster. Nothing manages its control plane.
fn cluster(api: &FakeApi, initialized: bool) {
    let condition = json!({"type": "ControlPlaneInitialized", "status": if initialized { "True" } else { "False" },
        "reason": "R", "message": "", "lastTransitionTime": "2026-11-26T10:00:00Z"});
    api.put(
        CLUSTER,
        json!({
            "spec": {"controlPlaneEndpoint": {"host": "203.0.113.10", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "conditions": [condition]},
        }),
    );
}

/// Stores a Machine and its KubeadmConfig.
fn machine(api: &FakeApi, name: &str, control_plane: bool, spec: &Value) {
    let labels = if control_plane { json!({"cluster.x-k8s.io/control-plane": ""}) } else { json!({}) };
    api.put(
        &format!("{MACHINES}/{name}"),
        json!({
            "metadata": {"labels": labels},
            "spec": {"clusterName": "blue", "version": "v1.33.0", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "OpenStackMachine", "name": name}},
        }),
    );
    let owner =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name, "uid": "u"});
    api.put(
        &format!("{CONFIGS}/{name}"),
        json!({
            "metadata": {"generation": 1, "ownerReferences": [owner]}, "spec": spec,
        }),
    );
}

async fn pass(api: &FakeApi, name: &str) -> Result<Requeue, kube::Error> {
    let object: KubeadmConfig =
        serde_json::from_value(api.get(&format!("{CONFIGS}/{name}")).unwrap()).unwrap();
    reconciler(api).reconcile(&object).await
}

/// Returns the parsed document of a Machine, once it is there.
fn document(api: &FakeApi, name: &str) -> Option<Value> {
    let secret: Secret = serde_json::from_value(api.get(&format!("{SECRETS}/{name}"))?).unwrap();
    let data = secret.data.unwrap();
    assert_eq!(data["format"].0, b"cloud-config");
    Some(serde_saphyr::from_str(std::str::from_utf8(&data["value"].0).unwrap()).unwrap())
}

fn conditions(api: &FakeApi, name: &str) -> Value {
    let config = api.get(&format!("{CONFIGS}/{name}")).unwrap();
    let conditions = config["status"]["conditions"].as_array().unwrap().iter();
    conditions
        .map(|it| format!("{} {}", it["type"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect()
}

/// Settings by which the test is fast: a short key.
fn settings() -> Value {
    json!({"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}})
}

#[tokio::test]
async fn the_first_node_gets_its_data_whatever_write_fails() {
    for crash in [Crash::Before, Crash::After] {
        for at in 1.. {
            let api = FakeApi::default();
            cluster(&api, false);
            machine(&api, "m", true, &settings());
            api.crash_at(Some((at, crash)));
            let failed = pass(&api, "m").await.is_err();
            api.crash_at(None);
            for _ in 0..2 {
                pass(&api, "m").await.unwrap();
            }
            let tree = document(&api, "m").unwrap();
            let ca: Secret = serde_json::from_value(api.get(&format!("{SECRETS}/blue-ca")).unwrap()).unwrap();
            let written = tree["write_files"][0]["content"].as_str().unwrap();
            assert_eq!(written.as_bytes(), ca.data.unwrap()["tls.crt"].0, "{crash:?} at write {at}");
            let replaced: Vec<String> =
                api.replaced().into_iter().filter(|it| it.contains("/blue-")).collect();
            assert_eq!(replaced, Vec::<String>::new(), "certificates are never overwritten");
            let lock = api.get(LOCK).unwrap();
            assert_eq!(lock["data"]["lock-information"], r#"{"machineName":"m"}"#);
            let config = api.get(&format!("{CONFIGS}/m")).unwrap();
            assert!(config["spec"]["initConfiguration"].is_null(), "the token of kubeadm init is not stored");
            let kubeadm = tree["write_files"][8]["content"].as_str().unwrap();
            assert!(kubeadm.contains("system:bootstrappers:capstan:no-node"), "{kubeadm}");
            assert_eq!(config["status"]["dataSecretName"], "m");
            assert_eq!(config["spec"]["clusterConfiguration"]["controlPlaneEndpoint"], "203.0.113.10:6443");
            let all = json!([
                "Paused False",
                "DataSecretAvailable True",
                "CertificatesAvailable True",
                "Ready True"
            ]);
            assert_eq!(conditions(&api, "m"), all);
            if !failed {
                assert_eq!(api.writes(), 0, "a pass over a rendered object only reads");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_of_a_machine_that_initializes_is_not_replaced_for_another_machine() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    machine(&api, "n", true, &settings());
    pass(&api, "m").await.unwrap();
    api.remove(&format!("{SECRETS}/blue-ca")).unwrap();
    assert_eq!(pass(&api, "n").await.unwrap(), Requeue::After(stop::WAITING));
    assert_eq!(
        api.get(&format!("{SECRETS}/blue-ca")),
        None,
        "machine m boots with the certificate that is lost"
    );
}

#[tokio::test]
async fn a_machine_reports_a_failed_bootstrap_where_its_console_is_read() {
    for (kind, annotation, expected) in [
        ("OpenStackMachine", None, true),
        ("OpenStackMachine", Some("false"), false),
        ("OtherMachine", None, false),
        ("OtherMachine", Some("true"), true),
    ] {
        let api = FakeApi::default();
        cluster(&api, false);
        machine(&api, "m", true, &settings());
        let (machine, config) = (format!("{MACHINES}/m"), format!("{CONFIGS}/m"));
        let mut owner = api.get(&machine).unwrap();
        owner["spec"]["infrastructureRef"]["kind"] = kind.into();
        api.put(&machine, owner);
        let mut object = api.get(&config).unwrap();
        object["metadata"]["annotations"] =
            annotation.map_or_else(|| json!({}), |value| json!({"capstan.dev/bootstrap-report": value}));
        api.put(&config, object);
        pass(&api, "m").await.unwrap();
        let commands = document(&api, "m").unwrap()["runcmd"].as_array().unwrap().len();
        assert_eq!(commands == 2, expected, "{kind} {annotation:?}");
    }
}

#[tokio::test]
async fn the_proxy_of_the_cluster_is_in_the_data_of_a_machine() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut object = api.get(CLUSTER).unwrap();
    object["metadata"]["annotations"] = json!({"capstan.dev/proxy": "no URL"});
    api.put(CLUSTER, object.clone());
    let mut spec = settings();
    spec["preKubeadmCommands"] = json!(["true"]);
    machine(&api, "m", true, &spec);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(SHORT));
    let config = api.get(&format!("{CONFIGS}/m")).unwrap();
    let message = config["status"]["conditions"].to_string();
    assert!(
        message.contains("annotation capstan.dev/proxy of the Cluster: the value is no URL"),
        "{message}"
    );
    object["metadata"]["annotations"] = json!({"capstan.dev/proxy": "http://proxy.lab:3128"});
    api.put(CLUSTER, object);
    pass(&api, "m").await.unwrap();
    let tree = document(&api, "m").unwrap();
    let path = tree["write_files"][8]["path"].as_str().unwrap();
    assert_eq!(path, "/etc/systemd/system/containerd.service.d/http-proxy.conf");
    let commands: Vec<&str> = tree["runcmd"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(commands[0].starts_with("export HTTP_PROXY='http://proxy.lab:3128'"), "{commands:?}");
    assert_eq!(commands[2], "true");
}

#[tokio::test]
async fn the_data_of_a_machine_that_has_joined_is_removed_if_the_cluster_wants_that() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    let stored = || api.get(&format!("{SECRETS}/m")).unwrap()["data"]["value"].as_str().unwrap().len();
    let mut joined = api.get(&format!("{MACHINES}/m")).unwrap();
    joined["status"] = json!({"nodeRef": {"name": "m"}});
    for (wanted, has_joined, stays) in [(false, true, true), (true, false, true), (true, true, false)] {
        let mut object = api.get(CLUSTER).unwrap();
        object["metadata"]["annotations"] = json!({"capstan.dev/remove-bootstrap-data": wanted.to_string()});
        api.put(CLUSTER, object);
        if has_joined {
            api.put(&format!("{MACHINES}/m"), joined.clone());
        } else {
            let mut machine = joined.clone();
            machine["status"] = json!({});
            api.put(&format!("{MACHINES}/m"), machine);
        }
        pass(&api, "m").await.unwrap();
        assert_eq!(stored() > 0, stays, "{wanted} {has_joined}");
    }
    api.crash_at(None);
    pass(&api, "m").await.unwrap();
    assert_eq!(api.writes(), 0, "it is removed once");
}

#[tokio::test]
async fn one_machine_alone_initializes_and_a_lost_holder_is_replaced() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    machine(&api, "n", true, &settings());
    pass(&api, "m").await.unwrap();
    assert_eq!(pass(&api, "n").await.unwrap(), Requeue::After(stop::WAITING));
    assert_eq!(document(&api, "n"), None);
    api.put(LOCK, json!({"data": {"lock-information": r#"{"machineName":"gone"}"#}}));
    assert_eq!(
        pass(&api, "n").await.unwrap(),
        Requeue::After(stop::RELEASED),
        "it need not wait for the next look"
    );
    assert_eq!(api.get(LOCK), None, "the lock of a Machine that does not exist is released");
    pass(&api, "n").await.unwrap();
    assert!(document(&api, "n").is_some());
}

#[tokio::test]
async fn a_worker_waits_for_the_control_plane_and_then_for_the_workload_cluster() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    machine(&api, "w", false, &json!({}));
    pass(&api, "m").await.unwrap();
    assert_eq!(pass(&api, "w").await.unwrap(), Requeue::After(stop::WAITING));
    let waiting = json!(["Paused False", "DataSecretAvailable False", "Ready False"]);
    assert_eq!(conditions(&api, "w"), waiting);
    cluster(&api, true);
    assert_eq!(pass(&api, "w").await.unwrap(), Requeue::Retry(SHORT));
    assert_eq!(api.get(LOCK), None, "the first join releases the lock");
    let config = api.get(&format!("{CONFIGS}/w")).unwrap();
    let discovery = &config["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"];
    assert!(
        Token::parse(discovery["token"].as_str().unwrap()).is_ok(),
        "the token is stored before it is created"
    );
    let message = config["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(message.contains("not connected to the workload cluster"), "{message}");
    assert!(!config["status"].to_string().contains(discovery["token"].as_str().unwrap()));
    pass(&api, "w").await.unwrap();
    let again = api.get(&format!("{CONFIGS}/w")).unwrap();
    assert_eq!(again["spec"], config["spec"], "a second pass keeps the token");
}

#[tokio::test]
async fn a_node_that_finds_its_cluster_by_a_file_needs_no_connection() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    cluster(&api, true);
    let by_file = json!({"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/run/d.yaml",
        "kubeConfig": {"user": {"exec": {"command": "token"}}}}}}});
    machine(&api, "w", false, &by_file);
    machine(&api, "n", true, &by_file);
    for (name, files) in [("w", 4), ("n", 12)] {
        pass(&api, name).await.unwrap();
        let tree = document(&api, name).unwrap();
        assert_eq!(tree["write_files"].as_array().unwrap().len(), files, "{name}");
    }
    let taints = document(&api, "w").unwrap()["write_files"][1]["content"].as_str().unwrap().to_owned();
    assert!(taints.contains("node.cluster.x-k8s.io/uninitialized"), "{taints}");
}

#[tokio::test]
async fn contents_of_secrets_are_read_and_a_missing_one_is_named() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    spec["files"] = json!([{"path": "/a", "contentFormat": "Template", "contentFrom": {"secret": {"name": "s", "key": "k"}}}]);
    spec["users"] = json!([{"name": "ops", "passwdFrom": {"secret": {"name": "s", "key": "p"}}}]);
    machine(&api, "m", true, &spec);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(stop::SECRET));
    let config = api.get(&format!("{CONFIGS}/m")).unwrap();
    let message = "spec.files[0].contentFrom.secret (/a): Secret ns/s does not exist. Create the Secret with the key \
        \"k\"; it is looked for every 3 seconds";
    assert_eq!(config["status"]["conditions"][1]["message"], message);
    assert_eq!(config["status"]["conditions"][1]["reason"], "NotAvailable");
    assert_eq!(api.get(LOCK), None, "an error does not keep the lock");
    api.put(
        &format!("{SECRETS}/s"),
        json!({"data": {"k": "e3sgaWYgLmNvbnRyb2xQbGFuZSB9fWF7eyBlbHNlIH19Ynt7IGVuZCB9fQ==", "p": "Kg=="}}),
    );
    pass(&api, "m").await.unwrap();
    let tree = document(&api, "m").unwrap();
    let files = tree["write_files"].as_array().unwrap();
    assert!(files.contains(&json!({"path": "/a", "content": "b"})), "no object manages the control plane");
    assert_eq!(tree["users"], json!([{"name": "ops", "passwd": "*"}]));
}

#[tokio::test]
async fn a_machine_gets_bootstrap_data_while_the_host_is_down() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    // The host may have a Secret of this name, but Capstan has not made one.
    api.silence(Some(&format!("{SECRETS}/m")));
    pass(&api, "m").await.unwrap();
    assert!(document(&api, "m").is_some(), "{:?}", api.get(&format!("{CONFIGS}/m")));
    // Data that was made is not made again.
    api.remove(&format!("{SECRETS}/m"));
    pass(&api, "m").await.unwrap();
    assert!(api.get(&format!("{SECRETS}/m")).is_none(), "{:?}", api.get(&format!("{CONFIGS}/m")));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_told_until_there_is_data() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    let message = || {
        let config = api.get(&format!("{CONFIGS}/m")).unwrap();
        let of_data = &config["status"]["conditions"][1];
        assert_eq!(of_data["type"], "DataSecretAvailable");
        of_data["message"].as_str().unwrap_or_default().to_owned()
    };
    api.forbid(Some(&format!("{SECRETS}/m")));
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(SHORT));
    assert_eq!(message(), "Secret ns/m cannot be read: Forbidden. Grant Capstan this permission");
    api.forbid(Some(&format!("{SECRETS}/blue-etcd")));
    assert!(pass(&api, "m").await.is_err());
    assert!(message().contains("cannot be read or written: Forbidden. "), "{}", message());
    assert_eq!(conditions(&api, "m"), json!(["Paused False", "DataSecretAvailable False", "Ready False"]));
    api.forbid(None);
    pass(&api, "m").await.unwrap();
    let all = json!(["Paused False", "DataSecretAvailable True", "Ready True", "CertificatesAvailable True"]);
    assert_eq!(conditions(&api, "m"), all);
    api.forbid(Some(&format!("{SECRETS}/m")));
    pass(&api, "m").await.unwrap();
    assert_eq!(conditions(&api, "m"), all, "the data is there, whether it can be read or not");
}
