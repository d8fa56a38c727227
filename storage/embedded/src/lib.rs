//! The store of a single node: one file, no server.
//!
//! Promises: an acknowledged write is on disk, whole; revisions, history and watches mean what
//! they mean in etcd; reads never block writes.
//!
//! One thread writes. It takes what has queued up, carries it out in one transaction, commits once
//! and then answers all of it: the disk's sync is shared. Watchers read the log from where they
//! are; none can lose an event, and none holds up the writer.
//!
//! After a kill, opening takes as long as reading the file once: the database checks all of it.
//! An error of the disk (a full one, too) stops the store until it is opened again, because what
//! reached the disk is known only then; until then calls answer `Unavailable` and say so.

mod forget;
mod layout;
mod read;
mod watch;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use redb::Database;
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use tokio::sync::watch as signal;

/// Largest value: etcd's default, so that what fits here fits there.
pub const LARGEST_VALUE: usize = 1_500_000;

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be made or the file not be opened.
    #[error("{path}: cannot be opened: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error(
        "{path}: another instance of capstan is using it; stop that one first, or give this one another --data-dir"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a store of ours, or damaged.
    #[error("{path}: cannot be used: {detail}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// A store in one file.
#[derive(Debug)]
pub struct EmbeddedStore {
    database: Arc<Database>,
    writer: write::Writer,
    newest: signal::Receiver<Revision>,
}

impl EmbeddedStore {
    /// Opens the store at `path`, making it and its directory (for the owner alone) when absent.
    /// When the store is dropped, what was queued is written and the file is closed; watches of it
    /// end with `Unavailable`, and hold the file open until they are dropped themselves.
    ///
    /// # Errors
    /// [`OpenError`] names the path and what to do.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = Arc::new(layout::open(path)?);
        let unusable =
            |error: StoreError| OpenError::Unusable { path: path.to_owned(), detail: error.to_string() };
        let revision = read::current_revision(&database).map_err(unusable)?;
        let (sender, newest) = signal::channel(revision);
        let writer = write::Writer::start(Arc::clone(&database), revision, sender)
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { database, writer, newest })
    }

    async fn stream(
        &self,
        range: &KeyRange,
        with_previous: bool,
        from: Revision,
    ) -> StoreResult<WatchStream> {
        let compacted = self.reading("watch", read::compacted).await?;
        if from < compacted {
            return Err(StoreError::Compacted { requested: from, oldest: compacted });
        }
        let database = Arc::clone(&self.database);
        Ok(watch::stream(database, self.newest.clone(), range.clone(), with_previous, from))
    }

    async fn reading<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&Database) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        // A read may go to the disk, which must not hold up other requests on this thread.
        let database = Arc::clone(&self.database);
        tokio::task::spawn_blocking(move || read(&database))
            .await
            .map_err(|error| StoreError::Unavailable { operation, source: Box::new(error) })?
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.writer.write(write::Change::create(key, value, unchanged)?).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.writer.write(write::Change::update(key, expected, value)?).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.writer.write(write::Change::delete(key, expected)).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let key = key.clone();
        self.reading("get", move |database| read::get(database, &key)).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        let (range, options) = (range.clone(), options.clone());
        self.reading("list", move |database| read::list(database, &range, &options)).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, true, from).await
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, false, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.writer.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        // Asked of the file, not of the writer: a reader may have seen a commit that the writer
        // has not yet told of.
        self.reading("current revision", read::current_revision).await
    }
}
