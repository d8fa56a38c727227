//! Watch cache: everything below one prefix of the store, in memory, for lists and watches.
//!
//! One reflector lists the prefix once and then watches it. Each change is projected once into an item (encoded
//! bytes, for example), which all readers and watchers share. The cache is divided into [`ResourceCache`]s, one per
//! resource. Each has
//!
//! - a *snapshot*: a persistent map, so that an old one costs a pointer,
//! - a *history* of recent changes, from which watches are served and resumed.
//!
//! Guarantees: a resource cache shows every change up to [`Cache::revision`], in order, each once. A reader that
//! waits for a revision ([`Cache::wait_for`]) sees everything written up to it. A watcher reads the shared history at
//! its own speed. A watcher that falls behind the history ends, and resumes from the store or lists again: it delays
//! no other task, and it learns of every gap. The cache is never the authority for a write.
//!
//! A linearizable read costs the store no data. It takes one read of the store's newest revision, which all readers
//! that wait at that moment share, and then a wait until the reflector has reached it. That needs a store whose
//! watches report progress. Where they do not, the store is read instead.
//!
//! If the history of the store goes back, the cache serves nothing until it has read everything again. Its watches then
//! end with [`WatchStep::Expired`].
//!
//! Copies: the cache copies no item. A snapshot is a pointer to a persistent map. The map, the history, every list
//! and every watcher share each item. A change is made in place. Where a reader or the history holds the previous
//! map, the change copies the map's path to it: about 2 log2(n) nodes of about 100 bytes, 3 KiB at 100 000 items.

mod freshness;
mod history;
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
pub use resource_cache::{CacheSize, ResourceCache, Snapshot};

use resource_cache::Extent;
pub use watch::{ResourceWatch, WatchStep};

/// Conversion of stored entries into the items of a cache. It is called once per write, on the reflector's task.
pub trait Projection<T>: Send + Sync + std::fmt::Debug + 'static {
    /// Converts `entry`, which belongs to the resource cache with this index, into its item.
    fn project(&self, index: usize, entry: &Entry) -> T;

    /// Returns the item to report for a deletion at this revision.
    fn deleted(&self, last: &T, revision: Revision) -> T;

    /// Drops what an item keeps only for a repeated request, if no such request came. It is called for every item of a
    /// resource and of its history, a few times per minute.
    fn trim(&self, _item: &T) {}

    /// Returns the memory of an item. It bounds the history, and is for metrics. Default: nothing is known.
    fn size(&self, _item: &T) -> ItemSize {
        ItemSize::default()
    }
}

/// Memory of one item, without what it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemSize {
    /// Bytes of the item.
    pub item: usize,
    /// Bytes that it keeps only for a repeated request, see [`Projection::trim`].
    pub repeats: usize,
}

/// Position of the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Revision up to which the resource caches are complete.
    revision: Revision,
    /// Number of the current list. It grows when the cache had to start over; watches of an earlier epoch end.
    epoch: u64,
    /// Number of the store's history that the list belongs to. Watches of an earlier history end as compacted.
    history: u64,
    /// True after the first list, until the history of the store goes back.
    ready: bool,
}

/// Watch cache of one prefix of a store.
#[derive(Debug)]
pub struct Cache<T> {
    store: Arc<dyn Store>,
    resource_caches: Vec<Arc<ResourceCache<T>>>,
    projection: Arc<dyn Projection<T>>,
    position: signal::Sender<Position>,
    /// Ends of the histories, one per resource cache. They wake the watchers of that resource, and no others.
    extents: Vec<signal::Sender<Extent>>,
    freshness: freshness::Freshness,
}

impl<T: Send + Sync + 'static> Cache<T> {
    /// Starts a cache of `root`. Resource cache `i` holds the keys below `prefixes[i]`; keys below none of them only
    /// advance the revision. The reflector ends when `shutdown` is cancelled.
    pub fn start(
        store: Arc<dyn Store>,
        root: &str,
        prefixes: &[String],
        projection: Arc<dyn Projection<T>>,
        supervisor: &Supervisor,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        let resource_caches = prefixes.iter().map(|prefix| Arc::new(ResourceCache::new(prefix))).collect();
        let position = signal::Sender::new(Position::default());
        let extents = prefixes.iter().map(|_| signal::Sender::default()).collect();
        let freshness = freshness::Freshness::default();
        let cache = Arc::new(Self { store, resource_caches, projection, position, extents, freshness });
        let reflector = reflector::Reflector::new(Arc::clone(&cache), KeyRange::prefix(root));
        let reader = Arc::clone(&cache);
        // Readers of a cache that no task feeds would see old objects for ever.
        supervisor.spawn("watch cache", async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = reflector.run() => {}
                () = reader.freshness.run(reader.store.as_ref()) => {}
            }
        });
        cache
    }

    /// Returns the resource cache of `prefixes[index]`.
    pub fn resource_cache(&self, index: usize) -> Option<&Arc<ResourceCache<T>>> {
        self.resource_caches.get(index)
    }

    /// Returns true if the first list has been read, and its history is still the store's.
    pub fn is_ready(&self) -> bool {
        self.is_current(&self.position.borrow())
    }

    /// Returns true if a position can be served. What belongs to an earlier history of the store cannot.
    fn is_current(&self, position: &Position) -> bool {
        position.ready && position.history == self.store.history()
    }

    /// Returns the revision up to which every write is visible.
    pub fn revision(&self) -> Revision {
        self.position.borrow().revision
    }

    /// Returns the revision of the last visible change below `prefixes[index]`, or of the list that its history began
    /// with.
    pub fn last_change(&self, index: usize) -> Option<Revision> {
        Some(self.extents.get(index)?.borrow().revision)
    }

    /// Waits until every write up to `revision` is visible. Returns `false` if `limit` passed first.
    pub async fn wait_for(&self, revision: Revision, limit: Duration) -> bool {
        let mut position = self.position.subscribe();
        let reached =
            position.wait_for(|position| self.is_current(position) && position.revision >= revision);
        tokio::select! {
            biased;
            reached = tokio::time::timeout(limit, reached) => matches!(reached, Ok(Ok(_))),
            () = self.freshness.hasten(self.store.as_ref()) => false,
        }
    }

    /// Reads the store's newest revision and waits until the cache shows it, so that a read after this is
    /// linearizable. Returns `false` when the store must be read instead: `limit` passed first, or the store's
    /// watches do not report progress.
    ///
    /// # Errors
    /// The store's error when its revision is read.
    pub async fn catch_up(&self, limit: Duration) -> StoreResult<bool> {
        if !self.store.reports_progress() {
            return Ok(false);
        }
        let newest = self.freshness.newest().await?;
        Ok(self.wait_for(newest, limit).await)
    }

    /// Watches the changes of a resource after `after`. Changes that the history no longer holds are replayed from
    /// the store.
    ///
    /// # Errors
    /// `Compacted` when neither has them; `Unavailable`.
    pub async fn watch(&self, index: usize, after: Revision) -> StoreResult<Option<ResourceWatch<T>>> {
        let Some((resource_cache, extent)) = self.resource_caches.get(index).zip(self.extents.get(index))
        else {
            return Ok(None);
        };
        let mut position = self.position.subscribe();
        let Ok(start) =
            position.wait_for(|position| self.is_current(position)).await.map(|position| *position)
        else {
            return Err(StoreError::Unavailable { operation: "watch", source: "the cache has ended".into() });
        };
        let mut watch =
            ResourceWatch::new(Arc::clone(resource_cache), extent.subscribe(), position, start, after);
        if after < start.revision && resource_cache.changes_after(after, 0).is_none() {
            let changes = replay::changes(self, index, resource_cache, after, start.revision).await?;
            watch.replay(changes, start.revision);
        }
        Ok(Some(watch))
    }

    /// Returns the store behind the cache.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
