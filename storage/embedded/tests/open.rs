//! Tests of opening a store: by one process at a time, with permissions for its owner only, and again after it was
//! closed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use storage_contract::{Key, KeyRange, ListOptions, Revision, Store, StoreError};
use storage_embedded::{EmbeddedStore, OpenError};

/// Environment variable of the child process: the store that it tries to open.
const CHILD: &str = "CAPSTAN_OPEN_TEST_STORE";

#[tokio::test]
async fn a_second_instance_reports_that_the_file_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let _first = EmbeddedStore::open(&path).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_store_that_closes_in_a_moment_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let first = EmbeddedStore::open(&path).unwrap();
    let closing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(first);
    });
    EmbeddedStore::open(&path).unwrap();
    closing.join().unwrap();
}

#[tokio::test]
async fn a_second_process_reports_that_the_file_is_in_use() {
    if let Some(path) = std::env::var_os(CHILD) {
        let error = EmbeddedStore::open(Path::new(&path)).unwrap_err();
        return println!("refused: {error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let _first = EmbeddedStore::open(&path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_second_process_reports_that_the_file_is_in_use", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("refused: ") && said.contains("another instance of capstan is using it"), "{said}");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    std::fs::write(&path, "this is not a database, but somebody's notes, long enough to look at").unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("store.redb"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
}

#[tokio::test]
async fn an_impossible_path_is_named_in_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = EmbeddedStore::open(&file.join("store.redb")).unwrap_err();
    assert!(
        matches!(error, OpenError::Io { .. }) && error.to_string().contains("file/store.redb"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_and_its_new_directories_are_accessible_to_the_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/by/us/store.redb");
    drop(EmbeddedStore::open(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
    assert!(path.ancestors().skip(1).take(3).all(|directory| mode(directory) == 0o700));
    // A copy or a careless hand may have opened it to others.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(EmbeddedStore::open(&path).unwrap());
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_closed_store_reopens_with_all_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let key = |index: u64| Key::new(format!("/k{index}")).unwrap();
    let mut last = Revision::NONE;
    for round in 0..20 {
        let store = EmbeddedStore::open(&path).unwrap();
        if round > 0 {
            assert_eq!(store.current_revision().await.unwrap(), last);
        }
        let next = store.create(&key(round), Bytes::from(round.to_string())).await.unwrap();
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    let store = EmbeddedStore::open(&path).unwrap();
    let page = store.list(&KeyRange::prefix("/"), &ListOptions::default()).await.unwrap();
    assert_eq!(page.entries.len(), 20);
    // History is as it was, too.
    let then = ListOptions { limit: 0, revision: Some(page.entries[0].created) };
    assert_eq!(store.list(&KeyRange::prefix("/"), &then).await.unwrap().entries.len(), 1);
}

#[tokio::test]
async fn compaction_survives_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let key = Key::new("/a").unwrap();
    let store = EmbeddedStore::open(&path).unwrap();
    let first = store.create(&key, Bytes::from("0")).await.unwrap();
    let mut last = first;
    // More than one transaction compacts.
    for index in 1..2500 {
        last = store.update(&key, last, Bytes::from(index.to_string())).await.unwrap();
    }
    store.compact(last).await.unwrap();
    drop(store);
    let store = EmbeddedStore::open(&path).unwrap();
    let then = ListOptions { limit: 0, revision: Some(first) };
    let refused = store.list(&KeyRange::prefix("/"), &then).await.unwrap_err();
    assert!(matches!(refused, StoreError::Compacted { oldest, .. } if oldest == last), "{refused:?}");
    let entry = store.get(&key).await.unwrap().unwrap();
    assert_eq!((entry.value, entry.created), (Bytes::from("2499"), first));
}

#[tokio::test]
async fn a_store_created_after_a_revision_has_only_larger_ones_and_no_earlier_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let after = Revision::new(1_000_004_200);
    let store = EmbeddedStore::create_after(&path, after).unwrap();
    let first = store.create(&Key::new("/a").unwrap(), Bytes::from("1")).await.unwrap();
    assert!(first > after, "{first}");
    for _ in 0..2 {
        let all = KeyRange::prefix("/");
        let then = ListOptions { limit: 0, revision: Some(after) };
        let list = EmbeddedStore::list(&store, &all, &then).await.unwrap_err();
        assert!(matches!(list, StoreError::Compacted { .. }), "{list:?}");
        let watch = store.watch(&all, after).await.map(|_| ()).unwrap_err();
        assert!(matches!(watch, StoreError::Compacted { .. }), "{watch:?}");
        assert!(store.watch(&all, first).await.is_ok());
    }
    drop(store);
    let error = EmbeddedStore::create_after(&path, after).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let store = EmbeddedStore::open(&path).unwrap();
    assert_eq!(store.current_revision().await.unwrap(), first);
}

#[tokio::test]
async fn bk_06_a_migrated_store_opens_only_by_force() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let key = Key::new("/a").unwrap();
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key, Bytes::from("1")).await.unwrap();
    assert!(matches!(EmbeddedStore::mark_migrated(&path), Err(OpenError::InUse { .. })));
    drop(store);
    EmbeddedStore::mark_migrated(&path).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Migrated { .. }) && error.to_string().contains("--force"), "{error}");
    let store = EmbeddedStore::open_migrated(&path).unwrap();
    assert_eq!(store.get(&key).await.unwrap().unwrap().value, "1");
    drop(store);
    EmbeddedStore::open(&path).unwrap();
}
