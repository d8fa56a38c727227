//! Order of a pass (A.1), data of the first node (A.3), its Secret (A.7), and templates in files (A.8).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

fn config(api: &FakeApi, name: &str) -> Value {
    api.get(&format!("{CONFIGS}/{name}")).unwrap()
}

fn message(api: &FakeApi, name: &str) -> String {
    let config = config(api, name);
    config["status"]["conditions"][1]["message"].as_str().unwrap().to_owned()
}

/// Returns the content of a file of a document.
fn content(document: &Value, path: &str) -> String {
    let files = document["write_files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    file["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a1_a_config_without_an_owner_or_a_cluster_waits_without_an_error() {
    let api = FakeApi::default();
    machine(&api, "m", true, &settings());
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::OnChange, "there is no Cluster");
    cluster(&api, false);
    let mut alone = config(&api, "m");
    alone["metadata"]["ownerReferences"] = json!([]);
    api.put(&format!("{CONFIGS}/m"), alone);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::OnChange, "there is no owner");
    api.remove(&format!("{MACHINES}/m")).unwrap();
    machine(&api, "n", true, &settings());
    api.remove(&format!("{MACHINES}/n")).unwrap();
    assert_eq!(pass(&api, "n").await.unwrap(), Requeue::OnChange, "the owner does not exist");
    for name in ["m", "n"] {
        assert!(config(&api, name)["status"].is_null());
    }
}

#[tokio::test]
async fn a1_a_paused_config_gets_its_condition_and_nothing_else() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    let mut paused = api.get(CLUSTER).unwrap();
    paused["spec"]["paused"] = true.into();
    api.put(CLUSTER, paused);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::OnChange);
    assert_eq!(conditions(&api, "m"), json!(["Paused True"]));
    assert_eq!((api.get(LOCK), api.get(&format!("{SECRETS}/blue-ca"))), (None, None));
}

#[tokio::test]
async fn a1_a_status_that_a_move_has_lost_is_filled_from_the_machine() {
    let api = FakeApi::default();
    cluster(&api, true);
    machine(&api, "m", true, &settings());
    let mut moved = api.get(&format!("{MACHINES}/m")).unwrap();
    moved["spec"]["bootstrap"]["dataSecretName"] = "old".into();
    api.put(&format!("{MACHINES}/m"), moved);
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Now);
    let status = config(&api, "m")["status"].clone();
    assert_eq!(
        (&status["dataSecretName"], &status["initialization"]["dataSecretCreated"]),
        (&json!("old"), &json!(true))
    );
    let all = json!(["Paused False", "DataSecretAvailable True", "CertificatesAvailable True", "Ready True"]);
    assert_eq!(conditions(&api, "m"), all);
    assert_eq!(document(&api, "m"), None, "nothing is rendered");
}

#[tokio::test]
async fn a3_a_machine_without_a_version_is_named() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    let mut bare = api.get(&format!("{MACHINES}/m")).unwrap();
    bare["spec"]["version"] = Value::Null;
    api.put(&format!("{MACHINES}/m"), bare);
    pass(&api, "m").await.unwrap();
    assert!(message(&api, "m").starts_with("Machine m has no spec.version"), "{}", message(&api, "m"));
    assert_eq!(api.get(LOCK), None);
}

#[tokio::test]
async fn a3_with_a_control_plane_object_certificates_are_looked_up_and_not_made() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut managed = api.get(CLUSTER).unwrap();
    managed["spec"]["controlPlaneRef"] =
        json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "blue"});
    api.put(CLUSTER, managed);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    let status = config(&api, "m")["status"].to_string();
    let missing = "Secrets with certificates do not exist: blue-ca, blue-etcd, blue-proxy, blue-sa";
    assert!(status.contains(missing) && status.contains("CertificatesGenerationFailed"), "{status}");
    assert!(conditions(&api, "m").to_string().contains("CertificatesAvailable Unknown"));
    assert_eq!((api.get(&format!("{SECRETS}/blue-ca")), document(&api, "m")), (None, None));
}

#[tokio::test]
async fn a3_settings_of_a_join_have_no_effect_on_the_first_node() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    spec["joinConfiguration"] =
        json!({"nodeRegistration": {"name": "of-the-join"}, "caCertPath": "/of-the-join"});
    machine(&api, "m", true, &spec);
    pass(&api, "m").await.unwrap();
    let document = document(&api, "m").unwrap();
    assert!(!document.to_string().contains("of-the-join"), "{document}");
    assert!(content(&document, "/run/kubeadm/kubeadm.yaml").contains("kind: InitConfiguration"));
}

#[tokio::test]
async fn a7_the_data_secret_has_upstreams_form() {
    for (format, start) in [("cloud-config", "## template: jinja\n#cloud-config\n"), ("ignition", "{")] {
        let api = FakeApi::default();
        cluster(&api, false);
        let mut spec = settings();
        spec["format"] = format.into();
        machine(&api, "m", true, &spec);
        pass(&api, "m").await.unwrap();
        let secret = api.get(&format!("{SECRETS}/m")).unwrap();
        assert_eq!(secret["type"], "cluster.x-k8s.io/secret");
        assert_eq!(secret["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "blue"}));
        let owner = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig", "name": "m",
            "uid": "uid-m", "controller": true});
        assert_eq!(
            secret["metadata"]["ownerReferences"],
            json!([owner]),
            "it does not block the owner's deletion"
        );
        let data: Secret = serde_json::from_value(secret).unwrap();
        let data = data.data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["format", "value"]);
        assert_eq!(data["format"].0, format.as_bytes());
        assert!(data["value"].0.starts_with(start.as_bytes()), "{format}");
    }
}

#[tokio::test]
async fn a7_a_change_of_the_settings_has_no_effect_once_there_is_data() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    let before = api.get(&format!("{SECRETS}/m"));
    let mut changed = config(&api, "m");
    changed["spec"]["preKubeadmCommands"] = json!(["true"]);
    api.put(&format!("{CONFIGS}/m"), changed);
    pass(&api, "m").await.unwrap();
    assert_eq!(api.get(&format!("{SECRETS}/m")), before);
}

#[tokio::test]
async fn a8_a_template_that_is_wrong_is_told_with_field_line_and_column() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    let secret = json!({"secret": {"name": "s", "key": "k"}});
    spec["files"] = json!([{"path": "/a", "contentFormat": "Template", "contentFrom": secret}]);
    machine(&api, "m", true, &spec);
    let wrong = STANDARD.encode("{{ if .controlPlane }}\n{{ range .x }}{{ end }}");
    api.put(&format!("{SECRETS}/s"), json!({"data": {"k": wrong}}));
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(SHORT));
    let expected = "spec.files[0].contentFrom.secret (/a): the template of Secret ns/s, key \"k\", is not valid: line 2, \
        column 4: \"range\" is not supported";
    assert_eq!(message(&api, "m"), expected);
    spec["files"] = json!([{"path": "/b", "content": "ok"},
        {"path": "/a", "contentFormat": "Template", "content": "{{ if .controlPlane }}{{ .x }}{{ end }}"}]);
    machine(&api, "n", true, &spec);
    assert_eq!(pass(&api, "n").await.unwrap(), Requeue::Retry(SHORT));
    let expected = "spec.files[1].content (/a): the template is not valid: line 1, column 26: .x is not set: the only value \
        is .controlPlane.version";
    assert_eq!(message(&api, "n"), expected);
}
