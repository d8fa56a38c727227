//! Tests of the journal after a kill or a disk failure: all acknowledged writes are read, a torn write is absent, and
//! a missing one is reported.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::ReadableTable;
use storage_contract::{Key, Revision, Store, StoreError};
use storage_embedded::EmbeddedStore;

const BLOCK: usize = 4096;

/// Length of a value that makes a batch of three blocks.
const LENGTH: usize = 2 * BLOCK + 100;

fn key(index: u64) -> Key {
    Key::new(format!("/journal/{index}")).unwrap()
}

fn value(index: u64) -> Bytes {
    (index * 7..).take(LENGTH).map(|byte| byte.to_le_bytes()[0]).collect()
}

fn beside(path: &Path, number: u8) -> PathBuf {
    PathBuf::from(format!("{}-journal-{number}", path.display()))
}

/// The files of a store that was killed after `count` writes, each a batch of its own, and the directory they are in.
async fn killed(count: u64) -> (tempfile::TempDir, PathBuf) {
    let (alive, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (alive.path().join("store.redb"), image.path().join("store.redb"));
    let store = EmbeddedStore::open(&from).unwrap();
    for index in 0..count {
        store.create(&key(index), value(index)).await.unwrap();
    }
    copy(&from, &to);
    (image, to)
}

/// Opens the store and returns the number of its writes, which must be whole and the first ones.
async fn found(path: &Path) -> u64 {
    let store = EmbeddedStore::open(path).unwrap();
    let count = store.current_revision().await.unwrap().number() - 1;
    for index in 0..count {
        assert_eq!(store.get(&key(index)).await.unwrap().unwrap().value, value(index), "{index} of {count}");
    }
    assert_eq!(store.get(&key(count)).await.unwrap(), None);
    count
}

#[tokio::test]
async fn writes_that_are_only_in_the_journal_survive_a_kill() {
    let (_image, path) = killed(5).await;
    assert_eq!(found(&path).await, 5);
    // And again, when the database has it.
    assert_eq!(found(&path).await, 5);
}

#[tokio::test]
async fn a_torn_last_batch_is_discarded_and_the_store_continues() {
    let (_image, path) = killed(4).await;
    let whole = std::fs::read(beside(&path, 0)).unwrap();
    let database = std::fs::read(&path).unwrap();
    let last = 3 * 3 * BLOCK;
    let cuts = [0, 1, 8, 31, 32, 60, 511, 512, BLOCK - 1, BLOCK, 2 * BLOCK, LENGTH];
    for cut in cuts {
        // A disk writes blocks in any order: what came after the cut may be there, and what came before may not.
        let mut blank = whole.clone();
        blank[last..last + cut].fill(0);
        let blank = if cut == 0 { whole[..last].to_vec() } else { blank };
        for torn in [whole[..last + cut].to_vec(), blank] {
            std::fs::write(&path, &database).unwrap();
            std::fs::write(beside(&path, 0), &torn).unwrap();
            assert_eq!(found(&path).await, 3, "cut after {cut} bytes");
            let store = EmbeddedStore::open(&path).unwrap();
            store.create(&key(3), value(3)).await.unwrap();
            drop(store);
            assert_eq!(found(&path).await, 4, "cut after {cut} bytes, and written again");
        }
    }
}

#[tokio::test]
async fn a_damaged_batch_before_others_is_an_error() {
    let (_image, path) = killed(4).await;
    let mut journal = std::fs::read(beside(&path, 0)).unwrap();
    journal[3 * BLOCK + 200] ^= 1;
    std::fs::write(beside(&path, 0), &journal).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("store.redb") && error.contains("the write of revision 3 is missing"), "{error}");
    // Nothing was changed: an operator who repairs it finds all of it.
    journal[3 * BLOCK + 200] ^= 1;
    std::fs::write(beside(&path, 0), &journal).unwrap();
    assert_eq!(found(&path).await, 4);
}

#[tokio::test]
async fn the_journal_of_another_store_is_refused() {
    let ((_one, path), (_other, other)) = (killed(2).await, killed(3).await);
    std::fs::copy(beside(&other, 0), beside(&path, 0)).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("belongs to another store"), "{error}");
}

/// Copies the files of a store that is open, as a kill would leave them.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    for number in [0, 1] {
        std::fs::copy(beside(from, number), beside(to, number)).unwrap();
    }
}

#[tokio::test]
async fn an_older_database_is_recovered_from_a_complete_journal_only() {
    let (alive, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (alive.path().join("store.redb"), image.path().join("store.redb"));
    let store = EmbeddedStore::open(&from).unwrap();
    let earlier = std::fs::read(&from).unwrap();
    // One file of the journal has 1,365 of these, so that one is full and the other one is written.
    for index in 0..2000 {
        store.create(&key(index), value(index)).await.unwrap();
    }
    copy(&from, &to);
    std::fs::write(&to, &earlier).unwrap();
    assert_eq!(found(&to).await, 2000);
    for index in 2000..3000 {
        store.create(&key(index), value(index)).await.unwrap();
    }
    copy(&from, &to);
    assert_eq!(found(&to).await, 3000);
    // The first file was begun again, so that this one misses what it had.
    copy(&from, &to);
    std::fs::write(&to, &earlier).unwrap();
    let error = EmbeddedStore::open(&to).unwrap_err().to_string();
    assert!(error.contains("the write of revision 2 is missing; its journal goes on at "), "{error}");
}

#[tokio::test]
async fn a_store_that_was_not_closed_cannot_be_opened_without_its_journal() {
    for number in [0, 1] {
        let (_image, path) = killed(2).await;
        std::fs::rename(beside(&path, number), path.with_extension("away")).unwrap();
        let error = EmbeddedStore::open(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("store.redb-journal-{number} is missing")), "{error}");
        std::fs::rename(path.with_extension("away"), beside(&path, number)).unwrap();
        assert_eq!(found(&path).await, 2);
    }
}

#[tokio::test]
async fn a_copy_of_a_closed_store_can_be_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key(0), value(0)).await.unwrap();
    drop(store);
    let copy = std::fs::read(&path).unwrap();
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key(1), value(1)).await.unwrap();
    drop(store);
    std::fs::write(&path, copy).unwrap();
    assert_eq!(found(&path).await, 1);
}

#[tokio::test]
async fn a_closed_store_needs_no_journal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = EmbeddedStore::open(&path).unwrap();
    for index in 0..3 {
        store.create(&key(index), value(index)).await.unwrap();
    }
    drop(store);
    for number in [0, 1] {
        std::fs::remove_file(beside(&path, number)).unwrap();
    }
    assert_eq!(found(&path).await, 3);
}

#[tokio::test]
async fn a_store_of_the_format_without_journal_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key(0), value(0)).await.unwrap();
    drop(store);
    let meta = redb::TableDefinition::<&str, u64>::new("meta");
    let format = |format: Option<u64>| {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let before = {
            let mut meta = transaction.open_table(meta).unwrap();
            let before = meta.get("format").unwrap().unwrap().value();
            if let Some(format) = format {
                meta.insert("format", format).unwrap();
                meta.remove("store").unwrap();
            }
            before
        };
        transaction.commit().unwrap();
        before
    };
    format(Some(1));
    for number in [0, 1] {
        std::fs::remove_file(beside(&path, number)).unwrap();
    }
    assert_eq!(found(&path).await, 1);
    // A program that ignores the journal must not open the store any more.
    assert_eq!(format(Some(3)), 2);
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("its format is 3"), "{error}");
}

/// Environment variable of the child process: the store that it writes to.
const CHILD: &str = "CAPSTAN_FULL_TEST_STORE";

/// Writes until a write is refused, and prints the number of writes and the error.
async fn fill(path: &Path) -> String {
    let store = EmbeddedStore::open(path).unwrap();
    let mut index = 0;
    loop {
        match store.create(&key(index), value(index)).await {
            Ok(_) => index += 1,
            Err(error @ (StoreError::Refused { .. } | StoreError::Unavailable { .. })) => {
                let why = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
                let current = store.current_revision().await;
                // The health check of the store makes this call.
                match why.contains("restart capstan") {
                    true => assert!(matches!(current, Err(StoreError::Unavailable { .. })), "{current:?}"),
                    false => assert_eq!(current.unwrap(), Revision::new(index + 1)),
                }
                return format!("refused after {index}: {error}: {why}.");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs a writer process whose files may not exceed `limit` KiB. Returns the number of writes, and the process's last
/// message.
#[cfg(unix)]
fn fill_limited(test: &str, path: &Path, limit: u32) -> (u64, String) {
    let child = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", &limit.to_string()])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    let count = said.split("refused after ").nth(1).and_then(|rest| rest.split(':').next());
    (count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{said}")), said)
}

#[cfg(unix)]
#[tokio::test]
async fn a_full_disk_fails_a_write_and_loses_none() {
    if let Some(path) = std::env::var_os(CHILD) {
        return println!("{}", fill(Path::new(&path)).await);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    // The journal may grow once, and not again.
    let (count, said) = fill_limited("a_full_disk_fails_a_write_and_loses_none", &path, 6 * 1024);
    assert!(said.contains("the journal cannot grow: ") && said.contains("free space on the disk"), "{said}");
    assert_eq!(found(&path).await, count, "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn acknowledged_writes_are_in_the_journal_if_the_database_cannot_grow() {
    if let Some(path) = std::env::var_os(CHILD) {
        return println!("{}", fill(Path::new(&path)).await);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    // The journal has its 16 MiB, and the database is a little larger after the first of them.
    let test = "acknowledged_writes_are_in_the_journal_if_the_database_cannot_grow";
    let (count, said) = fill_limited(test, &path, 17 * 1024);
    assert!(count > 1000 && said.contains("restart capstan"), "{said}");
    assert_eq!(found(&path).await, count, "{said}");
}
