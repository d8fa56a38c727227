//! The watch cache: everything below one prefix, kept in memory, ready to be read and watched.
//!
//! One follower lists the prefix once and then watches it; every change is projected once into an
//! item of the owner's choosing (encoded bytes, say) and shared by all readers and watchers.
//! The cache is cut into [`ResourceCache`]s, one per resource, each with
//!
//! - a *snapshot*: a persistent map, so that an old one costs a pointer,
//! - a *history* of recent changes, from which watches are served and resumed.
//!
//! Promises: a section shows every change up to [`Cache::revision`], in order, each once. A reader
//! that waits for a revision ([`Cache::wait_for`]) sees everything written up to it. A watcher
//! reads the shared history at its own pace; one that falls behind it is ended, and resumes from
//! the store or lists again: nobody waits for it, and it misses nothing unawares.
//! The cache is never the authority for a write.
//!
//! A linearizable read costs the store no data: one question for its newest revision, which all
//! readers that wait at that moment share, and then a wait for the follower to be there. That needs
//! a store whose watches say how far they are; where they do not, the store is read instead.
//!
//! What is copied: nothing here. A snapshot is a pointer to a persistent map, an item is shared by
//! the map, the history, every list and every watcher. A change is made in place, or where a reader or
//! the history holds the map as it was, copies the map's path to it: some 2 log2(n) nodes of about 100
//! bytes, 3 KiB of 100 000 items.

mod freshness;
mod history;
mod micro_timer;
mod paged_scan;
mod reflector;
mod replay;
mod resource_cache;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::Supervisor;
use storage_contract::{Entry, KeyRange, Revision, Store, StoreError, StoreResult};
use tokio::sync::watch as signal;
use tokio_util::sync::CancellationToken;

pub use history::Change;
pub use resource_cache::{ResourceCache, Snapshot};

use resource_cache::Extent;
pub use watch::{ResourceWatch, WatchStep};

/// Makes what the cache holds out of a stored entry. Called once per write, on the follower's task.
pub trait Projection<T>: Send + Sync + std::fmt::Debug + 'static {
    /// The item for `entry`, which lies in section `section`.
    fn project(&self, section: usize, entry: &Entry) -> T;

    /// What is told of an item that was deleted at this revision.
    fn deleted(&self, last: &T, revision: Revision) -> T;

    /// Called for every item that is there, a few times a minute: what an item keeps only because it might be asked
    /// for again soon can go, if it was not.
    fn rest(&self, _item: &T) {}
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
    sections: Vec<Arc<ResourceCache<T>>>,
    projection: Arc<dyn Projection<T>>,
    position: signal::Sender<Position>,
    /// Up to where the history of each section goes: what wakes those who watch it, and nobody who watches another.
    extents: Vec<signal::Sender<Extent>>,
    freshness: freshness::Freshness,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Starts to follow `root`. ResourceCache `i` holds what lies below `prefixes[i]`; keys below none
    /// of them only move the revision. The follower ends when `shutdown` is cancelled.
    pub fn start(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: &[String],
        projection: Arc<dyn Projection<T>>,
        supervisor: &Supervisor,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        let sections = prefixes.iter().map(|prefix| Arc::new(ResourceCache::new(prefix))).collect();
        let position = signal::Sender::new(Position::default());
        let extents = prefixes.iter().map(|_| signal::Sender::default()).collect();
        let freshness = freshness::Freshness::default();
        let cache = Arc::new(Self { store, sections, projection, position, extents, freshness });
        let follower = reflector::Follower::new(Arc::clone(&cache), KeyRange::prefix(root));
        let asking = Arc::clone(&cache);
        // Readers of a cache that no task feeds would see old objects for ever.
        supervisor.spawn("watch cache", async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = follower.run() => {}
                () = asking.freshness.run(asking.store.as_ref()) => {}
            }
        });
        cache
    }

    /// The section of `prefixes[index]` given at the start.
    pub fn section(&self, index: usize) -> Option<&Arc<ResourceCache<T>>> {
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
        tokio::select! {
            biased;
            reached = tokio::time::timeout(limit, reached) => matches!(reached, Ok(Ok(_))),
            () = self.freshness.hasten(self.store.as_ref()) => false,
        }
    }

    /// Learns the store's newest revision and waits until the cache shows it, so that a read after
    /// this is linearizable. `false` when the store must be read instead: `limit` passed first, or
    /// its watches do not say how far they are.
    ///
    /// # Errors
    /// What the store answers when asked for its revision.
    pub async fn catch_up(&self, limit: Duration) -> StoreResult<bool> {
        if !self.store.reports_progress() {
            return Ok(false);
        }
        let newest = self.freshness.newest().await?;
        Ok(self.wait_for(newest, limit).await)
    }

    /// The changes of a section from just after `after` on. What the history no longer holds is
    /// replayed from the store.
    ///
    /// # Errors
    /// `Compacted` when neither has it; `Unavailable`.
    pub async fn watch(&self, index: usize, after: Revision) -> StoreResult<Option<ResourceWatch<T>>> {
        let Some((section, extent)) = self.sections.get(index).zip(self.extents.get(index)) else {
            return Ok(None);
        };
        let mut position = self.position.subscribe();
        let Ok(start) = position.wait_for(|position| position.ready).await.map(|position| *position) else {
            return Err(StoreError::Unavailable { operation: "watch", source: "the cache has ended".into() });
        };
        let mut watch =
            ResourceWatch::new(Arc::clone(section), extent.subscribe(), position, start.life, after);
        if after < start.revision && section.changes_after(after, 0).is_none() {
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
