//! Two servers on one etcd, of which the second has no encryption key.

use std::time::{Duration, Instant};

use crate::etcd::Etcd;
use crate::key_rotation::{run, until_done};
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

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
    let named = "[-]encryption failed: this server lacks the encryption key ";
    assert!(ready.text().contains(named), "{}", ready.text());
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

#[tokio::test(flavor = "multi_thread")]
async fn hv_40_of_three_replicas_only_the_one_without_the_promoted_key_is_not_ready_and_names_it() {
    let etcd = Etcd::started();
    let directories: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let [first, second, third] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let first_server = Capstan::start(first, &flags);
    first_server.ready().await;
    for other in [second, third] {
        share_secrets(first, other);
    }
    // The last one starts when the others seal with a key that it does not have.
    let second_server = Capstan::start(second, &flags);
    second_server.ready().await;
    assert!(run(first, &url, &["encryption", "add"]).status.success());
    std::fs::copy(first.join("encryption.yaml"), second.join("encryption.yaml")).unwrap();
    until_done(first, &url, &["encryption", "promote"]);
    let promoted = until_done(first, &url, &["encryption", "status"]);
    assert_eq!(first_server.client().with_retries("POST", SECRETS, SECRET).await.unwrap().code, 201);

    let third_server = Capstan::start(third, &flags);
    third_server.listening().await;
    let log = || std::fs::read_to_string(third.join(format!("{}.log", third_server.port))).unwrap();
    let end = Instant::now() + PATIENCE;
    let missing = loop {
        let log = log();
        let missing = log.split("lacks the encryption key with the fingerprint ").nth(1);
        if let Some(missing) = missing.and_then(|rest| rest.get(..8)) {
            break missing.to_owned();
        }
        assert!(Instant::now() < end, "{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(promoted.contains(&missing), "{missing} is not the promoted key: {promoted}");
    let ready = third_server.client().get("/readyz").await.unwrap();
    assert_eq!(ready.code, 500);
    let line = format!("[-]encryption failed: this server lacks the encryption key {missing}\n");
    assert!(ready.text().contains(&line), "{}", ready.text());
    assert_eq!(third_server.client().once("GET", SECRETS, "").await.unwrap().code, 503);
    for server in [&first_server, &second_server] {
        let client = server.client();
        assert_eq!(client.get("/readyz").await.unwrap().code, 200);
        assert_eq!(client.get(&format!("{SECRETS}/s")).await.unwrap().code, 200);
    }
    std::fs::copy(first.join("encryption.yaml"), third.join("encryption.yaml")).unwrap();
    third_server.ready().await;
    assert_eq!(third_server.client().get(&format!("{SECRETS}/s")).await.unwrap().code, 200);
}
