//! Rotation of the encryption key over two servers on one etcd, of which one lacks the new key.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use storage_contract::{Key, KeyRange, ListOptions, Store};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Runs a command of the program against the store.
pub(crate) fn run(data: &Path, url: &str, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(words).arg("--data-dir").arg(data).args(["--etcd-endpoints", url]).output().unwrap()
}

/// Runs a command until it succeeds: replicas report their keys every ten seconds, and read files every 30.
pub(crate) fn until_done(data: &Path, url: &str, words: &[&str]) -> String {
    let end = Instant::now() + 2 * PATIENCE;
    loop {
        let output = run(data, url, words);
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(Instant::now() < end, "{words:?}: {error}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

pub(crate) fn secret(name: &str) -> String {
    format!(
        r#"{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "{name}"}}, "data": {{"key": "eA=="}}}}"#
    )
}

pub(crate) async fn store(url: &str) -> EtcdStore {
    let configuration = EtcdConfiguration { endpoints: vec![url.to_owned()], ..EtcdConfiguration::default() };
    EtcdStore::connect(configuration).await.unwrap()
}

/// Returns the start of the stored value of a Secret, up to the name of its key.
pub(crate) async fn sealed_by(store: &dyn Store, name: &str) -> String {
    let key = Key::new(format!("/capstan/core/secrets/default/{name}")).unwrap();
    let value = store.get(&key).await.unwrap().unwrap().value;
    let prefix: Vec<&[u8]> = value.split(|byte| *byte == b':').take(5).collect();
    String::from_utf8(prefix.join(&b':')).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_41_a_key_is_rotated_over_two_servers_while_they_serve() {
    let etcd = Etcd::started();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first_data, second_data] = directories.each_ref().map(tempfile::TempDir::path);
    let url = etcd.url();
    let flags = ["--etcd-endpoints", url.as_str()];
    let first = Capstan::start(first_data, &flags);
    first.ready().await;
    share_secrets(first_data, second_data);
    let second = Capstan::start(second_data, &flags);
    second.ready().await;
    let client = second.client();
    for number in 0..20 {
        let body = secret(&format!("s{number}"));
        assert_eq!(client.with_retries("POST", SECRETS, &body).await.unwrap().code, 201);
    }
    let store = store(&url).await;
    let old = sealed_by(&store, "s0").await;

    assert!(run(first_data, &url, &["encryption", "add"]).status.success());
    let refused = run(first_data, &url, &["encryption", "promote"]);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("do not have the encryption key"), "{error}");

    std::fs::copy(first_data.join("encryption.yaml"), second_data.join("encryption.yaml")).unwrap();
    until_done(first_data, &url, &["encryption", "promote"]);
    let refused = run(first_data, &url, &["encryption", "finish"]);
    assert!(!refused.status.success());
    let table = until_done(first_data, &url, &["encryption", "reencrypt"]);
    assert!(table.contains("secrets"), "{table}");
    let done = until_done(first_data, &url, &["encryption", "finish"]);
    assert!(done.contains("No value needs"), "{done}");

    // Both servers read and seal with the new key alone.
    for number in 0..20 {
        assert_ne!(sealed_by(&store, &format!("s{number}")).await, old);
    }
    for (number, server) in [&first, &second].into_iter().enumerate() {
        let (client, name) = (server.client(), format!("later{number}"));
        assert_eq!(client.get(&format!("{SECRETS}/s7")).await.unwrap().code, 200);
        assert_eq!(client.once("POST", SECRETS, &secret(&name)).await.unwrap().code, 201);
        assert_eq!(sealed_by(&store, &name).await, sealed_by(&store, "s0").await);
        assert_eq!(client.get("/readyz").await.unwrap().code, 200);
    }
    let pki = store.list(&KeyRange::prefix("/capstan/pki/"), &ListOptions::default()).await.unwrap();
    let old_name = old.rsplit(':').next().unwrap().to_owned();
    for entry in pki.entries {
        let text = String::from_utf8_lossy(&entry.value[..60.min(entry.value.len())]).into_owned();
        assert!(!text.contains(&old_name), "{}", entry.key);
    }
}
