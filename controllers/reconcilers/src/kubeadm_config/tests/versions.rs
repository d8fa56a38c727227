//! Passes whose result depends on what kubeadm accepts in a version.

use super::*;

/// Changes the version of a Machine.
fn with_version(api: &FakeApi, name: &str, version: &str) {
    let path = format!("{MACHINES}/{name}");
    let mut machine = api.get(&path).unwrap();
    machine["spec"]["version"] = version.into();
    api.put(&path, machine);
}

/// Returns the content of a file in a Machine's document.
fn content(api: &FakeApi, name: &str, path: &str) -> Option<String> {
    let tree = document(api, name)?;
    let files = tree["write_files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path)?;
    Some(file["content"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn the_environment_of_static_pods_is_a_patch_on_the_nodes_of_an_old_version_alone() {
    let path = "/etc/kubernetes/extra-envs/kube-apiserver-extra-envs.json";
    for (version, expected) in [("v1.30.14", true), ("v1.33.0", false)] {
        let api = FakeApi::default();
        cluster(&api, false);
        let mut spec = settings();
        spec["clusterConfiguration"]["apiServer"] =
            json!({"extraEnvs": [{"name": "GOMEMLIMIT", "value": "3GiB"}]});
        machine(&api, "m", true, &spec);
        with_version(&api, "m", version);
        pass(&api, "m").await.unwrap();
        let kubeadm = content(&api, "m", "/run/kubeadm/kubeadm.yaml").unwrap();
        assert_eq!(kubeadm.contains("directory: /etc/kubernetes/extra-envs"), expected, "{kubeadm}");
        assert_eq!(kubeadm.contains("GOMEMLIMIT"), !expected, "{kubeadm}");
        let patch = content(&api, "m", path);
        assert_eq!(patch.is_some_and(|patch| patch.contains("GOMEMLIMIT")), expected, "{version}");
        let stored = api.get(&format!("{CONFIGS}/m")).unwrap();
        assert!(stored["spec"]["initConfiguration"].is_null(), "a rollout compares what the user gave");
    }
}

#[tokio::test]
async fn a_joining_control_plane_node_gets_the_patches_and_a_worker_does_not() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    cluster(&api, true);
    let spec = json!({
        "clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256", "etcd": {"local":
            {"extraEnvs": [{"name": "ETCD_QUOTA", "value": "1"}]}}},
        "joinConfiguration": {"patches": {"directory": "/etc/patches"}, "discovery": {"file":
            {"kubeConfigPath": "/run/d.yaml", "kubeConfig": {"user": {"exec": {"command": "token"}}}}}}});
    for (name, control_plane) in [("n", true), ("w", false)] {
        machine(&api, name, control_plane, &spec);
        with_version(&api, name, "v1.30.14");
        pass(&api, name).await.unwrap();
        let patch = content(&api, name, "/etc/patches/etcd-extra-envs.json");
        assert_eq!(patch.is_some(), control_plane, "{name}");
    }
}

#[tokio::test]
async fn a_value_that_kubeadm_would_refuse_is_named_before_a_machine_exists() {
    let network = json!({"services": {"cidrBlocks": ["10.0.0.0/8"]}});
    let bad = json!({"nodeRegistration": {"name": "Node_1"}});
    let edits = json!(["sed -i s/Node_1/node-1/ /run/kubeadm/kubeadm.yaml"]);
    let name = "kubeadm refuses spec.initConfiguration.nodeRegistration.name: \"Node_1\" is no DNS name. \
        Correct the field";
    let range = "kubeadm refuses spec.clusterNetwork.services.cidrBlocks of Cluster blue: \"10.0.0.0/8\" is too large: the \
        shortest prefix is /12. Correct the field";
    let table = [
        (bad.clone(), json!([]), json!({}), Some(name)),
        (bad, edits, json!({}), None),
        (json!({}), json!([]), network, Some(range)),
    ];
    for (init, commands, network, expected) in table {
        let api = FakeApi::default();
        cluster(&api, false);
        let mut of_cluster = api.get(CLUSTER).unwrap();
        of_cluster["spec"]["clusterNetwork"] = network;
        api.put(CLUSTER, of_cluster);
        let mut spec = settings();
        (spec["initConfiguration"], spec["preKubeadmCommands"]) = (init, commands);
        machine(&api, "m", true, &spec);
        let requeue = pass(&api, "m").await.unwrap();
        assert_eq!(document(&api, "m").is_none(), expected.is_some());
        let Some(expected) = expected else { continue };
        assert_eq!(requeue, Requeue::Retry(SHORT));
        let config = api.get(&format!("{CONFIGS}/m")).unwrap();
        let condition = &config["status"]["conditions"][1];
        assert_eq!((condition["type"].as_str(), condition["message"].as_str()), (Some(DATA), Some(expected)));
        assert_eq!(api.get(LOCK), None, "an error does not keep the lock");
    }
}

#[tokio::test]
async fn a_join_that_kubeadm_would_refuse_makes_no_token() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    cluster(&api, true);
    machine(&api, "w", false, &json!({"joinConfiguration": {"caCertPath": "ca.pem"}}));
    pass(&api, "w").await.unwrap();
    let config = api.get(&format!("{CONFIGS}/w")).unwrap();
    let message = config["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(message.contains("spec.joinConfiguration.caCertPath"), "{message}");
    assert!(config["spec"]["joinConfiguration"]["discovery"].is_null(), "no token is stored");
}

#[tokio::test]
async fn a_flag_that_the_api_server_does_not_have_is_named_before_a_machine_exists() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    spec["clusterConfiguration"]["apiServer"] =
        json!({"extraArgs": [{"name": "cloud-provider", "value": "external"}]});
    machine(&api, "m", true, &spec);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(SHORT));
    let config = api.get(&format!("{CONFIGS}/m")).unwrap();
    let message = config["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(
        message.contains("apiServer.extraArgs[0]: kube-apiserver v1.33.0 does not have the flag"),
        "{message}"
    );
    assert_eq!(document(&api, "m"), None);
}

#[tokio::test]
async fn a_gate_that_kubeadm_would_refuse_is_named_before_a_machine_exists() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    spec["clusterConfiguration"]["featureGates"] = json!({"EtcdLearnerMode": true, "PublicKeysECDSA": true});
    machine(&api, "m", true, &spec);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(SHORT));
    let config = api.get(&format!("{CONFIGS}/m")).unwrap();
    let condition = &config["status"]["conditions"][1];
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("featureGates: kubeadm v1.33.0 does not know EtcdLearnerMode."), "{message}");
    assert_eq!(
        (condition["type"].as_str(), condition["reason"].as_str()),
        (Some(DATA), Some("NotAvailable"))
    );
    assert_eq!(document(&api, "m"), None);
    assert_eq!(api.get(LOCK), None, "an error does not keep the lock");
}
