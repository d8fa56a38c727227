//! Tests of the rotation of encryption keys.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use apiserver_machinery::encryption::Encryption;
use bytes::Bytes;
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

use super::*;
use crate::cli::{EncryptionPromoteArguments, StoreArguments};
use crate::encryption;
use crate::encryption_keys::EncryptionKeys;
use crate::replicas::Replica;

const SECRET: &str = "/capstan/core/secrets/team/s";

fn store(data: &Path) -> EmbeddedStore {
    EmbeddedStore::open(&data.join("store.redb")).unwrap()
}

fn arguments(data: &Path) -> StoreArguments {
    StoreArguments { config: None, data_dir: Some(PathBuf::from(data)), etcd_endpoints: Vec::new() }
}

fn promotion(data: &Path, key: Option<&str>) -> EncryptionPromoteArguments {
    EncryptionPromoteArguments { key: key.map(str::to_owned), store: arguments(data) }
}

fn keys(data: &Path) -> EncryptionKeys {
    EncryptionKeys::new(encryption::load(None, data).unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Starts a server for a moment: it agrees on the keys, and writes a Secret.
fn serve_once(data: &Path) {
    block_on(async {
        let (store, keys) = (store(data), keys(data));
        keys.agree(&store).await.unwrap();
        let sealed = keys.encryption().seal("secrets", SECRET, Bytes::from_static(b"{}")).unwrap();
        let key = Key::new(SECRET).unwrap();
        match store.get(&key).await.unwrap() {
            Some(entry) => store.update(&key, entry.modified, sealed).await.unwrap(),
            None => store.create(&key, sealed).await.unwrap(),
        };
    });
}

fn value(data: &Path) -> Bytes {
    block_on(async { store(data).get(&Key::new(SECRET).unwrap()).await.unwrap().unwrap().value })
}

fn error(result: anyhow::Result<()>) -> String {
    format!("{:#}", result.unwrap_err())
}

#[test]
fn hv_41_a_rotation_ends_with_one_key_and_each_step_waits_for_the_one_before() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    serve_once(data);
    let (old_file, old_value) = (std::fs::read_to_string(data.join("encryption.yaml")).unwrap(), value(data));
    assert!(error(promote(&promotion(data, None))).contains("`capstan encryption add` first"));
    assert!(error(finish(&arguments(data))).contains("no key was promoted"));

    add(&arguments(data)).unwrap();
    let both = keys(data).encryption();
    let [old] = BTreeSet::into_iter(both.sealing_keys()).collect::<Vec<_>>().try_into().unwrap();
    let new = both.opening_keys().into_iter().find(|key| *key != old).unwrap();
    serve_once(data);
    assert!(value(data).starts_with(format!("k8s:enc:aesgcm:v1:{old}:").as_bytes()), "it only opens values");

    promote(&promotion(data, None)).unwrap();
    // A server with the old file alone no longer opens the store.
    std::fs::write(data.join("old.yaml"), &old_file).unwrap();
    let lagging = EncryptionKeys::new(encryption::load(Some(&data.join("old.yaml")), data).unwrap());
    let refused = block_on(async { lagging.agree(&store(data)).await.unwrap_err().to_string() });
    assert!(refused.contains(&new), "{refused}");

    let refused = error(finish(&arguments(data)));
    assert!(refused.contains("1 values are not sealed") && refused.contains(SECRET), "{refused}");
    reencrypt(&arguments(data)).unwrap();
    assert!(value(data).starts_with(format!("k8s:enc:aesgcm:v1:{new}:").as_bytes()));
    assert!(both.open("secrets", SECRET, &old_value).is_ok());
    status(&arguments(data)).unwrap();
    finish(&arguments(data)).unwrap();

    // The old key is first in the file, and still no value is sealed with it.
    serve_once(data);
    assert!(value(data).starts_with(format!("k8s:enc:aesgcm:v1:{new}:").as_bytes()));
    let recorded = block_on(async { crate::encryption_keys::records::names(&store(data)).await.unwrap() });
    assert_eq!(recorded, [new]);
}

#[test]
fn hv_41_finish_finds_one_value_of_an_old_key_with_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    serve_once(data);
    add(&arguments(data)).unwrap();
    promote(&promotion(data, None)).unwrap();
    reencrypt(&arguments(data)).unwrap();
    // An older server may have given both keys one name.
    let renamed = std::fs::read_to_string(data.join("encryption.yaml")).unwrap();
    let names: Vec<String> = keys(data).encryption().opening_keys().into_iter().collect();
    let renamed = names.iter().fold(renamed, |text, name| text.replace(name.as_str(), "key1"));
    std::fs::write(data.join("encryption.yaml"), renamed).unwrap();
    block_on(async {
        let (store, encryption) = (store(data), keys(data).encryption());
        let plain = Bytes::from_static(b"{}");
        // Its prefix has the former name.
        let renamed = Key::new(SECRET).unwrap();
        let entry = store.get(&renamed).await.unwrap().unwrap();
        store.delete(&renamed, entry.modified).await.unwrap();
        // Without a promotion, the first key of the file seals: the old one.
        let key = Key::new("/capstan/core/secrets/team/late").unwrap();
        store.create(&key, encryption.seal("secrets", key.as_str(), plain).unwrap()).await.unwrap();
    });
    let refused = error(finish(&arguments(data)));
    assert!(refused.contains("/capstan/core/secrets/team/late"), "{refused}");
    reencrypt(&arguments(data)).unwrap();
    finish(&arguments(data)).unwrap();
}

fn replica(id: &str, keys: &[&str], seals: &[&str]) -> Replica {
    let names = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let mut replica = Replica::of_this_process("192.0.2.1:7443".to_owned());
    (replica.id, replica.keys, replica.seals) = (id.to_owned(), names(keys), names(seals));
    replica
}

#[test]
fn hv_41_a_key_is_promoted_only_if_every_live_replica_has_it() {
    let live = [replica("a", &["k1", "k2"], &["k1"]), replica("b", &["k1"], &["k1"])];
    let refused = checks::all_open(&live, "k2").unwrap_err().to_string();
    assert!(refused.contains("b (192.0.2.1:7443)") && !refused.contains("a (192"), "{refused}");
    checks::all_open(&live[..1], "k2").unwrap();
    checks::all_open(&[], "k2").unwrap();
}

#[test]
fn hv_41_values_are_rewritten_only_if_every_live_replica_seals_with_the_promoted_key() {
    // A replica of an older release reports no key.
    let live = [replica("a", &["k1", "k2"], &["k2"]), replica("old", &["k1", "k2"], &[])];
    let refused = checks::all_seal(&live, "k2").unwrap_err().to_string();
    assert!(refused.contains("old (") && refused.contains("upgrade it"), "{refused}");
    checks::all_seal(&live[..1], "k2").unwrap();
}

#[test]
fn the_key_to_promote_is_the_only_new_one_or_must_be_named() {
    let configured: BTreeSet<String> = ["k1", "k2", "k3"].map(str::to_owned).into();
    let recorded = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    assert_eq!(checks::select(None, &configured, &recorded(&["k1", "k3"])).unwrap(), "k2");
    assert!(
        checks::select(None, &configured, &recorded(&["k1"])).unwrap_err().to_string().contains("k2, k3")
    );
    assert_eq!(checks::select(Some("k3"), &configured, &[]).unwrap(), "k3");
    assert!(checks::select(Some("k9"), &configured, &[]).is_err());
}

#[test]
fn commands_that_seal_use_the_promoted_key() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path();
    serve_once(data);
    add(&arguments(data)).unwrap();
    promote(&promotion(data, None)).unwrap();
    block_on(async {
        let encryption: std::sync::Arc<Encryption> = keys(data).encryption();
        let before = encryption.sealing_keys();
        assert!(apply(&store(data), &encryption).await.unwrap().is_some());
        assert_ne!(encryption.sealing_keys(), before);
    });
}
