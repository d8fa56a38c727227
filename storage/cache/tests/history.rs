//! Tests of a store whose history goes back: nothing of the earlier history is served.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use storage_cache::{Cache, Projection, WatchStep};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(10);

/// Store whose data can be replaced by those of another one.
#[derive(Debug)]
struct Replaceable {
    store: Mutex<Arc<EmbeddedStore>>,
    history: AtomicU64,
    ended: tokio::sync::watch::Sender<u64>,
}

impl Replaceable {
    fn now(&self) -> Arc<EmbeddedStore> {
        Arc::clone(&self.store.lock().unwrap())
    }

    /// Puts another store in place. The watches go on, so the cache does not know it yet.
    fn replace(&self, store: EmbeddedStore) {
        *self.store.lock().unwrap() = Arc::new(store);
        self.history.fetch_add(1, Ordering::Release);
    }

    fn end_watches(&self) {
        self.ended.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Store for Replaceable {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.now().create_while(key, value, unchanged).await
    }
    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        self.now().update(key, expected, value).await
    }
    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.now().delete(key, expected).await
    }
    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        self.now().get(key).await
    }
    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        self.now().list(range, options).await
    }
    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        let mut ended = self.ended.subscribe();
        let stream = self.now().watch(range, from).await?;
        let rewound = StoreError::Rewound { detail: "replaced".to_owned() };
        let until = async move {
            let _ = ended.changed().await;
        };
        Ok(stream.take_until(until).chain(futures::stream::iter([Err(rewound)])).boxed())
    }
    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.now().compact(revision).await
    }
    async fn current_revision(&self) -> StoreResult<Revision> {
        self.now().current_revision().await
    }
    fn history(&self) -> u64 {
        self.history.load(Ordering::Acquire)
    }
}

#[derive(Debug)]
struct ToText;

impl Projection<String> for ToText {
    fn project(&self, _: usize, entry: &Entry) -> String {
        String::from_utf8_lossy(&entry.value).into_owned()
    }

    fn deleted(&self, last: &String, _: Revision) -> String {
        last.clone()
    }
}

fn key(name: &str) -> Key {
    Key::new(format!("/t/a/{name}")).unwrap()
}

#[tokio::test]
async fn a_history_that_went_back_is_not_served_and_its_watches_expire() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| EmbeddedStore::open(&directory.path().join(name)).unwrap();
    let store = Arc::new(Replaceable {
        store: Mutex::new(Arc::new(open("old"))),
        history: AtomicU64::default(),
        ended: tokio::sync::watch::Sender::default(),
    });
    let lost = store.create(&key("lost"), Bytes::from("old")).await.unwrap();
    let cache = Cache::start(
        store.clone(),
        "/t/",
        &["/t/a/".to_owned()],
        Arc::new(ToText),
        &apiserver_executor::Supervisor::default(),
        CancellationToken::new(),
    );
    assert!(cache.wait_for(lost, LIMIT).await && cache.is_ready());
    let mut watch = cache.watch(0, lost).await.unwrap().unwrap();
    let next = open("new");
    for name in ["x", "y", "z"] {
        next.create(&key(name), Bytes::from("new")).await.unwrap();
    }
    // Its watches go on until they are ended.
    let _old = store.now();
    store.replace(next);
    // From this moment on, even before the reflector has noticed it.
    assert!(!cache.is_ready());
    assert!(!cache.wait_for(lost, Duration::from_millis(50)).await);
    store.end_watches();
    let step = tokio::time::timeout(LIMIT, watch.next()).await.unwrap().unwrap();
    assert!(matches!(step, WatchStep::Expired), "{step:?}");
    assert!(cache.wait_for(Revision::NONE, LIMIT).await);
    let snapshot = cache.resource_cache(0).unwrap().snapshot();
    let names: Vec<&str> = snapshot.range("/t/", "/t0").map(|(key, _)| &**key).collect();
    assert_eq!(names, ["/t/a/x", "/t/a/y", "/t/a/z"]);
}
