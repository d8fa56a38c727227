//! Embedded store of a single node: a database in one file with a journal beside it, and no server.
//!
//! Guarantees: an acknowledged write is on disk, whole. Revisions, history and watches have the semantics of etcd.
//! Reads never block writes.
//!
//! One thread writes. It takes the queued writes, appends them to the journal, syncs once and then answers all of
//! them. The writes are also in memory until the checkpointer has moved them into the database, thousands of writes
//! in one transaction. Reads and watches see the database and the writes since as one. Each watcher reads from its
//! own position; no watcher can lose an event, and none delays the writer.
//!
//! A closed store is in the database alone. After a kill, opening takes as long as reading the files once: the
//! database checks all of its file, and takes the journal's writes. A disk error stops the store until it is opened
//! again: until then calls answer `Unavailable` with that error. Where the disk is full and the journal cannot grow,
//! a write is refused and the next one tries again. Where the database cannot grow, that is a disk error, and the
//! acknowledged writes are in the journal.

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
use crate::read::Snapshot;

/// Largest value: etcd's default, so that what fits here fits there.
pub const LARGEST_VALUE: usize = 1_500_000;

/// Error of opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be created or the file cannot be opened.
    #[error("{path}: cannot be opened")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
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
    /// The values were migrated to another store, which has newer ones since.
    #[error(
        "{path}: its objects were migrated to another store, which servers use since then; use that one, or give \
         --force to return to this one, without all later changes"
    )]
    Migrated {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a store of this server, or is damaged.
    #[error("{path}: cannot be used: {detail}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        detail: String,
    },
}

/// Store in files of its own.
#[derive(Debug)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    writer: write::Writer,
    newest: signal::Receiver<Revision>,
}

impl EmbeddedStore {
    /// Opens the store at `path`, creating it and its directory (for their owner alone) when absent. Its journal is
    /// beside it: `path` with `-journal-0` and `-journal-1` appended. When the store is dropped, the queued writes
    /// are written and the files are closed. Watches of it end with `Unavailable`, and hold the database open until
    /// they are dropped themselves.
    ///
    /// # Errors
    /// [`OpenError`] names the path and what to do.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = layout::open(path, layout::FIRST)?;
        if opened.is_migrated {
            return Err(OpenError::Migrated { path: path.to_owned() });
        }
        Self::start(path, opened)
    }

    /// Opens the store like [`EmbeddedStore::open`], also if it was migrated to another one, and removes that mark.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_migrated(path: &Path) -> Result<Self, OpenError> {
        let opened = layout::open(path, layout::FIRST)?;
        if opened.is_migrated {
            layout::mark_migrated(&opened.database, false)
                .map_err(|error| OpenError::Unusable { path: path.to_owned(), detail: error.to_string() })?;
        }
        Self::start(path, opened)
    }

    /// Creates a store whose revisions are all above `after`. Reads and watches from `after` or before are compacted.
    ///
    /// # Errors
    /// `Unusable`, if there is a store already; the other errors of [`EmbeddedStore::open`].
    pub fn create_after(path: &Path, after: Revision) -> Result<Self, OpenError> {
        if path.exists() {
            let detail = "a store exists already".to_owned();
            return Err(OpenError::Unusable { path: path.to_owned(), detail });
        }
        Self::start(path, layout::open(path, after.next())?)
    }

    /// Returns the files of the store at `path`: the database, and the journal beside it.
    pub fn files(path: &Path) -> Vec<PathBuf> {
        [path.to_owned()].into_iter().chain(journal::paths(path)).collect()
    }

    /// Marks a closed store as migrated to another one, so that [`EmbeddedStore::open`] refuses it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn mark_migrated(path: &Path) -> Result<(), OpenError> {
        let opened = layout::open(path, layout::FIRST)?;
        layout::mark_migrated(&opened.database, true)
            .map_err(|error| OpenError::Unusable { path: path.to_owned(), detail: error.to_string() })
    }

    fn start(path: &Path, opened: layout::Opened) -> Result<Self, OpenError> {
        let layout::Opened { database, store, was_open, .. } = opened;
        let unusable = |detail: String| OpenError::Unusable { path: path.to_owned(), detail };
        let failed = |error: redb::Error| unusable(error.to_string());
        let mut journal = Journal::open(path, store, was_open)?;
        let checkpointed = Snapshot::of(&database).map_err(failed)?.revision;
        let records = journal.read(checkpointed).map_err(unusable)?;
        checkpoint::write_checkpoint(&database, records.iter()).map_err(failed)?;
        layout::mark_open(&database, true).map_err(failed)?;
        journal.clear().map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let shared = Arc::new(Shared::new(database).map_err(failed)?);
        let (sender, newest) = signal::channel(shared.state().newest());
        let writer = write::Writer::start(Arc::clone(&shared), journal, sender)
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { shared, writer, newest })
    }

    fn stream(&self, range: &KeyRange, with_previous: bool, from: Revision) -> StoreResult<WatchStream> {
        let compacted = self.shared.state().snapshot.compacted;
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
        // A read may go to the disk, which must not block other requests on this thread.
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
        // Reads from memory would still succeed, and no client would learn of the failure.
        if let Some(why) = self.shared.failure() {
            return Err(StoreError::Unavailable { operation: "current revision", source: why.into() });
        }
        Ok(self.shared.state().newest())
    }
}
