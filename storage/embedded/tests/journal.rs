//! What a killed process or a failed disk leaves in the journal: all that was acknowledged is read, what was cut
//! short is not there, and what is missing is said.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::ReadableTable;
use storage_contract::{Key, Revision, Store, StoreError};
use storage_embedded::EmbeddedStore;

const BLOCK: usize = 4096;

/// Long enough for a batch of three blocks.
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
    std::fs::copy(&from, &to).unwrap();
    for number in [0, 1] {
        std::fs::copy(beside(&from, number), beside(&to, number)).unwrap();
    }
    (image, to)
}

/// Opens the store and says how many of its writes it has, which must be whole and the first ones.
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
async fn what_is_in_the_journal_alone_is_there_after_a_kill() {
    let (_image, path) = killed(5).await;
    assert_eq!(found(&path).await, 5);
    // And again, when the database has it.
    assert_eq!(found(&path).await, 5);
}

#[tokio::test]
async fn a_last_batch_that_was_cut_short_anywhere_is_not_there_and_the_store_goes_on() {
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
async fn a_batch_that_is_damaged_before_others_is_not_passed_over() {
    let (_image, path) = killed(4).await;
    let mut journal = std::fs::read(beside(&path, 0)).unwrap();
    journal[3 * BLOCK + 200] ^= 1;
    std::fs::write(beside(&path, 0), &journal).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("store.redb") && error.contains("the write of revision 3 is missing"), "{error}");
    // Nothing was changed: whoever mends it finds all of it.
    journal[3 * BLOCK + 200] ^= 1;
    std::fs::write(beside(&path, 0), &journal).unwrap();
    assert_eq!(found(&path).await, 4);
}

#[tokio::test]
async fn the_journal_of_another_store_is_not_read() {
    let ((_one, path), (_other, other)) = (killed(2).await, killed(3).await);
    std::fs::copy(beside(&other, 0), beside(&path, 0)).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("belongs to another store"), "{error}");
}

#[tokio::test]
async fn a_journal_that_goes_on_after_a_gap_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    drop(EmbeddedStore::open(&path).unwrap());
    let old = std::fs::read(&path).unwrap();
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key(0), value(0)).await.unwrap();
    drop(store);
    // The database has it, and the journal is begun anew.
    let store = EmbeddedStore::open(&path).unwrap();
    store.create(&key(1), value(1)).await.unwrap();
    drop(store);
    std::fs::write(&path, old).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("the write of revision 2 is missing; its journal goes on at 3"), "{error}");
}

#[tokio::test]
async fn a_store_that_was_closed_needs_no_journal() {
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
async fn a_store_from_before_the_journal_is_taken_over() {
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
    // What does not know of the journal must not open it any more.
    assert_eq!(format(Some(3)), 2);
    let error = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("its format is 3"), "{error}");
}

/// Set in the child: the store it writes to.
const CHILD: &str = "CAPSTAN_FULL_TEST_STORE";

/// Writes until there is no room, and then a little that fits.
async fn fill(path: &Path) -> String {
    let store = EmbeddedStore::open(path).unwrap();
    let mut index = 0;
    loop {
        match store.create(&key(index), value(index)).await {
            Ok(_) => index += 1,
            Err(error @ StoreError::Unavailable { .. }) => {
                let why = std::error::Error::source(&error).unwrap();
                assert_eq!(store.current_revision().await.unwrap(), Revision::new(index + 1));
                assert_eq!(store.get(&key(0)).await.unwrap().unwrap().value, value(0));
                return format!("full after {index}: {error}: {why}.");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_full_disk_refuses_a_write_and_loses_none() {
    if let Some(path) = std::env::var_os(CHILD) {
        return println!("{}", fill(Path::new(&path)).await);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    // No file may be longer than 8 MiB, and whoever tries is told so.
    let child = std::process::Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$@\"", "limited"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_refuses_a_write_and_loses_none", "--nocapture"])
        .env(CHILD, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let count = said.split("full after ").nth(1).and_then(|rest| rest.split(':').next());
    assert!(said.contains("the journal cannot grow: ") && said.contains("free space on the disk"), "{said}");
    assert_eq!(count.map(str::to_owned), Some(found(&path).await.to_string()), "{said}");
}
