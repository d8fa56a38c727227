//! The one task that feeds the cache.

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

use crate::paged_scan::Walk;
use crate::resource_cache::{Extent, Snapshot};
use crate::{Cache, Change, Projection};

/// Entries of the first list request, and the fewest of every other: a few MiB, and well inside every backend's limit
/// even where they are all as large as can be.
const PAGE: usize = 500;

/// The most of a later one: larger ones are read no faster. What comes next may be ten times as large as what came last,
/// and three pages are in memory at a time.
const LARGEST_PAGE: usize = 2000;

/// Bytes of values that a page is to have, if they are as large as those of the last one.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Longest pause before starting over when the store does not answer: long enough not to spin, short
/// enough that nobody notices a blip.
const PAUSE: Duration = Duration::from_millis(500);

/// The first one, doubled with every other: a store that is about to be connected to is there at once.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// How often what is too old is dropped, where nothing new comes to push it out.
const TIDY_EVERY: Duration = Duration::from_secs(15);

pub(crate) struct Follower<T> {
    cache: Arc<Cache<T>>,
    root: KeyRange,
}

impl<T: Send + Sync + 'static> Follower<T> {
    pub(crate) fn new(cache: Arc<Cache<T>>, root: KeyRange) -> Self {
        Self { cache, root }
    }

    /// Lists, then watches; starts over when the watch cannot go on. Never returns.
    pub(crate) async fn run(self) {
        let (mut outage, mut pause) = (Outage::default(), FIRST_PAUSE);
        loop {
            let begun = Instant::now();
            let error = match self.list().await {
                Ok(revision) => self.follow(revision).await,
                Err(error) => error,
            };
            if begun.elapsed() > PAUSE {
                pause = FIRST_PAUSE;
            }
            // What is over within half a second is a start, and no news.
            if pause >= PAUSE && outage.tell() {
                tracing::warn!(error = %chain(&error), "the watch cache starts over");
            } else {
                tracing::debug!(error = %chain(&error), "the watch cache starts over");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE);
        }
    }

    async fn list(&self) -> StoreResult<Revision> {
        let mut maps: Vec<_> = self.cache.sections.iter().map(|_| RedBlackTreeMapSync::new_sync()).collect();
        let (mut walk, mut limit) = (Walk::over(self.root.clone()), PAGE);
        let mut page = self.page(walk.part(), ListOptions { limit, revision: None }).await?;
        let mut before: Option<JoinHandle<Vec<Projected<T>>>> = None;
        let ended = |error| StoreError::Unavailable { operation: "list", source: Box::new(error) };
        loop {
            let (revision, is_more) = (page.revision, walk.advance(&page, limit));
            limit = limit_after(&page);
            // The store reads the next page while this one is projected and the one before put in its place.
            let next = is_more.then(|| {
                let options = ListOptions { limit, revision: Some(revision) };
                spawn_joined(self.page(walk.part(), options))
            });
            let cache = Arc::clone(&self.cache);
            let projecting = tokio::task::spawn_blocking(move || projected(&cache, &page.entries));
            if let Some(before) = before.replace(projecting) {
                put(&mut maps, before.await.map_err(ended)?);
            }
            match next {
                Some(next) => page = next.await.map_err(ended)??,
                None => {
                    if let Some(last) = before {
                        put(&mut maps, last.await.map_err(ended)?);
                    }
                    self.install(maps, revision);
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
                // It may have been too much at a time.
                Err(StoreError::Unavailable { .. }) if options.limit > PAGE => {
                    store.list(&range, &ListOptions { limit: PAGE, ..options }).await
                }
                other => other,
            }
        }
    }

    fn install(&self, maps: Vec<Items<T>>, revision: Revision) {
        let life = self.life() + 1;
        let parts = self.cache.sections.iter().zip(&self.cache.extents);
        for ((section, extent), items) in parts.zip(maps) {
            let snapshot = Snapshot { items, revision };
            let mut contents = section.write();
            contents.snapshot = snapshot;
            contents.history.reset(revision);
            drop(contents);
            extent.send_replace(Extent { revision, life });
        }
        self.cache.position.send_modify(|position| {
            position.revision = revision;
            position.life = life;
            position.ready = true;
        });
    }

    async fn follow(&self, listed: Revision) -> StoreError {
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
                    // A hundred thousand items take longer than anybody should wait for this thread.
                    tokio::task::spawn_blocking(move || put_in_order(&cache, now.into_std()));
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
        StoreError::Unavailable { operation: "watch", source: "the stream ended".into() }
    }

    fn apply(&self, event: &Event) {
        let revision = event.revision;
        if let Some(index) = section_of(&self.cache, event.key.as_bytes()) {
            self.apply_to(index, event);
        }
        self.advance(revision);
    }

    fn apply_to(&self, index: usize, event: &Event) {
        let cache = &self.cache;
        let Some((section, extent)) = cache.sections.get(index).zip(cache.extents.get(index)) else { return };
        let key: Arc<str> = Arc::from(event.key.as_str());
        let previous = section.snapshot().get(&key).cloned();
        let Some(item) = item(self.cache.projection.as_ref(), index, event, previous.as_ref()) else {
            // A deletion of something we never saw: nothing to tell anybody.
            return;
        };
        let mut contents = section.write();
        if event.kind == EventKind::Deleted {
            contents.snapshot.items.remove_mut(&*key);
        } else {
            contents.snapshot.items.insert_mut(Arc::clone(&key), Arc::clone(&item));
        }
        contents.snapshot.revision = event.revision;
        let change = Change { kind: event.kind, revision: event.revision, key, item, previous };
        contents.history.push(Arc::new(change), Instant::now());
        drop(contents);
        // Before the position, so that whoever knows of that knows of this.
        extent.send_replace(Extent { revision: event.revision, life: self.life() });
    }

    fn life(&self) -> u64 {
        self.cache.position.borrow().life
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

/// Drops what is too old, and what items keep and nobody asks for.
fn put_in_order<T: 'static>(cache: &Cache<T>, now: Instant) {
    for section in &cache.sections {
        section.forget(now);
        section.snapshot().items.values().for_each(|item| cache.projection.rest(item));
    }
}

/// The items of a section by their keys.
type Items<T> = RedBlackTreeMapSync<Arc<str>, Arc<T>>;

/// An item with its section and its key.
type Projected<T> = (usize, Arc<str>, Arc<T>);

fn section_of<T>(cache: &Cache<T>, key: &[u8]) -> Option<usize> {
    cache.sections.iter().position(|section| section.holds(key))
}

/// How many entries the page after this one has, if they are as large.
fn limit_after(page: &Page) -> usize {
    let bytes: usize = page.entries.iter().map(|entry| entry.value.len()).sum();
    let each = bytes.checked_div(page.entries.len()).unwrap_or_default().max(1);
    (PAGE_BYTES / each).clamp(PAGE, LARGEST_PAGE)
}

fn projected<T: 'static>(cache: &Cache<T>, entries: &[Entry]) -> Vec<Projected<T>> {
    let project = |entry: &Entry| {
        let index = section_of(cache, entry.key.as_bytes())?;
        Some((index, Arc::from(entry.key.as_str()), Arc::new(cache.projection.project(index, entry))))
    };
    entries.iter().filter_map(project).collect()
}

/// Puts the items of a page in their place.
fn put<T>(maps: &mut [Items<T>], page: Vec<Projected<T>>) {
    for (index, key, item) in page {
        if let Some(map) = maps.get_mut(index) {
            map.insert_mut(key, item);
        }
    }
}

/// What a change leaves to show: the new value, or for a deletion the last one, both at the
/// revision of the change.
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

/// An error with what is behind it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
