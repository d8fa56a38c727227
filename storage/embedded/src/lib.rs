//! The store of a single node: a database in one file with a journal beside it, and no server.
//!
//! Promises: an acknowledged write is on disk, whole; revisions, history and watches mean what
//! they mean in etcd; reads never block writes.
//!
//! One thread writes. It takes what has queued up, appends it to the journal, syncs that once and
//! then answers all of it. What was written is in memory too, until another thread has brought it
//! into the database, thousands of writes in one transaction. Reads and watches see the database
//! and what was written since as one. Watchers read from where they are; none can lose an event,
//! and none holds up the writer.
//!
//! A store that was closed is in the database alone. After a kill, opening takes as long as
//! reading the files once: the database checks all of it, and takes what the journal has. An error
//! of the disk stops the store until it is opened again: until then calls answer `Unavailable` and
//! say so. Where the disk is full and the journal cannot grow, a write is refused and the next one
//! tries again; where the database cannot grow, that is such an error, and what was acknowledged is
//! in the journal.

mod checkpoint;
mod compaction;
mod guard;
mod journal;
mod layout;
mod memtable;
mod read;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use tokio::sync::watch as signal;

use crate::guard::Change;
use crate::journal::Journal;
use crate::memtable::Shared;
use crate::read::Base;

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

/// A store in files of its own.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writer: write::Writer,
    newest: signal::Receiver<Revision>,
}

impl EmbeddedStore {
    /// Opens the store at `path`, making it and its directory (for the owner alone) when absent. Its journal is
    /// beside it: `path` with `-journal-0` and `-journal-1` appended.
    /// When the store is dropped, what was queued is written and the files are closed; watches of it
    /// end with `Unavailable`, and hold the database open until they are dropped themselves.
    ///
    /// # Errors
    /// [`OpenError`] names the path and what to do.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let layout::Opened { database, store, was_open } = layout::open(path)?;
        let unusable = |detail: String| OpenError::Unusable { path: path.to_owned(), detail };
        let failed = |error: redb::Error| unusable(error.to_string());
        let mut journal = Journal::open(path, store, was_open)?;
        let base = Base::of(&database).map_err(failed)?.revision;
        let left = journal.read(base).map_err(unusable)?;
        checkpoint::settle(&database, left.iter()).map_err(failed)?;
        layout::mark_open(&database, true).map_err(failed)?;
        journal.clear().map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let shared = Arc::new(Shared::new(database).map_err(failed)?);
        let (sender, newest) = signal::channel(shared.state().newest());
        let writer = write::Writer::start(Arc::clone(&shared), journal, sender)
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { shared, writer, newest })
    }

    fn stream(&self, range: &KeyRange, with_previous: bool, from: Revision) -> StoreResult<WatchStream> {
        let compacted = self.shared.state().base.compacted;
        if from < compacted {
            return Err(StoreError::Compacted { requested: from, oldest: compacted });
        }
        Ok(watch::stream(Arc::clone(&self.shared), self.newest.clone(), range.clone(), with_previous, from))
    }

    async fn reading<T: Send + 'static>(
        &self,
        operation: &'static str,
        read: impl FnOnce(&Shared) -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        // A read may go to the disk, which must not hold up other requests on this thread.
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || read(&shared))
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
        self.writer.write(Change::create(key, value, unchanged)?).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.writer.write(Change::update(key, expected, value)?).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.writer.write(Change::delete(key, expected)).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let key = key.clone();
        self.reading("get", move |shared| read::get(shared, &key)).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        let (range, options) = (range.clone(), options.clone());
        self.reading("list", move |shared| read::list(shared, &range, &options)).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, true, from)
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.stream(range, false, from)
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.writer.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        // Memory would go on to answer, and nobody would find out.
        if let Some(why) = self.shared.failure() {
            return Err(StoreError::Unavailable { operation: "current revision", source: why.into() });
        }
        Ok(self.shared.state().newest())
    }
}
