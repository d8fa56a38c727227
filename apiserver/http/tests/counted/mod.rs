//! Test store that counts how often data is read from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreResult, Unchanged, WatchStream,
};

#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Gets and lists.
    pub(crate) reads: AtomicUsize,
    /// Set if its watches report no progress.
    pub(crate) silent: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Counted(Arc<dyn Store>, Arc<Counts>);

impl Counted {
    pub(crate) fn new(store: Arc<dyn Store>) -> (Self, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        (Self(store, Arc::clone(&counts)), counts)
    }
}

#[async_trait]
impl Store for Counted {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.0.create_while(key, value, unchanged).await
    }
    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.0.update(key, expected, value).await
    }
    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.0.delete(key, expected).await
    }
    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        self.1.reads.fetch_add(1, Ordering::Relaxed);
        self.0.get(key).await
    }
    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        self.1.reads.fetch_add(1, Ordering::Relaxed);
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
    fn reports_progress(&self) -> bool {
        !self.1.silent.load(Ordering::Relaxed)
    }
    fn hasten_progress(&self) {
        self.0.hasten_progress();
    }
}
