//! Identity of a machine, with a real server: a machine reads what belongs to its own Machine, and nothing else.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair;
use serde_json::{Value, json};

use crate::certificate_requests::{client, send, signed_by};
use crate::client::Client;
use crate::process::Capstan;

pub(crate) const NAMESPACE: &str = "/api/v1/namespaces";
pub(crate) const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
pub(crate) const SIGNER: &str = "capstan.dev/machine";

pub(crate) fn machine(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": format!("{name}-data")},
            "infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name}}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"value": "x"}})
}

/// Returns a client with a certificate of a machine.
pub(crate) async fn of_machine(capstan: &Capstan, data: &Path, name: &str, request: &str) -> Client {
    let key = KeyPair::generate().unwrap();
    let user = format!("system:machine:team:{name}");
    let issued = signed_by(&capstan.client(), (request, SIGNER), (&user, "system:machines"), &key).await;
    let certificate = issued["status"]["certificate"].as_str().unwrap_or_else(|| panic!("{issued}"));
    let pem = String::from_utf8(STANDARD.decode(certificate).unwrap()).unwrap();
    client(capstan, data, &pem, &key)
}

/// Writes a configuration in which no controller removes what a test creates. Returns its path.
pub(crate) fn without_controllers(data: &Path) -> String {
    let file = data.join("config.yaml");
    let text = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ncontrollers: {enabled: false}\n";
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn iz_30_a_machine_reads_its_own_objects_until_it_is_made_anew() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &["--config", &without_controllers(data.path())]);
    capstan.ready().await;
    let admin = capstan.client();
    send(&admin, "POST", NAMESPACE, &json!({"metadata": {"name": "team"}}), 201).await;
    let secrets = format!("{NAMESPACE}/team/secrets");
    for name in ["m", "other"] {
        send(&admin, "POST", MACHINES, &machine(name), 201).await;
        send(&admin, "POST", &secrets, &secret(&format!("{name}-data")), 201).await;
    }
    let absent = ("absent", SIGNER);
    let key = KeyPair::generate().unwrap();
    let refused = signed_by(&admin, absent, ("system:machine:team:absent", "system:machines"), &key).await;
    assert!(
        refused["status"]["conditions"].to_string().contains("Machine team/absent does not exist"),
        "{refused}"
    );

    let own = of_machine(&capstan, data.path(), "m", "first").await;
    let codes = async |client: &Client, paths: &[(&str, u16)]| {
        for (path, expected) in paths {
            let answer = client.get(path).await.unwrap();
            assert_eq!(answer.code, *expected, "{path}: {}", answer.text());
        }
    };
    let (mine, others) = (format!("{MACHINES}/m"), format!("{MACHINES}/other"));
    let selected = format!("{MACHINES}?fieldSelector=metadata.name%3Dm");
    codes(&own, &[(&mine, 200), (&others, 403), (MACHINES, 403), (&selected, 200), ("/apis", 200)]).await;
    let (data_of_m, data_of_other) = (format!("{secrets}/m-data"), format!("{secrets}/other-data"));
    codes(&own, &[(&data_of_m, 200), (&data_of_other, 403), (&secrets, 403)]).await;
    codes(&own, &[("/api/v1/namespaces/default/secrets/m-data", 403)]).await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    codes(&own, &[(&format!("{requests}/first"), 403), (requests, 403)]).await;
    let found: Value = serde_json::from_slice(&admin.get(&mine).await.unwrap().body).unwrap();
    let event = |name: &str, of: &str| {
        json!({"metadata": {"generateName": name}, "reason": "Test", "message": "x", "type": "Normal",
            "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "namespace": "team",
                "name": of, "uid": found["metadata"]["uid"]}})
    };
    let events = format!("{NAMESPACE}/team/events");
    send(&own, "POST", &events, &event("own-", "m"), 201).await;
    send(&own, "POST", &events, &event("foreign-", "other"), 403).await;
    send(&own, "DELETE", &mine, &json!({}), 403).await;

    // A Machine that is made anew is another one.
    send(&admin, "DELETE", &mine, &json!({}), 200).await;
    let gone = own.get(&mine).await.unwrap();
    assert_eq!(gone.code, 401, "{}", gone.text());
    send(&admin, "POST", MACHINES, &machine("m"), 201).await;
    assert_eq!(own.get(&mine).await.unwrap().code, 401);
    let next = of_machine(&capstan, data.path(), "m", "second").await;
    codes(&next, &[(&mine, 200)]).await;
}
