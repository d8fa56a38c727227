//! Reflector: the one task that lists and watches the store for the cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_executor::spawn_joined;
use futures::StreamExt;
use rpds::RedBlackTreeMapSync;
use storage_contract::{
    Entry, Event, EventKind, KeyRange, ListOptions, Outage, Page, Revision, StoreError, StoreResult,
    WatchItem,
};
use tokio::task::JoinHandle;

use crate::paged_scan::PagedScan;
use crate::resource_cache::{Extent, Snapshot};
use crate::{Cache, Change, Position, Projection};

/// Entries of the first list request, and the fewest of any later one: a few MiB, and well inside the limit of every
/// backend, even where all entries have the largest size.
const PAGE: usize = 500;

/// Maximum number of entries of a later request: larger pages are read no faster. The entries of the next page may be
/// ten times as large as those of the last, and three pages are in memory at a time.
const LARGEST_PAGE: usize = 2000;

/// Bytes of values that a page should have, if its values are as large as those of the last page.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Longest pause before the reflector starts over when the store does not answer: long enough not to spin, short
/// enough that no client notices a brief outage.
const PAUSE: Duration = Duration::from_millis(500);

/// First pause, which doubles each time: a store that is about to accept connections is reached at once.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Interval at which old changes are evicted, where no new ones push them out.
const TIDY_EVERY: Duration = Duration::from_secs(15);

/// Task that keeps one cache up to date.
pub(crate) struct Reflector<T> {
    cache: Arc<Cache<T>>,
    root: KeyRange,
}

impl<T: Send + Sync + 'static> Reflector<T> {
    pub(crate) fn new(cache: Arc<Cache<T>>, root: KeyRange) -> Self {
        Self { cache, root }
    }

    /// Lists, then watches. It starts over when the watch cannot go on, and never returns.
    pub(crate) async fn run(self) {
        let (mut outage, mut pause) = (Outage::default(), FIRST_PAUSE);
        loop {
            let begun = Instant::now();
            let history = self.cache.store.history();
            let error = match self.list(history).await {
                Ok(revision) => self.watch(revision).await,
                Err(error) => error,
            };
            self.expire_earlier_history(self.cache.store.history());
            if begun.elapsed() > PAUSE {
                pause = FIRST_PAUSE;
            }
            // A failure of less than half a second belongs to a start and is not logged as a warning.
            if pause >= PAUSE && outage.should_log() {
                tracing::warn!(error = %chain(&error), "list or watch of the store failed; the watch cache lists again");
            } else {
                tracing::debug!(error = %chain(&error), "list or watch of the store failed; the watch cache lists again");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Lists everything, as part of this history of the store.
    async fn list(&self, history: u64) -> StoreResult<Revision> {
        let mut maps: Vec<_> =
            self.cache.resource_caches.iter().map(|_| RedBlackTreeMapSync::new_sync()).collect();
        let (mut scan, mut limit) = (PagedScan::over(self.root.clone()), PAGE);
        let mut page = self.page(scan.segment(), ListOptions { limit, revision: None }).await?;
        let mut before: Option<JoinHandle<Vec<Projected<T>>>> = None;
        let ended = |error| StoreError::Unavailable { operation: "list", source: Box::new(error) };
        loop {
            let (revision, is_more) = (page.revision, scan.advance(&page, limit));
            limit = limit_after(&page);
            // The store reads the next page while this one is projected and the previous one is inserted.
            let next = is_more.then(|| {
                let options = ListOptions { limit, revision: Some(revision) };
                spawn_joined(self.page(scan.segment(), options))
            });
            let cache = Arc::clone(&self.cache);
            let projecting = tokio::task::spawn_blocking(move || projected(&cache, &page.entries));
            if let Some(before) = before.replace(projecting) {
                insert_page(&mut maps, before.await.map_err(ended)?);
            }
            match next {
                Some(next) => page = next.await.map_err(ended)??,
                None => {
                    if let Some(last) = before {
                        insert_page(&mut maps, last.await.map_err(ended)?);
                    }
                    self.install(maps, revision, history)?;
                    return Ok(revision);
                }
            }
        }
    }

    fn page(
        &self,
        range: KeyRange,
        options: ListOptions,
    ) -> impl Future<Output = StoreResult<Page>> + Send + use<T> {
        let store = Arc::clone(&self.cache.store);
        async move {
            match store.list(&range, &options).await {
                // The page may have been too large.
                Err(StoreError::Unavailable { .. }) if options.limit > PAGE => {
                    store.list(&range, &ListOptions { limit: PAGE, ..options }).await
                }
                other => other,
            }
        }
    }

    /// Installs what was listed, if it belongs to the store's history.
    fn install(&self, maps: Vec<Items<T>>, revision: Revision, history: u64) -> StoreResult<()> {
        if self.cache.store.history() != history {
            return Err(StoreError::Rewound { detail: "while the cache read the objects".to_owned() });
        }
        self.expire_earlier_history(history);
        let epoch = self.epoch() + 1;
        let parts = self.cache.resource_caches.iter().zip(&self.cache.extents);
        for ((resource_cache, extent), items) in parts.zip(maps) {
            let snapshot = Snapshot { items, revision };
            let mut contents = resource_cache.write();
            contents.snapshot = snapshot;
            contents.history.reset(revision);
            drop(contents);
            extent.send_replace(Extent { revision, epoch });
        }
        self.cache.position.send_replace(Position { revision, epoch, history, ready: true });
        Ok(())
    }

    /// Ends all watches, and serves no items until the next list, if the items belong to an earlier history.
    ///
    /// The items stay until then: a reader that was let in just before must not find an empty resource.
    fn expire_earlier_history(&self, history: u64) {
        let Position { revision, epoch, history: listed, .. } = *self.cache.position.borrow();
        if history == listed {
            return;
        }
        // The position first, so that a watcher that sees the new epoch knows why.
        let epoch = epoch + 1;
        self.cache.position.send_replace(Position { revision, epoch, history, ready: false });
        for extent in &self.cache.extents {
            extent.send_modify(|extent| extent.epoch = epoch);
        }
    }

    async fn watch(&self, listed: Revision) -> StoreError {
        let mut stream = match self.cache.store.follow(&self.root, listed.next()).await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let mut tidy = tokio::time::interval(TIDY_EVERY);
        loop {
            let next = tokio::select! {
                next = stream.next() => next,
                now = tidy.tick() => {
                    let cache = Arc::clone(&self.cache);
                    // A hundred thousand items would block this thread for too long.
                    tokio::task::spawn_blocking(move || evict_and_trim(&cache, now.into_std()));
                    continue;
                }
            };
            match next {
                Some(Ok(WatchItem::Event(event))) => self.apply(&event),
                Some(Ok(WatchItem::Progress(revision))) => self.advance(revision),
                Some(Err(error)) => return error,
                None => break,
            }
        }
        StoreError::Unavailable { operation: "watch", source: "the watch stream ended".into() }
    }

    fn apply(&self, event: &Event) {
        let revision = event.revision;
        if let Some(index) = index_of(&self.cache, event.key.as_bytes()) {
            self.apply_to(index, event);
        }
        self.advance(revision);
    }

    fn apply_to(&self, index: usize, event: &Event) {
        let cache = &self.cache;
        let Some((resource_cache, extent)) = cache.resource_caches.get(index).zip(cache.extents.get(index))
        else {
            return;
        };
        let key: Arc<str> = Arc::from(event.key.as_str());
        let previous = resource_cache.snapshot().get(&key).cloned();
        let Some(item) = item(self.cache.projection.as_ref(), index, event, previous.as_ref()) else {
            // A deletion of an unknown key has nothing to report.
            return;
        };
        let kind = event.kind;
        let change = Change { kind, revision: event.revision, key: Arc::clone(&key), item, previous };
        let bytes: usize = change.replaced().map(|item| cache.projection.size(item).item).sum();
        let item = Arc::clone(&change.item);
        let mut contents = resource_cache.write();
        if kind == EventKind::Deleted {
            contents.snapshot.items.remove_mut(&*key);
        } else {
            contents.snapshot.items.insert_mut(key, item);
        }
        contents.snapshot.revision = event.revision;
        contents.history.push(Arc::new(change), bytes, Instant::now());
        drop(contents);
        // Before the position, so that a watcher that sees the position sees this change.
        extent.send_replace(Extent { revision: event.revision, epoch: self.epoch() });
    }

    fn epoch(&self) -> u64 {
        self.cache.position.borrow().epoch
    }

    fn advance(&self, revision: Revision) {
        self.cache.position.send_if_modified(|position| {
            let forward = revision > position.revision;
            if forward {
                position.revision = revision;
            }
            forward
        });
    }
}

/// Evicts old changes, and trims and measures the items.
fn evict_and_trim<T: 'static>(cache: &Cache<T>, now: Instant) {
    for resource_cache in &cache.resource_caches {
        resource_cache.evict_expired(now);
        resource_cache.trim(cache.projection.as_ref());
    }
}

/// Items of one resource cache by their keys.
type Items<T> = RedBlackTreeMapSync<Arc<str>, Arc<T>>;

/// Item with the index of its resource cache and its key.
type Projected<T> = (usize, Arc<str>, Arc<T>);

fn index_of<T>(cache: &Cache<T>, key: &[u8]) -> Option<usize> {
    cache.resource_caches.iter().position(|resource_cache| resource_cache.holds(key))
}

/// Returns the number of entries for the next page, if they are as large as those of this page.
fn limit_after(page: &Page) -> usize {
    let bytes: usize = page.entries.iter().map(|entry| entry.value.len()).sum();
    let each = bytes.checked_div(page.entries.len()).unwrap_or_default().max(1);
    (PAGE_BYTES / each).clamp(PAGE, LARGEST_PAGE)
}

fn projected<T: 'static>(cache: &Cache<T>, entries: &[Entry]) -> Vec<Projected<T>> {
    let project = |entry: &Entry| {
        let index = index_of(cache, entry.key.as_bytes())?;
        Some((index, Arc::from(entry.key.as_str()), Arc::new(cache.projection.project(index, entry))))
    };
    entries.iter().filter_map(project).collect()
}

/// Inserts the items of a page into their maps.
fn insert_page<T>(maps: &mut [Items<T>], page: Vec<Projected<T>>) {
    for (index, key, item) in page {
        if let Some(map) = maps.get_mut(index) {
            map.insert_mut(key, item);
        }
    }
}

/// Returns the item of a change: the new value, or for a deletion the last one, both at the revision of the change.
pub(crate) fn item<T: 'static>(
    projection: &dyn Projection<T>,
    index: usize,
    event: &Event,
    previous: Option<&Arc<T>>,
) -> Option<Arc<T>> {
    let Event { key, revision, value, created, .. } = event;
    let item = match value {
        None => projection.deleted(previous?, *revision),
        Some(value) => {
            let (key, value) = (key.clone(), value.clone());
            projection.project(index, &Entry { key, value, modified: *revision, created: *created })
        }
    };
    Some(Arc::new(item))
}

/// Formats an error with its chain of sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
