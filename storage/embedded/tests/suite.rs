//! Contract suite on the embedded store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use storage_contract::Store;
use storage_contract::suite::{Harness, run};
use storage_embedded::{EmbeddedStore, LARGEST_VALUE};

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
async fn the_suite_passes_on_the_embedded_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store.redb")).unwrap();
    run(Arc::new(Embedded(Arc::new(store)))).await;
}
