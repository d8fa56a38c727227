use std::path::Path;

use storage_embedded::EmbeddedStore;
use tempfile::TempDir;

use super::*;
use crate::encryption;

const SECRET: &str = "/capstan/core/secrets/team/s";

fn store(directory: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(&directory.path().join("store")).unwrap()
}

fn keys(data: &Path) -> EncryptionKeys {
    EncryptionKeys::new(encryption::load(None, data).unwrap())
}

async fn error(keys: &EncryptionKeys, store: &EmbeddedStore) -> String {
    format!("{:#}", keys.agree(store).await.unwrap_err())
}

fn sealed(keys: &EncryptionKeys) -> Bytes {
    keys.encryption().seal("secrets", SECRET, Bytes::from_static(b"{}")).unwrap()
}

/// Puts the keys of `added` before or after those of the file, as a rotation does.
fn add_key(data: &Path, added: &Path, first: bool) {
    let read = |path: &Path| std::fs::read_to_string(path.join("encryption.yaml")).unwrap();
    let key = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.contains("- name: ")).unwrap();
        (at, lines[at..at + 2].join("\n"))
    };
    let (own, (_, key_lines)) = (read(data), key(&read(added)));
    let (at, _) = key(&own);
    let mut lines: Vec<&str> = own.lines().collect();
    lines.insert(if first { at } else { at + 2 }, &key_lines);
    std::fs::write(data.join("encryption.yaml"), lines.join("\n")).unwrap();
}

#[tokio::test]
async fn a_second_data_directory_makes_no_key_of_its_own() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let leader = keys(first.path());
    leader.agree(&store).await.unwrap();
    assert!((leader.check().is_well)());
    assert!(first.path().join("encryption.yaml").exists());
    store.create(&Key::new(SECRET).unwrap(), sealed(&leader)).await.unwrap();

    let replica = keys(second.path());
    let fingerprint = leader.encryption().sealing_keys().pop_first().unwrap();
    assert!(error(&replica, &store).await.contains(&fingerprint));
    assert!(!(replica.check().is_well)());
    assert!(!second.path().join("encryption.yaml").exists());

    std::fs::copy(first.path().join("encryption.yaml"), second.path().join("encryption.yaml")).unwrap();
    assert!(replica.reload().unwrap());
    replica.agree(&store).await.unwrap();
    assert!((replica.check().is_well)());
}

#[tokio::test]
async fn a_server_whose_file_loses_the_key_of_the_store_seals_nothing_until_it_has_it_again() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let server = keys(first.path());
    server.agree(&store).await.unwrap();
    store.create(&Key::new(SECRET).unwrap(), sealed(&server)).await.unwrap();
    let file = first.path().join("encryption.yaml");
    let right = std::fs::read_to_string(&file).unwrap();

    keys(second.path()).file().save().unwrap();
    std::fs::copy(second.path().join("encryption.yaml"), &file).unwrap();
    assert!(server.reload().unwrap());
    assert!(error(&server, &store).await.contains("lacks the encryption key"));
    let value = Bytes::from_static(b"{}");
    let refused = server.encryption().seal("secrets", SECRET, value.clone()).unwrap_err();
    assert!(refused.is_temporary() && refused.to_string().contains("lacks an encryption key"), "{refused}");
    // Kinds without a rule are not affected.
    let plain = server.encryption().seal("configmaps", "/capstan/core/configmaps/team/c", value.clone());
    assert_eq!(plain, Ok(value));

    std::fs::write(&file, right).unwrap();
    assert!(server.reload().unwrap());
    server.agree(&store).await.unwrap();
    sealed(&server);
}

#[tokio::test]
async fn of_two_first_starts_one_makes_the_key() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let (one, other) = (keys(first.path()), keys(second.path()));
    one.agree(&store).await.unwrap();
    // The other one saw the empty store before.
    let key = Key::new(RECORD).unwrap();
    other.file().save().unwrap();
    other.file().discard();
    assert!(!other.begin(&store, &key).await.unwrap_or(false));
    assert!(error(&other, &store).await.contains("lacks the encryption key"));
    assert!(!second.path().join("encryption.yaml").exists());
}

#[tokio::test]
async fn a_store_of_an_older_release_is_taken_over_with_its_key_only() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let old = keys(first.path());
    old.file().save().unwrap();
    store.create(&Key::new(SECRET).unwrap(), sealed(&old)).await.unwrap();

    assert!(error(&keys(second.path()), &store).await.contains("the store holds data"));
    let wrong = keys(second.path());
    wrong.file().save().unwrap();
    assert!(error(&wrong, &store).await.contains(SECRET));
    keys(first.path()).agree(&store).await.unwrap();
}

#[tokio::test]
async fn a_rotated_key_is_recorded_and_the_old_one_goes_when_no_value_needs_it() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let server = keys(first.path());
    server.agree(&store).await.unwrap();
    let old = store.create(&Key::new(SECRET).unwrap(), sealed(&server)).await.unwrap();
    let lagging = keys(first.path());

    let new = keys(second.path());
    new.file().save().unwrap();
    add_key(first.path(), second.path(), true);
    assert!(server.reload().unwrap());
    server.agree(&store).await.unwrap();
    let fingerprint = new.encryption().sealing_keys().pop_first().unwrap();
    assert!(error(&lagging, &store).await.contains(&fingerprint));
    let of_lagging = sealed(&lagging);
    let opened = server.encryption().open("secrets", SECRET, &of_lagging);
    assert!(opened.is_ok(), "its key is that of the store, so it goes on: {opened:?}");

    // With the new key alone: refused while a Secret has the old one, accepted after it is written anew.
    assert!(error(&new, &store).await.contains("lacks the encryption key"));
    store.update(&Key::new(SECRET).unwrap(), old, sealed(&server)).await.unwrap();
    new.agree(&store).await.unwrap();
    let record = store.get(&Key::new(RECORD).unwrap()).await.unwrap().unwrap();
    let record: Record = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(record.keys.into_iter().map(|key| key.fingerprint).collect::<Vec<_>>(), [fingerprint]);
}

#[tokio::test]
async fn a_key_that_only_reads_is_not_recorded() {
    let [files, first, second] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let store = store(&files);
    let server = keys(first.path());
    server.agree(&store).await.unwrap();
    keys(second.path()).file().save().unwrap();
    add_key(first.path(), second.path(), false);
    assert!(server.reload().unwrap());
    server.agree(&store).await.unwrap();
    let record = store.get(&Key::new(RECORD).unwrap()).await.unwrap().unwrap();
    let record: Record = serde_json::from_slice(&record.value).unwrap();
    assert_eq!(record.keys.len(), 1);
}
