//! The watch cache: everything below one prefix, kept in memory, ready to be read and watched.
//!
//! One follower lists the prefix once and then watches it; every change is projected once into an
//! item of the owner's choosing (encoded bytes, say) and shared by all readers and watchers.
//! The cache is cut into [`Section`]s, one per resource, each with
//!
//! - a *snapshot*: a persistent map, so that an old one costs a pointer,
//! - a *history* of recent changes, from which watches are served and resumed.
//!
//! Promises: a section shows every change up to [`Cache::revision`], in order, each once. A reader
//! that waits for a revision ([`Cache::wait_for`]) sees everything written up to it. A watcher
//! reads the shared history at its own pace; one that falls behind it is told
//! [`StoreError::Compacted`] and must list again: nobody waits for it.
//! The cache is never the authority for a write.

mod follower;
mod history;
mod replay;
mod section;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use storage_contract::{Entry, KeyRange, Revision, Store, StoreError, StoreResult};
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

pub use history::Change;
pub use section::{Section, Snapshot};
pub use watch::{SectionWatch, WatchStep};

/// Makes what the cache holds out of a stored entry. Called once per write, on the follower's task.
pub trait Projection<T>: Send + Sync + std::fmt::Debug + 'static {
    /// The item for `entry`, which lies in section `section`.
    fn project(&self, section: usize, entry: &Entry) -> T;
}

/// Where the follower stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Everything up to here is in the sections.
    revision: Revision,
    /// Grows when the cache had to start over; watches of an earlier life end.
    life: u64,
    /// Whether the first list is in.
    ready: bool,
}

/// The cache of one prefix of a store.
#[derive(Debug)]
pub struct Cache<T> {
    store: Arc<dyn Store>,
    sections: Vec<Arc<Section<T>>>,
    projection: Arc<dyn Projection<T>>,
    position: signal::Sender<Position>,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Starts to follow `root`. Section `i` holds what lies below `prefixes[i]`; keys below none
    /// of them only move the revision. The follower ends when `shutdown` is cancelled.
    pub fn start(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: &[String],
        projection: Arc<dyn Projection<T>>,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        let sections = prefixes.iter().map(|prefix| Arc::new(Section::new(prefix))).collect();
        let position = signal::Sender::new(Position::default());
        let cache = Arc::new(Self { store, sections, projection, position });
        let follower = follower::Follower::new(Arc::clone(&cache), KeyRange::prefix(root));
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = follower.run() => {}
            }
        });
        cache
    }

    /// The section of `prefixes[index]` given at the start.
    pub fn section(&self, index: usize) -> Option<&Arc<Section<T>>> {
        self.sections.get(index)
    }

    /// Whether the first list has been read.
    pub fn is_ready(&self) -> bool {
        self.position.borrow().ready
    }

    /// Everything written up to this revision is visible in the sections.
    pub fn revision(&self) -> Revision {
        self.position.borrow().revision
    }

    /// Waits until everything up to `revision` is visible; `false` when `limit` passed first.
    pub async fn wait_for(&self, revision: Revision, limit: Duration) -> bool {
        let mut position = self.position.subscribe();
        let reached = position.wait_for(|position| position.ready && position.revision >= revision);
        matches!(tokio::time::timeout(limit, reached).await, Ok(Ok(_)))
    }

    /// Asks the store for its newest revision and waits until the cache shows it, so that a read
    /// after this is linearizable. `false` when `limit` passed first: read the store instead.
    ///
    /// # Errors
    /// What the store answers when asked for its revision.
    pub async fn catch_up(&self, limit: Duration) -> StoreResult<bool> {
        let newest = self.store.current_revision().await?;
        Ok(self.wait_for(newest, limit).await)
    }

    /// The changes of a section from just after `after` on. What the history no longer holds is
    /// replayed from the store.
    ///
    /// # Errors
    /// `Compacted` when neither has it; `Unavailable`.
    pub async fn watch(&self, index: usize, after: Revision) -> StoreResult<Option<SectionWatch<T>>> {
        let Some(section) = self.sections.get(index) else { return Ok(None) };
        let mut position = self.position.subscribe();
        let Ok(start) = position.wait_for(|position| position.ready).await.map(|position| *position) else {
            return Err(StoreError::Unavailable { operation: "watch", source: "the cache has ended".into() });
        };
        let mut watch = SectionWatch::new(Arc::clone(section), position, start.life, after);
        if after < start.revision && section.changes_after(after).is_none() {
            let changes = replay::changes(self, index, section, after, start.revision).await?;
            watch.replay(changes, start.revision);
        }
        Ok(Some(watch))
    }

    /// The store behind the cache.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
