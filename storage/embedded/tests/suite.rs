//! The contract's suite on the embedded store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::sync::Arc;

use storage_contract::Store;
use storage_contract::suite::{Harness, run};
use storage_embedded::{EmbeddedStore, LARGEST_VALUE, OpenError};

struct Embedded(Arc<EmbeddedStore>);

#[async_trait::async_trait]
impl Harness for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn largest_value(&self) -> usize {
        LARGEST_VALUE
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store.redb")).unwrap();
    run(Arc::new(Embedded(Arc::new(store)))).await;
}

#[tokio::test]
async fn a_second_instance_is_told_that_the_file_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let _first = EmbeddedStore::open(&path).unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    std::fs::write(&path, "this is not a database, but somebody's notes, long enough to look at").unwrap();
    let error = EmbeddedStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("store.redb"), "{error}");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("this is not"));
}
