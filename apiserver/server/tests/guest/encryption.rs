//! Two servers on one etcd, of which the second has no encryption key.

use std::time::{Duration, Instant};

use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str =
    r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "eA=="}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_the_key_of_the_store_is_not_ready_and_makes_none() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first_data, second_data] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let first = Capstan::start(first_data, &flags);
    first.ready().await;
    assert_eq!(first.client().once("POST", SECRETS, SECRET).await.unwrap().code, 201);

    // Without its key it cannot read the CA in the store, either.
    std::fs::create_dir_all(second_data.join("pki")).unwrap();
    for name in ["pki/ca.crt", "pki/ca.key"] {
        std::fs::copy(first_data.join(name), second_data.join(name)).unwrap();
    }
    let second = Capstan::start(second_data, &flags);
    second.listening().await;
    let client = second.client();
    let ready = client.get("/readyz").await.unwrap();
    assert_eq!(ready.code, 500);
    assert!(ready.text().contains("[-]encryption failed: reason withheld\n"), "{}", ready.text());
    for (method, body) in [("GET", ""), ("POST", SECRET)] {
        assert_eq!(client.once(method, SECRETS, body).await.unwrap().code, 503, "{method}");
    }
    assert!(!second_data.join("encryption.yaml").exists());
    let log = std::fs::read_to_string(second_data.join(format!("{}.log", second.port))).unwrap();
    assert!(log.contains("lacks the encryption key with the fingerprint"), "{log}");

    std::fs::copy(first_data.join("encryption.yaml"), second_data.join("encryption.yaml")).unwrap();
    let end = Instant::now() + PATIENCE;
    while client.get(&format!("{SECRETS}/s")).await.map_or(0, |answer| answer.code) != 200 {
        assert!(Instant::now() < end, "the Secret cannot be read with its key");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    second.ready().await;
}
