//! Tests of freshness: the store's cost of a linearizable read, and the cache's requests.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use storage_cache::{Cache, Projection};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(10);

/// Latency of the store's revision.
const ANSWER: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Counts {
    reads: AtomicUsize,
    questions: AtomicUsize,
    silent: AtomicBool,
    /// Size above which an answer is refused; zero is no limit.
    largest_page: AtomicUsize,
}

/// Store that counts its calls.
#[derive(Debug)]
struct Counted(EmbeddedStore, Arc<Counts>);

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
        let largest = self.1.largest_page.load(Ordering::Relaxed);
        if largest > 0 && options.limit > largest {
            return Err(StoreError::Unavailable { operation: "list", source: "that is too much".into() });
        }
        self.0.list(range, options).await
    }
    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.0.watch(range, from).await
    }
    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.0.compact(revision).await
    }
    async fn current_revision(&self) -> StoreResult<Revision> {
        self.1.questions.fetch_add(1, Ordering::Relaxed);
        let revision = self.0.current_revision().await;
        tokio::time::sleep(ANSWER).await;
        revision
    }
    fn reports_progress(&self) -> bool {
        !self.1.silent.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct ToRevision;

impl Projection<Revision> for ToRevision {
    fn project(&self, _: usize, entry: &Entry) -> Revision {
        entry.modified
    }

    fn deleted(&self, _: &Revision, revision: Revision) -> Revision {
        revision
    }
}

struct World {
    store: Arc<dyn Store>,
    cache: Arc<Cache<Revision>>,
    counts: Arc<Counts>,
    _directory: tempfile::TempDir,
}

async fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let counts = Arc::new(Counts::default());
    let embedded = EmbeddedStore::open(&directory.path().join("s")).unwrap();
    let store: Arc<dyn Store> = Arc::new(Counted(embedded, Arc::clone(&counts)));
    let prefixes = ["/t/a/".to_owned()];
    let token = CancellationToken::new();
    let cache = Cache::start(
        Arc::clone(&store),
        "/t/",
        &prefixes,
        Arc::new(ToRevision),
        &apiserver_executor::Supervisor::default(),
        token,
    );
    assert!(cache.wait_for(Revision::NONE, LIMIT).await);
    counts.reads.store(0, Ordering::Relaxed);
    World { store, cache, counts, _directory: directory }
}

#[tokio::test]
async fn concurrent_reads_share_a_few_progress_requests_and_list_nothing() {
    let world = world().await;
    let key = Key::new("/t/a/x").unwrap();
    let mut last = world.store.create(&key, Bytes::from("0")).await.unwrap();
    for _ in 0..5 {
        last = world.store.update(&key, last, Bytes::from("1")).await.unwrap();
        let readers = (0..100).map(|_| {
            let cache = Arc::clone(&world.cache);
            tokio::spawn(async move {
                assert!(cache.catch_up(LIMIT).await.unwrap());
                *cache.resource_cache(0).unwrap().snapshot().get("/t/a/x").unwrap().as_ref()
            })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert_eq!(reader.await.unwrap(), last);
        }
    }
    assert_eq!(world.counts.reads.load(Ordering::Relaxed), 0);
    let questions = world.counts.questions.load(Ordering::Relaxed);
    assert!((5..=15).contains(&questions), "{questions} questions for five times a hundred readers");
}

#[tokio::test]
async fn a_reader_is_not_served_by_an_earlier_progress_request() {
    let world = world().await;
    let key = Key::new("/t/a/x").unwrap();
    let mut last = world.store.create(&key, Bytes::from("0")).await.unwrap();
    for _ in 0..20 {
        // One read is in flight when the write is acknowledged.
        let cache = Arc::clone(&world.cache);
        let early = tokio::spawn(async move { cache.catch_up(LIMIT).await.unwrap() });
        tokio::time::sleep(ANSWER / 2).await;
        last = world.store.update(&key, last, Bytes::from("1")).await.unwrap();
        assert!(world.cache.catch_up(LIMIT).await.unwrap());
        assert!(world.cache.revision() >= last);
        assert!(early.await.unwrap());
    }
}

#[tokio::test]
async fn without_progress_reports_the_store_is_read() {
    let world = world().await;
    world.counts.silent.store(true, Ordering::Relaxed);
    assert!(!world.cache.catch_up(LIMIT).await.unwrap());
    assert_eq!(world.counts.questions.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_page_that_is_too_large_is_read_in_smaller_pages() {
    let world = world().await;
    for number in 0..1_200 {
        let key = Key::new(format!("/t/a/{number:04}")).unwrap();
        world.store.create(&key, Bytes::from("0")).await.unwrap();
    }
    world.counts.largest_page.store(500, Ordering::Relaxed);
    let prefixes = ["/t/a/".to_owned()];
    let token = CancellationToken::new();
    let late = Cache::start(
        Arc::clone(&world.store),
        "/t/",
        &prefixes,
        Arc::new(ToRevision),
        &apiserver_executor::Supervisor::default(),
        token,
    );
    assert!(late.wait_for(world.store.current_revision().await.unwrap(), LIMIT).await);
    assert_eq!(late.resource_cache(0).unwrap().len(), 1_200);
    // The first page is as small as is always answered; each of the two others is refused once.
    assert_eq!(world.counts.reads.load(Ordering::Relaxed), 5);
}
