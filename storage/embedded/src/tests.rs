//! Contract suite against a store whose checkpoints are in flight or complete.

use std::sync::Arc;

use bytes::Bytes;
use storage_contract::suite::{Harness, run};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreResult, Unchanged, WatchStream,
};

use crate::write::Request;
use crate::{EmbeddedStore, LARGEST_VALUE};

/// Store that begins a checkpoint after every third write. Reads meet writes in the database, writes whose checkpoint
/// is in flight, and writes in the journal alone.
#[derive(Debug)]
struct Checkpointing(EmbeddedStore);

impl Checkpointing {
    async fn checkpoint(&self, revision: Revision) -> StoreResult<Revision> {
        if revision.number().is_multiple_of(3) {
            self.0.writer.send("checkpoint", Request::Checkpoint).await?;
        }
        Ok(revision)
    }
}

#[async_trait::async_trait]
impl Store for Checkpointing {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.checkpoint(self.0.create_while(key, value, unchanged).await?).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.checkpoint(self.0.update(key, expected, value).await?).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.checkpoint(self.0.delete(key, expected).await?).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        self.0.get(key).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        self.0.list(range, options).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.0.watch(range, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.0.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        self.0.current_revision().await
    }
}

struct Embedded(Arc<Checkpointing>);

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
async fn the_suite_passes_with_constant_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store.redb")).unwrap();
    run(Arc::new(Embedded(Arc::new(Checkpointing(store))))).await;
}
