//! Tests of copies between stores, which fail at each step and are repeated.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use storage_backup::{BackupError, Copied, Difference, Scan, compare, copy_in, move_aside};
use storage_contract::{
    Entry, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged, WatchStream,
};
use storage_embedded::EmbeddedStore;
use tempfile::TempDir;

const ASIDE: &str = "/capstan-replaced-20261127T201500Z/";

/// Store whose process ends at one of its calls: all later calls fail, too.
#[derive(Debug)]
struct Failing {
    store: EmbeddedStore,
    /// Calls that remain until the end.
    left: AtomicI64,
    /// True if the call at the end takes effect, and its answer is lost.
    after: bool,
}

impl Failing {
    /// Returns an error if the process has ended. `Ok(true)`: this call is the last one.
    fn call(&self) -> StoreResult<bool> {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            1 => Ok(true),
            left if left < 1 => Err(ended()),
            _ => Ok(false),
        }
    }

    /// Returns an error if the call at the end has no effect.
    fn write(&self) -> StoreResult<bool> {
        let is_last = self.call()?;
        if is_last && !self.after { Err(ended()) } else { Ok(is_last) }
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable { operation: "test", source: "the process has ended".into() }
}

fn answer<T>(is_last: bool, result: T) -> StoreResult<T> {
    if is_last { Err(ended()) } else { Ok(result) }
}

#[async_trait]
impl Store for Failing {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        other: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        let is_last = self.write()?;
        answer(is_last, self.store.create_while(key, value, other).await?)
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        let is_last = self.write()?;
        answer(is_last, self.store.update(key, expected, value).await?)
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        let is_last = self.write()?;
        answer(is_last, self.store.delete(key, expected).await?)
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        let is_last = self.call()?;
        answer(is_last, self.store.get(key).await?)
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        let is_last = self.call()?;
        answer(is_last, self.store.list(range, options).await?)
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.store.watch(range, from).await
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.store.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        let is_last = self.call()?;
        answer(is_last, self.store.current_revision().await?)
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn open(directory: &TempDir, name: &str) -> EmbeddedStore {
    EmbeddedStore::open(&directory.path().join(name).join("store.redb")).unwrap()
}

fn failing(store: EmbeddedStore, steps: i64, after: bool) -> Failing {
    Failing { store, left: AtomicI64::new(steps), after }
}

/// Fills a store with values that are copied, and with some that are not.
async fn fill(store: &dyn Store, count: usize) {
    for index in 0..count {
        let value = Bytes::from(format!(r#"{{"value":{index}}}"#));
        store.create(&key(&format!("/capstan/core/pods/team/p{index:03}")), value).await.unwrap();
    }
    for (name, value) in [("meta/store.keys", "{}"), ("compaction", "7"), ("locks/machines/1", "")] {
        store.create(&key(&format!("/capstan/{name}")), Bytes::from(value)).await.unwrap();
    }
}

async fn copy(from: &dyn Store, to: &dyn Store) -> Result<Copied, BackupError> {
    let mut scan = Scan::begin(from, "/capstan/").await?;
    copy_in(to, async || Ok(scan.next().await?)).await
}

async fn difference(from: &dyn Store, to: &dyn Store) -> (u64, Option<Difference>) {
    let [mut first, mut second] =
        [Scan::begin(from, "/capstan/").await.unwrap(), Scan::begin(to, "/capstan/").await.unwrap()];
    compare(async || Ok(first.next().await?), &mut second).await.unwrap()
}

async fn names(store: &dyn Store, prefix: &str) -> Vec<String> {
    let page = store.list(&KeyRange::prefix(prefix), &ListOptions::default()).await.unwrap();
    page.entries.iter().map(|entry| entry.key.to_string()).collect()
}

#[tokio::test]
async fn a_scan_shows_one_revision_while_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory, "a");
    for index in 0..3_000 {
        let name = key(&format!("/capstan/core/pods/team/p{index:04}"));
        store.create(&name, Bytes::from("{}")).await.unwrap();
    }
    let mut scan = Scan::begin(&store, "/capstan/").await.unwrap();
    let mut found = vec![scan.next().await.unwrap().unwrap()];
    let revision = scan.revision();
    store.create(&key("/capstan/core/pods/team/p9999"), Bytes::from("{}")).await.unwrap();
    let last = store.get(&key("/capstan/core/pods/team/p2999")).await.unwrap().unwrap();
    store.update(&last.key, last.modified, Bytes::from("new")).await.unwrap();
    while let Some(entry) = scan.next().await.unwrap() {
        found.push(entry);
    }
    assert_eq!(found.len(), 3_000);
    assert!(found.iter().all(|entry| entry.value == "{}" && entry.modified <= revision));
    assert!(found.is_sorted_by_key(|entry| entry.key.clone()));
}

#[tokio::test]
async fn bk_08_a_copy_that_ends_at_any_step_is_completed_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let source = open(&directory, "source");
    fill(&source, 250).await;
    let mut was_complete = false;
    for (steps, after) in (1..).step_by(9).flat_map(|steps| [(steps, false), (steps, true)]) {
        let target = failing(open(&directory, &format!("target-{steps}-{after}")), steps, after);
        let first = copy(&source, &target).await;
        target.left.store(i64::MAX, Ordering::SeqCst);
        let second = copy(&source, &target).await.unwrap();
        assert_eq!(second.written + second.present, 251, "{steps} {after}");
        assert!(second.present >= u64::try_from(steps / 2).unwrap().min(100), "{steps} {after}: {second:?}");
        assert_eq!(difference(&source, &target).await, (251, None), "{steps} {after}");
        if first.is_ok() {
            was_complete = true;
            break;
        }
    }
    assert!(was_complete);
}

#[tokio::test]
async fn keys_of_one_store_and_its_servers_are_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| open(&directory, name));
    fill(&source, 1).await;
    source.create(&key("/capstan/meta/store"), Bytes::from("{}")).await.unwrap();
    copy(&source, &target).await.unwrap();
    assert_eq!(
        names(&target, "/capstan/").await,
        ["/capstan/core/pods/team/p000", "/capstan/meta/store.keys"]
    );
}

#[tokio::test]
async fn another_value_in_the_target_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let [source, target] = ["source", "target"].map(|name| open(&directory, name));
    fill(&source, 3).await;
    let other = key("/capstan/core/pods/team/p001");
    target.create(&other, Bytes::from("mine")).await.unwrap();
    let error = copy(&source, &target).await.unwrap_err();
    assert!(matches!(&error, BackupError::Differs { key } if *key == other), "{error}");
    assert_eq!(target.get(&other).await.unwrap().unwrap().value, "mine");
    assert_eq!(difference(&source, &target).await, (1, Some(Difference::Value(other.clone()))));
    let entry = target.get(&other).await.unwrap().unwrap();
    target.delete(&other, entry.modified).await.unwrap();
    assert_eq!(difference(&source, &target).await.1, Some(Difference::Missing(other)));
    copy(&source, &target).await.unwrap();
    let more = key("/capstan/core/pods/team/z");
    target.create(&more, Bytes::from("{}")).await.unwrap();
    assert_eq!(difference(&source, &target).await, (3, Some(Difference::Additional(more))));
}

#[tokio::test]
async fn bk_08_a_move_that_ends_at_any_step_is_completed_by_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut was_complete = false;
    for (steps, after) in (1..).step_by(5).flat_map(|steps| [(steps, false), (steps, true)]) {
        let store = failing(open(&directory, &format!("move-{steps}-{after}")), i64::MAX, after);
        fill(&store, 20).await;
        store.create(&key("/capstan/meta/store"), Bytes::from("record")).await.unwrap();
        let before = names(&store, "/capstan/").await;
        store.left.store(steps, Ordering::SeqCst);
        let first = move_aside(&store, ASIDE).await;
        store.left.store(i64::MAX, Ordering::SeqCst);
        move_aside(&store, ASIDE).await.unwrap();
        assert_eq!(names(&store, "/capstan/").await, ["/capstan/meta/store"], "{steps} {after}");
        let moved: Vec<String> =
            names(&store, ASIDE).await.iter().map(|it| it.replace(ASIDE, "/capstan/")).collect();
        let expected: Vec<_> = before.into_iter().filter(|it| it != "/capstan/meta/store").collect();
        assert_eq!(moved, expected, "{steps} {after}");
        if first.is_ok() {
            was_complete = true;
            break;
        }
    }
    assert!(was_complete);
}
