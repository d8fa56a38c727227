//! Tests of the cache over a real store: its snapshots, its watches and their order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use storage_cache::{Cache, Projection, ResourceWatch, WatchStep};
use storage_contract::{Entry, EventKind, Key, Revision, Store, StoreError};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct ToText;

impl Projection<String> for ToText {
    fn project(&self, _: usize, entry: &Entry) -> String {
        format!("{}@{}", String::from_utf8_lossy(&entry.value), entry.modified)
    }

    fn deleted(&self, last: &String, revision: Revision) -> String {
        format!("{}@{revision}", last.split('@').next().unwrap())
    }
}

struct World {
    store: Arc<dyn Store>,
    cache: Arc<Cache<String>>,
    _directory: tempfile::TempDir,
}

fn follow(store: &Arc<dyn Store>) -> Arc<Cache<String>> {
    let prefixes = ["/t/a/".to_owned(), "/t/b/".to_owned()];
    Cache::start(
        Arc::clone(store),
        "/t/",
        &prefixes,
        Arc::new(ToText),
        &apiserver_executor::Supervisor::default(),
        CancellationToken::new(),
    )
}

fn world() -> World {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("s")).unwrap());
    let cache = follow(&store);
    World { store, cache, _directory: directory }
}

fn key(name: &str) -> Key {
    Key::new(format!("/t/{name}")).unwrap()
}

impl World {
    async fn put(&self, name: &str, value: &str) -> Revision {
        let value = Bytes::from(value.to_owned());
        match self.store.get(&key(name)).await.unwrap() {
            None => self.store.create(&key(name), value).await.unwrap(),
            Some(entry) => self.store.update(&key(name), entry.modified, value).await.unwrap(),
        }
    }

    fn shown(&self, section: usize) -> Vec<String> {
        let snapshot = self.cache.resource_cache(section).unwrap().snapshot();
        snapshot.range("/t/", "/t0").map(|(_, item)| String::clone(item)).collect()
    }
}

async fn change(watch: &mut ResourceWatch<String>) -> (EventKind, String, Option<String>) {
    let next = async {
        loop {
            if let WatchStep::Change(change) = watch.next().await.unwrap() {
                return (change.kind, String::clone(&change.item), change.previous.as_deref().cloned());
            }
        }
    };
    tokio::time::timeout(LIMIT, next).await.unwrap()
}

#[tokio::test]
async fn a_read_after_catching_up_has_every_earlier_write() {
    let world = world();
    for round in 0..20 {
        let revision = world.put("a/x", &round.to_string()).await;
        assert!(world.cache.catch_up(LIMIT).await.unwrap());
        assert_eq!(world.shown(0), [format!("{round}@{revision}")]);
    }
    assert_eq!(world.shown(1), Vec::<String>::new());
}

#[tokio::test]
async fn resource_caches_are_separate_and_share_one_revision() {
    let world = world();
    world.put("a/x", "1").await;
    let last = world.put("b/y", "2").await;
    assert!(world.cache.wait_for(last, LIMIT).await);
    assert_eq!((world.shown(0).len(), world.shown(1).len()), (1, 1));
    assert_eq!(world.cache.revision(), last);
}

#[tokio::test]
async fn an_old_snapshot_has_the_items_of_its_revision() {
    let world = world();
    assert!(world.cache.wait_for(Revision::new(1), LIMIT).await);
    let first = world.put("a/x", "1").await;
    let second = world.put("a/y", "2").await;
    assert!(world.cache.wait_for(second, LIMIT).await);
    let section = world.cache.resource_cache(0).unwrap();
    assert_eq!(section.snapshot_at(first).unwrap().items.size(), 1);
    assert_eq!(section.snapshot_at(second).unwrap().items.size(), 2);
}

#[tokio::test]
async fn a_watch_reports_each_change_once_with_the_previous_item() {
    let world = world();
    assert!(world.cache.wait_for(Revision::new(1), LIMIT).await);
    let start = world.cache.revision();
    let mut watch = world.cache.watch(0, start).await.unwrap().unwrap();
    let created = world.put("a/x", "1").await;
    world.put("b/z", "not here").await;
    let updated = world.put("a/x", "2").await;
    let deleted = world.store.delete(&key("a/x"), updated).await.unwrap();
    assert_eq!(change(&mut watch).await, (EventKind::Created, format!("1@{created}"), None));
    assert_eq!(
        change(&mut watch).await,
        (EventKind::Updated, format!("2@{updated}"), Some(format!("1@{created}")))
    );
    assert_eq!(
        change(&mut watch).await,
        (EventKind::Deleted, format!("2@{deleted}"), Some(format!("2@{updated}")))
    );
}

/// A bookmark names the last reported change, or a later revision of other resources, and never goes back.
#[tokio::test]
async fn the_progress_of_a_watch_advances_without_own_changes_and_never_goes_back() {
    let world = world();
    assert!(world.cache.wait_for(Revision::new(1), LIMIT).await);
    let mut watch = world.cache.watch(0, world.cache.revision()).await.unwrap().unwrap();
    let elsewhere = world.put("b/y", "1").await;
    assert!(world.cache.wait_for(elsewhere, LIMIT).await);
    assert_eq!(watch.reached(), Some(elsewhere));
    let unreported = world.put("a/x", "1").await;
    let later = world.put("b/y", "2").await;
    assert!(world.cache.wait_for(later, LIMIT).await);
    assert_eq!(watch.reached(), Some(elsewhere), "a change is not reported yet");
    assert_eq!(change(&mut watch).await.1, format!("1@{unreported}"));
    assert_eq!(watch.reached(), Some(later));
    let mut ahead = world.cache.watch(0, Revision::new(later.number() + 2)).await.unwrap().unwrap();
    assert_eq!(ahead.reached(), None, "that has not happened");
    world.put("a/x", "2").await;
    world.put("a/x", "3").await;
    let reported = world.put("a/x", "4").await;
    assert_eq!(change(&mut ahead).await.1, format!("4@{reported}"), "and nothing up to then is reported");
}

#[tokio::test]
async fn a_watch_ends_with_its_cache() {
    let World { store, cache, _directory } = world();
    assert!(cache.wait_for(Revision::new(1), LIMIT).await);
    let shutdown = CancellationToken::new();
    let other = Cache::start(
        store,
        "/t/",
        &["/t/a/".to_owned()],
        Arc::new(ToText),
        &apiserver_executor::Supervisor::default(),
        shutdown.clone(),
    );
    let mut watch = other.watch(0, cache.revision()).await.unwrap().unwrap();
    shutdown.cancel();
    drop(other);
    let ended = tokio::time::timeout(LIMIT, watch.next()).await.unwrap();
    assert!(matches!(ended, Err(StoreError::Unavailable { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_watch_from_before_the_cache_is_replayed_from_the_store() {
    let world = world();
    let first = world.put("a/x", "1").await;
    let second = world.put("a/x", "2").await;
    let third = world.put("a/y", "3").await;
    // A new cache, as after a restart: its own history begins here.
    let late = follow(&world.store);
    assert!(late.wait_for(third, LIMIT).await);
    let mut watch = late.watch(0, first).await.unwrap().unwrap();
    assert_eq!(change(&mut watch).await.1, format!("2@{second}"));
    assert_eq!(change(&mut watch).await.1, format!("3@{third}"));
    let fourth = world.put("a/z", "4").await;
    assert_eq!(change(&mut watch).await.1, format!("4@{fourth}"));
}

#[tokio::test]
async fn a_watch_from_a_compacted_revision_is_refused() {
    let world = world();
    let first = world.put("a/x", "1").await;
    let third = world.put("a/x", "2").await;
    world.store.compact(third).await.unwrap();
    let late = follow(&world.store);
    assert!(late.wait_for(third, LIMIT).await);
    let before = Revision::new(first.number() - 1);
    let refused = late.watch(0, before).await.unwrap_err();
    assert!(matches!(refused, StoreError::Compacted { .. }), "{refused:?}");
}
